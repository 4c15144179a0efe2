/* Functions that create dense tensors from numbers. In a trace, results are constants. */
#ifndef TESSERA_OPS_MAKING_H
#define TESSERA_OPS_MAKING_H

#include "dispatch/dispatch.h"

/* Returns start, start + step, ... before end: ceil((end - start) / step) elements, like
 * torch.arange. step can be negative. Each element is computed in double as start + i * step, then
 * cast. For integral dtypes, start and step must be integers. DTYPE_NONE means f32. */
status_t op_arange(context_t *ctx, double start, double end, double step, dtype_t dtype,
                   tensor_t **out) TESSERA_API(op_arange);

/* Returns n numbers from start to end, both included, like torch.linspace. Numbers of the first
 * half are computed from start, those of the second half from end. With n = 1, the element is
 * start. DTYPE_NONE means f32. For integral dtypes, the numbers are truncated. */
status_t op_linspace(context_t *ctx, double start, double end, int64_t n, dtype_t dtype,
                     tensor_t **out) TESSERA_API(op_linspace);

/* A matrix [n][m] with 1 on the diagonal and 0 elsewhere, like torch.eye. DTYPE_NONE means f32. */
status_t op_eye(context_t *ctx, int64_t n, int64_t m, dtype_t dtype, tensor_t **out)
    TESSERA_API(op_eye);

#endif
