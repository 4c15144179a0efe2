/* Operators on integers that represent real numbers: number = scale * (integer - zero). The rules
 * for all operators are in ops.h.
 *
 * Sums of products are exact modulo 2^32: they have 32 bits and wrap around. Numbers are converted
 * to integers in f32: rounded half to even, then saturated. Results equal those of ONNX Runtime. A
 * NULL zero point counts as 0. */
#ifndef TESSERA_OPS_QUANTIZED_QUANTIZED_H
#define TESSERA_OPS_QUANTIZED_QUANTIZED_H

#include "ops/conv/conv.h"
#include "ops/recurrent/recurrent.h"

/* ---- numbers to integers and back ----
 *
 * A scale or zero point has one of these shapes: [] or [1], one for the tensor; [C], one for each
 * of the C indices along dim; or, with block_size B > 0, the sizes of x with ceil(C / B) instead of
 * C, one for each block of B indices along dim. */

/* ONNX QuantizeLinear:
 *
 *   out[i] = saturate(round(x[i] / scale) + zero)
 *
 * x       f32, bf16, f16 or s32; NaN becomes the smallest integer
 * scale   f32, bf16 or f16
 * zero    NULL, or of the result's dtype, or s32
 * dtype   of the result: s8, u8, s16 or u16; DTYPE_NONE: zero's dtype, or u8 if zero is NULL */
status_t op_quantize(context_t *ctx, const tensor_t *x, const tensor_t *scale, const tensor_t *zero,
                     int64_t dim, int64_t block_size, dtype_t dtype, tensor_t **out)
    TESSERA_API(op_quantize);

/* ONNX DequantizeLinear:
 *
 *   out[i] = (x[i] - zero) * scale
 *
 * x       s8, u8, s16, u16 or s32
 * zero    NULL, or of x's dtype, or s32
 * out     of the scale's dtype: f32, bf16 or f16 */
status_t op_dequantize(context_t *ctx, const tensor_t *x, const tensor_t *scale,
                       const tensor_t *zero, int64_t dim, int64_t block_size, tensor_t **out)
    TESSERA_API(op_dequantize);

/* Rescales sums of products to integers of fewer bits:
 *
 *   out[i] = saturate(round((x[i] + bias) * multiplier) + zero)    bias of s32
 *   out[i] = saturate(round(x[i] * multiplier + bias) + zero)      bias of f32
 *
 * x           s32
 * multiplier  f32 [], [1] or [C]: the scale of x divided by the scale of the result
 * bias        NULL; or s32 [1] or [C], in units of x; or f32, in units of the result
 * zero        [] or [1] of the result's dtype, or s32, or NULL
 * relu        raises results below `zero`, which represents the number 0, to `zero`
 * dtype       as in op_quantize */
status_t op_requantize(context_t *ctx, const tensor_t *x, const tensor_t *multiplier,
                       const tensor_t *bias, const tensor_t *zero, int64_t dim, bool relu,
                       dtype_t dtype, tensor_t **out) TESSERA_API(op_requantize);

/* ONNX DynamicQuantizeLinear: quantizes to u8. min and max are over all elements and 0:
 *
 *   scale = (max - min) / 255, or 1 if that is 0
 *   zero  = saturate(round(-min / scale))
 *
 * x             f32
 * out_integers  u8, of x's sizes
 * out_scale     f32 []
 * out_zero      u8 [] */
status_t op_dynamic_quantize(context_t *ctx, const tensor_t *x, tensor_t **out_integers,
                             tensor_t **out_scale, tensor_t **out_zero)
    TESSERA_API(op_dynamic_quantize);

/* ---- sums of products ---- */

/* 2-D cross-correlation of integers, as ONNX ConvInteger:
 *
 *   out[n][k][p][q] = sum(c,r,s) (x[n][c][p*sh+r*dh-ph][q*sw+s*dw-pw] - x_zero)
 *                                * (weight[k][c][r][s] - weight_zero[k])
 *
 * x            [N][C][H][W]     s8 or u8; padding is x_zero
 * weight       [K][C/G][R][S]   s8 or u8; s8 without weight_zero is fastest, and packed by
 *                               module_mkldnn
 * x_zero       [] or [1] of x's dtype, or NULL
 * weight_zero  [], [1] or [K] of the weight's dtype, or NULL
 * attrs        as in op_conv2d, without post-ops and algorithm
 * out          [N][K][P][Q]     s32, channels last */
