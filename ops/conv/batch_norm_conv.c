/* A convolution fused with the batch norm and activation before it, whose result is never written
 * to memory. The graph pass fuse_norm_conv emits this operator. */
#include <math.h>
#include <string.h>

#include "dispatch/post_impl.h"
#include "kernels/norm/moments_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const char *const activations[] = {"none", "relu", "relu6", NULL};

static const attr_field_t fields[] = {
    CONV_FIELDS(2), FIELD_POST(conv_attrs_t, post),
    FIELD_FLOAT(batch_norm_conv_attrs_t, epsilon, 1e-5),
    FIELD_NAME(batch_norm_conv_attrs_t, activation, 0, activations)};

static const operand_t operands[] = {
    {"x", ROLE_ACTIVATION, false, false},     {"weight", ROLE_WEIGHT, false, false},
    {"bias", ROLE_BIAS, true, false},         {"norm_weight", ROLE_BIAS, true, false},
    {"norm_bias", ROLE_BIAS, true, false},    {"running_mean", ROLE_STATE, false, false},
    {"running_var", ROLE_STATE, false, false}};
enum { X, WEIGHT, BIAS };

float conv_norm_highest(int activation)
{
    return activation == BATCH_NORM_RELU6 ? 6.0f : INFINITY;
}

/* ---- inference ---- */

static status_t batch_norm_conv_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                      tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    TRY(conv_infer(ctx, call, DTYPE_F32, &out[0]));
    REQUIRE(ctx, x->dtype == DTYPE_F32 && weight->dtype == DTYPE_F32,
            "%s: x is %s, weight is %s, f32 is needed", op, info_brief(x), info_brief(weight));
    for (int i = BIAS; i < CONV_NORM_OPERANDS; i++) {
        const tensor_info_t *info = call->in[i];
        const int64_t n = i == BIAS ? weight->sizes[0] : x->sizes[1];
        if (!call_has(call, i)) continue;
        REQUIRE(ctx,
                info->dtype == DTYPE_F32 && info->rank == 1 && sym_equal(ctx, info->sizes[0], n),
                "%s: %s is %s, f32[%lld] is needed", op, operands[i].name, info_brief(info),
                (long long)n);
    }
    return accept_post(ctx, call, &out[0]);
}

/* ---- specification ---- */

static double normed(const spec_call_t *call, const int64_t *at)
{
    const batch_norm_conv_attrs_t *attrs = call->attrs;
    const int64_t *channel = &at[1];
    double value = (spec_at(call, X, at) - spec_at(call, CONV_NORM_MEAN, channel)) /
                   sqrt(spec_at(call, CONV_NORM_VAR, channel) + attrs->epsilon);
    if (spec_has(call, CONV_NORM_WEIGHT)) value *= spec_at(call, CONV_NORM_WEIGHT, channel);
    if (spec_has(call, CONV_NORM_BIAS)) value += spec_at(call, CONV_NORM_BIAS, channel);
    if (attrs->activation == BATCH_NORM_NONE) return value;
    return eltwise_value(ELTWISE_CLAMP, value, 0.0, conv_norm_highest(attrs->activation));
}

static double batch_norm_conv_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const conv_attrs_t *attrs = &((const batch_norm_conv_attrs_t *)call->attrs)->conv;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const int64_t group = index[1] / (weight->sizes[0] / attrs->groups);
    int64_t window[3] = {0};
    double sum = spec_has(call, BIAS) ? spec_at(call, BIAS, &index[1]) : 0.0;
    do {
        const int64_t at[] = {
            index[0], group * weight->sizes[1] + window[0],
            index[2] * attrs->stride[0] + window[1] * attrs->dilation[0] - attrs->padding[0],
            index[3] * attrs->stride[1] + window[2] * attrs->dilation[1] - attrs->padding[1]};
        const int64_t of_weight[] = {index[1], window[0], window[1], window[2]};
        if (at[2] < 0 || at[2] >= x->sizes[2] || at[3] < 0 || at[3] >= x->sizes[3]) continue;
        sum += normed(call, at) * spec_at(call, WEIGHT, of_weight);
    } while (shape_next(3, &weight->sizes[1], window));
    return spec_post(call, &attrs->post, CONV_NORM_OPERANDS, sum, index);
}

/* ---- our own kernel: for layouts and windows that conv_pointwise.c does not support ---- */

static status_t batch_norm_conv_prepare_native(context_t *ctx, const op_call_t *call,
                                               prepared_t *prepared)
{
    (void)ctx;
    TRY(planes_prepare(call, prepared));
    for (int i = CONV_NORM_WEIGHT; i < CONV_NORM_OPERANDS; i++)
        if (call_has(call, i)) prepared->in[i] = info_dense(DTYPE_F32, 1, call->in[i]->sizes);
    prepared_set_scratch(prepared, info_bytes(&prepared->in[X]) +
                                       (size_t)(2 * call->in[X]->sizes[1]) * sizeof(float));
    return STATUS_OK;
}

static status_t batch_norm_conv_run_native(context_t *ctx, const prepared_t *prepared,
                                           void *const *in, void *const *out, void *scratch)
{
    const batch_norm_conv_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[X];
    float *made = scratch, *scale = made + info_numel(x), *shift = scale + x->sizes[1];
    const float lowest = attrs->activation == BATCH_NORM_NONE ? -INFINITY : 0.0f;
    moments_factors(isa_best(), x->sizes[1], attrs->epsilon, in[CONV_NORM_WEIGHT],
                    in[CONV_NORM_BIAS], in[CONV_NORM_MEAN], in[CONV_NORM_VAR], scale, shift);
    planes_norm(x->sizes[0], x->sizes[1], x->sizes[2] * x->sizes[3], in[X], scale, shift, lowest,
                conv_norm_highest(attrs->activation), made, threads_for(ctx, info_numel(x)));
    const planes_t planes = planes_describe(prepared, attrs->conv.stride, attrs->conv.dilation,
                                            attrs->conv.padding, attrs->conv.groups);
    void *const normed_in[] = {made, in[WEIGHT], in[BIAS]};
    planes_run(ctx, prepared, &planes, planes_direct, normed_in, out[0]);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = batch_norm_conv_prepare_native, .run = batch_norm_conv_run_native};
static const kernel_t *const kernels[] = {&conv_pointwise_normed, &native, NULL};

/* ---- definition ---- */

const opdef_t op_def_batch_norm_conv2d = {
    .name = "batch_norm_conv2d",
    .preference = OP_PREFERS,
    .traits = TRAIT_POST_OPS | TRAIT_BATCHED,
    .attrs = {sizeof(batch_norm_conv_attrs_t), sizeof fields / sizeof *fields, fields},
    .n_operands = CONV_NORM_OPERANDS,
    .operands = operands,
    .n_outputs = 1,
    .infer = batch_norm_conv_infer,
    .infers_symbols = true,
    .kernels = kernels,
    .spec = batch_norm_conv_spec,
    .flops = ops_flops_of_weight};

/* ---- public ---- */

status_t op_batch_norm_conv2d(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                              const tensor_t *bias, const tensor_t *norm_weight,
                              const tensor_t *norm_bias, const tensor_t *running_mean,
                              const tensor_t *running_var, const batch_norm_conv_attrs_t *attrs,
                              tensor_t **out)
{
    const tensor_t *in[] = {x, weight, bias, norm_weight, norm_bias, running_mean, running_var};
    return dispatch_run(ctx, &op_def_batch_norm_conv2d, attrs, CONV_NORM_OPERANDS, in, NULL, out);
}
