/* The operators, called on tensors of any layout.
 *
 * Semantics and names are PyTorch's unless a note says otherwise. Inputs are borrowed; the caller
 * releases what it is given, or its scope does. attrs NULL means all defaults, and so does a zero
 * where zero is no legal value. The layout of a result is the chosen kernel's: operators that
 * prefer mkldnn (conv, linear) give mkldnn, followers keep what their activations are, the others
 * are dense. Every function gives INVALID_ARGUMENT when shapes or attributes disagree, UNSUPPORTED
 * when there is no kernel for a dtype, OUT_OF_MEMORY.
 *
 * Dimensions: N batch, C input channels, K output channels, H W input, P Q output, R S kernel,
 * G groups. */
#ifndef TESSERA_OPS_OPS_H
#define TESSERA_OPS_OPS_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* ---- convolution and linear ---- */

/* CONV_WINOGRAD: by winograd's transforms where oneDNN has them (2.6 on AVX-512, kernel 3, stride
 * 1): up to 2.5 times faster, rounds otherwise, and the packed weight is up to four times larger.
 */
typedef enum conv_algorithm { CONV_DIRECT, CONV_WINOGRAD } conv_algorithm_t;

typedef struct conv_attrs {
    int64_t stride[3];        /* 0: 1 */
    int64_t padding[3];       /* before and behind each dimension */
    int64_t extra_padding[3]; /* behind only, on top; may be negative */
    int64_t dilation[3];      /* 0: 1 */
    int64_t groups;           /* 0: 1 */
    post_ops_t post;          /* done to the result; made by the fusion pass */
    int algorithm;            /* conv_algorithm_t */
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

typedef struct linear_attrs {
    bool flatten;    /* x of rank > 2 is taken as [N][C H W]; made by the fusion pass */
    post_ops_t post; /* made by the fusion pass */
} linear_attrs_t;

/* out[..][k] = bias[k] + sum(c) x[..][c] * weight[k][c]; x of rank >= 1. */
status_t op_linear(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   tensor_t **out) TESSERA_API(op_linear);

/* As torch.matmul: ranks 1 and up, batch dimensions broadcast. */
status_t op_matmul(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_matmul);

/* ---- normalisation, inference ---- */

/* (x - mean[c]) / sqrt(var[c] + epsilon) * weight[c] + bias[c] over channels (dimension 1).
 * weight and bias may be NULL: 1 and 0. Rank 2 to 5. */
status_t op_batch_norm(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                       const tensor_t *bias, const tensor_t *running_mean,
                       const tensor_t *running_var, double epsilon, tensor_t **out)
    TESSERA_API(op_batch_norm);

/* Over the last n_dims dimensions; weight and bias [those sizes] or NULL. */
status_t op_layer_norm(context_t *ctx, const tensor_t *x, int n_dims, const tensor_t *weight,
                       const tensor_t *bias, double epsilon, tensor_t **out)
    TESSERA_API(op_layer_norm);

/* x / (k + alpha / size * sum of squares over `size` neighbouring channels)^beta. */
status_t op_lrn(context_t *ctx, const tensor_t *x, int64_t size, double alpha, double beta,
                double k, tensor_t **out) TESSERA_API(op_lrn);

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

/* ---- pooling: of f32 and bf16 a maximum may miss NaN, and of -inf only be -FLT_MAX ---- */

typedef struct pool_attrs {
    int64_t kernel[3];
    int64_t stride[3]; /* 0: kernel */
    int64_t padding[3];
    int64_t extra_padding[3]; /* behind only, on top */
    int64_t dilation[3];      /* 0: 1; max pooling only */
    bool ceil_mode;
    bool count_include_pad; /* average pooling; PyTorch's own default is true */
} pool_attrs_t;

status_t op_max_pool1d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool1d);
status_t op_max_pool2d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool2d);
status_t op_max_pool3d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool3d);
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

/* ---- elementwise: NaN stays NaN; only relu, clamp, maximum, minimum fused may give a bound ----
 */

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

status_t op_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_softmax);
status_t op_log_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_log_softmax);
status_t op_cast(context_t *ctx, const tensor_t *x, dtype_t dtype, tensor_t **out)
    TESSERA_API(op_cast);
