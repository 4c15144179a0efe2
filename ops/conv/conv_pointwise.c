/* 1x1 convolutions with our own kernels, direct and with Strassen's algorithm, for blocks of
 * channels as wide as a vector; also batch_norm_conv2d, which normalizes x first. The weight has
 * format ABcd16b16a, as in oneDNN's kernels, so files and other kernels share it. */
#include <math.h>
#include <string.h>

#include "kernels/conv/pointwise_impl.h"

#include "dispatch/post_impl.h"
#include "kernels/norm/moments_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/linear/strassen_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };

/* Index of the operand that a post-op adds: the first one after the operator's own operands. */
static int addend_of(const opdef_t *op)
{
    return op->n_operands;
}

static bool is_normed(const opdef_t *op)
{
    return op->n_operands == CONV_NORM_OPERANDS;
}

/* With fewer inputs and many results in an image, storing results dominates, and oneDNN stores
 * faster. */
#define LEAST_INPUTS 32
#define MANY_RESULTS 49

/* Measured: sums run at SHARE of the peak (the default estimate is 0.9), and storing a result takes
 * as long as the products with LEAVING input channels. */
#define SHARE 0.95
#define LEAVING 1

static const char *check_windows(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    if (x->rank != 4 || attrs->groups != 1) return "images and one group only";
    if (weight->sizes[2] != 1 || weight->sizes[3] != 1) return "kernels of 1 by 1 only";
    if (attrs->stride[0] != attrs->stride[1] || attrs->stride[0] > 2)
        return "strides of 1 and 2 only";
    for (int i = 0; i < 2; i++)
        if (attrs->padding[i] != 0 || attrs->extra_padding[i] != 0) return "no padding";
    return NULL;
}

/* Reads post-ops from prepared->attrs, because they may have been removed from call->attrs. */
static const char *check(const op_call_t *call, const prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const post_ops_t *post = &((const conv_attrs_t *)prepared->attrs)->post;
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (isa_best() == ISA_PORTABLE) return "slower than oneDNN without AVX2";
    if (call->layout != LAYOUT_MKLDNN) return "mkldnn only";
    if (x->dtype != DTYPE_F32 || call->in[WEIGHT]->dtype != DTYPE_F32) return "f32 only";
    if (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32) return "a bias of f32 only";
    for (int i = 0; i < post->n; i++) {
        if (post->op[i].kind == POST_ELTWISE) continue;
        const tensor_info_t *operand = call->in[addend_of(call->op)], *out = &call->out[0];
        if (i > 0 || (post->op[i].kind != POST_SUM && post->op[i].kind != POST_ADD))
            return "adds one operand, before any function";
        if (operand->dtype != DTYPE_F32 ||
            !shape_equal(operand->rank, operand->sizes, out->rank, out->sizes))
            return "adds f32 of the result's sizes only";
    }
    return check_windows(call);
}

static bool adds(const post_ops_t *post)
{
    return post->n > 0 && post->op[0].kind != POST_ELTWISE;
}

/* The weight [K][C][1][1] with blocks of K and C; of the two blocks, that of inputs is the outer
 * one. */
static tensor_info_t blocked_weight(const tensor_info_t *weight, int lanes)
{
    format_t format = format_plain(weight->rank);
    for (int dim = 1; dim >= 0; dim--) {
        format.block_dims[format.n_blocks] = (uint8_t)dim;
        format.block_sizes[format.n_blocks++] = (uint16_t)lanes;
    }
    return info_mkldnn(weight, &format);
}

/* Describes the sizes; pointers and post-ops are set later. */
static pointwise_t describe(const prepared_t *prepared)
{
    const tensor_info_t *x = &prepared->in[X], *result = &prepared->out[0];
    return (pointwise_t){.stride = (int)((const conv_attrs_t *)prepared->attrs)->stride[0],
                         .is_scaled = is_normed(prepared->op),
                         .n_images = x->sizes[0],
                         .n_inputs = x->sizes[1],
                         .n_outputs = result->sizes[1],
                         .height = x->sizes[2],
                         .width = x->sizes[3]};
}

/* Bytes of the scale and the shift of all channels, padded. */
static size_t factor_bytes(const pointwise_t *p)
{
    const int64_t lanes = isa_lanes(isa_best());
    return p->is_scaled ? (size_t)(2 * ((p->n_inputs + lanes - 1) / lanes * lanes)) * sizeof(float)
                        : 0;
}

static status_t accept_blocks(const op_call_t *call, prepared_t *prepared)
{
    const char *reason = check(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "pointwise: %s", reason);
    const int lanes = isa_lanes(isa_best());
    const format_t blocks = format_channel_blocks(4, lanes), own = info_tag(call->in[X]);
    const tensor_info_t *x = call->in[X];
    /* x with 16 channels in channels last has the same bytes as one block, but the result must be
     * channels last, too, so such an x is declined. */
    if (own.n_blocks == 0 || !format_same(&own, &blocks, x->sizes))
        return prepared_decline(prepared, "pointwise: channels in blocks of %d only", lanes);
    TRY(accept_format(call, prepared, X, &blocks));
    TRY(accept_out(call, prepared, 0, &blocks));
    if (adds(&((const conv_attrs_t *)prepared->attrs)->post)) {
        TRY(accept_format(call, prepared, addend_of(call->op), &blocks));
        prepared->overwrites = UINT64_C(1) << addend_of(call->op);
    }
    prepared->in[WEIGHT] = blocked_weight(call->in[WEIGHT], lanes);
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    return STATUS_OK;
}

