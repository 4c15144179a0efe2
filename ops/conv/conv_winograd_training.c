/* Convolutions with Winograd's transforms for weights that change, and gradients of x. The weight
 * stays in the blocked format of direct convolution, like its gradient and the optimizer's state.
 * Each run transforms it. For the gradient of x, the kernel is mirrored, and inputs and outputs are
 * exchanged. */
#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/axes_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

/* Operands of the forward operator. In the operator of the gradient, operand 0 is grad. */
enum { X, WEIGHT, BIAS };

#define SIZE 4            /* size of the transforms */
#define LEAST_CHANNELS 16 /* fewer channels would be padded to this number */

typedef struct state {
    winograd_t winograd; /* without pointers */
    winograd_weight_t weight;
    int64_t first; /* first element of the weight that the transform reads */
    isa_t isa;
    int n_threads;
    int addend;         /* index of the added input, or -1 */
    int64_t n_elements; /* in the transformed weight, before the kernel's scratch */
    char name[CONV_WINOGRAD_NAME_MAX];
} state_t;

/* The layer that a call belongs to; the call may be the forward operator or the gradient. */
typedef struct layer {
    const tensor_info_t *src, *weight, *dst; /* those of the forward operator */
    const int64_t *stride, *padding, *dilation;
    int64_t groups;
} layer_t;

static const char *obstacle(const op_call_t *call, const layer_t *layer)
{
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (layer->src->rank != 4 || layer->stride[0] != 1 ||
        !conv_winograd_fits(layer->weight, layer->stride, layer->dilation, layer->groups, SIZE))
        return "3 by 3 or 5 by 5, stride 1, dilation 1 and one group are needed";
    if (conv_winograd_has_empty_window(layer->src, layer->weight, layer->dst, layer->stride,
                                       layer->padding))
        return CONV_WINOGRAD_EMPTY_WINDOW;
    if (layer->src->dtype != DTYPE_F32 || layer->weight->dtype != DTYPE_F32) return "f32 is needed";
    if (layer->weight->sizes[0] < LEAST_CHANNELS || layer->weight->sizes[1] < LEAST_CHANNELS)
        return "more channels are needed";
    if (call->layout != LAYOUT_MKLDNN) return "blocks of channels are needed";
    return NULL;
}

/* ---- the weight ---- */

/* Finds the weight format that oneDNN's direct convolution prefers if activations have format
 * `blocks`. */
static status_t find_weight_format(context_t *ctx, const layer_t *layer, const format_t *blocks,
                                   format_t *out_format)
{
    const tensor_info_t src = info_mkldnn(layer->src, blocks),
                        dst = info_mkldnn(layer->dst, blocks);
    onednn_problem_t problem = {.kind = ONEDNN_CONVOLUTION,
                                .algorithm = ONEDNN_DIRECT,
                                .n_src = 1,
                                .src = &src,
                                .weight = layer->weight,
                                .dst = &dst};
    for (int i = 0; i < 2; i++) {
        problem.stride[i] = 1;
        problem.dilation[i] = 1;
        problem.pad_begin[i] = layer->padding[i];
        problem.pad_end[i] = dst.sizes[2 + i] - 1 + layer->weight->sizes[2 + i] - src.sizes[2 + i] -
                             layer->padding[i];
    }
    return choose_forward_format(ctx, &problem, out_format);
}

/* Finds the weight's axes. Returns false if the R S elements of a kernel do not have one constant
 * stride. */
static bool find_axes(const tensor_info_t *weight, axis_t *axes)
{
    return axes_find(weight, axes) && axes[2].block == 1 && axes[3].block == 1 &&
           axes[2].outer == axes[3].outer * weight->sizes[3];
}

static status_t settle_weight(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                              const layer_t *layer, const format_t *blocks, bool is_mirrored,
                              state_t *made)
{
    const winograd_t *w = &made->winograd;
    tensor_info_t *weight = &prepared->in[WEIGHT];
    format_t format;
    axis_t axes[TENSOR_MAX_RANK];
    const status_t status = find_weight_format(ctx, layer, blocks, &format);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "winograd: direct convolution has no weight in blocks");
    TRY(status);
    *weight = info_mkldnn(call->in[WEIGHT], &format);
    if (!find_axes(weight, axes))
        return prepared_decline(prepared, "winograd: reads no weight %s", info_brief(weight));
    const int64_t step = axes[3].outer;
    made->weight = (winograd_weight_t){.tile = w->tile,
                                       .kernel = w->kernel,
                                       .stride = 1,
                                       .inputs = axes[is_mirrored ? 0 : 1],
                                       .outputs = axes[is_mirrored ? 1 : 0],
                                       .element = is_mirrored ? -step : step};
    made->first = is_mirrored ? (w->kernel * w->kernel - 1) * step : 0;
    return STATUS_OK;
}

/* Cost of the transform for each element of the weight, in multiply-adds of double. */
#define PACK_FLOPS 60.0

static double estimate_pack(const context_t *ctx, const winograd_t *w)
{
    const double n = (double)(w->n_inputs * w->n_outputs * w->kernel * w->kernel);
    return cost_run(ctx, "tiles", 2.0 * PACK_FLOPS * n, 0.0);
}

