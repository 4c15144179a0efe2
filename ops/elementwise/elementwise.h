/* Operators that compute each element of the result from the operands' elements at the same index,
 * after broadcasting. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_ELEMENTWISE_ELEMENTWISE_H
#define TESSERA_OPS_ELEMENTWISE_ELEMENTWISE_H

#include "dispatch/dispatch.h"

/* ---- functions of one tensor ----
 *
 * NaN stays NaN, also if the operator is fused. The functions that end in an underscore work in
 * place: see in_place.h. */

status_t op_relu(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_relu);
status_t op_relu_(context_t *ctx, tensor_t *x) TESSERA_API(op_relu_);
status_t op_relu6(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_relu6);
status_t op_relu6_(context_t *ctx, tensor_t *x) TESSERA_API(op_relu6_);
/* A NaN bound makes all elements NaN. For an integer x, the result is an integer if both bounds are
 * integers or infinite; otherwise it is f32. */
status_t op_clamp(context_t *ctx, const tensor_t *x, double min, double max, tensor_t **out)
    TESSERA_API(op_clamp);
status_t op_clamp_(context_t *ctx, tensor_t *x, double min, double max) TESSERA_API(op_clamp_);
status_t op_leaky_relu(context_t *ctx, const tensor_t *x, double negative_slope, tensor_t **out)
    TESSERA_API(op_leaky_relu);
status_t op_leaky_relu_(context_t *ctx, tensor_t *x, double negative_slope)
    TESSERA_API(op_leaky_relu_);
status_t op_elu(context_t *ctx, const tensor_t *x, double alpha, tensor_t **out)
    TESSERA_API(op_elu);
status_t op_elu_(context_t *ctx, tensor_t *x, double alpha) TESSERA_API(op_elu_);
/* x > 0 ? x : alpha (exp(x / alpha) - 1); an alpha of 0 is INVALID_ARGUMENT. */
status_t op_celu(context_t *ctx, const tensor_t *x, double alpha, tensor_t **out)
    TESSERA_API(op_celu);
status_t op_celu_(context_t *ctx, tensor_t *x, double alpha) TESSERA_API(op_celu_);
status_t op_selu(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_selu);
status_t op_selu_(context_t *ctx, tensor_t *x) TESSERA_API(op_selu_);
/* gelu(-infinity) is NaN, as in PyTorch. */
status_t op_gelu(context_t *ctx, const tensor_t *x, bool tanh_approximation, tensor_t **out)
    TESSERA_API(op_gelu);
status_t op_gelu_(context_t *ctx, tensor_t *x, bool tanh_approximation) TESSERA_API(op_gelu_);
status_t op_erf(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_erf);
status_t op_erf_(context_t *ctx, tensor_t *x) TESSERA_API(op_erf_);
status_t op_sigmoid(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_sigmoid);
status_t op_sigmoid_(context_t *ctx, tensor_t *x) TESSERA_API(op_sigmoid_);
status_t op_tanh(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_tanh);
status_t op_tanh_(context_t *ctx, tensor_t *x) TESSERA_API(op_tanh_);
/* clamp(alpha x + beta, 0, 1); PyTorch uses alpha 1/6, beta 1/2. */
status_t op_hardsigmoid(context_t *ctx, const tensor_t *x, double alpha, double beta,
                        tensor_t **out) TESSERA_API(op_hardsigmoid);
status_t op_hardsigmoid_(context_t *ctx, tensor_t *x, double alpha, double beta)
    TESSERA_API(op_hardsigmoid_);
status_t op_hardswish(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_hardswish);
status_t op_hardswish_(context_t *ctx, tensor_t *x) TESSERA_API(op_hardswish_);
status_t op_silu(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_silu);
status_t op_silu_(context_t *ctx, tensor_t *x) TESSERA_API(op_silu_);
status_t op_softplus(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_softplus);
status_t op_softplus_(context_t *ctx, tensor_t *x) TESSERA_API(op_softplus_);
status_t op_mish(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_mish);
status_t op_mish_(context_t *ctx, tensor_t *x) TESSERA_API(op_mish_);
/* x - bias if x > lambd, x + bias if x < -lambd, else 0. With bias 0 it is torch's hardshrink, with
 * bias lambd its softshrink. */
