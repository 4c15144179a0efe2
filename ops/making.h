/* Tensors made of numbers: dense, and to a trace constants. The rules for all operators are in
 * ops.h. */
#ifndef TESSERA_OPS_MAKING_H
#define TESSERA_OPS_MAKING_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* start, start + step, ..., as long as they are before end: ceil((end - start) / step) elements,
 * as torch.arange; step may be negative. Each is computed in double as start + i step, and cast.
 * Of integral dtypes start and step are whole. DTYPE_NONE: f32. */
status_t op_arange(context_t *ctx, double start, double end, double step, dtype_t dtype,
                   tensor_t **out) TESSERA_API(op_arange);

/* n numbers from start to end, both included, as torch.linspace: the first half is counted from the
 * start, the second from the end. Of n 1 it is start. DTYPE_NONE: f32; integers are truncated. */
status_t op_linspace(context_t *ctx, double start, double end, int64_t n, dtype_t dtype,
                     tensor_t **out) TESSERA_API(op_linspace);

/* [n][m] with ones where both indices are equal, as torch.eye. DTYPE_NONE: f32. */
status_t op_eye(context_t *ctx, int64_t n, int64_t m, dtype_t dtype, tensor_t **out)
    TESSERA_API(op_eye);

TESSERA_END

#endif
