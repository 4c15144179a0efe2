/* Functions that are made of other operators, which a trace records. The rules for all operators
 * are in ops.h. */
#ifndef TESSERA_OPS_COMBINED_H
#define TESSERA_OPS_COMBINED_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* x + value a b, and x + value a / b, as torch.addcmul and torch.addcdiv; all broadcast. With
 * value 1 integers stay what they are. The forms in place write x. */
status_t op_addcmul(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                    double value, tensor_t **out) TESSERA_API(op_addcmul);
status_t op_addcdiv(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                    double value, tensor_t **out) TESSERA_API(op_addcdiv);
status_t op_addcmul_(context_t *ctx, tensor_t *x, const tensor_t *a, const tensor_t *b,
                     double value) TESSERA_API(op_addcmul_);
status_t op_addcdiv_(context_t *ctx, tensor_t *x, const tensor_t *a, const tensor_t *b,
                     double value) TESSERA_API(op_addcdiv_);

/* a + weight (b - a), of floating tensors, as torch.lerp. */
status_t op_lerp(context_t *ctx, const tensor_t *a, const tensor_t *b, double weight,
                 tensor_t **out) TESSERA_API(op_lerp);
status_t op_lerp_(context_t *ctx, tensor_t *a, const tensor_t *b, double weight)
    TESSERA_API(op_lerp_);

/* beta x + alpha (a b), the product as op_matmul's: torch.addmm, of more dimensions
 * torch.baddbmm. With beta 0 the elements of x are not read, so that they may be NaN. */
status_t op_addmm(context_t *ctx, const tensor_t *x, const tensor_t *a, const tensor_t *b,
                  double beta, double alpha, tensor_t **out) TESSERA_API(op_addmm);

/* a[i] b[j] of vectors. */
status_t op_outer(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_outer);

/* The first half along dim times sigmoid of the second, as torch.nn.functional.glu. */
status_t op_glu(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out) TESSERA_API(op_glu);

/* Whether x is neither NaN nor infinite: bool. */
status_t op_isfinite(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_isfinite);

/* x / max(norm of x along dim, epsilon), as torch.nn.functional.normalize, whose own p is 2 and
 * epsilon 1e-12. */
status_t op_normalize(context_t *ctx, const tensor_t *x, double p, int64_t dim, double epsilon,
                      tensor_t **out) TESSERA_API(op_normalize);

/* length slices from start on along dim; start counts from the end if it is negative. */
status_t op_narrow(context_t *ctx, const tensor_t *x, int64_t dim, int64_t start, int64_t length,
                   tensor_t **out) TESSERA_API(op_narrow);

/* Dimension `from` goes to place `to`, the others keep their order, as torch.movedim. */
status_t op_movedim(context_t *ctx, const tensor_t *x, int64_t from, int64_t to, tensor_t **out)
    TESSERA_API(op_movedim);

/* What was pooled, as far as its maxima say it: zeros but where indices of
 * op_max_pool2d_with_indices put x. The function is torch.nn.functional.max_unpool1d to 3d with
 * output_size, of n numbers, those behind the channels; where two windows have one maximum, it is
 * the later one's. */
status_t op_max_unpool(context_t *ctx, const tensor_t *x, const tensor_t *indices, int n,
                       const int64_t *output_size, tensor_t **out) TESSERA_API(op_max_unpool);

TESSERA_END

#endif
