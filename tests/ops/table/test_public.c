/* Calls each public function of an operator once, with distinct attributes, and compares the result
 * with the specification for the attributes in the text next to it. This finds arguments that are
 * passed on as another attribute or operand. */
#include "tests/support/support.h"

#include <string.h>

#include "ops/ops.h"
#include "tensor/scope.h"
#include "tests/support/case.h"

#define MAX_PIECES 4
#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Calls the function. `in` are the operands of the text, and `out` has MAX_PIECES slots. */
typedef status_t (*call_t)(context_t *ctx, const tensor_t *const *in, tensor_t **out);

#define CALL(name, ...)                                                                            \
    static status_t call_##name(context_t *ctx, const tensor_t *const *in, tensor_t **out)         \
    {                                                                                              \
        return op_##name(ctx, __VA_ARGS__, out);                                                   \
    }

CALL(conv1d, in[0], in[1], in[2],
     (&(conv_attrs_t){.stride = {2}, .padding = {1}, .extra_padding = {3}, .dilation = {4}}))
CALL(conv2d, in[0], in[1], in[2],
     (&(conv_attrs_t){.stride = {2, 1},
                      .padding = {1, 0},
                      .extra_padding = {0, 3},
                      .dilation = {1, 2},
                      .groups = 2}))
CALL(conv3d, in[0], in[1], in[2], (&(conv_attrs_t){.stride = {2, 1, 3}, .padding = {0, 2, 1}}))
CALL(conv_transpose1d, in[0], in[1], in[2],
     (&(conv_transpose_attrs_t){
         .stride = {3}, .padding = {1}, .output_padding = {2}, .dilation = {2}}))
CALL(conv_transpose2d, in[0], in[1], in[2],
     (&(conv_transpose_attrs_t){
         .stride = {3, 2}, .padding = {1, 0}, .output_padding = {2, 1}, .groups = 2}))
CALL(conv_transpose3d, in[0], in[1], in[2],
     (&(conv_transpose_attrs_t){.stride = {2, 1, 3}, .padding = {0, 1, 0}}))
CALL(linear, in[0], in[1], in[2])
CALL(matmul, in[0], in[1])
CALL(batch_norm, in[0], in[1], in[2], in[3], in[4], 0.5)
CALL(batch_norm_conv2d, in[0], in[1], in[2], in[3], in[4], in[5], in[6],
     (&(batch_norm_conv_attrs_t){.conv = {.stride = {2, 1}, .padding = {1, 0}, .groups = 2},
                                 .epsilon = 0.5,
                                 .activation = BATCH_NORM_RELU6}))
CALL(layer_norm, in[0], 2, in[1], in[2], 0.25)
CALL(rms_norm, in[0], 2, in[1], 0.25)
CALL(group_norm, in[0], 2, in[1], in[2], 0.25)
CALL(instance_norm, in[0], in[1], in[2], 0.25)
CALL(scaled_dot_product_attention, in[0], in[1], in[2], in[3],
     (&(attention_attrs_t){.is_causal = true, .enable_gqa = true, .scale = 0.3}))
CALL(cached_attention, in[0], in[1], in[2], in[3], in[4], in[5],
     (&(attention_attrs_t){
         .is_causal = true, .enable_gqa = true, .scale = 0.3, .window = 2, .softcap = 0.7}))
CALL(rotary_embedding, in[0], in[1], in[2], true)
CALL(slice_scatter, in[0], 1, in[1], in[2], in[3])
CALL(lrn, in[0], 3, 0.5, 0.7, 2.0)
CALL(fold_weight, in[0], in[1], in[2],
     (&(fold_attrs_t){.epsilon = 0.1, .groups = 2, .transposed = true}))
CALL(fold_bias, in[0], in[1], in[2], in[3], in[4], in[5],
     (&(fold_attrs_t){.epsilon = 0.1, .groups = 3, .transposed = true}))
CALL(max_pool1d, in[0], (&(pool_attrs_t){.kernel = {3}, .stride = {2}, .dilation = {2}}))
CALL(max_pool2d, in[0],
     (&(pool_attrs_t){.kernel = {3, 2},
                      .stride = {2, 1},
                      .padding = {1, 0},
                      .extra_padding = {0, 1},
                      .dilation = {1, 2},
                      .ceil_mode = true}))
CALL(max_pool3d, in[0], (&(pool_attrs_t){.kernel = {1, 2, 3}, .stride = {3, 1, 2}}))
CALL(avg_pool1d, in[0], (&(pool_attrs_t){.kernel = {4}, .stride = {3}, .padding = {1}}))
CALL(avg_pool2d, in[0],
     (&(pool_attrs_t){
         .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .count_include_pad = true}))
