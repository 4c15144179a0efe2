/* Convolutions with few output or input channels and any windows. In kernel `taps` a vector holds
 * adjacent elements of the result's last dimension. oneDNN's vectors hold output channels, so a
 * single output would use one of eight lanes. Kernel `taps_blocks` is for many outputs of few
 * inputs, as in the first layer of a network: its vectors are blocks of outputs, and its weight has
 * format Acdb16a, as in oneDNN's kernels. */
#include <string.h>

#include "kernels/conv/taps_impl.h"

#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };

#define MOST_OUTPUTS 64 /* in a group; with more outputs, vectors of channels are as fast */
#define FEW_OUTPUTS 15  /* the limit if oneDNN need not reorder: it fills two vectors then */

#define MOST_INPUTS 4 /* for blocks of outputs; with more, oneDNN uses blocks of inputs, too */
/* measured share of the peak; oneDNN's kernel needs OpenMP as well */
#define SHARE_OF_BLOCKS 0.91

/* If the last dimension is 1, moves the windows to it: sizes [L, 1] become [1, L]. */
static void squeeze(taps_t *t)
{
    for (int i = 2; i > 0; i--) {
        int from = i;
        while (from >= 0 && t->in[from] == 1 && t->out[from] == 1 && t->kernel[from] == 1) from--;
        if (from < 0 || from == i) continue;
        int64_t *const fields[] = {t->in, t->out, t->kernel, t->stride, t->dilation, t->padding};
        static const int64_t one[] = {1, 1, 1, 1, 1, 0};
        for (int f = 0; f < 6; f++) {
            fields[f][i] = fields[f][from];
            fields[f][from] = one[f];
        }
    }
}

static taps_t describe(const tensor_info_t *x, const tensor_info_t *weight,
                       const tensor_info_t *out, const conv_attrs_t *attrs)
{
    const planes_t p = planes_between(x, weight, out, attrs->stride, attrs->dilation,
                                      attrs->padding, attrs->groups);
    taps_t t = {.n_images = x->sizes[0],
                .groups = p.groups,
                .group_channels = p.group_channels,
                .group_outputs = p.group_outputs};
    for (int i = 0; i < 3; i++) {
        t.in[i] = p.in[i];
        t.out[i] = p.out[i];
        t.kernel[i] = p.kernel[i];
        t.stride[i] = p.stride[i];
        t.dilation[i] = p.dilation[i];
        t.padding[i] = p.padding[i];
    }
    squeeze(&t);
    return t;
}

/* True if oneDNN need not reorder in each call: x is blocked, or the weight is packed once. */
static bool is_blocked(const op_call_t *call)
{
    return call->weights != WEIGHT_GIVEN || format_is_blocked(&call->in[X]->format);
}

/* Reads post-ops from prepared->attrs, because they may have been removed from call->attrs. */
static const char *check_common(const op_call_t *call, const prepared_t *prepared)
{
    const post_ops_t *post = &((const conv_attrs_t *)prepared->attrs)->post;
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (isa_best() == ISA_PORTABLE) return "slower than oneDNN without AVX2";
    if (call->layout != LAYOUT_MKLDNN) return "mkldnn only";
    for (int i = X; i <= BIAS; i++)
        if (call_has(call, i) && call->in[i]->dtype != DTYPE_F32) return "f32 only";
    for (int i = 0; i < post->n; i++)
        if (post->op[i].kind != POST_ELTWISE) return "a post-op with an operand";
    if (info_numel(&call->out[0]) == 0 || info_numel(call->in[WEIGHT]) == 0) return "empty";
    return NULL;
}

static const char *check(const op_call_t *call, const prepared_t *prepared)
{
    const char *reason = check_common(call, prepared);
    if (reason != NULL) return reason;
    if (call->in[WEIGHT]->sizes[0] / ((const conv_attrs_t *)call->attrs)->groups >
        (is_blocked(call) ? FEW_OUTPUTS : MOST_OUTPUTS))
        return "many outputs";
    return NULL;
}

/* Measured share of the peak. With one output, each product must load a vector of x. Lanes past the
 * end of a row are wasted. */
static double share_of_peak(const taps_t *t)
{
    const int64_t lanes = isa_lanes(isa_best()), width = t->out[2];
    const int64_t computed = (width + lanes - 1) / lanes * lanes;
    const double filled = (double)width / (double)computed;
    return filled * (t->group_outputs == 1 ? 0.6 : 0.75);
}

static status_t conv_taps_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const char *reason = check(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "taps: %s", reason);
    const tensor_info_t *weight = call->in[WEIGHT];
    const format_t plain = format_plain(call->in[X]->rank);
    const taps_t t = describe(call->in[X], weight, &call->out[0], call->attrs);
    const int n_threads = threads_for(ctx, info_numel(&call->out[0]) * (int64_t)t.group_channels);
    taps_shape_t shape;
    if (!taps_describe(&t, &shape))
        return prepared_decline(prepared, "taps: the rows of a window are too long");
    TRY(accept_format(call, prepared, X, &plain));
    TRY(accept_out(call, prepared, 0, &plain));
    prepared->in[WEIGHT] = info_dense(DTYPE_F32, weight->rank, weight->sizes);
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    prepared_set_scratch(prepared, taps_scratch(&t, n_threads));
    const double flops = 2.0 * (double)info_numel(&call->out[0]) * (double)shape.n_taps;
    const double copied = (double)(t.n_images * t.groups * t.out[0] * shape.n_strips) *
                          (double)shape.bytes;
    prepared->cost_ns = cost_run(ctx, "taps", 0.9 / share_of_peak(&t) * flops,
                                 (double)info_bytes(call->in[X]) +
                                     (double)info_bytes(&call->out[0])) +
                        copied / (cost_limits().reorder * n_threads);
    return STATUS_OK;
}

