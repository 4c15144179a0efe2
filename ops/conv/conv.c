/* Convolution over one to three spatial dimensions. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "ops/conv/planes_impl.h"
#include "ops/gradient_impl.h"
#include "ops/linear/strassen_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

#define FIELDS(n)                                                                                  \
    CONV_FIELDS(n), FIELD_NAME(conv_attrs_t, algorithm, CONV_DIRECT, conv_algorithm_names),        \
        FIELD_POST(conv_attrs_t, post)

const char *const conv_algorithm_names[] = {
    "direct",     "winograd",   "winograd_training", "winograd_up_to_2", "winograd_up_to_6",
    "winograd_2", "winograd_4", "winograd_6",        "strassen",         "strassen_only",
    NULL};

static const attr_field_t fields_1d[] = {FIELDS(1)};
static const attr_field_t fields_2d[] = {FIELDS(2)};
static const attr_field_t fields_3d[] = {FIELDS(3)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_WEIGHT, false, false},
                                     {"bias", ROLE_BIAS, true, false}};
enum { X, WEIGHT, BIAS, POST };

/* ---- inference ---- */

static status_t check_channels(context_t *ctx, const op_call_t *call, int rank)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    REQUIRE(ctx, x->rank == rank, "%s: x is %s, rank %d is needed", op, info_brief(x), rank);
    REQUIRE(ctx, weight->rank == rank, "%s: weight is %s, rank %d is needed", op,
            info_brief(weight), rank);
    REQUIRE(ctx, sym_at_most(ctx, 1, attrs->groups), "%s: groups=%lld, at least 1 is needed", op,
            (long long)attrs->groups);
    REQUIRE(ctx, sym_divides(ctx, attrs->groups, weight->sizes[0]),
            "%s: weight %s, its %lld outputs do not divide by %lld groups", op, info_brief(weight),
            (long long)weight->sizes[0], (long long)attrs->groups);
    int64_t channels = 0;
    REQUIRE(ctx, sizes_multiply(ctx, weight->sizes[1], attrs->groups, &channels),
            "%s: weight %s with %lld groups overflows", op, info_brief(weight),
            (long long)attrs->groups);
    REQUIRE(ctx, sym_equal(ctx, x->sizes[1], channels),
            "%s: weight %s needs %lld input channels, input %s has %lld", op, info_brief(weight),
            (long long)channels, info_brief(x), (long long)x->sizes[1]);
    return STATUS_OK;
}

status_t conv_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    int n_spatial = call->op->attrs.fields[0].length;
    TRY(check_channels(ctx, call, n_spatial + 2));
    int64_t sizes[TENSOR_MAX_RANK] = {x->sizes[0], weight->sizes[0]};
    for (int i = 0; i < n_spatial; i++) {
        int64_t stride = attrs->stride[i], dilation = attrs->dilation[i], pad = attrs->padding[i];
        int64_t kernel = weight->sizes[2 + i], window = 0, padded = 0;
        int64_t extra = attrs->extra_padding[i];
        REQUIRE(ctx,
                sym_at_most(ctx, 1, stride) && sym_at_most(ctx, 1, dilation) &&
                    sizes_within(ctx, pad, 0, INT32_MAX),
                "%s: stride %lld, dilation %lld, padding %lld, at least 1, 1 and 0 are needed", op,
                (long long)stride, (long long)dilation, (long long)pad);
        REQUIRE(ctx,
                sym_at_most(ctx, 0, sym_add(ctx, extra, pad)) &&
                    (sym_is(extra) || extra <= INT32_MAX),
                "%s: extra_padding %lld after padding %lld, a sum of at least 0 is needed", op,
                (long long)extra, (long long)pad);
        REQUIRE(ctx, sym_at_most(ctx, 1, kernel), "%s: weight %s, kernels of at least 1 are needed",
                op, info_brief(weight));
        bool fits = sizes_multiply(ctx, sym_subtract(ctx, kernel, 1), dilation, &window) &&
                    sizes_add(ctx, sym_add(ctx, sym_add(ctx, pad, pad), extra), x->sizes[2 + i],
                              &padded);
        REQUIRE(ctx, fits && sym_less(ctx, window, padded),
                "%s: kernel %lld with dilation %lld is larger than the padded input %lld of %s", op,
                (long long)kernel, (long long)dilation, (long long)padded, info_brief(x));
        const int64_t last = sym_subtract(ctx, sym_subtract(ctx, padded, window), 1);
        sizes[2 + i] = sym_add(ctx, sym_divide(ctx, last, stride), 1);
    }
    TRY(shape_check(ctx, op, dtype, n_spatial + 2, sizes));
    *out = info_dense(dtype, n_spatial + 2, sizes);
    return STATUS_OK;
}

