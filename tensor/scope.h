/* A scope encloses a chain of calls: it owns the tensors that they return, and remembers the first
 * failure.
 *
 * Tensors. Every tensor that a call returns inside a scope belongs to the scope. The scope releases
 * its tensors when it ends, except those that scope_keep transfers to the caller. You may also
 * release a tensor inside the scope. tensor_release undoes the last tensor_retain of the tensor
 * inside the scope; if there is none, it releases the scope's own reference. So a retain and a
 * release together change nothing. If a tensor should outlive the scope, retain it once more than
 * you release it, or call scope_keep.
 *
 * Failures. A scope starts without a failure and remembers its first one until context_clear_error
 * marks it as handled. scope_end returns this failure, which then counts as a failure of the
 * surrounding scope. If no call in the scope failed, earlier failures of the surrounding scope
 * remain. A call whose required input is NULL returns the first failure of the innermost scope, or
 * else of a scope around it. So a chain of calls needs one check, at the end of the scope. Outside
 * all scopes, a call whose required input is NULL returns the last failure, unless another call has
 * returned a tensor since. So open a scope to chain calls.
 *
 * Each forward of a module runs in its own scope. Earlier failures affect it only if one of its
 * inputs is NULL.
 *
 * Scopes nest. A scope begins, is used and ends in one thread. */
#ifndef TESSERA_TENSOR_SCOPE_H
#define TESSERA_TENSOR_SCOPE_H

#include "tensor/tensor.h"

status_t scope_begin(context_t *ctx) TESSERA_API(scope_begin);

/* Removes the tensor from the innermost scope that lists it; then the caller must release it. NULL
 * does nothing. */
void scope_keep(context_t *ctx, tensor_t *tensor) TESSERA_API(scope_keep);

/* Ends the innermost scope and releases its tensors. Returns the scope's first failure that was not
 * cleared; context_error then returns its message. INVALID_ARGUMENT when no scope is open. */
status_t scope_end(context_t *ctx) TESSERA_API(scope_end);

#endif
