/* Operators that compute each element of the result from the operands' elements at its place. The
 * rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_ELEMENTWISE_H
#define TESSERA_OPS_ELEMENTWISE_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* ---- functions of one tensor: NaN stays NaN; only relu, clamp, maximum, minimum fused may give a
 * bound ---- */

status_t op_relu(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_relu);
status_t op_relu6(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_relu6);
/* Integers stay integers if both bounds are whole or infinite; else they give f32. */
status_t op_clamp(context_t *ctx, const tensor_t *x, double min, double max, tensor_t **out)
    TESSERA_API(op_clamp);
status_t op_leaky_relu(context_t *ctx, const tensor_t *x, double negative_slope, tensor_t **out)
    TESSERA_API(op_leaky_relu);
status_t op_elu(context_t *ctx, const tensor_t *x, double alpha, tensor_t **out)
    TESSERA_API(op_elu);
status_t op_selu(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_selu);
status_t op_gelu(context_t *ctx, const tensor_t *x, bool tanh_approximation, tensor_t **out)
    TESSERA_API(op_gelu);
status_t op_erf(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_erf);
status_t op_sigmoid(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_sigmoid);
status_t op_tanh(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_tanh);
/* clamp(alpha x + beta, 0, 1); PyTorch's is alpha 1/6, beta 1/2. */
status_t op_hardsigmoid(context_t *ctx, const tensor_t *x, double alpha, double beta,
                        tensor_t **out) TESSERA_API(op_hardsigmoid);
status_t op_hardswish(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_hardswish);
status_t op_silu(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_silu);
status_t op_softplus(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_softplus);
status_t op_sqrt(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_sqrt);
status_t op_exp(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_exp);
status_t op_log(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_log);
status_t op_abs(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_abs);
status_t op_neg(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_neg);
status_t op_reciprocal(context_t *ctx, const tensor_t *x, tensor_t **out)
    TESSERA_API(op_reciprocal);
/* weight of one element, or one for each channel (dimension 1). */
status_t op_prelu(context_t *ctx, const tensor_t *x, const tensor_t *weight, tensor_t **out)
    TESSERA_API(op_prelu);

/* ---- functions of two tensors ---- */

/* With broadcasting and PyTorch's type promotion; integer division of div gives f32. For a scalar
 * give tensor_number or tensor_integer. */
status_t op_add(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_add);
status_t op_sub(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_sub);
status_t op_mul(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_mul);
status_t op_div(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_div);
status_t op_pow(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_pow);
status_t op_maximum(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_maximum);
status_t op_minimum(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_minimum);

/* ---- the same elements ---- */

status_t op_cast(context_t *ctx, const tensor_t *x, dtype_t dtype, tensor_t **out)
    TESSERA_API(op_cast);
status_t op_identity(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_identity);

TESSERA_END

#endif
