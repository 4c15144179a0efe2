/* A 1x1 convolution, then a depthwise convolution, as at the beginning of an inverted residual
 * block. The weights have the formats of the two convolutions, ABcd16b16a and Abcd16a, so files and
 * other kernels share them. */
#include "ops/conv/expand_depthwise_impl.h"

#include <math.h>
#include <string.h>

#include "kernels/conv/expand_depthwise_impl.h"

#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/ops_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const char *const activation_names[] = {"none", "relu", "relu6", "silu", "hardswish", NULL};

#define CONV(field) offsetof(expand_depthwise_attrs_t, conv.field)

static const attr_field_t fields[] = {
    {"stride", ATTR_ARRAY, true, CONV(stride), 2, 1, NULL},
    {"padding", ATTR_ARRAY, false, CONV(padding), 2, 0, NULL},
    {"extra_padding", ATTR_ARRAY, false, CONV(extra_padding), 2, 0, NULL},
    FIELD_NAME(expand_depthwise_attrs_t, activation, EXPAND_NONE, activation_names),
    {"post", ATTR_POST, false, CONV(post), 0, 0, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"expand", ROLE_WEIGHT, false, false},
                                     {"expand_bias", ROLE_BIAS, true, false},
                                     {"weight", ROLE_WEIGHT, false, false},
                                     {"bias", ROLE_BIAS, true, false}};
enum { X, EXPAND, EXPAND_BIAS, WEIGHT, BIAS, POST };

/* Converts the activation to an equal post-op. Returns false if there is none. */
static bool activation_op(int activation, post_op_t *out_op)
{
    *out_op = (post_op_t){.kind = POST_ELTWISE};
    switch (activation) {
    case EXPAND_RELU: out_op->eltwise = ELTWISE_RELU; return true;
    case EXPAND_RELU6:
        out_op->eltwise = ELTWISE_CLAMP;
        out_op->beta = 6.0;
        return true;
    case EXPAND_SILU: out_op->eltwise = ELTWISE_SILU; return true;
    case EXPAND_HARDSWISH: out_op->eltwise = ELTWISE_HARDSWISH; return true;
    default: return false;
    }
}

expand_activation_t expand_activation_of(const post_op_t *op)
{
    for (int i = EXPAND_RELU; i < EXPAND_ACTIVATIONS; i++) {
        post_op_t own;
        activation_op(i, &own);
        if (op->kind != POST_ELTWISE || op->eltwise != own.eltwise) continue;
        if (i != EXPAND_RELU6 ||
            (op->alpha >= 0.0 && op->alpha <= 0.0 && op->beta >= 6.0 && op->beta <= 6.0))
            return (expand_activation_t)i;
    }
    return EXPAND_ACTIVATIONS;
}

/* ---- inference ---- */

static status_t check_operands(context_t *ctx, const op_call_t *call)
{
    const char *op = call->op->name;
    const tensor_info_t *x = call->in[X], *expand = call->in[EXPAND], *weight = call->in[WEIGHT];
    REQUIRE(ctx, x->rank == 4, "%s: x is %s, rank 4 is needed", op, info_brief(x));
    REQUIRE(ctx,
            expand->rank == 4 && sym_equal(ctx, expand->sizes[1], x->sizes[1]) &&
                sym_equal(ctx, expand->sizes[2], 1) && sym_equal(ctx, expand->sizes[3], 1),
            "%s: expand is %s, [K,%lld,1,1] is needed", op, info_brief(expand),
            (long long)x->sizes[1]);
    REQUIRE(ctx,
            weight->rank == 4 && sym_equal(ctx, weight->sizes[0], expand->sizes[0]) &&
                sym_equal(ctx, weight->sizes[1], 1),
            "%s: weight is %s, [%lld,1,R,S] is needed", op, info_brief(weight),
            (long long)expand->sizes[0]);
    REQUIRE(ctx, sym_at_most(ctx, 1, expand->sizes[0]),
            "%s: expand is %s, 1 channel at least is needed", op, info_brief(expand));
    REQUIRE(ctx, x->dtype == expand->dtype && x->dtype == weight->dtype,
            "%s: x is %s, expand %s, weight %s, equal dtypes are needed", op, dtype_name(x->dtype),
            dtype_name(expand->dtype), dtype_name(weight->dtype));
    for (int i = EXPAND_BIAS; i <= BIAS; i += BIAS - EXPAND_BIAS)
        if (call_has(call, i))
            REQUIRE(ctx,
                    call->in[i]->rank == 1 &&
                        sym_equal(ctx, call->in[i]->sizes[0], expand->sizes[0]),
                    "%s: %s is %s, [%lld] is needed", op, operands[i].name, info_brief(call->in[i]),
                    (long long)expand->sizes[0]);
    return STATUS_OK;
}