CALL(avg_pool3d, in[0], (&(pool_attrs_t){.kernel = {1, 2, 3}, .padding = {0, 0, 1}}))
CALL(adaptive_avg_pool, in[0], 2, DIMS(2, 3))
CALL(adaptive_max_pool, in[0], 2, DIMS(3, 2))
CALL(relu6, in[0])
#define ARGUMENTS_NONE
#define ARGUMENTS_FLAG(name) , true
#define ARGUMENTS_ONE(name, initial) , 0.3
#define ARGUMENTS_TWO(name, initial, name2, initial2) , 0.3, 0.4
#define ACTIVATION(name, NAME, layer, parameters, ...) CALL(name, in[0] ARGUMENTS_##parameters)
#define POST_ONLY(...)
#include "kernels/elementwise/eltwise.def"
CALL(softsign, in[0])
CALL(logsigmoid, in[0])
CALL(rsqrt, in[0])
CALL(square, in[0])
CALL(exp2, in[0])
CALL(expm1, in[0])
CALL(log2, in[0])
CALL(log10, in[0])
CALL(log1p, in[0])
CALL(gather_elements, in[0], 1, in[1])
CALL(gather_nd, in[0], in[1], 1)
CALL(scatter, in[0], 1, in[1], in[2], SCATTER_ADD)
CALL(scatter_nd, in[0], in[1], in[2], SCATTER_MAX)
CALL(cumprod, in[0], 1)
CALL(flip, in[0], 2, DIMS(0, 2))
CALL(roll, in[0], 2, DIMS(2, -1), DIMS(1, 0))
CALL(reverse_sequence, in[0], in[1], 1, 0)
CALL(roi_align, in[0], in[1], in[2],
     (&(roi_align_attrs_t){.output_size = {2, 3},
                           .spatial_scale = 0.5,
                           .sampling_ratio = 2,
                           .aligned = true,
                           .mode = ROI_ALIGN_MAX}))
CALL(multinomial, in[0], 4, true, 5)
CALL(grid_sample, in[0], in[1], GRID_CUBIC, GRID_REFLECTION, true)
CALL(rand_like, in[0], -2.0, 3.0, 5, DTYPE_F64)
CALL(randn_like, in[0], -2.0, 3.0, 5, DTYPE_F64)
CALL(masked_select, in[0], in[1])
CALL(compress, in[0], in[1], (&(const int64_t){1}))
CALL(nms, in[0], in[1], 2, 0.25, 0.125, true)
CALL(tree_ensemble, in[0],
     (&(tree_ensemble_t){.features = in[1],
                         .modes = in[2],
                         .values = in[3],
                         .links = in[4],
                         .exits = in[5],
                         .roots = in[6],
                         .leaves = in[7]}),
     TREE_MIN)

static status_t call_unique(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    return op_unique(ctx, in[0], &(const int64_t){1}, false, &out[0], &out[1], &out[2], &out[3]);
}

CALL(nonzero, in[0])
CALL(reshape_by, in[0], in[1], true)
CALL(expand_by, in[0], in[1])
CALL(slice_by, in[0], in[1], in[2], 1, -2)
CALL(range, in[0], in[1], in[2])
CALL(tril, in[0], -1)
CALL(triu, in[0], 2)

CALL(quantize, in[0], in[1], in[2], 1, 2, DTYPE_S8)
CALL(dequantize, in[0], in[1], in[2], 1, 3)
CALL(requantize, in[0], in[1], in[3], in[2], 1, true, DTYPE_S8)
CALL(conv1d_integer, in[0], in[1], in[2], in[3],
     (&(conv_attrs_t){.stride = {2}, .padding = {1}, .extra_padding = {3}, .dilation = {4}}))
CALL(conv2d_integer, in[0], in[1], in[2], in[3],
     (&(conv_attrs_t){.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2}))
CALL(conv3d_integer, in[0], in[1], in[2], in[3],
     (&(conv_attrs_t){.stride = {2, 1, 3}, .padding = {0, 2, 1}}))
CALL(matmul_integer, in[0], in[1], in[2], in[3])
CALL(conv1d_quantized, in[0], in[1], in[2], in[3], in[4],
     (&(conv_quantized_attrs_t){.conv = {.stride = {2}, .padding = {1}}, .dtype = DTYPE_S8}))
CALL(conv2d_quantized, in[0], in[1], in[2], in[3], in[4],
     (&(conv_quantized_attrs_t){.conv = {.stride = {2, 1}, .padding = {1, 0}, .groups = 2},
                                .relu = true}))
CALL(conv3d_quantized, in[0], in[1], in[2], in[3], in[4],
     (&(conv_quantized_attrs_t){.conv = {.stride = {2, 1, 3}, .padding = {0, 2, 1}},
                                .addend_scale = 0.5}))

static status_t call_dynamic_quantize(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    return op_dynamic_quantize(ctx, in[0], &out[0], &out[1], &out[2]);
}

CALL(prelu, in[0], in[1])
CALL(add, in[0], in[1])
CALL(sub, in[0], in[1])
CALL(mul, in[0], in[1])
CALL(div, in[0], in[1])
CALL(pow, in[0], in[1])
CALL(maximum, in[0], in[1])
CALL(minimum, in[0], in[1])
CALL(floor, in[0])
CALL(ceil, in[0])
CALL(round, in[0])
CALL(trunc, in[0])
CALL(sign, in[0])
CALL(logical_not, in[0])
CALL(isnan, in[0])
CALL(isinf, in[0])
CALL(bitwise_not, in[0])
CALL(sin, in[0])
CALL(cos, in[0])
CALL(tan, in[0])

static status_t call_concat(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    return op_concat(ctx, 2, in, 1, out);
}

