/* Gradients of fully connected layers. All dimensions except the last are rows of a matrix. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/linear/linear_impl.h"
#include "ops/ops_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const attr_field_t fields[] = {FIELD_BOOL(linear_backward_attrs_t, bias, 0)};

static const operand_t data_operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                          {"weight", ROLE_WEIGHT, false, false}};
static const operand_t weight_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                            {"grad", ROLE_ACTIVATION, false, false}};
enum { GRAD, WEIGHT };
enum { X, GRAD_OF_WEIGHT };

/* ---- inference ---- */

/* Sizes of the forward layer: x is [rows][inputs], the result is [rows][outputs]. */
typedef struct layer {
    int64_t rows, inputs, outputs;
} layer_t;

static int64_t last_size(const tensor_info_t *info)
{
    return info->sizes[info->rank - 1];
}

static layer_t layer_of_data(const op_call_t *call)
{
    const tensor_info_t *grad = call->in[GRAD], *weight = call->in[WEIGHT];
    layer_t layer = {.inputs = weight->sizes[1], .outputs = weight->sizes[0]};
    shape_numel(grad->rank - 1, grad->sizes, &layer.rows);
    return layer;
}

static layer_t layer_of_weight(const op_call_t *call)
{
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD_OF_WEIGHT];
    layer_t layer = {.inputs = last_size(x), .outputs = last_size(grad)};
    shape_numel(x->rank - 1, x->sizes, &layer.rows);
    return layer;
}

static status_t infer_data(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *grad = call->in[GRAD], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    REQUIRE(ctx,
            grad->rank >= 1 && weight->rank == 2 &&
                sym_equal(ctx, last_size(grad), weight->sizes[0]) && grad->dtype == weight->dtype,
            "%s: grad %s does not fit weight %s, outputs and dtypes have to be equal", op,
            info_brief(grad), info_brief(weight));
    int64_t sizes[TENSOR_MAX_RANK];
    memcpy(sizes, grad->sizes, sizeof sizes);
    sizes[grad->rank - 1] = weight->sizes[1];
    TRY(shape_check(ctx, op, grad->dtype, grad->rank, sizes));
    out[0] = info_dense(grad->dtype, grad->rank, sizes);
    return STATUS_OK;
}

static status_t infer_weight(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD_OF_WEIGHT];
    const linear_backward_attrs_t *attrs = call->attrs;
    const char *op = call->op->name;
    REQUIRE(ctx,
            x->rank >= 1 && grad->rank == x->rank && x->dtype == grad->dtype &&
                sizes_equal(ctx, x->rank - 1, x->sizes, grad->rank - 1, grad->sizes),
            "%s: grad %s does not fit x %s, rows and dtypes have to be equal", op, info_brief(grad),
            info_brief(x));
    const int64_t sizes[] = {last_size(grad), last_size(x)};
    TRY(shape_check(ctx, op, x->dtype, 2, sizes));
    out[0] = info_dense(x->dtype, 2, sizes);
    out[1] = info_dense(x->dtype, 1, sizes);
    *out_n = attrs->bias ? 2 : 1;
    return STATUS_OK;
}

/* ---- specification ---- */

static double spec_data(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const int rank = call->in[GRAD]->rank;
    int64_t at[TENSOR_MAX_RANK], at_weight[] = {0, index[rank - 1]};
    double sum = 0.0;
    memcpy(at, index, (size_t)rank * sizeof *at);
    for (int64_t k = 0; k < call->in[WEIGHT]->sizes[0]; k++) {
        at[rank - 1] = at_weight[0] = k;
        sum += spec_at(call, GRAD, at) * spec_at(call, WEIGHT, at_weight);
    }
    return sum;
}