/* Describes the tensor between the two convolutions. */
static tensor_info_t expanded(const tensor_info_t *x, const tensor_info_t *expand)
{
    const int64_t sizes[] = {x->sizes[0], expand->sizes[0], x->sizes[2], x->sizes[3]};
    return info_dense(x->dtype, 4, sizes);
}

static status_t expand_depthwise_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                       tensor_info_t *out)
{
    (void)out_n;
    TRY(check_operands(ctx, call));
    conv_attrs_t attrs = ((const expand_depthwise_attrs_t *)call->attrs)->conv;
    const tensor_info_t source = expanded(call->in[X], call->in[EXPAND]);
    const tensor_info_t *in[] = {&source, call->in[WEIGHT]};
    op_call_t second = *call;
    TRY(shape_check(ctx, call->op->name, source.dtype, source.rank, source.sizes));
    for (int i = 0; i < 2; i++) attrs.dilation[i] = 1;
    attrs.groups = source.sizes[1];
    second.attrs = &attrs;
    second.in = in;
    second.n_in = 2;
    TRY(conv_infer(ctx, &second, source.dtype, &out[0]));
    return accept_post(ctx, call, &out[0]);
}

/* Counts operations of both convolutions. An element between them costs as much as `more_inputs`
 * extra inputs. A tap (one product of the depthwise convolution) costs `of_tap` multiply-adds. */
static double count(const op_call_t *call, double more_inputs, double of_tap)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    const tensor_info_t between = expanded(call->in[X], call->in[EXPAND]);
    const double taps = (double)(weight->sizes[2] * weight->sizes[3]);
    return 2.0 * (double)info_numel(&between) * ((double)call->in[X]->sizes[1] + more_inputs) +
           2.0 * (double)info_numel(&call->out[0]) * taps * of_tap;
}

static double expand_depthwise_flops(const op_call_t *call)
{
    return count(call, 0.0, 1.0);
}

/* ---- specification ---- */

static double expand_at(const spec_call_t *call, const int64_t *at)
{
    const expand_depthwise_attrs_t *attrs = call->attrs;
    double sum = spec_has(call, EXPAND_BIAS) ? spec_at(call, EXPAND_BIAS, &at[1]) : 0.0;
    post_op_t activation;
    for (int64_t c = 0; c < call->in[X]->sizes[1]; c++) {
        const int64_t at_x[] = {at[0], c, at[2], at[3]}, at_expand[] = {at[1], c, 0, 0};
        sum += spec_at(call, X, at_x) * spec_at(call, EXPAND, at_expand);
    }
    return activation_op(attrs->activation, &activation) ? post_value(&activation, sum, 0.0) : sum;
}

static double expand_depthwise_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const conv_attrs_t *conv = &((const expand_depthwise_attrs_t *)call->attrs)->conv;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    double sum = spec_has(call, BIAS) ? spec_at(call, BIAS, &index[1]) : 0.0;
    for (int64_t r = 0; r < weight->sizes[2]; r++)
        for (int64_t s = 0; s < weight->sizes[3]; s++) {
            const int64_t at[] = {index[0], index[1],
                                  index[2] * conv->stride[0] + r - conv->padding[0],
                                  index[3] * conv->stride[1] + s - conv->padding[1]};
            const int64_t at_weight[] = {index[1], 0, r, s};
            if (at[2] < 0 || at[2] >= x->sizes[2] || at[3] < 0 || at[3] >= x->sizes[3]) continue;
            sum += expand_at(call, at) * spec_at(call, WEIGHT, at_weight);
        }
    return spec_post(call, &conv->post, POST, sum, index);
}

