/* Convolutions, transposed convolutions, and convolutions fused with the norm before them; and
 * folding the norm after a convolution into its weights. The rules for all operators are in
 * ops.h. */
#ifndef TESSERA_OPS_CONV_CONV_H
#define TESSERA_OPS_CONV_CONV_H

#include "dispatch/dispatch.h"

/* 3x3 convolutions with stride 1 can use Winograd's transforms, in tiles of 2x2, 4x4 or 6x6
 * results. Larger tiles are faster (up to 3 times). But they round more than direct sums (with 64
 * channels about 1, 5 and 30 times as much, with 512 about 3, 12 and 80 times), and need a larger
 * packed weight (up to 1.8, 4 and 7.1 times). Two other kinds of convolutions can use Winograd's
 * transforms, too:
 *
 * 5x5, stride 1  tiles of 2x2 and 4x4, which the names below call 4 and 6, because they round as
 *                much; 1.4 and 2.6 times the weight's memory
 * 3x3, stride 2  tiles of 2x2 and 4x4; up to 1.7 times faster, same memory as with stride 1
 *
 * CONV_WINOGRAD           tiles up to 4x4, if the estimated time is lower. Calls that our own
 *                         kernel does not support use oneDNN's (oneDNN 2.6, on AVX-512)
 * CONV_WINOGRAD_UP_TO_*   like CONV_WINOGRAD with another largest tile; only our own kernel
 * CONV_WINOGRAD_2, _4, _6 the tile of this name, for all calls that our own kernel supports
 * CONV_WINOGRAD_TRAINING  for weights that change: tiles of 4x4, in our own kernel or oneDNN's.
 *                         Weights and their gradients keep the blocks of direct convolution; each
 *                         run transforms them
 *
 * 1x1 convolutions can use Strassen's algorithm, which divides matrices into quarters and computes
 * 7 products of these instead of 8:
 *
 * CONV_STRASSEN           if the estimated time is lower
 * CONV_STRASSEN_ONLY      for all calls that our own kernel supports */
typedef enum conv_algorithm {
    CONV_DIRECT,
    CONV_WINOGRAD,
    CONV_WINOGRAD_TRAINING,
    CONV_WINOGRAD_UP_TO_2,
    CONV_WINOGRAD_UP_TO_6,
    CONV_WINOGRAD_2,
    CONV_WINOGRAD_4,
    CONV_WINOGRAD_6,
    CONV_STRASSEN,
    CONV_STRASSEN_ONLY
} conv_algorithm_t;

typedef struct conv_attrs {
    int64_t stride[3];        /* 0: 1 */
    int64_t padding[3];       /* zeros before and after, in each dimension */
    int64_t extra_padding[3]; /* more zeros after; may be negative */
    int64_t dilation[3];      /* 0: 1 */
    int64_t groups;           /* 0: 1 */
    int algorithm;            /* conv_algorithm_t */
    post_ops_t post;          /* applied to the result; set by the fusion pass */
} conv_attrs_t;

/* 2-D cross-correlation, like torch.nn.functional.conv2d.
 *
 *   out[n][k][p][q] = bias[k] + sum(c,r,s) x[n][c][p*sh+r*dh-ph][q*sw+s*dw-pw] * weight[k][c][r][s]
 *
 * x       [N][C][H][W]     any layout; floating; fast if f32 or bf16 (1-D: no H; 3-D: D before H)
 * weight  [K][C/G][R][S]   dense, or packed by module_mkldnn
 * bias    [K] or NULL      dense
 * out     [N][K][P][Q]     P = (H + 2 padding + extra - dilation (R - 1) - 1) / stride + 1 */
status_t op_conv1d(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   const conv_attrs_t *attrs, tensor_t **out) TESSERA_API(op_conv1d);
status_t op_conv2d(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   const conv_attrs_t *attrs, tensor_t **out) TESSERA_API(op_conv2d);
status_t op_conv3d(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   const conv_attrs_t *attrs, tensor_t **out) TESSERA_API(op_conv3d);

typedef struct conv_transpose_attrs {
    int64_t stride[3];
    int64_t padding[3];
    int64_t output_padding[3];
    int64_t dilation[3];
    int64_t groups;
    post_ops_t post; /* set by the fusion pass */
} conv_transpose_attrs_t;

/* Transposed convolution, like torch.nn.functional.conv_transpose2d. weight is [C][K/G][R][S]; P =
 * (H - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1. */
status_t op_conv_transpose1d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const conv_transpose_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv_transpose1d);
status_t op_conv_transpose2d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const conv_transpose_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv_transpose2d);
status_t op_conv_transpose3d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const conv_transpose_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv_transpose3d);

/* conv2d(activation(batch_norm(x))), as in DenseNet, for f32. The pass fuse_norm_conv emits this
 * operator; it never writes the normalized x to memory. If attrs is NULL: the defaults of conv2d,
 * epsilon 1e-5, no activation. */
typedef enum batch_norm_activation {
    BATCH_NORM_NONE,
    BATCH_NORM_RELU,
    BATCH_NORM_RELU6
} batch_norm_activation_t;

typedef struct batch_norm_conv_attrs {
    conv_attrs_t conv; /* its padding is 0 after the norm, not before */
    double epsilon;    /* 0 means 0, not the default */
    int activation;    /* batch_norm_activation_t */
} batch_norm_conv_attrs_t;

status_t op_batch_norm_conv2d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                              const tensor_t *bias, const tensor_t *norm_weight,
                              const tensor_t *norm_bias, const tensor_t *running_mean,
                              const tensor_t *running_var, const batch_norm_conv_attrs_t *attrs,
                              tensor_t **out) TESSERA_API(op_batch_norm_conv2d);

/* ---- folding: multiplies a norm or scale into the weight and bias of the layer before it ---- */

typedef struct fold_attrs {
    double epsilon;  /* 0 means 0; 1e-5 if attrs is NULL */
    int64_t groups;  /* 0: 1; only for transposed convolutions */
    bool transposed; /* weight is [C][K/G][..], as in conv_transpose; else [K][..] */
} fold_attrs_t;

/* Weight and bias of a convolution or linear layer that replaces one of these and the norm after
 * it. With factor = scale / sqrt(variance + epsilon):
 *
 *   fold_weight[k][c]... = weight[k][c]... * factor[k]
 *   fold_bias[k]         = (bias[k] - mean[k]) * factor[k] + shift[k]
 *
 * weight    floating, rank 2 to 5, any layout; fold_bias reads only its dtype and sizes
 * others    one element, or K elements along one dimension, any dtype. NULL: scale 1, no division
 *           by sqrt(..), and bias, shift and mean 0
 * out       dense: the weight's dtype and sizes; [K] in the bias's dtype, else the weight's */
status_t op_fold_weight(context_t *ctx, const tensor_t *weight, const tensor_t *scale,
                        const tensor_t *variance, const fold_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_fold_weight);
status_t op_fold_bias(context_t *ctx, const tensor_t *weight, const tensor_t *bias,
                      const tensor_t *scale, const tensor_t *shift, const tensor_t *mean,
                      const tensor_t *variance, const fold_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_fold_bias);

#endif