status_t op_shrink(context_t *ctx, const tensor_t *x, double lambd, double bias, tensor_t **out)
    TESSERA_API(op_shrink);
status_t op_shrink_(context_t *ctx, tensor_t *x, double lambd, double bias) TESSERA_API(op_shrink_);
/* x <= threshold ? value : x */
status_t op_threshold(context_t *ctx, const tensor_t *x, double threshold, double value,
                      tensor_t **out) TESSERA_API(op_threshold);
status_t op_threshold_(context_t *ctx, tensor_t *x, double threshold, double value)
    TESSERA_API(op_threshold_);
status_t op_sqrt(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_sqrt);
status_t op_sqrt_(context_t *ctx, tensor_t *x) TESSERA_API(op_sqrt_);
status_t op_exp(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_exp);
status_t op_exp_(context_t *ctx, tensor_t *x) TESSERA_API(op_exp_);
status_t op_log(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_log);
status_t op_log_(context_t *ctx, tensor_t *x) TESSERA_API(op_log_);
status_t op_abs(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_abs);
status_t op_abs_(context_t *ctx, tensor_t *x) TESSERA_API(op_abs_);
status_t op_neg(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_neg);
status_t op_neg_(context_t *ctx, tensor_t *x) TESSERA_API(op_neg_);
status_t op_reciprocal(context_t *ctx, const tensor_t *x, tensor_t **out)
    TESSERA_API(op_reciprocal);
status_t op_reciprocal_(context_t *ctx, tensor_t *x) TESSERA_API(op_reciprocal_);
/* x > 0 ? x : weight * x. weight has one element, or one for each channel (dimension 1). */
status_t op_prelu(context_t *ctx, const tensor_t *x, const tensor_t *weight, tensor_t **out)
    TESSERA_API(op_prelu);

/* For integers, the result is f32, except that square keeps the dtype. softsign: x / (1 + |x|);
 * logsigmoid: log(sigmoid(x)); rsqrt: 1 / sqrt(x); expm1: exp(x) - 1; log1p: log(1 + x). */
status_t op_softsign(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_softsign);
status_t op_softsign_(context_t *ctx, tensor_t *x) TESSERA_API(op_softsign_);
status_t op_logsigmoid(context_t *ctx, const tensor_t *x, tensor_t **out)
    TESSERA_API(op_logsigmoid);
status_t op_logsigmoid_(context_t *ctx, tensor_t *x) TESSERA_API(op_logsigmoid_);
status_t op_rsqrt(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_rsqrt);
status_t op_rsqrt_(context_t *ctx, tensor_t *x) TESSERA_API(op_rsqrt_);
status_t op_square(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_square);
status_t op_square_(context_t *ctx, tensor_t *x) TESSERA_API(op_square_);
status_t op_exp2(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_exp2);
status_t op_exp2_(context_t *ctx, tensor_t *x) TESSERA_API(op_exp2_);
status_t op_expm1(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_expm1);
status_t op_expm1_(context_t *ctx, tensor_t *x) TESSERA_API(op_expm1_);
status_t op_log2(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_log2);
status_t op_log2_(context_t *ctx, tensor_t *x) TESSERA_API(op_log2_);
status_t op_log10(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_log10);
status_t op_log10_(context_t *ctx, tensor_t *x) TESSERA_API(op_log10_);
status_t op_log1p(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_log1p);
status_t op_log1p_(context_t *ctx, tensor_t *x) TESSERA_API(op_log1p_);

/* Rounding functions; integers are unchanged. round returns the even integer if two are equally
 * near. sign returns -1, 0 or 1; 0 for NaN. */
