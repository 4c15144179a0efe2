/* Gradients of convolutions over one to three spatial dimensions. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "ops/conv/planes_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

#define FIELDS(n)                                                                                  \
    FIELD_OR(conv_backward_attrs_t, ATTR_ARRAY, stride, n, 1),                                     \
        FIELD_ARRAY(conv_backward_attrs_t, padding, n, 0),                                         \
        FIELD_OR(conv_backward_attrs_t, ATTR_ARRAY, dilation, n, 1),                               \
        FIELD_OR(conv_backward_attrs_t, ATTR_INT, groups, 0, 1),                                   \
        FIELD_ARRAY(conv_backward_attrs_t, size, n, 0),                                            \
        FIELD_NAME(conv_backward_attrs_t, algorithm, CONV_DIRECT, conv_algorithm_names),           \
        FIELD_BOOL(conv_backward_attrs_t, bias, 0)

static const attr_field_t fields_1d[] = {FIELDS(1)};
static const attr_field_t fields_2d[] = {FIELDS(2)};
static const attr_field_t fields_3d[] = {FIELDS(3)};

/* conv_backward_data has operands grad, weight; conv_backward_weight has x, grad. */
static const operand_t data_operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                          {"weight", ROLE_WEIGHT, false, false}};
static const operand_t weight_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                            {"grad", ROLE_ACTIVATION, false, false}};
enum { GRAD, WEIGHT };
enum { X, GRAD_OF_WEIGHT };

/* ---- inference ---- */

static int spatial_of(const opdef_t *op)
{
    return op->attrs.fields[0].length;
}

static status_t check_operands(context_t *ctx, const op_call_t *call)
{
    const tensor_info_t *a = call->in[0], *b = call->in[1];
    const conv_backward_attrs_t *attrs = call->attrs;
    const char *op = call->op->name;
    const int rank = spatial_of(call->op) + 2;
    REQUIRE(ctx, a->rank == rank && b->rank == rank && a->dtype == b->dtype,
            "%s: %s is %s, %s is %s, rank %d and equal dtypes are needed", op,
            call->op->operands[0].name, info_brief(a), call->op->operands[1].name, info_brief(b),
            rank);
    for (int i = 0; i < rank - 2; i++) {
        const int64_t numbers[] = {attrs->stride[i], attrs->dilation[i], attrs->padding[i],
                                   attrs->size[i]};
        for (int k = 0; k < 4; k++)
            REQUIRE(ctx, sizes_within(ctx, numbers[k], k < 2 ? 1 : 0, INT32_MAX),
                    "%s: stride %lld, dilation %lld, padding %lld, size %lld, positive ones below "
                    "2^31 are needed",
                    op, (long long)numbers[0], (long long)numbers[1], (long long)numbers[2],
                    (long long)numbers[3]);
    }
    return STATUS_OK;
}

static status_t infer_data(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *grad = call->in[GRAD], *weight = call->in[WEIGHT];
    const conv_backward_attrs_t *attrs = call->attrs;
    const char *op = call->op->name;
    TRY(check_operands(ctx, call));
    int64_t sizes[TENSOR_MAX_RANK] = {grad->sizes[0]};
    REQUIRE(ctx,
            sym_at_most(ctx, 1, attrs->groups) &&
                sym_equal(ctx, grad->sizes[1], weight->sizes[0]) &&
                sym_divides(ctx, attrs->groups, weight->sizes[0]) &&
                sizes_multiply(ctx, weight->sizes[1], attrs->groups, &sizes[1]),
            "%s: weight %s with %lld groups does not fit the channels of grad %s", op,
            info_brief(weight), (long long)attrs->groups, info_brief(grad));
    memcpy(&sizes[2], attrs->size, (size_t)(grad->rank - 2) * sizeof *sizes);
    TRY(shape_check(ctx, op, grad->dtype, grad->rank, sizes));
    out[0] = info_dense(grad->dtype, grad->rank, sizes);
    return STATUS_OK;
}

