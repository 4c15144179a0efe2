/* Functions for library code that uses scopes. */
#ifndef TESSERA_TENSOR_SCOPE_IMPL_H
#define TESSERA_TENSOR_SCOPE_IMPL_H

#include "tensor/context_impl.h"
#include "tensor/scope.h"

/* Transfers a reference to the innermost scope. Outside all scopes, only notes that a call has
 * returned a tensor, so that calls with NULL inputs no longer return older failures. */
status_t scope_enter(context_t *ctx, tensor_t *tensor);

/* Opens the scope in which a module's forward runs. The scope lists the inputs as lent, so that
 * scope_give knows whether the forward retained one. Calls in the forward do not return failures
 * from before it, unless one of the inputs is NULL. If this function fails, it opens no scope. */
status_t scope_begin_call(context_t *ctx, int n_in, const tensor_t *const *in);

/* Takes one reference to the tensor from the innermost scope, if the scope has one; the caller then
 * owns it. */
void scope_take(context_t *ctx, tensor_t *tensor);

/* Like scope_take, for a result of a forward. The caller then owns one reference: the one that the
 * forward retained, or the scope's, or a new one for a lent input. Returns false if the scope does
 * not list the tensor. */
bool scope_give(context_t *ctx, tensor_t *tensor);

/* Called by tensor_retain and tensor_release for a tensor that a scope lists, before they change
 * the count. */
void scope_note_retained(const tensor_t *tensor);
void scope_note_released(const tensor_t *tensor);

/* Failures of the innermost scope, or of the code outside all scopes. */
failures_t *scope_failures(context_t *ctx);

/* The failure that calls with NULL inputs return; its status is STATUS_OK if there is none. */
const failure_t *scope_first_failure(context_t *ctx);

/* Call these before and after an attempt: a call whose failure has a fallback. Failures between the
 * two calls are not recorded, except in scopes that open between them. scope_attempt_end returns
 * `status`. If is_forgiven is true, the failure is forgotten; otherwise it is recorded now. */
void scope_attempt(context_t *ctx);
status_t scope_attempt_end(context_t *ctx, status_t status, bool is_forgiven);

/* Marks the last failure inside an attempt as handled. */
void scope_forgive(context_t *ctx);

/* Ends all scopes when the context ends. */
void scope_end_all(context_t *ctx);

#endif