status_t op_identity(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_identity);
/* Inference: gives x. */
status_t op_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_dropout);
status_t op_feature_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_feature_dropout);

/* ---- reductions: n 0 means all dimensions; integers are summed as s64, and have no mean ---- */

status_t op_mean(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_mean);
status_t op_sum(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out) TESSERA_API(op_sum);
status_t op_cumsum(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_cumsum);

/* ---- shape: views of dense tensors where strides allow it ---- */

status_t op_reshape(context_t *ctx, const tensor_t *x, int rank, const int64_t *sizes,
                    tensor_t **out) TESSERA_API(op_reshape);
status_t op_flatten(context_t *ctx, const tensor_t *x, int64_t start_dim, int64_t end_dim,
                    tensor_t **out) TESSERA_API(op_flatten);
status_t op_transpose(context_t *ctx, const tensor_t *x, int64_t dim0, int64_t dim1, tensor_t **out)
    TESSERA_API(op_transpose);
status_t op_permute(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
    TESSERA_API(op_permute);
status_t op_squeeze(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
    TESSERA_API(op_squeeze);
status_t op_unsqueeze(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
    TESSERA_API(op_unsqueeze);
status_t op_expand(context_t *ctx, const tensor_t *x, int rank, const int64_t *sizes,
                   tensor_t **out) TESSERA_API(op_expand);
/* One dimension, elements start, start + step, ... below end; negative ones count from the end. */
status_t op_slice(context_t *ctx, const tensor_t *x, int64_t dim, int64_t start, int64_t end,
                  int64_t step, tensor_t **out) TESSERA_API(op_slice);
/* Pieces of the given sizes along dim; out has room for n. */
status_t op_split(context_t *ctx, const tensor_t *x, int64_t dim, int n, const int64_t *sizes,
                  tensor_t **out) TESSERA_API(op_split);
status_t op_concat(context_t *ctx, int n, const tensor_t *const *tensors, int64_t dim,
                   tensor_t **out) TESSERA_API(op_concat);

/* Elements of x at `index` along dim, as numpy.take: the index's shape replaces the dimension. */
status_t op_gather(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                   tensor_t **out) TESSERA_API(op_gather);

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE } pad_mode_t;
/* before and after: one number for each of x's rank dimensions; negative ones crop. */
status_t op_pad(context_t *ctx, const tensor_t *x, const int64_t *before, const int64_t *after,
                pad_mode_t mode, double value, tensor_t **out) TESSERA_API(op_pad);

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR } resize_mode_t;
/* Where output pixel i samples the input. */
typedef enum resize_coordinates {
    RESIZE_ASYMMETRIC,   /* i * in / out */
    RESIZE_HALF_PIXEL,   /* (i + 0.5) * in / out - 0.5 */
    RESIZE_ALIGN_CORNERS /* i * (in - 1) / (out - 1) */
} resize_coordinates_t;
/* Dimensions after the channels to `sizes`; nearest rounds the sampled place down. */
status_t op_resize(context_t *ctx, const tensor_t *x, int n, const int64_t *sizes,
                   resize_mode_t mode, resize_coordinates_t coordinates, tensor_t **out)
    TESSERA_API(op_resize);

/* ---- the transitions as operators of graphs; imperative code calls to_mkldnn and to_dense ---- */

/* Attributes of the operator `reorder`: ATTR_FORMAT. */
typedef struct reorder_attrs {
    format_t format;
} reorder_attrs_t;

status_t op_to_mkldnn(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_to_mkldnn);
status_t op_to_dense(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_to_dense);
status_t op_reorder(context_t *ctx, const tensor_t *x, const char *format, tensor_t **out)
    TESSERA_API(op_reorder);

/* ---- the table ---- */

/* An operator by its name, or NULL; and all of them, in the order of ops.def. */
const opdef_t *ops_find(const char *name) TESSERA_API(ops_find);
int ops_count(void) TESSERA_API(ops_count);
const opdef_t *ops_at(int index) TESSERA_API(ops_at);

TESSERA_END

#endif