/* ---- blocks of outputs ---- */

static const char *check_blocks(const op_call_t *call, const prepared_t *prepared)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    const char *reason = check_common(call, prepared);
    if (reason != NULL) return reason;
    if (weight->rank != 4 || ((const conv_attrs_t *)call->attrs)->groups != 1)
        return "images and one group only";
    if (weight->sizes[1] > MOST_INPUTS) return "many inputs";
    return weight->sizes[0] <= FEW_OUTPUTS ? "few outputs" : NULL;
}

/* The weight [K][C][R][S] with blocks of outputs; the inputs of an element of the window are
 * adjacent. */
static tensor_info_t blocked_weight(const tensor_info_t *weight, int lanes)
{
    static const uint8_t inputs_inside[] = {0, 2, 3, 1};
    format_t format = format_plain(weight->rank);
    memcpy(format.order, inputs_inside, sizeof inputs_inside);
    format.block_dims[format.n_blocks] = 0;
    format.block_sizes[format.n_blocks++] = (uint16_t)lanes;
    return info_mkldnn(weight, &format);
}

static const kernel_rows_t blocks_rows;

static status_t conv_taps_prepare_blocks(context_t *ctx, const op_call_t *call,
                                         prepared_t *prepared)
{
    const char *reason = check_blocks(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "taps_blocks: %s", reason);
    const tensor_info_t *weight = call->in[WEIGHT];
    const int lanes = isa_lanes(isa_best());
    const format_t blocks = format_channel_blocks(4, lanes);
    taps_t t = describe(call->in[X], weight, &call->out[0], call->attrs);
    const int n_threads = threads_for(ctx, info_numel(&call->out[0]) * t.group_channels);
    taps_shape_t shape;
    t.is_blocked = true;
    if (!taps_describe(&t, &shape))
        return prepared_decline(prepared, "taps_blocks: the rows of a window are too long");
    TRY(accept_plain(call, prepared, X));
    TRY(accept_out(call, prepared, 0, &blocks));
    prepared->in[WEIGHT] = blocked_weight(weight, lanes);
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    conv_set_rows(call, prepared, &blocks_rows);
    prepared_set_scratch(prepared, taps_scratch(&t, n_threads));
    const double flops = 2.0 * (double)info_numel(&call->out[0]) * (double)shape.n_taps;
    prepared->cost_ns = cost_run(ctx, "taps", 0.9 / SHARE_OF_BLOCKS * flops,
                                 (double)info_bytes(call->in[X]) +
                                     (double)info_bytes(&prepared->out[0]));
    return STATUS_OK;
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch, const image_rows_t *rows)
{
    const conv_attrs_t *attrs = prepared->kernel_attrs;
    const tensor_info_t *result = &prepared->out[0];
    const post_rest_t all = {&attrs->post, 0};
    post_rest_t rest = all;
    taps_t t = describe(&prepared->in[X], &prepared->in[WEIGHT], result, attrs);
    t.is_blocked = true;
    t.rows = *rows;
    t.x = in[X];
    t.weight = in[WEIGHT];
    t.bias = in[BIAS];
    t.out_values = out[0];
    t.is_clamped = attrs->post.n > 0 && post_is_clamp(&attrs->post.op[0], &t.lower, &t.upper);
    rest.first = t.is_clamped;
    if (rest.first < attrs->post.n) t.finish = post_finish;
    t.user = &rest;
    taps_run(&t, isa_best(), threads_for(ctx, info_numel(result) * t.group_channels), scratch);
    if (!post_keep_zero(&all)) walk_zero_padding(result, out[0]);
    return STATUS_OK;
}

static status_t conv_taps_run_blocks(context_t *ctx, const prepared_t *prepared, void *const *in,
                                     void *const *out, void *scratch)
{
    return run_rows(ctx, prepared, in, out, scratch, &(image_rows_t){0});
}

static const kernel_rows_t blocks_rows = {.run = run_rows};

/* ---- vectors of adjacent results ---- */

static status_t conv_taps_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                              void *const *out, void *scratch)
{
    const conv_attrs_t *attrs = prepared->kernel_attrs;
    const tensor_info_t *result = &prepared->out[0];
    const post_rest_t rest = {&attrs->post, 0};
    taps_t t = describe(&prepared->in[X], &prepared->in[WEIGHT], result, attrs);
    t.x = in[X];
    t.weight = in[WEIGHT];
    t.bias = in[BIAS];
    t.out_values = out[0];
    t.finish = attrs->post.n > 0 ? post_finish : NULL;
    t.user = &rest;
    taps_run(&t, isa_best(), threads_for(ctx, info_numel(result) * t.group_channels), scratch);
    return STATUS_OK;
}

const kernel_t conv_taps = {.name = "taps",
                            .prepare = conv_taps_prepare,
                            .run = conv_taps_run,
                            .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                     KERNEL_COMPETES};
const kernel_t conv_taps_blocks = {.name = "taps_blocks",
                                   .prepare = conv_taps_prepare_blocks,
                                   .run = conv_taps_run_blocks,
                                   .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                            KERNEL_COMPETES};
