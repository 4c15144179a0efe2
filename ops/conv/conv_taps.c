/* Convolutions with few output or input channels and any windows. A vector holds adjacent elements
 * of the result's last dimension. oneDNN's vectors hold output channels, so a single output would
 * use one of eight lanes. */
#include "kernels/conv/taps_impl.h"

#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };

#define MOST_OUTPUTS 64 /* in a group; with more outputs, vectors of channels are as fast */
#define FEW_OUTPUTS 15  /* the limit if oneDNN need not reorder: it fills two vectors then */

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
static const char *check(const op_call_t *call, const prepared_t *prepared)
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