static status_t infer_weight(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD_OF_WEIGHT];
    const conv_backward_attrs_t *attrs = call->attrs;
    const char *op = call->op->name;
    TRY(check_operands(ctx, call));
    REQUIRE(ctx,
            sym_equal(ctx, x->sizes[0], grad->sizes[0]) && sym_at_most(ctx, 1, attrs->groups) &&
                sym_divides(ctx, attrs->groups, x->sizes[1]) &&
                sym_divides(ctx, attrs->groups, grad->sizes[1]),
            "%s: x %s and grad %s have no batch in common, or channels that do not divide by %lld "
            "groups",
            op, info_brief(x), info_brief(grad), (long long)attrs->groups);
    int64_t sizes[TENSOR_MAX_RANK] = {grad->sizes[1], sym_divide(ctx, x->sizes[1], attrs->groups)};
    memcpy(&sizes[2], attrs->size, (size_t)(x->rank - 2) * sizeof *sizes);
    TRY(shape_check(ctx, op, x->dtype, x->rank, sizes));
    out[0] = info_dense(x->dtype, x->rank, sizes);
    out[1] = info_dense(x->dtype, 1, sizes);
    *out_n = attrs->bias ? 2 : 1;
    return STATUS_OK;
}

/* ---- specification ---- */

/* Gradient of an element of x: a sum over all windows that contain it. */
static double spec_data(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const conv_backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *grad = call->in[GRAD], *weight = call->in[WEIGHT];
    const int64_t per_group = weight->sizes[1], outputs = weight->sizes[0] / attrs->groups;
    const int64_t first = index[1] / per_group * outputs;
    int64_t at_grad[TENSOR_MAX_RANK] = {index[0]};
    int64_t at_weight[TENSOR_MAX_RANK] = {0, index[1] % per_group};
    double sum = 0.0;
    if (info_numel(weight) == 0) return 0.0;
    do {
        bool is_inside = true;
        for (int i = 2; i < grad->rank; i++) {
            int64_t place = index[i] + attrs->padding[i - 2] -
                            at_weight[i] * attrs->dilation[i - 2];
            at_grad[i] = place / attrs->stride[i - 2];
            is_inside = is_inside && place >= 0 && place % attrs->stride[i - 2] == 0 &&
                        at_grad[i] < grad->sizes[i];
        }
        for (int64_t k = first; is_inside && k < first + outputs; k++) {
            at_grad[1] = at_weight[0] = k;
            sum += spec_at(call, GRAD, at_grad) * spec_at(call, WEIGHT, at_weight);
        }
    } while (shape_next(grad->rank - 2, &weight->sizes[2], &at_weight[2]));
    return sum;
}

/* Gradient of an element of the weight, or (output 1) of the bias: a sum over all windows of all
 * images. */
static double spec_weight(const spec_call_t *call, int output, const int64_t *index)
{
    const conv_backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD_OF_WEIGHT];
    const int64_t outputs = grad->sizes[1] / attrs->groups;
    int64_t at_x[TENSOR_MAX_RANK] = {0}, at_grad[TENSOR_MAX_RANK] = {0, index[0]};
    double sum = 0.0;
    if (info_numel(grad) == 0) return 0.0;
    for (at_grad[0] = 0; at_grad[0] < grad->sizes[0]; at_grad[0]++) do {
            bool is_inside = true;
            if (output == 1) {
                sum += spec_at(call, GRAD_OF_WEIGHT, at_grad);
                continue;
            }
            for (int i = 2; i < x->rank; i++) {
                at_x[i] = at_grad[i] * attrs->stride[i - 2] + index[i] * attrs->dilation[i - 2] -
                          attrs->padding[i - 2];
                is_inside = is_inside && at_x[i] >= 0 && at_x[i] < x->sizes[i];
            }
            at_x[0] = at_grad[0];
            at_x[1] = index[0] / outputs * (x->sizes[1] / attrs->groups) + index[1];
            if (is_inside) sum += spec_at(call, X, at_x) * spec_at(call, GRAD_OF_WEIGHT, at_grad);
        } while (shape_next(x->rank - 2, &grad->sizes[2], &at_grad[2]));
    return sum;
}

/* ---- kernels on oneDNN ---- */

/* True if each slice of the kernel along depth overlaps x for some result. A slice that never does
 * has gradient 0, but oneDNN 2.6 does not write it. */