CALL(asin, in[0])
CALL(acos, in[0])
CALL(atan, in[0])
CALL(sinh, in[0])
CALL(cosh, in[0])
CALL(asinh, in[0])
CALL(acosh, in[0])
CALL(atanh, in[0])
CALL(div_trunc, in[0], in[1])
CALL(div_floor, in[0], in[1])
CALL(fmod, in[0], in[1])
CALL(atan2, in[0], in[1])
CALL(hypot, in[0], in[1])
CALL(remainder, in[0], in[1])
CALL(eq, in[0], in[1])
CALL(ne, in[0], in[1])
CALL(lt, in[0], in[1])
CALL(le, in[0], in[1])
CALL(gt, in[0], in[1])
CALL(ge, in[0], in[1])
CALL(logical_and, in[0], in[1])
CALL(logical_or, in[0], in[1])
CALL(logical_xor, in[0], in[1])
CALL(bitwise_and, in[0], in[1])
CALL(bitwise_or, in[0], in[1])
CALL(bitwise_xor, in[0], in[1])
CALL(bitwise_left_shift, in[0], in[1])
CALL(bitwise_right_shift, in[0], in[1])
CALL(where, in[0], in[1], in[2])
CALL(full_like, in[0], 2.5, DTYPE_F64)
CALL(copy, in[0], in[1])
CALL(softmax, in[0], 1)
CALL(log_softmax, in[0], 1)
CALL(cast, in[0], DTYPE_F64)
CALL(identity, in[0])
CALL(dropout, in[0], 0.3)
CALL(feature_dropout, in[0], 0.3)
CALL(mean, in[0], 2, DIMS(0, 2), true)
CALL(sum, in[0], 1, DIMS(1), false)
CALL(amax, in[0], 2, DIMS(0, 2), true)
CALL(amin, in[0], 1, DIMS(1), false)
CALL(prod, in[0], 1, DIMS(2), true)
CALL(any, in[0], 1, DIMS(0), false)
CALL(all, in[0], 2, DIMS(1, 2), true)
CALL(logsumexp, in[0], 1, DIMS(1), true)
CALL(norm, in[0], 3, 2, DIMS(0, 1), true)
CALL(var, in[0], 1, DIMS(2), 0, true)
CALL(std, in[0], 1, DIMS(1), 2, false)
CALL(argmax, in[0], (&(const int64_t){1}), true)
CALL(argmin, in[0], NULL, false)

static status_t call_sort(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    return op_sort(ctx, in[0], 1, true, &out[0], &out[1]);
}

static status_t call_topk(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    return op_topk(ctx, in[0], 2, 0, false, &out[0], &out[1]);
}

#define CALL_POOL(n)                                                                               \
    static status_t call_max_pool##n##d_with_indices(context_t *ctx, const tensor_t *const *in,    \
                                                     tensor_t **out)                               \
    {                                                                                              \
        const pool_attrs_t attrs = {                                                               \
            .kernel = {3, 2, 1}, .stride = {2, 1, 1}, .padding = {1}, .ceil_mode = true};          \
        return op_max_pool##n##d_with_indices(ctx, in[0], &attrs, &out[0], &out[1]);               \
    }
static status_t call_adaptive_max_pool_with_indices(context_t *ctx, const tensor_t *const *in,
                                                    tensor_t **out)
{
    return op_adaptive_max_pool_with_indices(ctx, in[0], 2, DIMS(3, 2), &out[0], &out[1]);
}

CALL_POOL(1)
CALL_POOL(2)
CALL_POOL(3)

static recurrent_weights_t weights_of(const tensor_t *const *in)
{
    return (recurrent_weights_t){
        .weight_ih = in[1], .weight_hh = in[2], .bias_ih = in[3], .bias_hh = in[4]};
}

static status_t call_lstm(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    recurrent_weights_t weights = weights_of(in);
    recurrent_attrs_t attrs = {.clip = 2.0, .gate = {RECURRENT_HARDSIGMOID, 0.25, 0.5}};
    weights.peephole = in[8];
    return op_lstm(ctx, in[0], in[5], in[7], in[6], &weights, &attrs, &out[0], &out[1], &out[2]);
}

static status_t call_lstm_quantized(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    const lstm_quantized_weights_t weights = {.weight_ih = in[1],
                                              .weight_hh = in[2],
                                              .bias_ih = in[3],
                                              .bias_hh = in[4],
                                              .scale_ih = in[8],
                                              .scale_hh = in[9],
                                              .zero_ih = in[10],
                                              .zero_hh = in[11]};
    const recurrent_attrs_t attrs = {.reverse = true};
    return op_lstm_quantized(ctx, in[0], in[5], in[7], in[6], &weights, &attrs, &out[0], &out[1],
                             &out[2]);
}

static status_t call_gru(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    recurrent_weights_t weights = weights_of(in);
    recurrent_attrs_t attrs = {.reset_before = true, .batch_first = true};
    return op_gru(ctx, in[0], in[5], in[6], &weights, &attrs, &out[0], &out[1]);
}

static status_t call_rnn(context_t *ctx, const tensor_t *const *in, tensor_t **out)
{
    recurrent_weights_t weights = weights_of(in);
    recurrent_attrs_t attrs = {.reverse = true, .candidate = {.function = RECURRENT_RELU}};
    return op_rnn(ctx, in[0], in[5], in[6], &weights, &attrs, &out[0], &out[1]);
}

CALL(cumsum, in[0], 1)
CALL(reshape, in[0], 3, DIMS(4, -1, 3))
CALL(flatten, in[0], 1, 2)
CALL(transpose, in[0], 0, 2)
CALL(permute, in[0], 3, DIMS(2, 0, 1))
CALL(squeeze, in[0], 1, DIMS(1))
CALL(unsqueeze, in[0], 2, DIMS(0, 3))
CALL(expand, in[0], 3, DIMS(4, 2, 3))
CALL(slice, in[0], 1, 1, 8, 3)
CALL(split, in[0], 1, 3, DIMS(2, 4, 1))
CALL(gather, in[0], 1, in[1])
CALL(pad, in[0], DIMS(1, 0, 2), DIMS(0, 3, 1), PAD_CONSTANT, 0.5)
CALL(resize, in[0], 2, DIMS(7, 4), RESIZE_LINEAR, RESIZE_HALF_PIXEL)
CALL(to_mkldnn, in[0])
CALL(to_dense, in[0])
CALL(reorder, in[0], "aBcd8b")