static double spec_weight(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    const int rank = x->rank;
    int64_t at_x[TENSOR_MAX_RANK] = {0}, at_grad[TENSOR_MAX_RANK] = {0}, rows = 0;
    double sum = 0.0;
    if (!shape_numel(rank - 1, x->sizes, &rows) || rows == 0) return 0.0;
    do {
        memcpy(at_x, at_grad, sizeof at_x);
        at_grad[rank - 1] = index[0];
        at_x[rank - 1] = output == 0 ? index[1] : 0;
        sum += (output == 0 ? spec_at(call, X, at_x) : 1.0) *
               spec_at(call, GRAD_OF_WEIGHT, at_grad);
    } while (shape_next(rank - 1, x->sizes, at_grad));
    return sum;
}

/* ---- kernels on oneDNN ---- */

/* Describes a primitive for one format of the weight. If oneDNN does not support it, records the
 * reason. *out_weight becomes the weight in the primitive's format. */
static status_t describe(context_t *ctx, prepared_t *prepared, const onednn_problem_t *forward,
                         onednn_propagation_t propagation, onednn_primitive_t **out_primitive,
                         tensor_info_t *out_weight)
{
    const int argument = propagation == ONEDNN_BACKWARD_DATA ? ONEDNN_ARGUMENT_WEIGHT
                                                             : ONEDNN_ARGUMENT_DIFF_WEIGHT;
    onednn_primitive_t *primitive = NULL;
    TRY(choose_describe_backward(ctx, forward, propagation, &primitive));
    const char *implementation = onednn_implementation(primitive);
    status_t status = onednn_is_reference(implementation)
                          ? STATUS_UNSUPPORTED
                          : onednn_query(ctx, primitive, argument, out_weight);
    if (status == STATUS_OK) {
        *out_primitive = primitive;
        return STATUS_OK;
    }
    prepared_note(prepared, "onednn: rows of a matrix are %s", implementation);
    onednn_release(primitive);
    return status;
}

/* Chooses a primitive. Tries the weight (or its gradient) in oneDNN's preferred format, then
 * row-major; a dense result is always row-major. The caller passes the primitive to `prepared` or
 * releases it. */
static status_t choose(context_t *ctx, const op_call_t *call, prepared_t *prepared, layer_t layer,
                       onednn_propagation_t propagation, bool has_bias,
                       onednn_primitive_t **out_primitive)
{
    const dtype_t dtype = call->in[0]->dtype;
    const bool is_data = propagation == ONEDNN_BACKWARD_DATA;
    const bool is_dense_result = !is_data && call->layout == LAYOUT_DENSE;
    if (dtype != DTYPE_F32 && dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(dtype));
    tensor_info_t src = linear_matrix(dtype, layer.rows, layer.inputs);
    tensor_info_t dst = linear_matrix(dtype, layer.rows, layer.outputs);
    tensor_info_t weight = linear_matrix(dtype, layer.outputs, layer.inputs), found = weight;
    tensor_info_t bias = info_dense(dtype, 1, &layer.outputs);
    const onednn_problem_t problem = {.kind = ONEDNN_INNER_PRODUCT,
                                      .n_src = 1,
                                      .src = &src,
                                      .weight = &weight,
                                      .bias = has_bias ? &bias : NULL,
                                      .dst = &dst};
    const format_t any = {.kind = FORMAT_ANY}, plain = format_plain(2);
    const format_t *wanted = is_data ? NULL : call->out_format;
    const format_t formats[] = {is_dense_result ? plain : wanted != NULL ? *wanted : any, plain};
    onednn_primitive_t *primitive = NULL;
    status_t status = STATUS_UNSUPPORTED;
    for (int i = 0; i < 2 && status == STATUS_UNSUPPORTED; i++) {
        weight.format = formats[i];
        if (i == 0 || wanted == NULL)
            status = describe(ctx, prepared, &problem, propagation, &primitive, &found);
    }
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: only reference implementations are left");
    TRY(status);
    if (call->layout == LAYOUT_MKLDNN) {
        status = choose_forward_weight(ctx, prepared, &problem, propagation, wanted != NULL,
                                       &primitive, &found);
        if (status != STATUS_OK) onednn_release(primitive);
        TRY(status);
    }
    if (is_data)
        prepared->in[WEIGHT] = found;
    else
        prepared->out[0] = is_dense_result ? choose_as_dense(&found) : found;
    prepared->cost_ns = cost_run(
        ctx, onednn_implementation(primitive),
        2.0 * (double)layer.rows * (double)layer.inputs * (double)layer.outputs,
        (double)info_bytes(&src) + (double)info_bytes(&dst) + (double)info_bytes(&found));
    *out_primitive = primitive;
    return STATUS_OK;
}

