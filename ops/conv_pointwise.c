/* Convolutions with kernels of 1 by 1 by a kernel of our own, over channels in blocks as wide as a
 * vector, and those that read what a batch norm makes: batch_norm_conv2d. The weight lies as
 * oneDNN's kernels want it, ABcd16b16a, so that files and other kernels share it. */
#include <math.h>
#include <string.h>

#include "kernels/pointwise_impl.h"

#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv_impl.h"
#include "ops/norm_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads_impl.h"

enum { X, WEIGHT, BIAS };

/* The operand of a sum stands behind the operator's own. */
static int addend_of(const opdef_t *op)
{
    return op->n_operands;
}

static bool is_normed(const opdef_t *op)
{
    return op->n_operands == CONV_NORM_OPERANDS;
}

/* Results of an image, which have sums of their own in registers: with fewer these wait for each
 * other. */
#define LEAST_RESULTS 7
#define LEAST_INPUTS                                                                               \
    96 /* of fewer the results take longer than the sums: oneDNN leaves them faster */

/* Sums are made at this share of the peak, where estimates say 0.9 of what is not known better; to
 * leave them takes as long as so many channels more. */
#define SHARE 0.95
#define LEAVING 6

static const char *check_windows(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT], *out = &call->out[0];
    if (x->rank != 4 || attrs->groups != 1) return "images and one group only";
    if (weight->sizes[2] != 1 || weight->sizes[3] != 1) return "kernels of 1 by 1 only";
    if (attrs->stride[0] != attrs->stride[1] || attrs->stride[0] > 2)
        return "strides of 1 and 2 only";
    for (int i = 0; i < 2; i++)
        if (attrs->padding[i] != 0 || attrs->extra_padding[i] != 0) return "no padding";
    return out->sizes[2] * out->sizes[3] < LEAST_RESULTS ? "few results" : NULL;
}

/* In `prepared` stand the attributes with the post-ops that may have been peeled off the call. */
static const char *check(const op_call_t *call, const prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const post_ops_t *post = &((const conv_attrs_t *)prepared->attrs)->post;
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (isa_best() == ISA_PORTABLE) return "wants AVX2 or more";
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

/* [K][C][1][1] in blocks of both, inputs outside. */
static tensor_info_t blocked_weight(const tensor_info_t *weight, int lanes)
{
    format_t format = format_plain(weight->rank);
    for (int dim = 1; dim >= 0; dim--) {
        format.block_dims[format.n_blocks] = (uint8_t)dim;
        format.block_sizes[format.n_blocks++] = (uint16_t)lanes;
    }
    return info_mkldnn(weight, &format);
}

/* Without pointers and what becomes of results. */
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

/* Bytes of a scale and of a shift of each channel, padded. */
static size_t factor_bytes(const pointwise_t *p)
{
    const int64_t lanes = isa_lanes(isa_best());
    return p->is_scaled ? (size_t)(2 * ((p->n_inputs + lanes - 1) / lanes * lanes)) * sizeof(float)
                        : 0;
}

static status_t prepare_any(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const char *reason = check(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "pointwise: %s", reason);
    const int lanes = isa_lanes(isa_best());
    const format_t blocks = format_channel_blocks(4, lanes), own = accept_own(call->in[X]);
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    /* Sixteen channels in one block have the bytes of channels last, whose results are such, too.
     */
    if (own.n_blocks == 0 || !format_same(&own, &blocks, x->sizes))
        return prepared_decline(prepared, "pointwise: channels in blocks of %d only", lanes);
    TRY(accept_format(call, prepared, X, &blocks));
    TRY(accept_out(call, prepared, 0, &blocks));
    if (adds(&((const conv_attrs_t *)prepared->attrs)->post)) {
        TRY(accept_format(call, prepared, addend_of(call->op), &blocks));
        prepared->overwrites = UINT64_C(1) << addend_of(call->op);
    }
    prepared->in[WEIGHT] = blocked_weight(weight, lanes);
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    const tensor_info_t *out = &prepared->out[0];
    const pointwise_t sizes = describe(prepared);
    prepared_set_scratch(prepared, factor_bytes(&sizes) +
                                       pointwise_scratch(&sizes, isa_best(), context_threads(ctx)));
    prepared->cost_ns = cost_layer(
        ctx, "pointwise",
        0.9 / SHARE * 2.0 * (double)info_numel(&call->out[0]) * (double)(x->sizes[1] + LEAVING),
        (double)info_bytes(x) / (double)(sizes.stride * sizes.stride) + (double)info_bytes(out),
        (double)info_bytes(&prepared->in[WEIGHT]));
    return STATUS_OK;
}

static status_t prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    if (call->in[X]->rank == 4 && call->in[X]->sizes[1] < LEAST_INPUTS)
        return prepared_decline(prepared, "pointwise: few channels");
    return prepare_any(ctx, call, prepared);
}

static status_t prepare_normed(context_t *ctx, const op_call_t *call, prepared_t *prepared)
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

/* The norm as a scale and a shift of each channel; gives the rest of the scratch. */
static float *set_norm(const prepared_t *prepared, void *const *in, float *scratch, pointwise_t *p)
{
    const batch_norm_conv_attrs_t *attrs = prepared->attrs;
    const size_t bytes = factor_bytes(p);
    float *shift = scratch + bytes / sizeof(float) / 2;
    memset(scratch, 0, bytes);
    norm_factors(p->n_inputs, attrs->epsilon, in[CONV_NORM_WEIGHT], in[CONV_NORM_BIAS],
                 in[CONV_NORM_MEAN], in[CONV_NORM_VAR], scratch, shift);
    p->scale = scratch;
    p->shift = shift;
    p->is_source_clamped = attrs->activation != BATCH_NORM_NONE;
    p->source_lower = 0.0f;
    p->source_upper = conv_norm_highest(attrs->activation);
    return scratch + bytes / sizeof(float);
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    const post_ops_t *post = &((const conv_attrs_t *)prepared->kernel_attrs)->post;
    const tensor_info_t *result = &prepared->out[0];
    const post_rest_t functions = {post, adds(post) ? 1 : 0};
    post_rest_t rest = functions;
    pointwise_t p = describe(prepared);
    p.x = in[X];
    p.weight = in[WEIGHT];
    p.bias = in[BIAS];
    p.addend = adds(post) ? in[addend_of(prepared->op)] : NULL;
    if (p.is_scaled) scratch = set_norm(prepared, in, scratch, &p);
    p.user = &rest;
    p.out = out[0];
    p.is_clamped = rest.first < post->n && post_is_clamp(&post->op[rest.first], &p.lower, &p.upper);
    rest.first += p.is_clamped;
    if (rest.first < post->n) p.finish = post_finish;
    pointwise_run(&p, isa_best(), threads_for(ctx, info_numel(result) * p.n_inputs / 16), scratch);
    if (!post_keep_zero(&functions)) walk_zero_padding(result, out[0]);
    return STATUS_OK;
}

const kernel_t conv_pointwise = {.name = "pointwise",
                                 .prepare = prepare,
                                 .run = run,
                                 .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                          KERNEL_COMPETES};
const kernel_t conv_pointwise_normed = {.name = "pointwise",
                                        .prepare = prepare_normed,
                                        .run = run,
                                        .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS};