typedef struct row {
    const char *op;
    const char *text;
    call_t call;
} row_t;

#define ROW(op, text)                                                                              \
    {                                                                                              \
#op, text, call_##op                                                                       \
    }

static const row_t rows[] = {
    ROW(conv1d, "(f32[2,3,20], f32[5,3,3], f32[5]) stride=[2] padding=[1] extra_padding=[3] "
                "dilation=[4]"),
    ROW(conv2d, "(f32[2,4,7,6], f32[6,2,3,2], f32[6]) stride=[2,1] padding=[1,0] "
                "extra_padding=[0,3] dilation=[1,2] groups=2"),
    ROW(conv3d, "(f32[1,2,5,4,7], f32[3,2,2,3,1], f32[3]) stride=[2,1,3] padding=[0,2,1]"),
    ROW(conv_transpose1d, "(f32[2,3,5], f32[3,4,3], f32[4]) stride=[3] padding=[1] "
                          "output_padding=[2] dilation=[2]"),
    ROW(conv_transpose2d, "(f32[1,4,3,4], f32[4,3,3,2], f32[6]) stride=[3,2] padding=[1,0] "
                          "output_padding=[2,1] groups=2"),
    ROW(conv_transpose3d,
        "(f32[1,2,3,2,2], f32[2,3,2,3,1], f32[3]) stride=[2,1,3] padding=[0,1,0]"),
    ROW(linear, "(f32[5,7], f32[3,7], f32[3])"),
    ROW(matmul, "(f32[2,3,4], f32[4,5])"),
    ROW(batch_norm, "(f32[2,3,4], f32[3], f32[3], f32[3], f32[3]+) epsilon=0.5"),
    ROW(batch_norm_conv2d, "(f32[2,4,7,6], f32[6,2,3,2], f32[6], f32[4], f32[4], f32[4], f32[4]+) "
                           "stride=[2,1] padding=[1,0] groups=2 epsilon=0.5 activation=\"relu6\""),
    ROW(layer_norm, "(f32[3,4,5], f32[4,5], f32[4,5]) n_dims=2 epsilon=0.25"),
    ROW(rms_norm, "(f32[3,4,5], f32[4,5]) n_dims=2 epsilon=0.25"),
    ROW(group_norm, "(f32[3,4,5], f32[4], f32[4]) num_groups=2 epsilon=0.25"),
    {"group_norm", "(f32[3,4,5], f32[4], f32[4]) num_groups=4 epsilon=0.25", call_instance_norm},
    ROW(scaled_dot_product_attention, "(f32[4,3,5], f32[2,6,5], f32[2,6,7], f32[3,6]) "
                                      "is_causal=true enable_gqa=true scale=0.3"),
    ROW(cached_attention, "(f32[3,4,3,5], f32[2,2,6,5], f32[2,2,6,7], f32[3,6], s64[]<5, s64[3]<2) "
                          "is_causal=true enable_gqa=true scale=0.3 window=2 softcap=0.7"),
    ROW(rotary_embedding, "(f32[4,3,7], f32[3,2], f32[3,2]) interleaved=true"),
    ROW(slice_scatter, "(f32[4,7], f32[1,3], s64[1]<4, s64[1]<4) dim=1"),
    ROW(lrn, "(f32[2,7,3,3]) size=3 alpha=0.5 beta=0.7 k=2.0"),
    ROW(fold_weight, "(f32[6,3,2], f32[6], f32[6]+) epsilon=0.1 groups=2 transposed=true"),
    ROW(fold_bias, "(f32[6,3,2], f32[9], f32[1,9,1], f32[9,1], f32[9], f32[9]+) epsilon=0.1 "
                   "groups=3 transposed=true"),
    ROW(max_pool1d, "(f32[2,3,11]) kernel=[3] stride=[2] dilation=[2]"),
    ROW(max_pool2d, "(f32[1,3,8,7]) kernel=[3,2] stride=[2,1] padding=[1,0] extra_padding=[0,1] "
                    "dilation=[1,2] ceil_mode=true"),
    ROW(max_pool3d, "(f32[1,2,5,4,7]) kernel=[1,2,3] stride=[3,1,2]"),
    ROW(avg_pool1d, "(f32[2,3,11]) kernel=[4] stride=[3] padding=[1]"),
    ROW(avg_pool2d,
        "(f32[1,3,8,7]) kernel=[3,2] stride=[2,1] padding=[1,0] count_include_pad=true"),
    ROW(avg_pool3d, "(f32[1,2,5,4,7]) kernel=[1,2,3] padding=[0,0,1]"),
    ROW(adaptive_avg_pool, "(f32[2,3,7,5]) output_size=[2,3]"),
    ROW(adaptive_max_pool, "(f32[2,3,7,5]) output_size=[3,2]"),
    ROW(relu6, "(f32[3,7])"),
#define TEXT_NONE
#define TEXT_FLAG(name) " " #name "=true"
#define TEXT_ONE(name, initial) " " #name "=0.3"
#define TEXT_TWO(name, initial, name2, initial2) " " #name "=0.3 " #name2 "=0.4"
#define ACTIVATION(name, NAME, layer, parameters, ...) ROW(name, "(f32[3,7])" TEXT_##parameters),
#define POST_ONLY(...)
#include "kernels/elementwise/eltwise.def"
    ROW(softsign, "(f32[3,7])"),
    ROW(logsigmoid, "(f32[3,7])"),
    ROW(rsqrt, "(f32[3,7]+)"),
    ROW(square, "(f32[3,7])"),
    ROW(exp2, "(f32[3,7])"),
    ROW(expm1, "(f32[3,7])"),
    ROW(log2, "(f32[3,7]+)"),
    ROW(log10, "(f32[3,7]+)"),
    ROW(log1p, "(f32[3,7]+)"),
    ROW(prelu, "(f32[2,3,4], f32[3])"),
    ROW(add, "(f32[2,3], f32[3])"),
    ROW(sub, "(f32[2,3], f32[3])"),
    ROW(mul, "(f32[2,3], f32[3])"),
    ROW(div, "(f32[2,3], f32[3]+)"),
    ROW(pow, "(f32[2,3]+, f32[3])"),
    ROW(maximum, "(f32[2,3], f32[3])"),
    ROW(minimum, "(f32[2,3], f32[3])"),
    ROW(floor, "(f32[3,7])"),
    ROW(ceil, "(f32[3,7])"),
    ROW(round, "(f32[3,7])"),
    ROW(trunc, "(f32[3,7])"),
    ROW(sign, "(f32[3,7])"),
    ROW(logical_not, "(f32[3,7])"),
    ROW(isnan, "(f32[3,7])"),
    ROW(isinf, "(f32[3,7])"),
    ROW(bitwise_not, "(s32[3,7])"),
    ROW(sin, "(f32[3,7])"),
    ROW(cos, "(f32[3,7])"),
    ROW(tan, "(f32[3,7])"),
    ROW(asin, "(f32[3,7])"),
    ROW(acos, "(f32[3,7])"),
    ROW(atan, "(f32[3,7])"),
    ROW(sinh, "(f32[3,7])"),
    ROW(cosh, "(f32[3,7])"),
    ROW(asinh, "(f32[3,7])"),
    ROW(acosh, "(f32[3,7]+)"),
    ROW(atanh, "(f32[3,7])"),
    ROW(div_trunc, "(f32[2,3], f32[3]+)"),
    ROW(div_floor, "(f32[2,3], f32[3]+)"),
    ROW(atan2, "(f32[2,3], f32[3])"),
    ROW(hypot, "(f32[2,3], f32[3])"),
    ROW(fmod, "(f32[2,3], f32[3]+)"),
    ROW(remainder, "(f32[2,3], f32[3]+)"),
    ROW(eq, "(s32[5,9], s32[9])"),
    ROW(ne, "(s32[5,9], s32[9])"),
    ROW(lt, "(s32[5,9], s32[9])"),
    ROW(le, "(s32[5,9], s32[9])"),
    ROW(gt, "(s32[5,9], s32[9])"),
    ROW(ge, "(s32[5,9], s32[9])"),
    ROW(logical_and, "(bool[2,3], bool[3])"),
    ROW(logical_or, "(bool[2,3], bool[3])"),
    ROW(logical_xor, "(bool[2,3], bool[3])"),
    ROW(bitwise_and, "(s32[2,3], s32[3])"),
    ROW(bitwise_or, "(s32[2,3], s32[3])"),
    ROW(bitwise_xor, "(s32[2,3], s32[3])"),
    ROW(bitwise_left_shift, "(s32[2,3], s32[3]<5)"),
    ROW(bitwise_right_shift, "(s32[2,3], s32[3]<5)"),
    ROW(where, "(bool[2,3], f32[3], f32[2,1])"),
    ROW(full_like, "(f32[2,3]) value=2.5 dtype=f64"),
    ROW(copy, "(f32[2,3], s32[3]<9)"),
    ROW(softmax, "(f32[2,5,3]) dim=1"),
    ROW(log_softmax, "(f32[2,5,3]) dim=1"),
    ROW(cast, "(f32[3,7]) dtype=f64"),
    ROW(identity, "(f32[3,7])"),
    ROW(dropout, "(f32[3,7]) p=0.3"),
    ROW(feature_dropout, "(f32[3,7,2]) p=0.3"),
    ROW(mean, "(f32[2,3,4]) dims=[0,2] keepdim=true"),
    ROW(sum, "(f32[2,3,4]) dims=[1]"),
    ROW(amax, "(f32[2,3,4]) dims=[0,2] keepdim=true"),
    ROW(amin, "(f32[2,3,4]) dims=[1]"),
    ROW(prod, "(f32[2,3,4]) dims=[2] keepdim=true"),
    ROW(any, "(f32[2,3,4]) dims=[0]"),
    ROW(all, "(f32[2,3,4]) dims=[1,2] keepdim=true"),
    ROW(logsumexp, "(f32[2,3,4]) dims=[1] keepdim=true"),
    ROW(norm, "(f32[2,3,4]) dims=[0,1] keepdim=true p=3.0"),
    ROW(var, "(f32[2,3,4]) dims=[2] correction=0 keepdim=true"),
    ROW(std, "(f32[2,3,4]) dims=[1] correction=2"),
    ROW(argmax, "(f32[2,5,3]) dims=[1] keepdim=true"),
    ROW(argmin, "(f32[2,5,3])"),
    ROW(sort, "(f32[2,5,3]) dim=1 descending=true"),
    ROW(max_pool1d_with_indices, "(f32[2,3,8]) kernel=[3] stride=[2] padding=[1] ceil_mode=true"),
    ROW(max_pool2d_with_indices,
        "(f32[2,3,8,5]) kernel=[3,2] stride=[2,1] padding=[1,0] ceil_mode=true"),
    ROW(max_pool3d_with_indices,
        "(f32[2,3,4,5,2]) kernel=[3,2,1] stride=[2,1,1] padding=[1,0,0] ceil_mode=true"),
    ROW(adaptive_max_pool_with_indices, "(f32[2,3,7,5]) output_size=[3,2]"),
    ROW(topk, "(f32[3,5]) k=2 dim=0 largest=false"),
    ROW(lstm, "(f32[3,2,7], f32[12,7], f32[12,3], f32[12], f32[12], f32[2,3], s64[2]<4, f32[2,3], "
              "f32[9]) clip=2.0 gate=\"hardsigmoid\" gate_alpha=0.25 gate_beta=0.5"),
    ROW(gru, "(f32[3,2,7], f32[9,7], f32[9,3], f32[9], f32[9], f32[3,3], s64[3]<3) "
             "reset_before=true batch_first=true"),
    ROW(rnn, "(f32[3,2,7], f32[3,7], f32[3,3], f32[3], f32[3], f32[2,3], s64[2]<4) reverse=true "
             "nonlinearity=\"relu\""),
    ROW(cumsum, "(f32[2,5,3]) dim=1"),
    ROW(reshape, "(f32[2,3,4]) sizes=[4,-1,3]"),
    ROW(flatten, "(f32[2,3,4,5]) start_dim=1 end_dim=2"),
    ROW(transpose, "(f32[2,3,4]) dim0=0 dim1=2"),
    ROW(permute, "(f32[2,3,4]) dims=[2,0,1]"),
    ROW(squeeze, "(f32[1,1,4]) dims=[1]"),
    ROW(unsqueeze, "(f32[3,4]) dims=[0,3]"),
    ROW(expand, "(f32[2,1]) sizes=[4,2,3]"),
    ROW(slice, "(f32[2,9]) dim=1 start=1 end=8 step=3"),
    ROW(split, "(f32[2,7]) dim=1 sizes=[2,4,1]"),
    ROW(concat, "(f32[2,3], f32[2,4]) dim=1"),
    ROW(gather, "(f32[3,5,2], s64[4]<5) dim=1"),
    ROW(gather_elements, "(f32[3,5,2], s64[3,7,1]<5) dim=1"),
    ROW(gather_nd, "(f32[3,5,7], s64[3,2,1]<5) batch_dims=1"),
    ROW(scatter, "(f32[3,5,2], s64[3,7,1]<5, f32[3,7,2]) dim=1 reduction=\"add\""),
    ROW(scatter_nd, "(f32[3,5], s64[7,1]<3, f32[7,5]) reduction=\"max\""),
    ROW(cumprod, "(f32[2,5,3]) dim=1"),
    ROW(flip, "(f32[2,5,3]) dims=[0,2]"),
    ROW(roll, "(f32[4,5]) dims=[1,0] shifts=[2,-1]"),
    ROW(reverse_sequence, "(f32[5,3], s64[3]<6) batch_dim=1 time_dim=0"),
    ROW(roi_align, "(f32[2,3,7,5], f32[4,4]*9, s64[4]<2) output_size=[2,3] spatial_scale=0.5 "
                   "sampling_ratio=2 aligned=true mode=\"max\""),
    ROW(multinomial, "(f32[3,7]+) n_samples=4 replacement=true seed=5"),
    ROW(grid_sample, "(f32[1,2,5,7], f32[1,3,4,2]*2) mode=\"cubic\" padding=\"reflection\" "
                     "align_corners=true"),
    ROW(rand_like, "(f32[3,7]) seed=5 low=-2.0 high=3.0 dtype=f64"),
    ROW(randn_like, "(f32[3,7]) seed=5 mean=-2.0 std=3.0 dtype=f64"),
    ROW(nonzero, "(s64[3,5]<2)"),
    ROW(reshape_by, "(f32[3,5], s64[2]<1) copies_zeros=true"),
    ROW(expand_by, "(f32[1,1], s64[3]<7)"),
    ROW(slice_by, "(f32[3,17], s64[1]<17, s64[1]<3) dim=1 step=-2"),
    ROW(range, "(f32[], f32[]*31, f32[]+)"),
    ROW(masked_select, "(f32[3,7], bool[7])"),
    ROW(compress, "(f32[3,7], bool[5]) dims=[1]"),
    ROW(unique, "(s64[2,9]<2) dims=[1] sorted=false"),
    ROW(nms, "(f32[2,7,4]+, f32[2,3,7]) max_per_class=2 iou_threshold=0.25 score_threshold=0.125 "
             "is_center=true"),
    ROW(tree_ensemble, "(f32[7,3], s32[5]<3, s32[5]<12, f32[5], s32[5,2]<5, s32[5,2]<4, s32[3]<5, "
                       "f32[4,2]) aggregate=\"min\""),
    ROW(tril, "(f32[2,5,7]) diagonal=-1"),
    ROW(triu, "(f32[2,5,7]) diagonal=2"),
    ROW(pad, "(f32[2,3,4]) before=[1,0,2] after=[0,3,1] mode=\"constant\" value=0.5"),
    ROW(resize, "(f32[1,3,4,5]) sizes=[7,4] mode=\"linear\" coordinates=\"half_pixel\""),
    ROW(to_mkldnn, "(f32[2,8,3,3])"),
    ROW(to_dense, "(f32[2,8,3,3])"),
    ROW(quantize, "(f32[2,5]*40, f32[2,3]+, s32[2,3]) dim=1 block_size=2 dtype=s8"),
    ROW(dequantize, "(u8[2,5], f32[2,2], s32[2,2]) dim=1 block_size=3"),
    ROW(requantize, "(s32[2,5,2]*60, f32[5], s32[], s32[5]*9) dim=1 dtype=s8 relu=true"),
    ROW(dynamic_quantize, "(f32[2,5])"),
    ROW(conv1d_integer, "(u8[2,3,17], s8[4,3,3], u8[], s8[4]) "
                        "stride=[2] padding=[1] extra_padding=[3] dilation=[4]"),
    ROW(conv2d_integer, "(u8[1,4,7,8], s8[6,2,3,2], u8[], s8[6]) "
                        "stride=[2,1] padding=[1,0] dilation=[1,2] groups=2"),
    ROW(conv3d_integer, "(u8[1,2,5,4,6], s8[3,2,2,3,2], u8[], s8[]) "
                        "stride=[2,1,3] padding=[0,2,1]"),
    ROW(matmul_integer, "(u8[3,5], s8[5,7], u8[3], s8[7])"),
    ROW(lstm_quantized, "(f32[3,2,7], s8[12,7], u8[12,3], f32[12], f32[12], f32[2,3], s64[2]<3, "
                        "f32[2,3], f32[12], f32[], s8[], u8[12]) reverse=true"),
    ROW(conv1d_quantized, "(u8[2,3,17], s8[4,3,3], f32[4], f32[4], s8[2,4,9]) "
                          "stride=[2] padding=[1] dtype=s8"),
    ROW(conv2d_quantized, "(u8[1,4,7,8], s8[6,2,3,2], none, f32[6], none) "
                          "stride=[2,1] padding=[1,0] groups=2 relu=true"),
    ROW(conv3d_quantized, "(u8[1,2,5,4,6], s8[3,2,2,3,2], f32[3], f32[3], u8[1,3,2,6,3]) "
                          "stride=[2,1,3] padding=[0,2,1] addend_scale=0.5"),
    ROW(reorder, "(f32[2,8,3,3]) format=\"aBcd8b\""),
};
#define N_ROWS ((int)(sizeof rows / sizeof *rows))

