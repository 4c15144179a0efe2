/* Transposed convolution over one to three spatial dimensions. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/conv/planes_impl.h"
#include "ops/gradient_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

#define FIELDS(n)                                                                                  \
    FIELD_OR(conv_transpose_attrs_t, ATTR_ARRAY, stride, n, 1),                                    \
        FIELD_ARRAY(conv_transpose_attrs_t, padding, n, 0),                                        \
        FIELD_ARRAY(conv_transpose_attrs_t, output_padding, n, 0),                                 \
        FIELD_OR(conv_transpose_attrs_t, ATTR_ARRAY, dilation, n, 1),                              \
        FIELD_OR(conv_transpose_attrs_t, ATTR_INT, groups, 0, 1),                                  \
        FIELD_POST(conv_transpose_attrs_t, post)

static const attr_field_t fields_1d[] = {FIELDS(1)};
static const attr_field_t fields_2d[] = {FIELDS(2)};
static const attr_field_t fields_3d[] = {FIELDS(3)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_WEIGHT, false, false},
                                     {"bias", ROLE_BIAS, true, false}};
enum { X, WEIGHT, BIAS, POST };

/* ---- inference ---- */

static status_t check_channels(context_t *ctx, const op_call_t *call, int rank,
                               int64_t *out_outputs)
{
    const conv_transpose_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    REQUIRE(ctx, x->rank == rank, "%s: x is %s, rank %d is needed", op, info_brief(x), rank);
    REQUIRE(ctx, weight->rank == rank, "%s: weight is %s, rank %d is needed", op,
            info_brief(weight), rank);
    REQUIRE(ctx,
            sym_at_most(ctx, 1, attrs->groups) && sym_divides(ctx, attrs->groups, weight->sizes[0]),
            "%s: weight %s, its %lld inputs do not divide by %lld groups", op, info_brief(weight),
            (long long)weight->sizes[0], (long long)attrs->groups);
    REQUIRE(ctx, sym_equal(ctx, x->sizes[1], weight->sizes[0]),
            "%s: weight %s needs %lld input channels, input %s has %lld", op, info_brief(weight),
            (long long)weight->sizes[0], info_brief(x), (long long)x->sizes[1]);
    REQUIRE(ctx, sizes_multiply(ctx, weight->sizes[1], attrs->groups, out_outputs),
            "%s: weight %s with %lld groups overflows", op, info_brief(weight),
            (long long)attrs->groups);
    REQUIRE(ctx, x->dtype == weight->dtype, "%s: x is %s, weight is %s, equal dtypes are needed",
            op, dtype_name(x->dtype), dtype_name(weight->dtype));
    if (call_has(call, BIAS))
        REQUIRE(ctx,
                call->in[BIAS]->rank == 1 && sym_equal(ctx, call->in[BIAS]->sizes[0], *out_outputs),
                "%s: bias is %s, [%lld] is needed", op, info_brief(call->in[BIAS]),
                (long long)*out_outputs);
    return STATUS_OK;
}