static status_t conv_infer_floating(context_t *ctx, const op_call_t *call, int *out_n,
                                    tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    TRY(conv_infer(ctx, call, x->dtype, &out[0]));
    REQUIRE(ctx, x->dtype == weight->dtype, "%s: x is %s, weight is %s, equal dtypes are needed",
            op, dtype_name(x->dtype), dtype_name(weight->dtype));
    if (call_has(call, BIAS))
        REQUIRE(ctx,
                call->in[BIAS]->rank == 1 &&
                    sym_equal(ctx, call->in[BIAS]->sizes[0], weight->sizes[0]),
                "%s: bias is %s, [%lld] is needed", op, info_brief(call->in[BIAS]),
                (long long)weight->sizes[0]);
    return accept_post(ctx, call, &out[0]);
}

/* ---- specification ---- */

double conv_spec_sum(const spec_call_t *call, const conv_attrs_t *attrs, double x_zero,
                     double weight_zero, const int64_t *index)
{
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    int64_t at_x[TENSOR_MAX_RANK] = {index[0]}, at_weight[TENSOR_MAX_RANK] = {index[1]};
    int64_t window[TENSOR_MAX_RANK] = {0};
    int n_spatial = x->rank - 2;
    int64_t per_group = weight->sizes[1], group = index[1] / (weight->sizes[0] / attrs->groups);
    double sum = 0.0;
    do {
        bool is_inside = per_group > 0;
        for (int i = 0; i < n_spatial; i++) {
            at_weight[2 + i] = window[1 + i];
            at_x[2 + i] = index[2 + i] * attrs->stride[i] + window[1 + i] * attrs->dilation[i] -
                          attrs->padding[i];
            is_inside = is_inside && at_x[2 + i] >= 0 && at_x[2 + i] < x->sizes[2 + i];
        }
        at_weight[1] = window[0];
        at_x[1] = group * per_group + window[0];
        if (is_inside)
            sum += (spec_at(call, X, at_x) - x_zero) *
                   (spec_at(call, WEIGHT, at_weight) - weight_zero);
    } while (shape_next(n_spatial + 1, &weight->sizes[1], window));
    return sum;
}

static double conv_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const conv_attrs_t *attrs = call->attrs;
    const double bias = spec_has(call, BIAS) ? spec_at(call, BIAS, &index[1]) : 0.0;
    const double sum = bias + conv_spec_sum(call, attrs, 0.0, 0.0, index);
    return spec_post(call, &attrs->post, POST, sum, index);
}

/* ---- kernel on oneDNN ---- */

tensor_info_t conv_group_weight(const tensor_info_t *weight, int64_t groups)
{
    tensor_info_t info = {.dtype = weight->dtype, .layout = LAYOUT_MKLDNN, .rank = weight->rank};
    memcpy(info.sizes, weight->sizes, sizeof info.sizes);
    if (groups > 1) {
        info.rank++;
        info.sizes[0] = groups;
        info.sizes[1] = weight->sizes[0] / groups;
        memcpy(&info.sizes[2], &weight->sizes[1], (size_t)(weight->rank - 1) * sizeof *info.sizes);
    }
    return info;
}

int64_t conv_reach(const op_call_t *call, int i)
{
    const conv_attrs_t *attrs = call->attrs;
    return (call->out[0].sizes[2 + i] - 1) * attrs->stride[i] +
           (call->in[WEIGHT]->sizes[2 + i] - 1) * attrs->dilation[i] + 1;
}

/* Post-ops must keep padded channels zero, because kernels clear them only for all rows. */
void conv_set_rows(const op_call_t *call, prepared_t *prepared, const kernel_rows_t *rows)
{
    const conv_attrs_t *attrs = prepared->attrs;
    const post_ops_t *post = &attrs->post;
    const post_rest_t functions = {post, post->n > 0 && post->op[0].kind != POST_ELTWISE};
    if (call->in[X]->rank != 4 || call->in[X]->sizes[0] != 1 || !post_keep_zero(&functions)) return;
    prepared->rows = rows;
    prepared->rows_stride = attrs->stride[0];
    prepared->rows_padding = attrs->padding[0];
    prepared->rows_reach = (call->in[WEIGHT]->sizes[2] - 1) * attrs->dilation[0] + 1;
}

double conv_set_windows(const op_call_t *call, onednn_problem_t *problem)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    double n = (double)weight->sizes[1];
    for (int i = 0; i < x->rank - 2; i++) {
        problem->stride[i] = attrs->stride[i];
        problem->dilation[i] = attrs->dilation[i];
        problem->pad_begin[i] = attrs->padding[i];
        problem->pad_end[i] = conv_reach(call, i) - x->sizes[2 + i] - attrs->padding[i];
        n *= (double)weight->sizes[2 + i];
    }
    return n;
}

