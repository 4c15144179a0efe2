/* How the context feeds the open scope. */
#ifndef TESSERA_TENSOR_SCOPE_IMPL_H
#define TESSERA_TENSOR_SCOPE_IMPL_H

#include "tensor/scope.h"

/* Enters a reference that the scope now owns; does nothing when no scope is open. */
status_t scope_enter(context_t *ctx, tensor_t *tensor);

/* Takes one reference out of the innermost scope, if it has one: what a function made in its own
 * scope goes to its caller, and nobody else's references do. */
void scope_take(context_t *ctx, tensor_t *tensor);

/* Notes the first failure of the open scopes. */
void scope_note_failure(context_t *ctx, status_t status, const char *message);

/* Round a call that may fail and be done otherwise: what fails between is not noted, but for scopes
 * opened between. The end gives the status back; a failure that is forgiven leaves no trace, any
 * other is noted now. */
void scope_attempt(context_t *ctx);
status_t scope_attempt_end(context_t *ctx, status_t status, bool is_forgiven);

/* Ends all scopes, at the context's end. */
void scope_end_all(context_t *ctx);

#endif