/* Calls a row's function. With has_scope, the scope owns the outputs; otherwise the caller does. */
static void check_row(context_t *ctx, const row_t *row, bool has_scope)
{
    const opdef_t *op = ops_find(row->op);
    tensor_t *in[CASE_MAX_INPUTS] = {NULL}, *out[MAX_PIECES] = {NULL};
    tensor_info_t inferred[OP_MAX_OUTPUTS];
    case_call_t call;
    int n_out = 0;
    double error = -1;
    CHECK_OK(ctx, case_parse(ctx, op, row->text, &call));
    for (int i = 0; i < call.n_in; i++) CHECK_OK(ctx, case_fill(ctx, &call.in[i], &in[i]));
    CHECK_OK(ctx, case_infer(ctx, op, call.attrs, call.n_in, in, &n_out, inferred));
    if (has_scope) CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, row->call(ctx, (const tensor_t *const *)in, out));
    for (int i = 0; i < n_out; i++) {
        assert_int_equal(tensor_dtype(out[i]), inferred[i].dtype);
        assert_int_equal(tensor_rank(out[i]), inferred[i].rank);
        assert_memory_equal(tensor_sizes(out[i]), inferred[i].sizes,
                            (size_t)inferred[i].rank * sizeof(int64_t));
    }
    CHECK_OK(ctx, dispatch_verify(ctx, op, call.attrs, call.n_in, (const tensor_t *const *)in,
                                  n_out, (const tensor_t *const *)out, 0, &error));
    if (!(error <= 1.0)) fail_msg("op_%s %s is off by %g bounds", row->op, row->text, error);
    for (int i = 0; i < call.n_in; i++) tensor_release(in[i]);
    if (has_scope) CHECK_OK(ctx, scope_end(ctx));
    for (int i = 0; i < n_out && !has_scope; i++) tensor_release(out[i]);
}