static bool every_slice_is_read(const op_call_t *call)
{
    const conv_backward_attrs_t *attrs = call->attrs;
    const int64_t depth = call->in[X]->sizes[2], stride = attrs->stride[0];
    const int64_t reach = (call->in[GRAD_OF_WEIGHT]->sizes[2] - 1) * stride;
    for (int64_t t = 0; t < call->out[0].sizes[2]; t++) {
        const int64_t first = t * attrs->dilation[0] - attrs->padding[0];
        const int64_t skipped = first < 0 ? (-first + stride - 1) / stride * stride : 0;
        if (skipped > reach || first + skipped >= depth) return false;
    }
    return true;
}

/* Describes the forward problem. UNSUPPORTED if its sizes do not fit into 32 bits. */
static status_t describe(context_t *ctx, const op_call_t *call, onednn_propagation_t propagation,
                         onednn_algorithm_t algorithm, prepared_t *prepared)
{
    const conv_backward_attrs_t *attrs = call->attrs;
    const bool is_data = propagation == ONEDNN_BACKWARD_DATA;
    const tensor_info_t *weight = is_data ? call->in[WEIGHT] : &call->out[0];
    tensor_info_t src = is_data ? call->out[0] : *call->in[X];
    tensor_info_t dst = *call->in[is_data ? GRAD : GRAD_OF_WEIGHT];
    tensor_info_t grouped = conv_group_weight(weight, attrs->groups);
    tensor_info_t bias = info_dense(dst.dtype, 1, &weight->sizes[0]);
    onednn_problem_t problem = {.kind = ONEDNN_CONVOLUTION,
                                .algorithm = algorithm,
                                .n_src = 1,
                                .src = &src,
                                .weight = &grouped,
                                .bias = !is_data && attrs->bias ? &bias : NULL,
                                .dst = &dst};
    double flops = 2.0 * (double)info_numel(&dst) * (double)weight->sizes[1];
    if (dst.dtype != DTYPE_F32 && dst.dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(dst.dtype));
    for (int i = 0; i < src.rank - 2; i++) {
        int64_t reach = 0, window = 0;
        bool fits = shape_multiply(dst.sizes[2 + i] - 1, attrs->stride[i], &reach) &&
                    shape_multiply(weight->sizes[2 + i] - 1, attrs->dilation[i], &window) &&
                    reach <= INT32_MAX && window <= INT32_MAX;
        if (!fits) return prepared_decline(prepared, "onednn: windows reach too far");
        problem.stride[i] = attrs->stride[i];
        problem.dilation[i] = attrs->dilation[i];
        problem.pad_begin[i] = attrs->padding[i];
        problem.pad_end[i] = reach + window + 1 - src.sizes[2 + i] - attrs->padding[i];
        flops *= (double)weight->sizes[2 + i];
    }
    if (!is_data && src.rank == 5 && !every_slice_is_read(call))
        return prepared_decline(prepared, "onednn: a slice of the windows is never on the source");
    return choose_backward(ctx, call, prepared, &problem, propagation, flops);
}

