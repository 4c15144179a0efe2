/* Scopes: lifetimes of tensors in a chain of calls.
 *
 * Every tensor that a call gives out inside a scope belongs to the scope, and is released at its
 * end, but for those that were kept. Scopes nest; a kept tensor belongs to the caller. */
#ifndef TESSERA_TENSOR_SCOPE_H
#define TESSERA_TENSOR_SCOPE_H

#include "tensor/tensor.h"

TESSERA_BEGIN

status_t scope_begin(context_t *ctx) TESSERA_API(scope_begin);

/* Takes the tensor out of the scope it was made in: the caller releases it. NULL is let pass. */
void scope_keep(context_t *ctx, tensor_t *tensor) TESSERA_API(scope_keep);

/* Releases what belongs to the innermost scope. Gives the first failure since its beginning, and
 * makes context_error tell that one. INVALID_ARGUMENT when no scope is open. */
status_t scope_end(context_t *ctx) TESSERA_API(scope_end);

TESSERA_END

#endif