static status_t conv_transpose_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                     tensor_info_t *out)
{
    (void)out_n;
    const conv_transpose_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    int n_spatial = call->op->attrs.fields[0].length;
    int64_t sizes[TENSOR_MAX_RANK] = {x->sizes[0]};
    TRY(check_channels(ctx, call, n_spatial + 2, &sizes[1]));
    for (int i = 0; i < n_spatial; i++) {
        int64_t stride = attrs->stride[i], dilation = attrs->dilation[i], pad = attrs->padding[i];
        int64_t extra = attrs->output_padding[i], kernel = weight->sizes[2 + i];
        int64_t reach = 0, window = 0, size = x->sizes[2 + i];
        REQUIRE(ctx,
                sym_at_most(ctx, 1, stride) && sym_at_most(ctx, 1, dilation) &&
                    sizes_within(ctx, pad, 0, INT32_MAX - 1),
                "%s: stride %lld, dilation %lld, padding %lld, at least 1, 1 and 0 are needed", op,
                (long long)stride, (long long)dilation, (long long)pad);
        REQUIRE(ctx,
                sym_at_most(ctx, 0, extra) &&
                    (sym_less(ctx, extra, stride) || sym_less(ctx, extra, dilation)),
                "%s: output_padding %lld, must be smaller than stride %lld or dilation %lld", op,
                (long long)extra, (long long)stride, (long long)dilation);
        REQUIRE(ctx, sym_at_most(ctx, 1, kernel) && sym_at_most(ctx, 1, size),
                "%s: weight %s over %s, sizes of at least 1 are needed", op, info_brief(weight),
                info_brief(x));
        bool fits = sizes_multiply(ctx, sym_subtract(ctx, size, 1), stride, &reach) &&
                    sizes_multiply(ctx, sym_subtract(ctx, kernel, 1), dilation, &window) &&
                    sizes_add(ctx, reach, window, &reach) && sizes_add(ctx, reach, extra, &reach) &&
                    sizes_within(ctx, reach, 0, INT64_MAX / 2 - 1);
        sizes[2 + i] = fits ? sym_subtract(ctx, sym_add(ctx, reach, 1), sym_add(ctx, pad, pad)) : 0;
        REQUIRE(ctx, sym_at_most(ctx, 1, sizes[2 + i]),
                "%s: dimension %d of %s would be %lld, at least 1 is needed", op, 2 + i,
                info_brief(x), (long long)sizes[2 + i]);
    }
    TRY(shape_check(ctx, op, x->dtype, n_spatial + 2, sizes));
    out[0] = info_dense(x->dtype, n_spatial + 2, sizes);
    return accept_post(ctx, call, &out[0]);
}

/* ---- specification: out[p] sums x[(p + padding - r dilation) / stride] over r ---- */

static double conv_transpose_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const conv_transpose_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    int n_spatial = x->rank - 2;
    int64_t per_group = weight->sizes[1], inputs = weight->sizes[0] / attrs->groups;
    int64_t group = index[1] / per_group;
    int64_t at_x[TENSOR_MAX_RANK] = {index[0]},
            at_weight[TENSOR_MAX_RANK] = {0, index[1] % per_group};
    int64_t window[TENSOR_MAX_RANK] = {0};
    double sum = spec_has(call, BIAS) ? spec_at(call, BIAS, &index[1]) : 0.0;
    do {
        bool is_inside = true;
        for (int i = 0; i < n_spatial; i++) {
            int64_t place = index[2 + i] + attrs->padding[i] - window[i] * attrs->dilation[i];
            at_weight[2 + i] = window[i];
            at_x[2 + i] = place / attrs->stride[i];
            is_inside = is_inside && place >= 0 && place % attrs->stride[i] == 0 &&
                        at_x[2 + i] < x->sizes[2 + i];
        }
        for (int64_t c = 0; is_inside && c < inputs; c++) {
            at_x[1] = at_weight[0] = group * inputs + c;
            sum += spec_at(call, X, at_x) * spec_at(call, WEIGHT, at_weight);
        }
    } while (shape_next(n_spatial, &weight->sizes[2], window));
    return spec_post(call, &attrs->post, POST, sum, index);
}

/* ---- kernel on oneDNN, without post-ops ----
 *
 * oneDNN's transposed convolutions apply post-ops element by element, 100 times as slowly as
 * our loops. */

/* The weight with one more dimension for the groups, in oneDNN's order: [G][K/G][C/G].. */
static tensor_info_t swap_weight(const tensor_info_t *weight, int64_t groups)
{
    tensor_info_t info = {.dtype = weight->dtype, .layout = LAYOUT_MKLDNN};
    if (groups > 1) info.sizes[info.rank++] = groups;
    info.sizes[info.rank++] = weight->sizes[1];
    info.sizes[info.rank++] = weight->sizes[0] / groups;
    for (int d = 2; d < weight->rank; d++) info.sizes[info.rank++] = weight->sizes[d];
    return info;
}