static status_t describe(context_t *ctx, const op_call_t *call, onednn_algorithm_t algorithm,
                         prepared_t *prepared)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    tensor_info_t src = *x, dst = call->out[0],
                  weight_any = conv_group_weight(weight, attrs->groups);
    tensor_info_t bias, post[POST_MAX];
    onednn_problem_t problem = {.kind = ONEDNN_CONVOLUTION,
                                .algorithm = algorithm,
                                .propagation = attrs->algorithm == CONV_WINOGRAD_TRAINING
                                                   ? ONEDNN_TRAINING
                                                   : ONEDNN_INFERENCE,
                                .n_src = 1,
                                .src = &src,
                                .weight = &weight_any,
                                .dst = &dst};
    if (call_has(call, BIAS)) {
        bias = info_dense(call->in[BIAS]->dtype, 1, call->in[BIAS]->sizes);
        prepared->in[BIAS] = bias;
        problem.bias = &bias;
    }
    double flops = 2.0 * (double)info_numel(&dst) * conv_set_windows(call, &problem);
    /* A vector holds output channels. With fewer outputs than lanes, some lanes compute nothing. */
    const int lanes = isa_lanes(isa_best());
    if (attrs->groups == 1 && weight->sizes[0] > 0 && weight->sizes[0] < lanes)
        flops *= (double)lanes / (double)weight->sizes[0];
    TRY(choose_post_ops(call, prepared, &problem, post));
    TRY(choose_formats(ctx, call, prepared, &problem, flops));
    /* If a tag can describe the weight with groups and outputs in one dimension, its gradient has
     * this format, too. */
    if (attrs->groups > 1) choose_join_groups(&prepared->in[WEIGHT]);
    return STATUS_OK;
}

/* True if oneDNN's Winograd kernels may be used. They are used only on request, because their
 * packed weights are larger and valid for one version of oneDNN only. If our own Winograd kernel
 * supports the call but was not chosen, direct sums are faster than both. */
static bool may_transform(const op_call_t *call)
{
    const int algorithm = ((const conv_attrs_t *)call->attrs)->algorithm;
    if (algorithm == CONV_WINOGRAD_TRAINING) return !call->per_op;
    return algorithm == CONV_WINOGRAD && !call->per_op && conv_winograd_obstacle(call) != NULL;
}

static status_t conv_prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    if (may_transform(call)) {
        status_t status = describe(ctx, call, ONEDNN_WINOGRAD, prepared);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return describe(ctx, call, ONEDNN_DIRECT, prepared);
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = conv_prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                         KERNEL_COMPETES};

/* ---- our own kernel: for dtypes and sizes that oneDNN does not support ---- */

static status_t conv_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    TRY(planes_prepare(call, prepared));
    return STATUS_OK;
}

static status_t conv_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    (void)scratch;
    const conv_attrs_t *attrs = prepared->attrs;
    const planes_t planes = planes_describe(prepared, attrs->stride, attrs->dilation,
                                            attrs->padding, attrs->groups);
    planes_run(ctx, prepared, &planes, planes_direct, in, out[0]);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = conv_prepare_native, .run = conv_run_native};
static const kernel_t *const kernels_1d[] = {&conv_taps, &conv_rows, &onednn, &native, NULL};
static const kernel_t *const kernels_2d[] = {&conv_winograd_6,
                                             &conv_winograd_4,
                                             &conv_winograd_2,
                                             &conv_winograd_training,
                                             &conv_parities,
                                             &conv_depthwise,
                                             &conv_groups,
                                             &conv_pointwise,
                                             &conv_strassen,
                                             &conv_taps,
                                             &conv_rows,
                                             &conv_taps_blocks,
                                             &onednn,
                                             &native,
                                             NULL};
static const kernel_t *const kernels_3d[] = {&conv_taps, &onednn, &native, NULL};

/* ---- gradients ---- */

static conv_backward_attrs_t backward_attrs(const gradient_call_t *call, value_t result)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *info = emit_info(call->emitter, result);
    conv_backward_attrs_t backward = {
        .groups = attrs->groups,
        .algorithm = attrs->algorithm == CONV_DIRECT ? CONV_DIRECT : CONV_WINOGRAD_TRAINING};
    for (int i = 0; i < info->rank - 2; i++) {
        backward.stride[i] = attrs->stride[i];
        backward.padding[i] = attrs->padding[i];
        backward.dilation[i] = attrs->dilation[i];
        backward.size[i] = info->sizes[2 + i];
    }
    return backward;
}

