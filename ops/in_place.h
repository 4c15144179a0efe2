/* Operators that write their result to operand 0, like PyTorch's functions with a trailing
 * underscore. The rules for all operators are in ops.h.
 *
 * Each computes the same as the function without the underscore. All operands are read before
 * anything is written, so every operand may be x or a view of x. x keeps its layout, sizes and
 * dtype. A floating result needs a floating x, and a bool x needs a bool result. A write to x
 * changes views of x, the tensor that x is a view of, and, if x is a weight, what later calls read
 * from packed copies of it. It does not change snapshots, such as results of op_to_mkldnn and
 * tensor_clone. A trace records these operators.
 *
 * INVALID_ARGUMENT  the result does not have x's sizes; x cannot hold the result's dtype; elements
 *                   of x share memory, as in results of op_expand */
#ifndef TESSERA_OPS_IN_PLACE_H
#define TESSERA_OPS_IN_PLACE_H

#include "ops/index/indexing.h"

TESSERA_BEGIN

/* ---- functions of one tensor: elementwise.h ---- */

status_t op_relu_(context_t *ctx, tensor_t *x) TESSERA_API(op_relu_);
status_t op_relu6_(context_t *ctx, tensor_t *x) TESSERA_API(op_relu6_);
status_t op_selu_(context_t *ctx, tensor_t *x) TESSERA_API(op_selu_);
status_t op_erf_(context_t *ctx, tensor_t *x) TESSERA_API(op_erf_);
status_t op_sigmoid_(context_t *ctx, tensor_t *x) TESSERA_API(op_sigmoid_);
status_t op_tanh_(context_t *ctx, tensor_t *x) TESSERA_API(op_tanh_);
status_t op_hardswish_(context_t *ctx, tensor_t *x) TESSERA_API(op_hardswish_);
status_t op_silu_(context_t *ctx, tensor_t *x) TESSERA_API(op_silu_);
status_t op_softplus_(context_t *ctx, tensor_t *x) TESSERA_API(op_softplus_);
status_t op_mish_(context_t *ctx, tensor_t *x) TESSERA_API(op_mish_);
status_t op_sqrt_(context_t *ctx, tensor_t *x) TESSERA_API(op_sqrt_);
status_t op_exp_(context_t *ctx, tensor_t *x) TESSERA_API(op_exp_);
status_t op_log_(context_t *ctx, tensor_t *x) TESSERA_API(op_log_);
status_t op_abs_(context_t *ctx, tensor_t *x) TESSERA_API(op_abs_);
status_t op_neg_(context_t *ctx, tensor_t *x) TESSERA_API(op_neg_);
status_t op_reciprocal_(context_t *ctx, tensor_t *x) TESSERA_API(op_reciprocal_);
status_t op_floor_(context_t *ctx, tensor_t *x) TESSERA_API(op_floor_);
status_t op_ceil_(context_t *ctx, tensor_t *x) TESSERA_API(op_ceil_);
status_t op_round_(context_t *ctx, tensor_t *x) TESSERA_API(op_round_);
status_t op_trunc_(context_t *ctx, tensor_t *x) TESSERA_API(op_trunc_);
status_t op_sign_(context_t *ctx, tensor_t *x) TESSERA_API(op_sign_);
status_t op_softsign_(context_t *ctx, tensor_t *x) TESSERA_API(op_softsign_);
status_t op_logsigmoid_(context_t *ctx, tensor_t *x) TESSERA_API(op_logsigmoid_);
status_t op_rsqrt_(context_t *ctx, tensor_t *x) TESSERA_API(op_rsqrt_);
status_t op_square_(context_t *ctx, tensor_t *x) TESSERA_API(op_square_);
status_t op_exp2_(context_t *ctx, tensor_t *x) TESSERA_API(op_exp2_);
status_t op_expm1_(context_t *ctx, tensor_t *x) TESSERA_API(op_expm1_);
status_t op_log2_(context_t *ctx, tensor_t *x) TESSERA_API(op_log2_);
status_t op_log10_(context_t *ctx, tensor_t *x) TESSERA_API(op_log10_);
status_t op_log1p_(context_t *ctx, tensor_t *x) TESSERA_API(op_log1p_);
status_t op_logical_not_(context_t *ctx, tensor_t *x) TESSERA_API(op_logical_not_);
status_t op_isnan_(context_t *ctx, tensor_t *x) TESSERA_API(op_isnan_);
status_t op_isinf_(context_t *ctx, tensor_t *x) TESSERA_API(op_isinf_);
status_t op_bitwise_not_(context_t *ctx, tensor_t *x) TESSERA_API(op_bitwise_not_);
status_t op_sin_(context_t *ctx, tensor_t *x) TESSERA_API(op_sin_);
status_t op_cos_(context_t *ctx, tensor_t *x) TESSERA_API(op_cos_);
status_t op_tan_(context_t *ctx, tensor_t *x) TESSERA_API(op_tan_);
status_t op_asin_(context_t *ctx, tensor_t *x) TESSERA_API(op_asin_);
status_t op_acos_(context_t *ctx, tensor_t *x) TESSERA_API(op_acos_);
status_t op_atan_(context_t *ctx, tensor_t *x) TESSERA_API(op_atan_);
status_t op_sinh_(context_t *ctx, tensor_t *x) TESSERA_API(op_sinh_);
status_t op_cosh_(context_t *ctx, tensor_t *x) TESSERA_API(op_cosh_);
status_t op_asinh_(context_t *ctx, tensor_t *x) TESSERA_API(op_asinh_);
status_t op_acosh_(context_t *ctx, tensor_t *x) TESSERA_API(op_acosh_);
status_t op_atanh_(context_t *ctx, tensor_t *x) TESSERA_API(op_atanh_);
status_t op_clamp_(context_t *ctx, tensor_t *x, double min, double max) TESSERA_API(op_clamp_);
status_t op_leaky_relu_(context_t *ctx, tensor_t *x, double negative_slope)
    TESSERA_API(op_leaky_relu_);