static double estimate(const context_t *ctx, const prepared_t *prepared, const char *name,
                       double flops)
{
    const tensor_info_t *x = &prepared->in[X];
    const int64_t stride = ((const conv_attrs_t *)prepared->attrs)->stride[0];
    return cost_layer(ctx, name, 0.9 / SHARE * flops,
                      (double)info_bytes(x) / (double)(stride * stride) +
                          (double)info_bytes(&prepared->out[0]),
                      (double)info_bytes(&prepared->in[WEIGHT]));
}

static const kernel_rows_t pointwise_rows;

static status_t prepare_any(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(accept_blocks(call, prepared));
    const pointwise_t sizes = describe(prepared);
    if (sizes.stride == 1 && !sizes.is_scaled) conv_set_rows(call, prepared, &pointwise_rows);
    prepared_set_scratch(prepared, factor_bytes(&sizes) +
                                       pointwise_scratch(&sizes, isa_best(), context_threads(ctx)));
    prepared->cost_ns = estimate(ctx, prepared, "pointwise",
                                 2.0 * (double)info_numel(&call->out[0]) *
                                     (double)(sizes.n_inputs + LEAVING));
    return STATUS_OK;
}

static status_t conv_pointwise_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X], *out = &call->out[0];
    if (x->rank == 4 && x->sizes[1] < LEAST_INPUTS && out->sizes[2] * out->sizes[3] > MANY_RESULTS)
        return prepared_decline(prepared, "pointwise: few channels");
    return prepare_any(ctx, call, prepared);
}

static status_t conv_pointwise_prepare_normed(context_t *ctx, const op_call_t *call,
                                              prepared_t *prepared)
{
    if (((const conv_attrs_t *)call->attrs)->stride[0] != 1)
        return prepared_decline(prepared, "pointwise: a norm before a stride of 1 only");
    for (int i = CONV_NORM_WEIGHT; i < CONV_NORM_OPERANDS; i++) {
        if (!call_has(call, i)) continue;
        if (call->in[i]->dtype != DTYPE_F32)
            return prepared_decline(prepared, "pointwise: a norm of f32 only");
        prepared->in[i] = info_dense(DTYPE_F32, 1, call->in[i]->sizes);
    }
    return prepare_any(ctx, call, prepared);
}

/* Converts the norm to a scale and a shift for each channel. Returns the rest of scratch. */
static float *set_norm(const prepared_t *prepared, void *const *in, float *scratch, pointwise_t *p)
{
    const batch_norm_conv_attrs_t *attrs = prepared->attrs;
    const size_t bytes = factor_bytes(p);
    float *shift = scratch + bytes / sizeof(float) / 2;
    memset(scratch, 0, bytes);
    moments_factors(isa_best(), p->n_inputs, attrs->epsilon, in[CONV_NORM_WEIGHT],
                    in[CONV_NORM_BIAS], in[CONV_NORM_MEAN], in[CONV_NORM_VAR], scratch, shift);
    p->scale = scratch;
    p->shift = shift;
    p->is_source_clamped = attrs->activation != BATCH_NORM_NONE;
    p->source_lower = 0.0f;
    p->source_upper = conv_norm_highest(attrs->activation);
    return scratch + bytes / sizeof(float);
}

/* The post-ops of a call: those that the kernel applies, and those that are applied afterwards. */
typedef struct results {
    post_rest_t functions; /* functions: all functions; rest: those that `finish` applies */
    post_rest_t rest;
    const float *addend;
    bool is_clamped;
    float lower, upper;
} results_t;

static results_t find_results(const prepared_t *prepared, void *const *in)
{
    const post_ops_t *post = &((const conv_attrs_t *)prepared->kernel_attrs)->post;
    results_t results = {.functions = {post, adds(post) ? 1 : 0},
                         .addend = adds(post) ? in[addend_of(prepared->op)] : NULL};
    results.rest = results.functions;
    results.is_clamped = results.rest.first < post->n &&
                         post_is_clamp(&post->op[results.rest.first], &results.lower,
                                       &results.upper);
    results.rest.first += results.is_clamped;
    return results;
}