static status_t prepare_data(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(accept_plain(call, prepared, GRAD));
    TRY(accept_out_plain(call, prepared, 0));
    onednn_primitive_t *primitive = NULL;
    TRY(choose(ctx, call, prepared, layer_of_data(call), ONEDNN_BACKWARD_DATA, false, &primitive));
    choose_take_backward(prepared, ONEDNN_BACKWARD_DATA, primitive);
    return STATUS_OK;
}

static status_t prepare_weight(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const linear_backward_attrs_t *attrs = call->attrs;
    TRY(accept_plain(call, prepared, X));
    TRY(accept_plain(call, prepared, GRAD_OF_WEIGHT));
    onednn_primitive_t *primitive = NULL;
    TRY(choose(ctx, call, prepared, layer_of_weight(call), ONEDNN_BACKWARD_WEIGHT, attrs->bias,
               &primitive));
    choose_take_backward(prepared, ONEDNN_BACKWARD_WEIGHT, primitive);
    return STATUS_OK;
}

static const kernel_t onednn_data = {.name = "onednn",
                                     .prepare = prepare_data,
                                     .run = prepared_run_primitive,
                                     .flags = KERNEL_NEEDS_ELEMENTS};
static const kernel_t onednn_weight = {.name = "onednn",
                                       .prepare = prepare_weight,
                                       .run = prepared_run_primitive,
                                       .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel: few rows, and a blocked weight in oneDNN's format ----
 *
 * oneDNN transposes the blocks in each call, which takes longer than the products of few rows. */

static status_t prepare_rows(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const layer_t layer = layer_of_data(call);
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    onednn_primitive_t *primitive = NULL;
    if (call->per_op) return prepared_decline(prepared, "rows: oneDNN alone under policy per_op");
    if (call->in[GRAD]->dtype != DTYPE_F32)
        return prepared_decline(prepared, "rows: dtype %s", dtype_name(call->in[GRAD]->dtype));
    if (call->layout != LAYOUT_MKLDNN || layer.rows < 1 || layer.rows > ROWS_PRODUCT_ROWS)
        return prepared_decline(prepared, "rows: a weight in blocks, and 1 to %d rows are needed",
                                ROWS_PRODUCT_ROWS);
    TRY(accept_plain(call, prepared, GRAD));
    TRY(accept_out_plain(call, prepared, 0));
    TRY(choose(ctx, call, prepared, layer, ONEDNN_BACKWARD_DATA, false, &primitive));
    onednn_release(primitive);
    if (!linear_rows_fit(weight, 1))
        return prepared_decline(prepared, "rows: weight %s is not in blocks of outputs",
                                info_brief(weight));
    prepared_set_scratch(prepared, rows_product_scratch(layer.rows, layer.outputs));
    prepared->cost_ns = cost_layer(
        ctx, "rows", 2.0 * (double)layer.rows * (double)layer.inputs * (double)layer.outputs,
        (double)(layer.rows * (layer.inputs + layer.outputs)) * sizeof(float),
        (double)info_bytes(weight));
    return STATUS_OK;
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    const rows_product_t product = {.n_rows = info_numel(&prepared->out[0]) / weight->sizes[1],
                                    .terms = linear_rows_axis(weight, 0),
                                    .results = linear_rows_axis(weight, 1),
                                    .x = in[GRAD],
                                    .weight = in[WEIGHT],
                                    .out = out[0]};
    const int64_t products = product.n_rows * info_numel(weight);
    rows_product_run(&product, isa_best(), threads_for(ctx, products), scratch);
    return STATUS_OK;
}

static const kernel_t rows_data = {
    .name = "rows", .prepare = prepare_rows, .run = run_rows, .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel: the gradient of a blocked weight for few rows ----
 *
 * Each element is summed in the same order, whichever tile it is in. So a training plan that
 * updates the weight tile by tile, without storing the gradient, computes exactly the same
 * weight. */

bool linear_gradient_fits(const tensor_info_t *weight)
{
    const format_t *format = &weight->format;
    return weight->dtype == DTYPE_F32 && weight->rank == 2 && linear_rows_fit(weight, 0) &&
           rows_gradient_fits(isa_best(), format->block_sizes[1], format->block_sizes[0]);
}

void linear_gradient_run(const context_t *ctx, const tensor_info_t *weight,
                         rows_gradient_t *gradient)
{
    gradient->outputs = linear_rows_axis(weight, 0);
    gradient->inputs = linear_rows_axis(weight, 1);
    rows_gradient_run(gradient, isa_best(),
                      threads_for(ctx, gradient->n_rows * info_numel(weight)));
}

static status_t prepare_rows_weight(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const linear_backward_attrs_t *attrs = call->attrs;
    const layer_t layer = layer_of_weight(call);
    const tensor_info_t *weight = &prepared->out[0];
    onednn_primitive_t *primitive = NULL;
    if (call->per_op) return prepared_decline(prepared, "rows: oneDNN alone under policy per_op");
    if (call->in[X]->dtype != DTYPE_F32)
        return prepared_decline(prepared, "rows: dtype %s", dtype_name(call->in[X]->dtype));
    if (call->layout != LAYOUT_MKLDNN || layer.rows < 1 || layer.rows > ROWS_GRADIENT_ROWS)
        return prepared_decline(prepared, "rows: a weight in blocks, and 1 to %d rows are needed",
                                ROWS_GRADIENT_ROWS);
    TRY(accept_plain(call, prepared, X));
    TRY(accept_plain(call, prepared, GRAD_OF_WEIGHT));
    TRY(choose(ctx, call, prepared, layer, ONEDNN_BACKWARD_WEIGHT, attrs->bias, &primitive));
    onednn_release(primitive);
    if (!linear_gradient_fits(weight))
        return prepared_decline(prepared, "rows: weight %s is not in blocks of outputs",
                                info_brief(weight));
    prepared->cost_ns = cost_layer(
        ctx, "rows", 2.0 * (double)layer.rows * (double)layer.inputs * (double)layer.outputs,
        (double)(layer.rows * (layer.inputs + layer.outputs)) * sizeof(float),
        (double)info_bytes(weight));
    return STATUS_OK;
}

static status_t run_rows_weight(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    const linear_backward_attrs_t *attrs = prepared->attrs;
    const int64_t outputs = prepared->out[0].sizes[0];
    rows_gradient_t gradient = {.n_rows = info_numel(&prepared->in[GRAD_OF_WEIGHT]) / outputs,
                                .x = in[X],
                                .grad = in[GRAD_OF_WEIGHT],
                                .out = out[0]};
    (void)scratch;
    linear_gradient_run(ctx, &prepared->out[0], &gradient);
    if (attrs->bias)
        rows_gradient_bias(gradient.grad, gradient.n_rows, outputs, 0, outputs, out[1]);
    return STATUS_OK;
}

static const kernel_t rows_weight = {.name = "rows",
                                     .prepare = prepare_rows_weight,
                                     .run = run_rows_weight,
                                     .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernels: dtypes and sizes that oneDNN does not support ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *b = call->in[1];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (!dtype_is_floating(call->in[0]->dtype))
        return prepared_decline(prepared, "native: dtype %s", dtype_name(call->in[0]->dtype));
    TRY(accept_plain(call, prepared, 0));
    prepared->in[1] = info_dense(b->dtype, b->rank, b->sizes);
    prepared->cost_ns = 1e9;
    return accept_out_plain(call, prepared, 0);
}

/* Dot product of n elements of a and b with strides a_step and b_step. */
static double dot(dtype_t dtype, int64_t n, const char *a, int64_t a_step, const char *b,
                  int64_t b_step)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += dtype_load(dtype, a + i * a_step * size) * dtype_load(dtype, b + i * b_step * size);
    return sum;
}

typedef struct dots {
    dtype_t dtype;
    int64_t outputs, inputs, rows;
    const char *grad, *other; /* other: weight or x */
    char *out;
} dots_t;

static void dot_data(void *user, int64_t first, int64_t last)
{
    const dots_t *d = user;
    const int64_t size = (int64_t)dtype_size(d->dtype);
    for (int64_t i = first; i < last; i++)
        dtype_store(d->dtype, d->out + i * size,
                    dot(d->dtype, d->outputs, d->grad + i / d->inputs * d->outputs * size, 1,
                        d->other + i % d->inputs * size, d->inputs));
}

static void dot_weight(void *user, int64_t first, int64_t last)
{
    const dots_t *d = user;
    const int64_t size = (int64_t)dtype_size(d->dtype);
    for (int64_t i = first; i < last; i++)
        dtype_store(d->dtype, d->out + i * size,
                    dot(d->dtype, d->rows, d->grad + i / d->inputs * size, d->outputs,
                        d->other + i % d->inputs * size, d->inputs));
}

static status_t run_native_data(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    const int64_t n = info_numel(&prepared->out[0]), outputs = weight->sizes[0];
    dots_t dots = {weight->dtype, outputs, weight->sizes[1], 0, in[GRAD], in[WEIGHT], out[0]};
    threads_share(threads_for(ctx, n * outputs), n, dot_data, &dots);
    return STATUS_OK;
}

static status_t run_native_weight(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    (void)scratch;
    const linear_backward_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[X];
    const dtype_t dtype = x->dtype;
    const int64_t size = (int64_t)dtype_size(dtype), n = info_numel(&prepared->out[0]);
    const int64_t outputs = prepared->out[0].sizes[0], inputs = prepared->out[0].sizes[1];
    int64_t rows = 0;
    shape_numel(x->rank - 1, x->sizes, &rows);
    dots_t dots = {dtype, outputs, inputs, rows, in[GRAD_OF_WEIGHT], in[X], out[0]};
    threads_share(threads_for(ctx, n * rows), n, dot_weight, &dots);
    for (int64_t k = 0; attrs->bias && k < outputs; k++) {
        double sum = 0.0;
        for (int64_t i = 0; i < rows; i++)
            sum += dtype_load(dtype, (const char *)in[GRAD_OF_WEIGHT] + (i * outputs + k) * size);
        dtype_store(dtype, (char *)out[1] + k * size, sum);
    }
    return STATUS_OK;
}

/* ---- definitions ---- */

const opdef_t op_def_linear_backward_data = {
    .name = "linear_backward_data",
    .preference = OP_PREFERS,
    OPERANDS(data_operands),
    .n_outputs = 1,
    .infer = infer_data,
    .infers_symbols = true,
    .kernels = KERNELS(&rows_data, &onednn_data, KERNEL("native", prepare_native, run_native_data)),
    .spec = spec_data};

const opdef_t op_def_linear_backward_weight = {
    .name = "linear_backward_weight",
    .preference = OP_PREFERS,
    .attrs = {sizeof(linear_backward_attrs_t), 1, fields},
    OPERANDS(weight_operands),
    .n_outputs = 0,
    .infer = infer_weight,
    .infers_symbols = true,
    .kernels = KERNELS(&rows_weight, &onednn_weight,
                       KERNEL("native", prepare_native, run_native_weight)),
    .spec = spec_weight};