/* ---- our own kernel over blocks of channels ---- */

/* Measured: sums over inputs run at SHARE of the peak, storing an element between the convolutions
 * costs as much as LEAVING inputs, and taps run at TAPS_SHARE of the speed of these sums. */
#define SHARE 0.95
#define LEAVING 2
#define TAPS_SHARE 0.75

/* Reads post-ops from prepared->attrs, because they may have been removed from call->attrs. */
static const char *check(const op_call_t *call, const prepared_t *prepared)
{
    const conv_attrs_t *conv = &((const expand_depthwise_attrs_t *)call->attrs)->conv;
    const post_ops_t *post = attrs_post(&call->op->attrs, prepared->kernel_attrs);
    const tensor_info_t *weight = call->in[WEIGHT];
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (isa_best() == ISA_PORTABLE) return "slower than oneDNN without AVX2";
    if (call->layout != LAYOUT_MKLDNN) return "mkldnn only";
    if (call->in[X]->dtype != DTYPE_F32) return "f32 only";
    for (int i = EXPAND_BIAS; i <= BIAS; i += BIAS - EXPAND_BIAS)
        if (call_has(call, i) && call->in[i]->dtype != DTYPE_F32) return "a bias of f32 only";
    for (int i = 0; i < post->n; i++)
        if (post->op[i].kind != POST_ELTWISE) return "a post-op with an operand";
    if ((weight->sizes[2] != 3 && weight->sizes[2] != 5) || weight->sizes[3] != weight->sizes[2])
        return "kernels of 3 by 3 and 5 by 5 only";
    if (conv->stride[0] != conv->stride[1] || conv->stride[0] > 2) return "strides of 1 and 2 only";
    return NULL;
}

/* The weight with blocks of the first dimension, or of the first two, with inner blocks of
 * inputs. */
static tensor_info_t blocked_weight(const tensor_info_t *weight, int lanes, int n_dims)
{
    format_t format = format_plain(weight->rank);
    for (int dim = n_dims - 1; dim >= 0; dim--) {
        format.block_dims[format.n_blocks] = (uint8_t)dim;
        format.block_sizes[format.n_blocks++] = (uint16_t)lanes;
    }
    return info_mkldnn(weight, &format);
}

/* Describes the sizes; pointers and activations are set later. */
static expand_depthwise_t describe(const prepared_t *prepared)
{
    const tensor_info_t *x = &prepared->in[X], *result = &prepared->out[0];
    const conv_attrs_t *conv = &((const expand_depthwise_attrs_t *)prepared->attrs)->conv;
    return (expand_depthwise_t){.kernel = (int)prepared->in[WEIGHT].sizes[3],
                                .stride = (int)conv->stride[0],
                                .n_images = x->sizes[0],
                                .n_inputs = x->sizes[1],
                                .n_channels = result->sizes[1],
                                .height = x->sizes[2],
                                .width = x->sizes[3],
                                .out_height = result->sizes[2],
                                .out_width = result->sizes[3],
                                .top = conv->padding[0],
                                .left = conv->padding[1]};
}

