/* Scopes: lifetimes of tensors, and failures, in a chain of calls.
 *
 * Tensors. Every tensor that a call returns inside a scope belongs to the scope. The scope releases
 * its tensors when it ends, except those that scope_keep transfers to the caller. Releasing a
 * tensor inside the scope is also allowed: tensor_release first undoes the latest tensor_retain
 * made inside the scope, and gives up the scope's reference only if there is none. So pairs of
 * retain and release change nothing. A tensor that should outlive the scope is either retained once
 * more, or kept.
 *
 * Failures. A scope starts clean and remembers its first failure until context_clear_error marks it
 * as handled. scope_end returns that failure, which then counts as a failure of the surrounding
 * code. A scope that did not fail leaves earlier failures of the surrounding code as they were. A
 * required input that is NULL passes on the first failure of the innermost scope, or else of the
 * scopes around it, so a chain of calls needs one check at the end of the scope. Outside all scopes
 * NULL passes on the last failure, unless a call has returned a tensor since: to chain calls, open
 * a scope.
 *
 * Each forward of a module runs in its own scope and starts clean. Earlier failures affect it only
 * if one of its inputs is NULL.
 *
 * Scopes nest. A scope begins, is used and ends in one thread. */
#ifndef TESSERA_TENSOR_SCOPE_H
#define TESSERA_TENSOR_SCOPE_H

#include "tensor/tensor.h"

TESSERA_BEGIN

status_t scope_begin(context_t *ctx) TESSERA_API(scope_begin);

/* Removes the tensor from the innermost scope that holds it: the caller then releases it. NULL does
 * nothing. */
void scope_keep(context_t *ctx, tensor_t *tensor) TESSERA_API(scope_keep);

/* Ends the innermost scope and releases its tensors. Returns its first uncleared failure, and
 * context_error then has that message. INVALID_ARGUMENT when no scope is open. */
status_t scope_end(context_t *ctx) TESSERA_API(scope_end);

TESSERA_END

#endif