static void every_operator_gets_its_arguments_where_they_belong(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int r = 0; r < 2 * N_ROWS; r++) check_row(ctx, &rows[r / 2], r % 2 == 1);
}

/* Returns true for operators without a public function, which only gradient rules, losses, layers
 * in training or plans use. */
static bool is_for_graphs(const opdef_t *op)
{
    static const char *const names[] = {"draw_seed", "dropout_by",          "cross_entropy",
                                        "nll_loss",  "batch_norm_training", "expand_depthwise"};
    bool is_one = strstr(op->name, "_backward") != NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_one |= strcmp(op->name, names[i]) == 0;
    return is_one;
}

static void every_operator_of_the_table_has_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < ops_count(); i++) {
        int n = is_for_graphs(ops_at(i)) ? 1 : 0;
        for (int r = 0; r < N_ROWS; r++) n += strcmp(rows[r].op, ops_at(i)->name) == 0;
        if (n == 0) fail_msg("%s has no row", ops_at(i)->name);
    }
}

/* ---- attributes common to all operators ---- */

static tensor_t *ones(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, rank, sizes, 1, &tensor));
    return tensor;
}

static void check_sizes(tensor_t *tensor, int64_t height, int64_t width)
{
    assert_int_equal(tensor_sizes(tensor)[2], height);
    assert_int_equal(tensor_sizes(tensor)[3], width);
    tensor_release(tensor);
}