status_t op_floor(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_floor);
status_t op_floor_(context_t *ctx, tensor_t *x) TESSERA_API(op_floor_);
status_t op_ceil(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_ceil);
status_t op_ceil_(context_t *ctx, tensor_t *x) TESSERA_API(op_ceil_);
status_t op_round(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_round);
status_t op_round_(context_t *ctx, tensor_t *x) TESSERA_API(op_round_);
status_t op_trunc(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_trunc);
status_t op_trunc_(context_t *ctx, tensor_t *x) TESSERA_API(op_trunc_);
status_t op_sign(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_sign);
status_t op_sign_(context_t *ctx, tensor_t *x) TESSERA_API(op_sign_);

/* logical_not, isnan and isinf return bool: true where x is 0, NaN or infinite. bitwise_not takes
 * integers and bool, and keeps the dtype. */
status_t op_logical_not(context_t *ctx, const tensor_t *x, tensor_t **out)
    TESSERA_API(op_logical_not);
status_t op_logical_not_(context_t *ctx, tensor_t *x) TESSERA_API(op_logical_not_);
status_t op_isnan(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_isnan);
status_t op_isnan_(context_t *ctx, tensor_t *x) TESSERA_API(op_isnan_);
status_t op_isinf(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_isinf);
status_t op_isinf_(context_t *ctx, tensor_t *x) TESSERA_API(op_isinf_);
status_t op_bitwise_not(context_t *ctx, const tensor_t *x, tensor_t **out)
    TESSERA_API(op_bitwise_not);
status_t op_bitwise_not_(context_t *ctx, tensor_t *x) TESSERA_API(op_bitwise_not_);

/* Trigonometric functions in radians. For integers, the result is f32. */
status_t op_sin(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_sin);
status_t op_sin_(context_t *ctx, tensor_t *x) TESSERA_API(op_sin_);
status_t op_cos(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_cos);
status_t op_cos_(context_t *ctx, tensor_t *x) TESSERA_API(op_cos_);
status_t op_tan(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_tan);
status_t op_tan_(context_t *ctx, tensor_t *x) TESSERA_API(op_tan_);
status_t op_asin(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_asin);
status_t op_asin_(context_t *ctx, tensor_t *x) TESSERA_API(op_asin_);
status_t op_acos(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_acos);
status_t op_acos_(context_t *ctx, tensor_t *x) TESSERA_API(op_acos_);
status_t op_atan(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_atan);
status_t op_atan_(context_t *ctx, tensor_t *x) TESSERA_API(op_atan_);
status_t op_sinh(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_sinh);
status_t op_sinh_(context_t *ctx, tensor_t *x) TESSERA_API(op_sinh_);
status_t op_cosh(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_cosh);
status_t op_cosh_(context_t *ctx, tensor_t *x) TESSERA_API(op_cosh_);
status_t op_asinh(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_asinh);
status_t op_asinh_(context_t *ctx, tensor_t *x) TESSERA_API(op_asinh_);
status_t op_acosh(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_acosh);
status_t op_acosh_(context_t *ctx, tensor_t *x) TESSERA_API(op_acosh_);
status_t op_atanh(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_atanh);
status_t op_atanh_(context_t *ctx, tensor_t *x) TESSERA_API(op_atanh_);

/* ---- functions of several tensors ---- */

/* Operands broadcast and are promoted as in PyTorch. u16, u32 and u64 can be combined only with the
 * same dtype or a floating dtype. Integers wrap around. sub does not take bool. For C numbers, use
 * op_add_scalar and its relatives, or tensor_number and tensor_integer. */
status_t op_add(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_add);
status_t op_sub(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_sub);
status_t op_mul(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_mul);
status_t op_pow(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_pow);
status_t op_maximum(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_maximum);
status_t op_minimum(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_minimum);

/* Arithmetic with a C number, promoted as in PyTorch. With a floating number, integers and bool
 * become f32. With an integer number, bool becomes s64. All other dtypes stay, except that div of
 * integers returns f32. If x is mkldnn, the result is mkldnn. */
status_t op_add_scalar(context_t *ctx, const tensor_t *x, double value, tensor_t **out)
    TESSERA_API(op_add_scalar);
