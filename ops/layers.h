/* Operators with weights or windows: convolution, linear, normalisation, softmax, pooling, and what
 * the passes fold norms into. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_LAYERS_H
#define TESSERA_OPS_LAYERS_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* ---- convolution and linear ---- */

/* Kernels of 3 by 3 with stride 1 may be computed by winograd's transforms, in tiles of 2 by 2, 4
 * by 4 or 6 by 6 results: up to 3 times faster, rounds otherwise (about once, five and thirty times
 * the rounding of direct sums), and the packed weight is up to 1.8, 4 or 7.1 times larger. Those of
 * 5 by 5 may be, too: where tiles of 4 or 6 are named here, theirs are of 2 or 4, which rounds
 * alike, in 1.4 or 2.6 times the weight's memory. And those of 3 by 3 with stride 2, in tiles of 2
 * or 4: up to 1.7 times faster, in the same memory as with stride 1.
 *
 * CONV_WINOGRAD           in tiles of up to 4 by 4 where that is estimated to take less time; by
 *                         oneDNN's (2.6 on AVX-512) where our own kernel does not take the call
 * CONV_WINOGRAD_UP_TO_*   the same with other tiles, by our own kernel
 * CONV_WINOGRAD_2, _4, _6 by our own kernel in such tiles, wherever it takes the call
 * CONV_WINOGRAD_TRAINING  for weights that change, in tiles of 4 by 4, by our own kernel or by
 *                         oneDNN's. They stay in the blocks of direct convolution, as their
 *                         gradients, and are transformed in each run
 *
 * Kernels of 1 by 1 may be computed by Strassen's algorithm, with 7 products of quarters for 8:
 *
 * CONV_STRASSEN           where that is estimated to take less time
 * CONV_STRASSEN_ONLY      wherever our own kernel takes the call */
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
    int64_t padding[3];       /* before and behind each dimension */
    int64_t extra_padding[3]; /* behind only, on top; may be negative */
    int64_t dilation[3];      /* 0: 1 */
    int64_t groups;           /* 0: 1 */
    int algorithm;            /* conv_algorithm_t */
    post_ops_t post;          /* done to the result; made by the fusion pass */
} conv_attrs_t;

/* 2-D cross-correlation, as torch.nn.functional.conv2d.
 *
 *   out[n][k][p][q] = bias[k] + sum(c,r,s) x[n][c][p*sh+r*dh-ph][q*sw+s*dw-pw] * weight[k][c][r][s]
 *
 * x       [N][C][H][W]     any layout; f32, bf16 (1-D and 3-D: one more or less after C)
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
    post_ops_t post; /* made by the fusion pass */
} conv_transpose_attrs_t;

/* Transposed convolution, as torch.nn.functional.conv_transpose2d. weight [C][K/G][R][S];
 * P = (H - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1. */
status_t op_conv_transpose1d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const conv_transpose_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv_transpose1d);
status_t op_conv_transpose2d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const conv_transpose_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv_transpose2d);
status_t op_conv_transpose3d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                             const tensor_t *bias, const conv_transpose_attrs_t *attrs,
                             tensor_t **out) TESSERA_API(op_conv_transpose3d);

/* Layers of many rows with a constant weight may be computed by Strassen's algorithm, with 7
 * products of quarters for 8: up to 1.1 times faster, and it rounds otherwise.
 *
 * LINEAR_STRASSEN       where that is estimated to take less time
 * LINEAR_STRASSEN_ONLY  wherever our own kernel takes the call */
typedef enum linear_algorithm {
    LINEAR_DIRECT,
    LINEAR_STRASSEN,
    LINEAR_STRASSEN_ONLY
} linear_algorithm_t;

typedef struct linear_attrs {
    bool flatten;    /* x of rank > 2 is taken as [N][C H W]; made by the fusion pass */
    int algorithm;   /* linear_algorithm_t */
    post_ops_t post; /* made by the fusion pass */
} linear_attrs_t;

/* out[..][k] = bias[k] + sum(c) x[..][c] * weight[k][c]; x of rank >= 1. */
status_t op_linear(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   tensor_t **out) TESSERA_API(op_linear);

/* As torch.matmul: ranks 1 and up, batch dimensions broadcast. */
status_t op_matmul(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_matmul);

