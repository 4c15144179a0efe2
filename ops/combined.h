/* Functions that call several operators. A trace records the operators. The rules for all operators
 * are in ops.h. */
#ifndef TESSERA_OPS_COMBINED_H
#define TESSERA_OPS_COMBINED_H

#include "dispatch/dispatch.h"

/* x + value * a * b, and x + value * a / b, like torch.addcmul and torch.addcdiv. All operands
 * broadcast. With value 1, integer operands return integers. Functions with a trailing underscore
 * write the result to x. */
status_t op_addcmul(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                    double value, tensor_t **out) TESSERA_API(op_addcmul);
status_t op_addcdiv(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                    double value, tensor_t **out) TESSERA_API(op_addcdiv);
status_t op_addcmul_(context_t *ctx, tensor_t *x, const tensor_t *a, const tensor_t *b,
                     double value) TESSERA_API(op_addcmul_);
status_t op_addcdiv_(context_t *ctx, tensor_t *x, const tensor_t *a, const tensor_t *b,
                     double value) TESSERA_API(op_addcdiv_);

/* a + weight * (b - a) for floating tensors, like torch.lerp. */
status_t op_lerp(context_t *ctx, const tensor_t *a, const tensor_t *b, double weight,
                 tensor_t **out) TESSERA_API(op_lerp);
status_t op_lerp_(context_t *ctx, tensor_t *a, const tensor_t *b, double weight)
    TESSERA_API(op_lerp_);

/* beta * x + alpha * (a @ b), where @ is op_matmul. Like torch.addmm, and torch.baddbmm if operands
 * have 3 dimensions. With beta 0, x is not read and can contain NaN. */
status_t op_addmm(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                  double beta, double alpha, tensor_t **out) TESSERA_API(op_addmm);

/* Outer product of vectors: out[i][j] = a[i] b[j]. */
status_t op_outer(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_outer);

/* The first half of x along dim times the sigmoid of the second half, like
 * torch.nn.functional.glu. */
status_t op_glu(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out) TESSERA_API(op_glu);

/* Returns bool: true where x is neither NaN nor infinite. */
status_t op_isfinite(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_isfinite);

/* x / max(norm of x along dim, epsilon), like torch.nn.functional.normalize. PyTorch's defaults are
 * p = 2 and epsilon = 1e-12. */
status_t op_normalize(context_t *ctx, const tensor_t *x, double p, int64_t dim, double epsilon,
                      tensor_t **out) TESSERA_API(op_normalize);

/* The `length` slices of x along dim from `start` on. A negative start counts from the end. */
status_t op_narrow(context_t *ctx, const tensor_t *x, int64_t dim, int64_t start, int64_t length,
                   tensor_t **out) TESSERA_API(op_narrow);

/* Moves dimension `from` to position `to`; the others keep their order. Like torch.movedim. */
status_t op_movedim(context_t *ctx, const tensor_t *x, int64_t from, int64_t to, tensor_t **out)
    TESSERA_API(op_movedim);

/* Inverts max pooling, like torch.nn.functional.max_unpool1d to 3d: writes x to the indices from
 * op_max_pool2d_with_indices, and 0 elsewhere. output_size has the n sizes after the channels. If
 * two windows have the same index, the value of the later window is written. */
status_t op_max_unpool(context_t *ctx, const tensor_t *x, const tensor_t *indices, int n,
                       const int64_t *output_size, tensor_t **out) TESSERA_API(op_max_unpool);

#endif