status_t op_elu_(context_t *ctx, tensor_t *x, double alpha) TESSERA_API(op_elu_);
status_t op_celu_(context_t *ctx, tensor_t *x, double alpha) TESSERA_API(op_celu_);
status_t op_gelu_(context_t *ctx, tensor_t *x, bool tanh_approximation) TESSERA_API(op_gelu_);
status_t op_hardsigmoid_(context_t *ctx, tensor_t *x, double alpha, double beta)
    TESSERA_API(op_hardsigmoid_);
status_t op_shrink_(context_t *ctx, tensor_t *x, double lambd, double bias) TESSERA_API(op_shrink_);
status_t op_threshold_(context_t *ctx, tensor_t *x, double threshold, double value)
    TESSERA_API(op_threshold_);

/* ---- functions of several tensors: elementwise.h ---- */

status_t op_add_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_add_);
status_t op_sub_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_sub_);
status_t op_mul_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_mul_);
status_t op_div_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_div_);
status_t op_div_trunc_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_div_trunc_);
status_t op_div_floor_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_div_floor_);
status_t op_fmod_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_fmod_);
status_t op_remainder_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_remainder_);
status_t op_atan2_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_atan2_);
status_t op_hypot_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_hypot_);
status_t op_pow_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_pow_);
status_t op_maximum_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_maximum_);
status_t op_minimum_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_minimum_);
status_t op_eq_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_eq_);
status_t op_ne_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_ne_);
status_t op_lt_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_lt_);
status_t op_le_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_le_);
status_t op_gt_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_gt_);
status_t op_ge_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_ge_);
status_t op_logical_and_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_logical_and_);
status_t op_logical_or_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_logical_or_);
status_t op_logical_xor_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_logical_xor_);
status_t op_bitwise_and_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_and_);
status_t op_bitwise_or_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_bitwise_or_);
status_t op_bitwise_xor_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_xor_);
status_t op_bitwise_left_shift_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_left_shift_);
status_t op_bitwise_right_shift_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_right_shift_);

/* The second operand is a C number. */
status_t op_add_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_add_scalar_);
status_t op_sub_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_sub_scalar_);
status_t op_mul_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_mul_scalar_);
status_t op_div_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_div_scalar_);
status_t op_pow_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_pow_scalar_);
status_t op_add_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_add_integer_);
status_t op_sub_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_sub_integer_);
status_t op_mul_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_mul_integer_);
status_t op_div_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_div_integer_);
status_t op_pow_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_pow_integer_);

/* ---- copies, fills and writes at indices: moving.h, indexing.h ---- */

/* Writes src to x: broadcasts it to x's sizes and casts it to x's dtype. x may have any dtype. */
status_t op_copy_(context_t *ctx, tensor_t *x, const tensor_t *src) TESSERA_API(op_copy_);
/* Sets all elements to value. */
status_t op_fill_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_fill_);
status_t op_masked_fill_(context_t *ctx, tensor_t *x, const tensor_t *mask, double value)
    TESSERA_API(op_masked_fill_);
status_t op_scatter_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                     const tensor_t *src, scatter_reduction_t reduction) TESSERA_API(op_scatter_);
status_t op_scatter_value_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                           double value, scatter_reduction_t reduction)
    TESSERA_API(op_scatter_value_);
status_t op_index_add_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                       const tensor_t *src, double alpha) TESSERA_API(op_index_add_);
status_t op_index_copy_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                        const tensor_t *src) TESSERA_API(op_index_copy_);
status_t op_index_fill_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                        double value) TESSERA_API(op_index_fill_);

TESSERA_END

#endif