/* As torch.einsum: "bij,bjk->bik", "ii->i", "...ij->...ji"; blanks do not count. It calls reshape,
 * permute, sum, mul and matmul; n is 1 to 16. */
status_t op_einsum(context_t *ctx, const char *equation, int n, const tensor_t *const *tensors,
                   tensor_t **out) TESSERA_API(op_einsum);

/* ---- normalisation ---- */

/* (x - mean[c]) / sqrt(var[c] + epsilon) * weight[c] + bias[c] over channels (dimension 1).
 * weight and bias may be NULL: 1 and 0. Rank 2 to 5. */
status_t op_batch_norm(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                       const tensor_t *bias, const tensor_t *running_mean,
                       const tensor_t *running_var, double epsilon, tensor_t **out)
    TESSERA_API(op_batch_norm);

/* The same with mean and variance of x itself, over all but channels, which are given, too; the
 * variance is that of n elements, sum((x - mean)^2) / n. f64 gives f64 statistics, all else f32.
 * INVALID_ARGUMENT: x has one element per channel, or none. */
status_t op_batch_norm_training(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                                const tensor_t *bias, double epsilon, tensor_t **out,
                                tensor_t **out_mean, tensor_t **out_variance)
    TESSERA_API(op_batch_norm_training);

/* conv2d(activation(batch_norm(x))), as dense networks have it: what the pass fuse_norm_conv makes
 * of these where the norm need not be written to memory. f32; attributes NULL: those of conv2d,
 * epsilon 1e-5, no activation. */
typedef enum batch_norm_activation {
    BATCH_NORM_NONE,
    BATCH_NORM_RELU,
    BATCH_NORM_RELU6
} batch_norm_activation_t;

typedef struct batch_norm_conv_attrs {
    conv_attrs_t conv; /* padding is of zeros that no norm sees */
    double epsilon;    /* 0 is 0 */
    int activation;    /* batch_norm_activation_t */
} batch_norm_conv_attrs_t;

status_t op_batch_norm_conv2d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                              const tensor_t *bias, const tensor_t *norm_weight,
                              const tensor_t *norm_bias, const tensor_t *running_mean,
                              const tensor_t *running_var, const batch_norm_conv_attrs_t *attrs,
                              tensor_t **out) TESSERA_API(op_batch_norm_conv2d);

/* Over the last n_dims dimensions; weight and bias [those sizes] or NULL. */
status_t op_layer_norm(context_t *ctx, const tensor_t *x, int n_dims, const tensor_t *weight,
                       const tensor_t *bias, double epsilon, tensor_t **out)
    TESSERA_API(op_layer_norm);

/* x / sqrt(mean of x^2 + epsilon) * weight, over the last n_dims dimensions. PyTorch's own epsilon
 * is that of the dtype: FLT_EPSILON. */
status_t op_rms_norm(context_t *ctx, const tensor_t *x, int n_dims, const tensor_t *weight,
                     double epsilon, tensor_t **out) TESSERA_API(op_rms_norm);

/* x [N][C][..]: the C / num_groups channels of a group, with all behind them, to mean 0 and
 * variance 1; then weight [C] and bias [C], which may be NULL. instance_norm: each channel is a
 * group, as PyTorch's with use_input_stats. */
status_t op_group_norm(context_t *ctx, const tensor_t *x, int64_t num_groups,
                       const tensor_t *weight, const tensor_t *bias, double epsilon, tensor_t **out)
    TESSERA_API(op_group_norm);
status_t op_instance_norm(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                          const tensor_t *bias, double epsilon, tensor_t **out)
    TESSERA_API(op_instance_norm);

/* x / (k + alpha / size * sum of squares over `size` neighbouring channels)^beta. */
status_t op_lrn(context_t *ctx, const tensor_t *x, int64_t size, double alpha, double beta,
                double k, tensor_t **out) TESSERA_API(op_lrn);

status_t op_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_softmax);
status_t op_log_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_log_softmax);

/* Inference: gives x. */
status_t op_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_dropout);
status_t op_feature_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_feature_dropout);
/* In training: elements are 0 with probability p, the others are multiplied by 1 / (1 - p).
 * leading_dims 0: each element by itself; 1, 2: all elements alike that share an index of the first
 * one or two dimensions, as channels of images. Which ones follows from a seed, that every run
 * draws from the context's generator (context_seed), a run of a plan as well; the layout and the
 * number of threads change nothing. */