/* Describes the same memory with two dimensions exchanged. */
static tensor_info_t swap_dims(const tensor_info_t *info, int a, int b)
{
    tensor_info_t swapped = *info;
    swapped.sizes[a] = info->sizes[b];
    swapped.sizes[b] = info->sizes[a];
    format_t *format = &swapped.format;
    format->strides[a] = info->format.strides[b];
    format->strides[b] = info->format.strides[a];
    for (int i = 0; i < info->rank; i++) {
        int d = info->format.order[i];
        format->order[i] = (uint8_t)(d == a ? b : d == b ? a : d);
    }
    for (int i = 0; i < format->n_blocks; i++) {
        int d = info->format.block_dims[i];
        format->block_dims[i] = (uint8_t)(d == a ? b : d == b ? a : d);
    }
    return swapped;
}

static status_t conv_transpose_prepare_onednn(context_t *ctx, const op_call_t *call,
                                              prepared_t *prepared)
{
    const conv_transpose_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    int n_spatial = x->rank - 2;
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    tensor_info_t src = *x, dst = call->out[0], weight_any = swap_weight(weight, attrs->groups);
    tensor_info_t bias;
    onednn_problem_t problem = {.kind = ONEDNN_DECONVOLUTION,
                                .algorithm = ONEDNN_DIRECT,
                                .n_src = 1,
                                .src = &src,
                                .weight = &weight_any,
                                .dst = &dst};
    if (call_has(call, BIAS)) {
        bias = info_dense(call->in[BIAS]->dtype, 1, call->in[BIAS]->sizes);
        prepared->in[BIAS] = bias;
        problem.bias = &bias;
    }
    double flops = 2.0 * (double)info_numel(&src) * (double)weight->sizes[1];
    for (int i = 0; i < n_spatial; i++) {
        problem.stride[i] = attrs->stride[i];
        problem.dilation[i] = attrs->dilation[i];
        problem.pad_begin[i] = attrs->padding[i];
        problem.pad_end[i] = attrs->padding[i] - attrs->output_padding[i];
        flops *= (double)weight->sizes[2 + i];
    }
    TRY(choose_formats(ctx, call, prepared, &problem, flops));
    int first = attrs->groups > 1 ? 1 : 0;
    prepared->in[WEIGHT] = swap_dims(&prepared->in[WEIGHT], first, first + 1);
    return STATUS_OK;
}

