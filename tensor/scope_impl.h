/* How library code feeds the open scope. */
#ifndef TESSERA_TENSOR_SCOPE_IMPL_H
#define TESSERA_TENSOR_SCOPE_IMPL_H

#include "tensor/context_impl.h"
#include "tensor/scope.h"

/* Enters a reference that the scope now owns. Where no scope is open it does nothing but end the
 * passing on: NULL passes on no failure from before a call that gave a tensor. */
status_t scope_enter(context_t *ctx, tensor_t *tensor);

/* Opens the scope of a forward. The inputs are listed as lent, so that scope_give knows whether the
 * forward has retained one. NULL inside passes on no failure from before the call, unless one of
 * the inputs is NULL itself. On failure no scope is open. */
status_t scope_begin_call(context_t *ctx, int n_in, const tensor_t *const *in);

/* Takes one reference out of the innermost scope, if it has one: what a function made in its own
 * scope goes to its caller, and nobody else's references do. */
void scope_take(context_t *ctx, tensor_t *tensor);

/* The same for a result that a forward gives: one reference to it goes to the caller, that which
 * the user retained, or the scope's, or for a lent input a new one. False when the innermost scope
 * does not list the tensor. */
bool scope_give(context_t *ctx, tensor_t *tensor);

/* Called by tensor_retain and tensor_release for a tensor that a scope lists, before they count. */
void scope_note_retained(const tensor_t *tensor);
void scope_note_released(const tensor_t *tensor);

/* The failures of the innermost scope, or of the code outside of any. */
failures_t *scope_failures(context_t *ctx);

/* What NULL passes on; its status is OK where there is nothing to pass on. */
const failure_t *scope_first_failure(context_t *ctx);

/* Round a call that may fail and be done otherwise: what fails between is not noted, but for scopes
 * opened between. The end gives the status back; a failure that is forgiven leaves no trace, any
 * other is noted now. */
void scope_attempt(context_t *ctx);
status_t scope_attempt_end(context_t *ctx, status_t status, bool is_forgiven);

/* Within an attempt: the last failure was one that can be done without. */
void scope_forgive(context_t *ctx);

/* Ends all scopes, at the context's end. */
void scope_end_all(context_t *ctx);

#endif