static status_t prepare_either(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                               onednn_propagation_t propagation)
{
    const conv_backward_attrs_t *attrs = call->attrs;
    if (attrs->algorithm != CONV_DIRECT && !call->per_op) {
        status_t status = describe(ctx, call, propagation, ONEDNN_WINOGRAD, prepared);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return describe(ctx, call, propagation, ONEDNN_DIRECT, prepared);
}

static status_t conv_backward_prepare_data(context_t *ctx, const op_call_t *call,
                                           prepared_t *prepared)
{
    return prepare_either(ctx, call, prepared, ONEDNN_BACKWARD_DATA);
}

static status_t conv_backward_prepare_weight(context_t *ctx, const op_call_t *call,
                                             prepared_t *prepared)
{
    return prepare_either(ctx, call, prepared, ONEDNN_BACKWARD_WEIGHT);
}

static const kernel_t onednn_data = {.name = "onednn",
                                     .prepare = conv_backward_prepare_data,
                                     .run = prepared_run_primitive,
                                     .flags = KERNEL_NEEDS_ELEMENTS | KERNEL_COMPETES};
static const kernel_t onednn_weight = {.name = "onednn",
                                       .prepare = conv_backward_prepare_weight,
                                       .run = prepared_run_primitive,
                                       .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernels: for dtypes and sizes that oneDNN does not support ---- */

static status_t conv_backward_prepare_native(context_t *ctx, const op_call_t *call,
                                             prepared_t *prepared)
{
    (void)ctx;
    return planes_prepare(call, prepared);
}

/* The gradient of x is a transposed convolution of grad. */
static status_t conv_backward_run_native_data(context_t *ctx, const prepared_t *prepared,
                                              void *const *in, void *const *out, void *scratch)
{
    (void)scratch;
    const conv_backward_attrs_t *attrs = prepared->attrs;
    const planes_t planes = planes_describe(prepared, attrs->stride, attrs->dilation,
                                            attrs->padding, attrs->groups);
    void *const operands[] = {in[GRAD], in[WEIGHT], NULL};
    planes_run(ctx, prepared, &planes, planes_transposed, operands, out[0]);
    return STATUS_OK;
}

static status_t conv_backward_run_native_weight(context_t *ctx, const prepared_t *prepared,
                                                void *const *in, void *const *out, void *scratch)
{
    (void)scratch;
    const conv_backward_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[X];
    const planes_t p = planes_between(x, &prepared->out[0], &prepared->in[GRAD_OF_WEIGHT],
                                      attrs->stride, attrs->dilation, attrs->padding,
                                      attrs->groups);
    planes_weight_gradient(&p, x->sizes[0], in[X], in[GRAD_OF_WEIGHT], out[0],
                           context_threads(ctx));
    if (attrs->bias)
        planes_bias_gradient(&p, x->sizes[0], in[GRAD_OF_WEIGHT], out[1], context_threads(ctx));
    return STATUS_OK;
}

static const kernel_t native_data = {.name = "native",
                                     .prepare = conv_backward_prepare_native,
                                     .run = conv_backward_run_native_data};
static const kernel_t native_weight = {.name = "native",
                                       .prepare = conv_backward_prepare_native,
                                       .run = conv_backward_run_native_weight};
static const kernel_t *const data_kernels[] = {&onednn_data, &native_data, NULL};
static const kernel_t *const data_kernels_2d[] = {&conv_winograd_data, &onednn_data, &native_data,
                                                  NULL};
static const kernel_t *const weight_kernels[] = {&onednn_weight, &native_weight, NULL};

/* ---- definitions ---- */

/* Like `amplifies` in conv.c, for the same tiles. */
static double amplifies(const void *attrs)
{
    return ((const conv_backward_attrs_t *)attrs)->algorithm != CONV_DIRECT ? 94.0 / 9.0 : 1.0;
}

#define DEFINE(n, what, outputs, op_traits, op_kernels)                                            \
    const opdef_t op_def_conv##n##d_backward_##what = {                                            \
        .name = "conv" #n "d_backward_" #what,                                                     \
        .preference = OP_PREFERS,                                                                  \
        .traits = op_traits,                                                                       \
        .attrs = {sizeof(conv_backward_attrs_t), sizeof fields_##n##d / sizeof *fields_##n##d,     \
                  fields_##n##d},                                                                  \
        .n_operands = 2,                                                                           \
        .operands = what##_operands,                                                               \
        .n_outputs = outputs,                                                                      \
        .infer = infer_##what,                                                                     \
        .infers_symbols = true,                                                                    \
        .kernels = op_kernels,                                                                     \
        .spec = spec_##what,                                                                       \
        .amplifies = amplifies}

DEFINE(1, data, 1, 0, data_kernels);
DEFINE(2, data, 1, 0, data_kernels_2d);
DEFINE(3, data, 1, 0, data_kernels);
DEFINE(1, weight, 0, TRAIT_GRADS_WEIGHT, weight_kernels);
DEFINE(2, weight, 0, TRAIT_GRADS_WEIGHT, weight_kernels);
DEFINE(3, weight, 0, TRAIT_GRADS_WEIGHT, weight_kernels);
