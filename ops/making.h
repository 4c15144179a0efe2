/* Functions that create dense tensors from numbers. In a trace, results are constants. */
#ifndef TESSERA_OPS_MAKING_H
#define TESSERA_OPS_MAKING_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* start, start + step, ..., up to but without end: ceil((end - start) / step) elements, like
 * torch.arange; step can be negative. Each is computed in double as start + i step, and cast. For
 * integral dtypes, start and step must be integers. DTYPE_NONE: f32. */
status_t op_arange(context_t *ctx, double start, double end, double step, dtype_t dtype,
                   tensor_t **out) TESSERA_API(op_arange);

/* n numbers from start to end, both included, like torch.linspace: the first half is computed from
 * the start, the second from the end. With n 1, it is start. DTYPE_NONE: f32; integers are
 * truncated. */
status_t op_linspace(context_t *ctx, double start, double end, int64_t n, dtype_t dtype,
                     tensor_t **out) TESSERA_API(op_linspace);

/* [n][m] with 1 on the diagonal and 0 elsewhere, like torch.eye. DTYPE_NONE: f32. */
status_t op_eye(context_t *ctx, int64_t n, int64_t m, dtype_t dtype, tensor_t **out)
    TESSERA_API(op_eye);

TESSERA_END

#endif