static void one_number_applies_to_all_dimensions_where_zero_is_invalid(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx, SHAPE(1, 1, 9, 9)), *weight = ones(ctx, SHAPE(1, 1, 3, 3)), *y = NULL;
    CHECK_OK(ctx, op_conv2d(ctx, x, weight, NULL, &(conv_attrs_t){.stride = {2}}, &y));
    check_sizes(y, 4, 4);
    CHECK_OK(ctx, op_conv2d(ctx, x, weight, NULL, &(conv_attrs_t){.dilation = {3}}, &y));
    check_sizes(y, 3, 3);
    CHECK_OK(ctx, op_conv2d(ctx, x, weight, NULL, &(conv_attrs_t){.padding = {1}}, &y));
    check_sizes(y, 9, 7);
    CHECK_OK(ctx, op_conv_transpose2d(ctx, x, weight, NULL,
                                      &(conv_transpose_attrs_t){.stride = {2}}, &y));
    check_sizes(y, 19, 19);
    CHECK_OK(ctx, op_max_pool2d(ctx, x, &(pool_attrs_t){.kernel = {3}}, &y));
    check_sizes(y, 3, 3);
    CHECK_OK(ctx, op_avg_pool2d(ctx, x, &(pool_attrs_t){.kernel = {3}, .stride = {1}}, &y));
    check_sizes(y, 7, 7);
    tensor_release(x);
    tensor_release(weight);
}