status_t op_dropout_train(context_t *ctx, const tensor_t *x, double p, int64_t leading_dims,
                          tensor_t **out) TESSERA_API(op_dropout_train);

/* ---- folding: what the passes make of a norm or a scale behind a conv or linear ---- */

typedef struct fold_attrs {
    double epsilon;  /* 0 is 0; with attrs NULL 1e-5 */
    int64_t groups;  /* 0: 1; of a transposed conv */
    bool transposed; /* weight [C][K/G][..], as that of conv_transpose; else [K][..] */
} fold_attrs_t;

/* Weight and bias of a conv or linear with a norm behind it, factor = scale / sqrt(variance + eps):
 *
 *   fold_weight[k][c]... = weight[k][c]... * factor[k]
 *   fold_bias[k]         = (bias[k] - mean[k]) * factor[k] + shift[k]
 *
 * weight    floating, of rank 2 to 5, any layout; fold_bias looks at its dtype and sizes only
 * others    one element, or K of them along one dimension, of any dtype, or NULL: scale 1, no
 *           division, bias, shift and mean 0
 * out       dense: of the weight's dtype and sizes; [K] of the bias's dtype, else the weight's */
status_t op_fold_weight(context_t *ctx, const tensor_t *weight, const tensor_t *scale,
                        const tensor_t *variance, const fold_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_fold_weight);
status_t op_fold_bias(context_t *ctx, const tensor_t *weight, const tensor_t *bias,
                      const tensor_t *scale, const tensor_t *shift, const tensor_t *mean,
                      const tensor_t *variance, const fold_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_fold_bias);

/* ---- pooling: a NaN under a window makes its maximum NaN ---- */

typedef struct pool_attrs {
    int64_t kernel[3];
    int64_t stride[3]; /* 0: kernel */
    int64_t padding[3];
    int64_t extra_padding[3]; /* behind only, on top */
    int64_t dilation[3];      /* 0: 1; PyTorch's average pooling has none */
    bool ceil_mode;
    bool count_include_pad; /* average pooling; PyTorch's own default is true */
} pool_attrs_t;

status_t op_max_pool1d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool1d);
status_t op_max_pool2d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool2d);
status_t op_max_pool3d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool3d);

/* The same, and where in its plane each maximum is: s64, of 3 rows of 5 the last element is 14. Of
 * equal ones it is the first, of NaN the last; -1 where nothing lies under a window. All are
 * dense. */
status_t op_max_pool1d_with_indices(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,
                                    tensor_t **out_values, tensor_t **out_indices)
    TESSERA_API(op_max_pool1d_with_indices);
status_t op_max_pool2d_with_indices(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,
                                    tensor_t **out_values, tensor_t **out_indices)
    TESSERA_API(op_max_pool2d_with_indices);
status_t op_max_pool3d_with_indices(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,
                                    tensor_t **out_values, tensor_t **out_indices)
    TESSERA_API(op_max_pool3d_with_indices);

status_t op_avg_pool1d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_avg_pool1d);
status_t op_avg_pool2d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_avg_pool2d);
status_t op_avg_pool3d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_avg_pool3d);

/* output_size: one number for each dimension after the channels. Global pooling: all 1. */
status_t op_adaptive_avg_pool(context_t *ctx, const tensor_t *x, int n, const int64_t *output_size,
                              tensor_t **out) TESSERA_API(op_adaptive_avg_pool);
status_t op_adaptive_max_pool(context_t *ctx, const tensor_t *x, int n, const int64_t *output_size,
                              tensor_t **out) TESSERA_API(op_adaptive_max_pool);

/* The same, and s64 indices of the maxima in their channel's plane, as torch.nn.functional's
 * adaptive_max_pool1d to 3d with return_indices. */
status_t op_adaptive_max_pool_with_indices(context_t *ctx, const tensor_t *x, int n,
                                           const int64_t *output_size, tensor_t **out_values,
                                           tensor_t **out_indices)
    TESSERA_API(op_adaptive_max_pool_with_indices);

TESSERA_END

#endif