status_t op_conv1d_integer(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                           const tensor_t *x_zero, const tensor_t *weight_zero,
                           const conv_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_conv1d_integer);
status_t op_conv2d_integer(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                           const tensor_t *x_zero, const tensor_t *weight_zero,
                           const conv_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_conv2d_integer);
status_t op_conv3d_integer(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                           const tensor_t *x_zero, const tensor_t *weight_zero,
                           const conv_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_conv3d_integer);

typedef struct conv_quantized_attrs {
    conv_attrs_t conv;   /* as in op_conv2d_integer */
    dtype_t dtype;       /* dtype of the result: u8, s8 or f32; DTYPE_NONE: u8 */
    bool relu;           /* results below zero become zero */
    double addend_scale; /* 0 means 1 */
} conv_quantized_attrs_t;

/* 2-D cross-correlation of integers, with the sums rescaled in the same pass:
 *
 *   sum[n][k][p][q] = sum(c,r,s) x[n][c][p*sh+r*dh-ph][q*sw+s*dw-pw] * weight[k][c][r][s]
 *   out[n][k][p][q] = (sum + bias[k]) * multiplier[k] + addend_scale * addend[n][k][p][q]
 *
 * then relu. Integer results are rounded half to even and saturated. `out` is computed in f32, so a
 * number close to the middle of two integers may be rounded to either.
 *
 * x            [N][C][H][W]     u8; padding is 0
 * weight       [K][C/G][R][S]   s8; module_mkldnn packs it
 * bias         f32 [K] or NULL  in units of the sums
 * multiplier   f32 [K]          the scale of the sums divided by the scale of the result
 * addend       [N][K][P][Q]     of the result's dtype, or NULL
 * out          [N][K][P][Q]     channels last */
status_t op_conv1d_quantized(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const tensor_t *multiplier,
                             const tensor_t *addend, const conv_quantized_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv1d_quantized);
status_t op_conv2d_quantized(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const tensor_t *multiplier,
                             const tensor_t *addend, const conv_quantized_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv2d_quantized);
status_t op_conv3d_quantized(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const tensor_t *multiplier,
                             const tensor_t *addend, const conv_quantized_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv3d_quantized);

/* Products of integer matrices, as ONNX MatMulInteger, with the batch dimensions and ranks of
 * op_matmul:
 *
 *   out[m][n] = sum(k) (a[m][k] - a_zero[m]) * (b[k][n] - b_zero[n])
 *
 * a, b     s8 or u8; fastest if b is a single s8 matrix; module_mkldnn packs it then
 * a_zero   [], [1] or [M] of a's dtype, or NULL
 * b_zero   [], [1] or [N] of b's dtype, or NULL
 * out      s32 */
status_t op_matmul_integer(context_t *ctx, const tensor_t *a, const tensor_t *b,
                           const tensor_t *a_zero, const tensor_t *b_zero, tensor_t **out)
    TESSERA_API(op_matmul_integer);

/* ---- recurrent layers ---- */

/* recurrent_weights_t with integer weights. Scales and zero points are [] or [1], one for a weight,
 * or [4 H], one for each of its rows. */
typedef struct lstm_quantized_weights {
    const tensor_t *weight_ih;           /* s8 or u8 [4 H][C] */
    const tensor_t *weight_hh;           /* s8 or u8 [4 H][H] */
    const tensor_t *bias_ih, *bias_hh;   /* f32 [4 H], or NULL */
    const tensor_t *scale_ih, *scale_hh; /* f32 */
    const tensor_t *zero_ih, *zero_hh;   /* dtype of the weight, or NULL */
} lstm_quantized_weights_t;

/* op_lstm with f32 x and the weights scale * (integer - zero). For the products, each row of x and
 * of the state is scaled to its largest absolute value and rounded to integers of up to 15 bits. If
 * a weight has more than 256 columns, the integers are smaller: at most 2^31 / 256 / columns. A row
 * with a number that is not finite results in NaN.
 *
 * attrs  reverse and batch_first
 *
 * UNSUPPORTED  any other attribute, by name */
status_t op_lstm_quantized(context_t *ctx, const tensor_t *x, const tensor_t *h0,
                           const tensor_t *c0, const tensor_t *lengths,
                           const lstm_quantized_weights_t *weights, const recurrent_attrs_t *attrs,
                           tensor_t **out_y, tensor_t **out_h, tensor_t **out_c)
    TESSERA_API(op_lstm_quantized);

#endif