static void a_pool_without_kernel_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx, SHAPE(1, 1, 9, 9)), *y = NULL;
    CHECK_FAILS(ctx, op_max_pool2d(ctx, x, NULL, &y), STATUS_INVALID_ARGUMENT,
                "max_pool2d: kernel 0");
    CHECK_FAILS(ctx, op_avg_pool2d(ctx, x, &(pool_attrs_t){.stride = {2}}, &y),
                STATUS_INVALID_ARGUMENT, "avg_pool2d: kernel 0");
    tensor_release(x);
}

static void invalid_values_of_enumerations_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ones(ctx, SHAPE(1, 1, 9, 9)), *weight = ones(ctx, SHAPE(1, 1, 3, 3)), *y = NULL;
    conv_attrs_t attrs = {.algorithm = 77};
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &attrs, &y), STATUS_INVALID_ARGUMENT,
                "conv2d: algorithm is 77, must be 0 to 9 (direct to strassen_only)");
    attrs = (conv_attrs_t){.post = {.n = 9}};
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &attrs, &y), STATUS_INVALID_ARGUMENT,
                "conv2d: 9 post-ops, must be 0 to 4");
    attrs = (conv_attrs_t){.post = {.n = 1, .op = {{.kind = POST_ELTWISE, .eltwise = 99}}}};
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &attrs, &y), STATUS_INVALID_ARGUMENT,
                "conv2d: post-op 0 is elementwise function 99");
    CHECK_FAILS(ctx, op_cast(ctx, x, (dtype_t)99, &y), STATUS_INVALID_ARGUMENT,
                "cast: dtype is 99, not an element type");
    CHECK_FAILS(ctx, op_pad(ctx, x, DIMS(0, 0, 1, 1), DIMS(0, 0, 1, 1), (pad_mode_t)7, 0, &y),
                STATUS_INVALID_ARGUMENT, "pad: mode is 7, must be 0 to");
    CHECK_FAILS(ctx, op_pad(ctx, x, DIMS(0, 0, 0, -9), DIMS(0, 0, 0, 1), PAD_EDGE, 0, &y),
                STATUS_INVALID_ARGUMENT, "of f32[1,1,9,9], nothing is left that has an edge");
    CHECK_FAILS(ctx, op_pad(ctx, x, DIMS(0, 0, 0, -6), DIMS(0, 0, 0, 3), PAD_REFLECT, 0, &y),
                STATUS_INVALID_ARGUMENT, "pad: -6 before and 3 after dimension 3 of");
    CHECK_FAILS(ctx, op_resize(ctx, x, 2, DIMS(3, 3), (resize_mode_t)-1, RESIZE_HALF_PIXEL, &y),
                STATUS_INVALID_ARGUMENT, "resize: mode is -1");
    CHECK_FAILS(ctx, op_resize(ctx, x, 2, DIMS(3, 3), RESIZE_LINEAR, (resize_coordinates_t)99, &y),
                STATUS_INVALID_ARGUMENT, "resize: coordinates is 99");
    CHECK_FAILS(ctx, dispatch_set_policy(ctx, (policy_t)9), STATUS_INVALID_ARGUMENT,
                "dispatch_set_policy: policy 9, must be 0 to 2");
    assert_int_equal(dispatch_policy(ctx), POLICY_AUTO);
    tensor_release(x);
    tensor_release(weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_operator_gets_its_arguments_where_they_belong),
        TEST(every_operator_of_the_table_has_a_row),
        TEST(one_number_applies_to_all_dimensions_where_zero_is_invalid),
        TEST(a_pool_without_kernel_is_refused),
        TEST(invalid_values_of_enumerations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