static bool has_rest(const results_t *results)
{
    return results->rest.first < results->rest.post->n;
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch, const image_rows_t *rows)
{
    const tensor_info_t *result = &prepared->out[0];
    const results_t results = find_results(prepared, in);
    pointwise_t p = describe(prepared);
    p.rows = *rows;
    p.x = in[X];
    p.weight = in[WEIGHT];
    p.bias = in[BIAS];
    p.addend = results.addend;
    if (p.is_scaled) scratch = set_norm(prepared, in, scratch, &p);
    p.is_clamped = results.is_clamped;
    p.lower = results.lower;
    p.upper = results.upper;
    if (has_rest(&results)) p.finish = post_finish;
    p.user = &results.rest;
    p.out = out[0];
    pointwise_run(&p, isa_best(), threads_for(ctx, info_numel(result) * p.n_inputs / 16), scratch);
    if (!post_keep_zero(&results.functions)) walk_zero_padding(result, out[0]);
    return STATUS_OK;
}

static status_t conv_pointwise_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                   void *const *out, void *scratch)
{
    return run_rows(ctx, prepared, in, out, scratch, &(image_rows_t){0});
}

static const kernel_rows_t pointwise_rows = {.run = run_rows};

/* ---- with Strassen's algorithm ---- */

static strassen_t describe_strassen(const prepared_t *prepared)
{
    const tensor_info_t *x = &prepared->in[X], *result = &prepared->out[0];
    const int64_t stride = ((const conv_attrs_t *)prepared->attrs)->stride[0];
    const int64_t lanes = isa_lanes(isa_best()), plane = x->sizes[2] * x->sizes[3];
    const int64_t n_rows = result->sizes[2] * result->sizes[3];
    return (strassen_t){.n_images = x->sizes[0],
                        .n_rows = n_rows,
                        .n_inputs = x->sizes[1],
                        .n_outputs = result->sizes[1],
                        .x_image = x->sizes[1] * plane,
                        .x_row = stride * lanes,
                        .x_block = plane * lanes,
                        .line_rows = result->sizes[3],
                        .x_line = stride * x->sizes[3] * lanes,
                        .weight_outputs = lanes,
                        .weight_block = x->sizes[1] * lanes,
                        .out_image = result->sizes[1] * n_rows,
                        .out_row = lanes,
                        .out_block = n_rows * lanes};
}

/* If two threads divide an image, Strassen's algorithm gives each of them rows from both halves,
 * but other kernels give each one half. So half of the addend's rows that a thread reads were
 * written by the other core. Measured on Zen 4 with cores that share no cache: this takes 1.1 to
 * 1.4 times as long. So with an addend, Strassen's algorithm must be faster by more than this
 * factor. */
#define SCATTERED 1.06

static status_t conv_pointwise_prepare_strassen(context_t *ctx, const op_call_t *call,
                                                prepared_t *prepared)
{
    const int algorithm = ((const conv_attrs_t *)call->attrs)->algorithm;
    const bool is_only = algorithm == CONV_STRASSEN_ONLY;
    if (!is_only && algorithm != CONV_STRASSEN) return STATUS_UNSUPPORTED; /* not requested */
    TRY(accept_blocks(call, prepared));
    const strassen_t sizes = describe_strassen(prepared);
    TRY(strassen_accept(prepared, sizes.n_inputs, sizes.n_outputs, sizes.n_rows, is_only));
    prepared_set_scratch(prepared, strassen_scratch(&sizes, isa_best(), context_threads(ctx)));
    prepared->cost_ns = estimate(ctx, prepared, "strassen",
                                 strassen_flops(&sizes, isa_best(), context_threads(ctx)));
    if (sizes.n_images < context_threads(ctx) &&
        adds(&((const conv_attrs_t *)prepared->attrs)->post))
        prepared->cost_ns *= SCATTERED;
    return STATUS_OK;
}

static void finish_row(const void *user, int64_t row, int64_t column, int64_t n, float *values)
{
    (void)row, (void)column;
    post_finish(user, values, n);
}

static status_t conv_pointwise_run_strassen(context_t *ctx, const prepared_t *prepared,
                                            void *const *in, void *const *out, void *scratch)
{
    const results_t results = find_results(prepared, in);
    strassen_t s = describe_strassen(prepared);
    s.x = in[X];
    s.weight = in[WEIGHT];
    s.bias = in[BIAS];
    s.addend = results.addend;
    s.is_clamped = results.is_clamped;
    s.lower = results.lower;
    s.upper = results.upper;
    if (has_rest(&results)) s.finish = finish_row;
    s.user = &results.rest;
    s.out = out[0];
    strassen_run(&s, isa_best(), threads_for(ctx, info_numel(&prepared->out[0]) * s.n_inputs / 16),
                 scratch);
    return STATUS_OK;
}

const kernel_t conv_pointwise = {.name = "pointwise",
                                 .prepare = conv_pointwise_prepare,
                                 .run = conv_pointwise_run,
                                 .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                          KERNEL_COMPETES};
const kernel_t conv_pointwise_normed = {.name = "pointwise",
                                        .prepare = conv_pointwise_prepare_normed,
                                        .run = conv_pointwise_run,
                                        .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS};
const kernel_t conv_strassen = {.name = "strassen",
                                .prepare = conv_pointwise_prepare_strassen,
                                .run = conv_pointwise_run_strassen,
                                .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                         KERNEL_COMPETES};