/* Our own loops apply post-ops afterwards. */
static const kernel_t onednn = {.name = "onednn",
                                .prepare = conv_transpose_prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel: for dtypes and sizes that oneDNN does not support ---- */

static status_t conv_transpose_prepare_native(context_t *ctx, const op_call_t *call,
                                              prepared_t *prepared)
{
    (void)ctx;
    TRY(planes_prepare(call, prepared));
    TRY(accept_out_plain(call, prepared, 0));
    return STATUS_OK;
}

static status_t conv_transpose_run_native(context_t *ctx, const prepared_t *prepared,
                                          void *const *in, void *const *out, void *scratch)
{
    (void)scratch;
    const conv_transpose_attrs_t *attrs = prepared->attrs;
    const planes_t planes = planes_describe(prepared, attrs->stride, attrs->dilation,
                                            attrs->padding, attrs->groups);
    planes_run(ctx, prepared, &planes, planes_transposed, in, out[0]);
    return STATUS_OK;
}

/* ---- gradients: those of a convolution, with x and result exchanged ---- */

/* Crops grad to the size of x: the convolution's result also covers output_padding. */
static value_t cut_like(emitter_t *emitter, value_t grad, value_t x)
{
    const tensor_info_t wanted = *emit_info(emitter, x), given = *emit_info(emitter, grad);
    for (int d = 2; d < given.rank; d++)
        if (given.sizes[d] > wanted.sizes[d])
            grad = emit_slice(emitter, grad, d, 0, wanted.sizes[d]);
    return grad;
}

static value_t pass_to_x(const gradient_call_t *call, int n_spatial)
{
    static const opdef_t *const convs[] = {&op_def_conv1d, &op_def_conv2d, &op_def_conv3d};
    const conv_transpose_attrs_t *attrs = call->attrs;
    conv_attrs_t conv = {.groups = attrs->groups};
    for (int i = 0; i < n_spatial; i++) {
        const int64_t extra = attrs->output_padding[i], padding = attrs->padding[i];
        conv.stride[i] = attrs->stride[i];
        conv.padding[i] = padding;
        conv.dilation[i] = attrs->dilation[i];
        conv.extra_padding[i] = -(extra < padding ? extra : padding);
    }
    const value_t in[] = {call->out_grad[0], call->in[WEIGHT], VALUE_NONE};
    value_t grad = emit_op(call->emitter, convs[n_spatial - 1], &conv, 3, in);
    return cut_like(call->emitter, grad, call->in[X]);
}

static value_t pass_to_weight(const gradient_call_t *call, int n_spatial)
{
    static const opdef_t *const of_weight[] = {&op_def_conv1d_backward_weight,
                                               &op_def_conv2d_backward_weight,
                                               &op_def_conv3d_backward_weight};
    const conv_transpose_attrs_t *attrs = call->attrs;
    const tensor_info_t *weight = emit_info(call->emitter, call->in[WEIGHT]);
    conv_backward_attrs_t backward = {.groups = attrs->groups};
    for (int i = 0; i < n_spatial; i++) {
        backward.stride[i] = attrs->stride[i];
        backward.padding[i] = attrs->padding[i];
        backward.dilation[i] = attrs->dilation[i];
        backward.size[i] = weight->sizes[2 + i];
    }
    const value_t in[] = {call->out_grad[0], call->in[X]};
    return emit_op(call->emitter, of_weight[n_spatial - 1], &backward, 2, in);
}

static void conv_transpose_pass(const gradient_call_t *call)
{
    const int n_spatial = call->op->attrs.fields[0].length;
    if (call->is_wanted[X]) call->in_grad[X] = pass_to_x(call, n_spatial);
    if (call->is_wanted[WEIGHT]) call->in_grad[WEIGHT] = pass_to_weight(call, n_spatial);
    if (call->is_wanted[BIAS] && call->in[BIAS] != VALUE_NONE)
        call->in_grad[BIAS] = emit_bias_gradient(call->emitter, call->out_grad[0], call->in[BIAS]);
}

/* ---- definitions ---- */

#define DEFINE(n)                                                                                  \
    const opdef_t op_def_conv_transpose##n##d = {                                                  \
        .name = "conv_transpose" #n "d",                                                           \
        .preference = OP_PREFERS,                                                                  \
        .traits = TRAIT_POST_OPS | TRAIT_BATCHED,                                                  \
        .attrs = {sizeof(conv_transpose_attrs_t), sizeof fields_##n##d / sizeof *fields_##n##d,    \
                  fields_##n##d},                                                                  \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = conv_transpose_infer,                                                             \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(                                                                        \
            &conv_transpose_tiling, &onednn,                                                       \
            KERNEL("native", conv_transpose_prepare_native, conv_transpose_run_native)),           \
        .spec = conv_transpose_spec,                                                               \
        .flops = ops_flops_of_transposed,                                                          \
        .gradient = GRADIENT(.pass = conv_transpose_pass, .reads_in = 1u << X | 1u << WEIGHT)}

DEFINE(1);
DEFINE(2);
DEFINE(3);

/* ---- public ---- */

#define WRAP(n)                                                                                    \
    status_t op_conv_transpose##n##d(context_t *ctx, const tensor_t *x, const tensor_t *weight,    \
                                     const tensor_t *bias, const conv_transpose_attrs_t *attrs,    \
                                     tensor_t **out)                                               \
    {                                                                                              \
        const tensor_t *in[] = {x, weight, bias};                                                  \
        return dispatch_run(ctx, &op_def_conv_transpose##n##d, attrs, 3, in, NULL, out);           \
    }

WRAP(1)
WRAP(2)
WRAP(3)
