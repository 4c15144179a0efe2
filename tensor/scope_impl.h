/* Functions for library code that uses scopes. */
#ifndef TESSERA_TENSOR_SCOPE_IMPL_H
#define TESSERA_TENSOR_SCOPE_IMPL_H

#include "tensor/context_impl.h"
#include "tensor/scope.h"

/* Transfers a reference to the open scope. Without a scope it only notes that a call has returned a
 * tensor, so that calls with NULL inputs no longer return older failures. */
status_t scope_enter(context_t *ctx, tensor_t *tensor);

/* Opens the scope of a forward. The scope lists the inputs as lent, so that scope_give knows
 * whether the forward retained one. Calls inside do not return earlier failures, unless one of the
 * inputs is NULL. If this function fails, no scope is open. */
status_t scope_begin_call(context_t *ctx, int n_in, const tensor_t *const *in);

/* Removes one reference from the innermost scope, if the scope has one. For results of a function
 * that opened the scope, whose caller then owns the reference. */
void scope_take(context_t *ctx, tensor_t *tensor);

/* scope_take for a result of a forward. The caller gets one reference: the one that the forward
 * retained, or the scope's, or a new one for a lent input. False if the tensor is not listed. */
bool scope_give(context_t *ctx, tensor_t *tensor);

/* Called by tensor_retain and tensor_release for a tensor that a scope lists, before they change
 * the count. */
void scope_note_retained(const tensor_t *tensor);
void scope_note_released(const tensor_t *tensor);

/* Failures of the innermost scope, or of the code outside all scopes. */
failures_t *scope_failures(context_t *ctx);

/* The failure that calls with NULL inputs return; its status is OK if there is none. */
const failure_t *scope_first_failure(context_t *ctx);

/* Enclose a call that has a fallback. Failures between the two calls are not recorded, except in
 * scopes that open between them. scope_attempt_end returns the status. If is_forgiven, the failure
 * is forgotten; otherwise it is recorded now. */
void scope_attempt(context_t *ctx);
status_t scope_attempt_end(context_t *ctx, status_t status, bool is_forgiven);

/* Inside an attempt: marks the last failure as harmless. */
void scope_forgive(context_t *ctx);

/* Ends all scopes when the context ends. */
void scope_end_all(context_t *ctx);

#endif