static void conv_pass(const gradient_call_t *call)
{
    static const opdef_t *const of_data[] = {
        &op_def_conv1d_backward_data, &op_def_conv2d_backward_data, &op_def_conv3d_backward_data};
    static const opdef_t *const of_weight[] = {&op_def_conv1d_backward_weight,
                                               &op_def_conv2d_backward_weight,
                                               &op_def_conv3d_backward_weight};
    const int which = call->op->attrs.fields[0].length - 1;
    const value_t grad = call->out_grad[0], bias = call->in[BIAS];
    const bool wants_bias = bias != VALUE_NONE && call->is_wanted[BIAS];
    /* backward_weight returns the bias's gradient in grad's dtype, which may be narrower than the
     * bias. */
    const bool is_joined = wants_bias && call->is_wanted[WEIGHT] &&
                           emit_info(call->emitter, bias)->dtype ==
                               emit_info(call->emitter, grad)->dtype;
    if (call->is_wanted[X]) {
        const conv_backward_attrs_t attrs = backward_attrs(call, call->in[X]);
        const value_t in[] = {grad, call->in[WEIGHT]};
        call->in_grad[X] = emit_op(call->emitter, of_data[which], &attrs, 2, in);
    }
    if (call->is_wanted[WEIGHT]) {
        conv_backward_attrs_t attrs = backward_attrs(call, call->in[WEIGHT]);
        const value_t in[] = {call->in[X], grad};
        value_t out[2] = {VALUE_NONE, VALUE_NONE};
        attrs.bias = is_joined;
        emit_op_n(call->emitter, of_weight[which], &attrs, 2, in, is_joined ? 2 : 1, out);
        call->in_grad[WEIGHT] = out[0];
        if (is_joined) call->in_grad[BIAS] = out[1];
    }
    if (wants_bias && !is_joined)
        call->in_grad[BIAS] = emit_bias_gradient(call->emitter, grad, bias);
}

/* ---- definitions ---- */

/* Estimates how much more Winograd's tiles round than direct sums (arXiv 1509.09308). A direct sum
 * has 9 C products. The last element of a 4x4 tile combines 36 sums of C products. In each
 * dimension, the squares of their coefficients add up to 94 (2051 for 6x6) with the point 2, which
 * oneDNN uses. The error of a sum grows with its number of terms, so it is 94 / 9 times that of a
 * direct sum. */
static double amplifies(const void *attrs)
{
    switch (((const conv_attrs_t *)attrs)->algorithm) {
    case CONV_DIRECT: return 1.0;
    case CONV_WINOGRAD_UP_TO_6:
    case CONV_WINOGRAD_6: return 2051.0 / 9.0;
    case CONV_STRASSEN:
    case CONV_STRASSEN_ONLY: return STRASSEN_AMPLIFIES;
    default: return 94.0 / 9.0;
    }
}

#define DEFINE(n)                                                                                  \
    const opdef_t op_def_conv##n##d = {                                                            \
        .name = "conv" #n "d",                                                                     \
        .preference = OP_PREFERS,                                                                  \
        .traits = TRAIT_POST_OPS | TRAIT_BATCHED,                                                  \
        .attrs = {sizeof(conv_attrs_t), sizeof fields_##n##d / sizeof *fields_##n##d,              \
                  fields_##n##d},                                                                  \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = conv_infer_floating,                                                              \
        .infers_symbols = true,                                                                    \
        .kernels = kernels_##n##d,                                                                 \
        .spec = conv_spec,                                                                         \
        .flops = ops_flops_of_weight,                                                              \
        .amplifies = amplifies,                                                                    \
        .gradient = GRADIENT(.pass = conv_pass, .reads_in = 1u << X | 1u << WEIGHT)}

DEFINE(1);
DEFINE(2);
DEFINE(3);

/* ---- public ---- */

/* Public calls have no post-ops, because only graphs can pass operands of post-ops. */
static status_t call(context_t *ctx, const opdef_t *op, const tensor_t *x, const tensor_t *weight,
                     const tensor_t *bias, const conv_attrs_t *attrs, tensor_t **out)
{
    return dispatch_run(ctx, op, attrs, 3, (const tensor_t *[]){x, weight, bias}, NULL, out);
}

status_t op_conv1d(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   const conv_attrs_t *attrs, tensor_t **out)
{
    return call(ctx, &op_def_conv1d, x, weight, bias, attrs, out);
}

status_t op_conv2d(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   const conv_attrs_t *attrs, tensor_t **out)
{
    return call(ctx, &op_def_conv2d, x, weight, bias, attrs, out);
}

status_t op_conv3d(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   const conv_attrs_t *attrs, tensor_t **out)
{
    return call(ctx, &op_def_conv3d, x, weight, bias, attrs, out);
}