/* Sets everything except the formats of activations, addend and weight. */
static status_t settle(context_t *ctx, const op_call_t *call, prepared_t *prepared, state_t *made)
{
    winograd_t *w = &made->winograd;
    state_t *state = NULL;
    prepared->cost_ns = conv_winograd_estimate(ctx, w, made->isa) + estimate_pack(ctx, w);
    made->n_elements = winograd_weight_elements(w->tile, w->kernel, w->n_inputs, w->n_outputs,
                                                made->isa);
    made->n_threads = threads_for(ctx, info_numel(&call->out[0]) * w->n_inputs / 16);
    prepared_set_scratch(prepared, (size_t)made->n_elements * sizeof(float) +
                                       winograd_scratch(w, made->isa, made->n_threads));
    conv_winograd_name(made->isa, w, made->name);
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    *state = *made;
    prepared->implementation = state->name;
    return STATUS_OK;
}

/* ---- the forward operator ---- */

static status_t conv_winograd_training_prepare(context_t *ctx, const op_call_t *call,
                                               prepared_t *prepared)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT], *out = &call->out[0];
    const layer_t layer = {
        x, weight, out, attrs->stride, attrs->padding, attrs->dilation, attrs->groups};
    const char *why_not = obstacle(call, &layer);
    if (attrs->algorithm != CONV_WINOGRAD_TRAINING) return STATUS_UNSUPPORTED;
    if (why_not != NULL) return prepared_decline(prepared, "winograd: %s", why_not);
    if (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32)
        return prepared_decline(prepared, "winograd: a bias of f32 is needed");
    const isa_t isa = isa_best();
    const format_t blocks = format_channel_blocks(4, (int)isa_lanes(isa));
    state_t made = {.winograd = conv_winograd_describe(x, weight, out, 1, SIZE), .isa = isa};
    made.winograd.top = attrs->padding[0];
    made.winograd.left = attrs->padding[1];
    TRY(accept_format(call, prepared, X, &blocks));
    TRY(accept_out(call, prepared, 0, &blocks));
    TRY(conv_winograd_take_post(call, prepared, &made.winograd, &made.addend));
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    TRY(settle_weight(ctx, call, prepared, &layer, &blocks, false, &made));
    return settle(ctx, call, prepared, &made);
}

/* Runs the forward operator, or the gradient, which has no bias. */
static status_t conv_winograd_training_run(context_t *ctx, const prepared_t *prepared,
                                           void *const *in, void *const *out, void *scratch)
{
    const state_t *state = prepared_state(prepared);
    winograd_t w = state->winograd;
    winograd_weight_t weight = state->weight;
    float *transformed = scratch;
    weight.from = (const float *)in[WEIGHT] + state->first;
    winograd_pack(&weight, state->isa, threads_for(ctx, state->n_elements), transformed);
    w.x = in[X];
    w.weight = transformed;
    w.plain = &weight;
    w.bias = prepared->n_in > BIAS ? in[BIAS] : NULL;
    w.addend = state->addend < 0 ? NULL : in[state->addend];
    w.out = out[0];
    winograd_run(&w, state->isa, state->n_threads, transformed + state->n_elements);
    return STATUS_OK;
}

const kernel_t conv_winograd_training = {.name = "winograd_training",
                                         .prepare = conv_winograd_training_prepare,
                                         .run = conv_winograd_training_run,
                                         .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                                  KERNEL_COMPETES};

/* ---- the gradient of the source ---- */

static status_t conv_winograd_training_prepare_data(context_t *ctx, const op_call_t *call,
                                                    prepared_t *prepared)
{
    const conv_backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *grad = call->in[X], *weight = call->in[WEIGHT], *out = &call->out[0];
    const layer_t layer = {
        out, weight, grad, attrs->stride, attrs->padding, attrs->dilation, attrs->groups};
    const char *why_not = obstacle(call, &layer);
    if (attrs->algorithm != CONV_WINOGRAD_TRAINING) return STATUS_UNSUPPORTED;
    if (why_not != NULL) return prepared_decline(prepared, "winograd: %s", why_not);
    const isa_t isa = isa_best();
    const format_t blocks = format_channel_blocks(4, (int)isa_lanes(isa));
    state_t made = {
        .winograd = conv_winograd_describe(grad, weight, out, 1, SIZE), .isa = isa, .addend = -1};
    made.winograd.top = weight->sizes[2] - 1 - attrs->padding[0];
    made.winograd.left = weight->sizes[3] - 1 - attrs->padding[1];
    TRY(accept_format(call, prepared, X, &blocks));
    TRY(accept_out(call, prepared, 0, &blocks));
    TRY(settle_weight(ctx, call, prepared, &layer, &blocks, true, &made));
    return settle(ctx, call, prepared, &made);
}

const kernel_t conv_winograd_data = {.name = "winograd_training",
                                     .prepare = conv_winograd_training_prepare_data,
                                     .run = conv_winograd_training_run,
                                     .flags = KERNEL_NEEDS_ELEMENTS | KERNEL_COMPETES};
