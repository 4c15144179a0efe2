/* Operators on integers that stand for numbers: number = scale * (integer - zero). The rules for
 * all operators are in ops.h.
 *
 * Integers are exact: sums of products are 32 bits and wrap around; where a number becomes an
 * integer it is computed in f32, rounded half to even, and saturated. Results are those of ONNX
 * Runtime. A zero that is NULL is 0. */
#ifndef TESSERA_OPS_QUANTIZED_QUANTIZED_H
#define TESSERA_OPS_QUANTIZED_QUANTIZED_H

#include "ops/conv/conv.h"

TESSERA_BEGIN

/* ---- numbers to integers and back ----
 *
 * Scales and zeros are [] or [1] for the whole tensor; [C] for each index along dim; or, with a
 * block_size B above 0, of x's sizes but [ceil(C / B)] along dim: one for B indices. */

/* ONNX QuantizeLinear:
 *
 *   out[i] = saturate(round(x[i] / scale) + zero)
 *
 * x       f32, bf16, f16 or s32; NaN gives the smallest integer
 * scale   f32, bf16 or f16
 * zero    NULL, or of the result's dtype, or s32
 * dtype   of the result: s8, u8, s16 or u16; DTYPE_NONE: the zero's, u8 without one */
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

/* Sums of products to integers of fewer bits:
 *
 *   out[i] = saturate(round((x[i] + bias) * multiplier) + zero)    bias of s32
 *   out[i] = saturate(round(x[i] * multiplier + bias) + zero)      bias of f32
 *
 * x           s32
 * multiplier  f32 [], [1] or [C]: scale of x by scale of the result
 * bias        s32 [1] or [C]: of x's scale; or f32: by scale of the result; or NULL
 * zero        [] or [1] of the result's dtype, or s32, or NULL
 * relu        results below zero become zero, which stands for the number 0
 * dtype       as of op_quantize */
status_t op_requantize(context_t *ctx, const tensor_t *x, const tensor_t *multiplier,
                       const tensor_t *bias, const tensor_t *zero, int64_t dim, bool relu,
                       dtype_t dtype, tensor_t **out) TESSERA_API(op_requantize);

/* ONNX DynamicQuantizeLinear: u8 by the range that the elements, and 0, have:
 *
 *   scale = (max - min) / 255, 1 where that is 0
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
 * weight       [K][C/G][R][S]   s8 or u8; s8 without zeros is fastest, and packed by module_mkldnn
 * x_zero       [] or [1] of x's dtype, or NULL
 * weight_zero  [], [1] or [K] of the weight's dtype, or NULL
 * attrs        as of op_conv2d, without post-ops and algorithm
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
    conv_attrs_t conv;   /* as of op_conv2d_integer */
    dtype_t dtype;       /* of the result: u8, s8 or f32; DTYPE_NONE: u8 */
    bool relu;           /* results below zero become zero */
    double addend_scale; /* 0: 1 */
} conv_quantized_attrs_t;

/* 2-D cross-correlation of integers whose sums become numbers of another scale at once:
 *
 *   sum[n][k][p][q] = sum(c,r,s) x[n][c][p*sh+r*dh-ph][q*sw+s*dw-pw] * weight[k][c][r][s]
 *   out[n][k][p][q] = (sum + bias[k]) * multiplier[k] + addend_scale * addend[n][k][p][q]
 *
 * then relu; where the result is integers it is rounded half to even, and saturated. All of it is
 * computed in f32, so that a result may be the other of its two integers where the number lies
 * within a few last places of the middle.
 *
 * x            [N][C][H][W]     u8; padding is 0
 * weight       [K][C/G][R][S]   s8, packed by module_mkldnn
 * bias         f32 [K] or NULL  in units of the sums
 * multiplier   f32 [K]          scale of the sums by scale of the result
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

/* Products of matrices of integers, as ONNX MatMulInteger; batch dimensions and ranks as of
 * op_matmul:
 *
 *   out[m][n] = sum(k) (a[m][k] - a_zero[m]) * (b[k][n] - b_zero[n])
 *
 * a, b     s8 or u8; one matrix b of s8 is fastest, and packed by module_mkldnn
 * a_zero   [], [1] or [M] of a's dtype, or NULL
 * b_zero   [], [1] or [N] of b's dtype, or NULL
 * out      s32 */
status_t op_matmul_integer(context_t *ctx, const tensor_t *a, const tensor_t *b,
                           const tensor_t *a_zero, const tensor_t *b_zero, tensor_t **out)
    TESSERA_API(op_matmul_integer);

TESSERA_END

#endif
