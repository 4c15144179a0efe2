/* Scopes: lifetimes of tensors, and failures, in a chain of calls.
 *
 * Tensors. Inside a scope every tensor that a call gives belongs to the scope, which releases it at
 * its end, but for those that scope_keep hands to the caller. Code that releases what it was given
 * is right inside, too: tensor_release of a scope's tensor gives it up early. A release undoes the
 * youngest tensor_retain inside the scope first, and takes the scope's reference only when there is
 * none: retain and release in pairs change nothing. What shall outlive the scope is retained and
 * left to the scope, or kept.
 *
 * Failures. A scope starts clean, and remembers its first failure until context_clear_error says
 * that it was handled; scope_end gives it, and it is then a failure of the code around. A scope
 * that has not failed leaves that code's failures as they were. A required input that is NULL
 * passes on the first failure of the innermost scope, or else of the scopes around it, so that a
 * chain of calls needs one check, at the end of the scope. Outside of all scopes it passes on the
 * last failure, as long as no call has given a tensor since: to chain calls, open a scope.
 *
 * Forwards of modules run in a scope of their own and start clean also as to NULL: they pass on a
 * failure from before only when an input is NULL.
 *
 * Scopes nest. A scope begins, is used and ends in one thread. */
#ifndef TESSERA_TENSOR_SCOPE_H
#define TESSERA_TENSOR_SCOPE_H

#include "tensor/tensor.h"

TESSERA_BEGIN

status_t scope_begin(context_t *ctx) TESSERA_API(scope_begin);

/* Takes the tensor out of the scope that holds it, the innermost of several: the caller releases
 * it. NULL is let pass. */
void scope_keep(context_t *ctx, tensor_t *tensor) TESSERA_API(scope_keep);

/* Releases what belongs to the innermost scope. Gives its first failure that was not cleared, and
 * makes context_error tell that one. INVALID_ARGUMENT when no scope is open. */
status_t scope_end(context_t *ctx) TESSERA_API(scope_end);

TESSERA_END

#endif