status_t op_sub_scalar(context_t *ctx, const tensor_t *x, double value, tensor_t **out)
    TESSERA_API(op_sub_scalar);
status_t op_mul_scalar(context_t *ctx, const tensor_t *x, double value, tensor_t **out)
    TESSERA_API(op_mul_scalar);
status_t op_div_scalar(context_t *ctx, const tensor_t *x, double value, tensor_t **out)
    TESSERA_API(op_div_scalar);
status_t op_pow_scalar(context_t *ctx, const tensor_t *x, double value, tensor_t **out)
    TESSERA_API(op_pow_scalar);
status_t op_add_integer(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out)
    TESSERA_API(op_add_integer);
status_t op_sub_integer(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out)
    TESSERA_API(op_sub_integer);
status_t op_mul_integer(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out)
    TESSERA_API(op_mul_integer);
status_t op_div_integer(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out)
    TESSERA_API(op_div_integer);
status_t op_pow_integer(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out)
    TESSERA_API(op_pow_integer);

/* Quotients and remainders:
 *
 *   div        a / b; f32 for integers
 *   div_trunc  trunc(a / b), as torch.div with rounding_mode "trunc", C and ONNX
 *   div_floor  floor(a / b), as torch.div with rounding_mode "floor" and Python
 *   fmod       a - b trunc(a / b)
 *   remainder  a - b floor(a / b)
 *
 * INVALID_ARGUMENT  a and b are integers, and b has a 0 (not for div) */
status_t op_div(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_div);
status_t op_div_trunc(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_div_trunc);
status_t op_div_floor(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_div_floor);
status_t op_fmod(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_fmod);
status_t op_remainder(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_remainder);

/* The angle and the length of the vector (b, a). atan2(a, b) is the angle from the vector (1, 0),
 * between -pi and pi. hypot is sqrt(a^2 + b^2), computed so that the squares do not overflow. For
 * integers, the result is f32. */
status_t op_atan2(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_atan2);
status_t op_hypot(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_hypot);

/* Comparisons, which return bool: a == b, a != b, a < b, a <= b, a > b, a >= b. */
status_t op_eq(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_eq);
status_t op_ne(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_ne);
status_t op_lt(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_lt);
status_t op_le(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_le);
status_t op_gt(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_gt);
status_t op_ge(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_ge);

/* Logical functions, which return bool. All numbers except 0 are true. */
status_t op_logical_and(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_logical_and);
status_t op_logical_or(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_logical_or);
status_t op_logical_xor(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_logical_xor);

/* Bitwise functions of integers and bool. A shift by a negative number, or by 64 or more, returns
 * 0; a right shift of a negative a returns -1. */
status_t op_bitwise_and(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_bitwise_and);
status_t op_bitwise_or(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_bitwise_or);
status_t op_bitwise_xor(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_bitwise_xor);
status_t op_bitwise_left_shift(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_bitwise_left_shift);
status_t op_bitwise_right_shift(context_t *ctx, const tensor_t *a, const tensor_t *b,
                                tensor_t **out) TESSERA_API(op_bitwise_right_shift);

/* out = condition ? a : b. condition is bool. All three broadcast; a and b are promoted. */
status_t op_where(context_t *ctx, const tensor_t *condition, const tensor_t *a, const tensor_t *b,
                  tensor_t **out) TESSERA_API(op_where);

/* ---- copies ---- */

status_t op_cast(context_t *ctx, const tensor_t *x, dtype_t dtype, tensor_t **out)
    TESSERA_API(op_cast);
/* Returns a tensor of x's sizes, filled with value. DTYPE_NONE means x's dtype. */
status_t op_full_like(context_t *ctx, const tensor_t *x, double value, dtype_t dtype,
                      tensor_t **out) TESSERA_API(op_full_like);
status_t op_identity(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_identity);
/* Returns src, broadcast to x's sizes and cast to x's dtype. The elements of x are not read. */
status_t op_copy(context_t *ctx, const tensor_t *x, const tensor_t *src, tensor_t **out)
    TESSERA_API(op_copy);

#endif