static status_t expand_depthwise_prepare_blocks(context_t *ctx, const op_call_t *call,
                                                prepared_t *prepared)
{
    const char *reason = check(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "blocks: %s", reason);
    const isa_t isa = isa_best();
    const int lanes = isa_lanes(isa);
    const format_t blocks = format_channel_blocks(4, lanes), own = info_tag(call->in[X]);
    const tensor_info_t *x = call->in[X];
    if (own.n_blocks == 0 || !format_same(&own, &blocks, x->sizes))
        return prepared_decline(prepared, "blocks: channels in blocks of %d only", lanes);
    TRY(accept_format(call, prepared, X, &blocks));
    TRY(accept_out(call, prepared, 0, &blocks));
    prepared->in[EXPAND] = blocked_weight(call->in[EXPAND], lanes, 2);
    prepared->in[WEIGHT] = blocked_weight(call->in[WEIGHT], lanes, 1);
    for (int i = EXPAND_BIAS; i <= BIAS; i += BIAS - EXPAND_BIAS)
        if (call_has(call, i)) prepared->in[i] = info_dense(DTYPE_F32, 1, call->in[i]->sizes);
    const expand_depthwise_t pair = describe(prepared);
    prepared_set_scratch(prepared, expand_depthwise_scratch(&pair, isa, context_threads(ctx)));
    prepared->cost_ns = cost_layer(
        ctx, "expand_depthwise", 0.9 / SHARE * count(call, LEAVING, 1.0 / TAPS_SHARE),
        (double)info_bytes(x) + (double)info_bytes(&prepared->out[0]),
        (double)info_bytes(&prepared->in[EXPAND]) + (double)info_bytes(&prepared->in[WEIGHT]));
    return STATUS_OK;
}

/* If the first function is a clamp, the kernel computes it; a callback computes the others. */
static expand_depthwise_act_t act_of(post_rest_t *rest)
{
    expand_depthwise_act_t act = {.user = rest};
    const post_ops_t *post = rest->post;
    act.is_clamped = post->n > 0 && post_is_clamp(&post->op[0], &act.lower, &act.upper);
    rest->first = act.is_clamped;
    if (rest->first < post->n) act.finish = post_finish;
    return act;
}

static status_t expand_depthwise_run_blocks(context_t *ctx, const prepared_t *prepared,
                                            void *const *in, void *const *out, void *scratch)
{
    const expand_depthwise_attrs_t *attrs = prepared->kernel_attrs;
    const tensor_info_t *result = &prepared->out[0];
    post_ops_t activation = {0};
    activation.n = activation_op(attrs->activation, &activation.op[0]);
    post_rest_t expand_rest = {&activation, 0}, rest = {&attrs->conv.post, 0};
    const post_rest_t all = rest;
    expand_depthwise_t pair = describe(prepared);
    pair.x = in[X];
    pair.expand = in[EXPAND];
    pair.expand_bias = in[EXPAND_BIAS];
    pair.weight = in[WEIGHT];
    pair.bias = in[BIAS];
    pair.expand_act = act_of(&expand_rest);
    pair.act = act_of(&rest);
    pair.out = out[0];
    const int64_t n_sums = pair.n_images * pair.n_channels * pair.height * pair.width;
    expand_depthwise_run(&pair, isa_best(), threads_for(ctx, n_sums), scratch);
    if (!post_keep_zero(&all)) walk_zero_padding(result, out[0]);
    return STATUS_OK;
}

