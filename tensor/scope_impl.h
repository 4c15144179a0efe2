/* Functions with which library code uses scopes. */
#ifndef TESSERA_TENSOR_SCOPE_IMPL_H
#define TESSERA_TENSOR_SCOPE_IMPL_H

#include "tensor/context_impl.h"
#include "tensor/scope.h"

/* Gives a reference to the open scope. Without a scope it only stops older failures from being
 * passed on, because a call has returned a tensor. */
status_t scope_enter(context_t *ctx, tensor_t *tensor);

/* Opens the scope of a forward. The inputs are listed as lent, so that scope_give can tell whether
 * the forward retained one. Earlier failures are not passed on unless one of the inputs is NULL. On
 * failure no scope is open. */
status_t scope_begin_call(context_t *ctx, int n_in, const tensor_t *const *in);

/* Removes one reference from the innermost scope, if it has one: results of a function that opened
 * the scope go to its caller; other references stay. */
void scope_take(context_t *ctx, tensor_t *tensor);

/* The same for a result of a forward. The caller gets one reference: the one that the user
 * retained, or the scope's, or a new one for a lent input. False if the innermost scope does not
 * list the tensor. */
bool scope_give(context_t *ctx, tensor_t *tensor);

/* Called by tensor_retain and tensor_release for a tensor that a scope lists, before they change
 * the count. */
void scope_note_retained(const tensor_t *tensor);
void scope_note_released(const tensor_t *tensor);

/* Failures of the innermost scope, or of the code outside all scopes. */
failures_t *scope_failures(context_t *ctx);

/* The failure that NULL passes on; its status is OK if there is none. */
const failure_t *scope_first_failure(context_t *ctx);

/* Enclose a call that has a fallback. Failures in between are not recorded, except in scopes opened
 * in between. scope_attempt_end returns the status. A forgiven failure leaves no trace; any other
 * is recorded now. */
void scope_attempt(context_t *ctx);
status_t scope_attempt_end(context_t *ctx, status_t status, bool is_forgiven);

/* Inside an attempt: marks the last failure as harmless. */
void scope_forgive(context_t *ctx);

/* Ends all scopes when the context ends. */
void scope_end_all(context_t *ctx);

#endif