static const kernel_t blocks = {.name = "expand_depthwise",
                                .prepare = expand_depthwise_prepare_blocks,
                                .run = expand_depthwise_run_blocks,
                                .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel for all other calls ---- */

static status_t expand_depthwise_prepare_native(context_t *ctx, const op_call_t *call,
                                                prepared_t *prepared)
{
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (!dtype_is_floating(call->in[X]->dtype))
        return prepared_decline(prepared, "native: dtype %s", dtype_name(call->in[X]->dtype));
    accept_contiguous(call, prepared, X, BIAS);
    const size_t plane = (size_t)(call->in[X]->sizes[2] * call->in[X]->sizes[3]);
    prepared_set_scratch(prepared, plane * (size_t)context_threads(ctx) * sizeof(double));
    prepared->cost_ns = 1e9;
    return STATUS_OK;
}

typedef struct native_run {
    const prepared_t *prepared;
    void *const *in;
    void *out;
    double *planes; /* one for each thread */
} native_run_t;

static double load(const native_run_t *run, int operand, int64_t at)
{
    const dtype_t dtype = run->prepared->in[operand].dtype;
    return dtype_load(dtype, (const char *)run->in[operand] + at * (int64_t)dtype_size(dtype));
}

/* Computes channel k of image n of the tensor between the convolutions. */
static void expand_plane(const native_run_t *run, int64_t n, int64_t k, double *plane)
{
    const expand_depthwise_attrs_t *attrs = run->prepared->attrs;
    const int64_t *sizes = run->prepared->in[X].sizes, size = sizes[2] * sizes[3];
    const double bias = run->in[EXPAND_BIAS] != NULL ? load(run, EXPAND_BIAS, k) : 0.0;
    post_op_t activation;
    const bool is_active = activation_op(attrs->activation, &activation);
    for (int64_t i = 0; i < size; i++) plane[i] = bias;
    for (int64_t c = 0; c < sizes[1]; c++) {
        const double by = load(run, EXPAND, k * sizes[1] + c);
        for (int64_t i = 0; i < size; i++)
            plane[i] += by * load(run, X, (n * sizes[1] + c) * size + i);
    }
    for (int64_t i = 0; i < size && is_active; i++)
        plane[i] = post_value(&activation, plane[i], 0.0);
}

static double window_sum(const native_run_t *run, int64_t k, int64_t p, int64_t q,
                         const double *plane)
{
    const conv_attrs_t *conv = &((const expand_depthwise_attrs_t *)run->prepared->attrs)->conv;
    const int64_t *sizes = run->prepared->in[X].sizes, *window = run->prepared->in[WEIGHT].sizes;
    double sum = run->in[BIAS] != NULL ? load(run, BIAS, k) : 0.0;
    for (int64_t r = 0; r < window[2]; r++)
        for (int64_t s = 0; s < window[3]; s++) {
            const int64_t h = p * conv->stride[0] + r - conv->padding[0];
            const int64_t w = q * conv->stride[1] + s - conv->padding[1];
            if (h < 0 || h >= sizes[2] || w < 0 || w >= sizes[3]) continue;
            sum += plane[h * sizes[3] + w] * load(run, WEIGHT, (k * window[2] + r) * window[3] + s);
        }
    return sum;
}

static void run_native_planes(void *user, int64_t first, int64_t last, int member)
{
    const native_run_t *run = user;
    const tensor_info_t *x = &run->prepared->in[X], *result = &run->prepared->out[0];
    const int64_t size = (int64_t)dtype_size(result->dtype);
    double *plane = run->planes + member * x->sizes[2] * x->sizes[3];
    for (int64_t i = first; i < last; i++) {
        const int64_t n = i / result->sizes[1], k = i % result->sizes[1];
        expand_plane(run, n, k, plane);
        for (int64_t p = 0; p < result->sizes[2]; p++)
            for (int64_t q = 0; q < result->sizes[3]; q++) {
                const int64_t at = (i * result->sizes[2] + p) * result->sizes[3] + q;
                dtype_store(result->dtype, (char *)run->out + at * size,
                            window_sum(run, k, p, q, plane));
            }
    }
}

static status_t expand_depthwise_run_native(context_t *ctx, const prepared_t *prepared,
                                            void *const *in, void *const *out, void *scratch)
{
    native_run_t run = {prepared, in, out[0], scratch};
    const tensor_info_t *result = &prepared->out[0];
    threads_share_members(context_threads(ctx), result->sizes[0] * result->sizes[1],
                          run_native_planes, &run);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native",
                                .prepare = expand_depthwise_prepare_native,
                                .run = expand_depthwise_run_native};
static const kernel_t *const kernels[] = {&blocks, &native, NULL};

/* ---- definition ---- */

const opdef_t op_def_expand_depthwise = {
    .name = "expand_depthwise",
    FUNCTIONS_OF(expand_depthwise),
    .preference = OP_PREFERS,
    .traits = TRAIT_POST_OPS | TRAIT_BATCHED,
    .attrs = {sizeof(expand_depthwise_attrs_t), sizeof fields / sizeof *fields, fields},
    OPERANDS(operands),
    .kernels = kernels,
    .flops = expand_depthwise_flops};
