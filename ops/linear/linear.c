/* Fully connected layers. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/linear/linear_impl.h"
#include "ops/linear/strassen_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const char *const algorithm_names[] = {"direct", "strassen", "strassen_only", NULL};

static const attr_field_t fields[] = {
    FIELD_BOOL(linear_attrs_t, flatten, 0),
    FIELD_NAME(linear_attrs_t, algorithm, LINEAR_DIRECT, algorithm_names),
    FIELD_POST(linear_attrs_t, post)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_WEIGHT, false, false},
                                     {"bias", ROLE_BIAS, true, false}};
enum { X, WEIGHT, BIAS, POST };

/* ---- inference ---- */

/* Sizes of x as a matrix: rows, and features of a row. Returns false if they overflow. */
static bool count_rows(const linear_attrs_t *attrs, const tensor_info_t *x, int64_t *out_rows,
                       int64_t *out_features)
{
    int n_rows = attrs->flatten ? 1 : x->rank - 1;
    return shape_numel(n_rows, x->sizes, out_rows) &&
           shape_numel(x->rank - n_rows, &x->sizes[n_rows], out_features);
}

static status_t linear_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const linear_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const char *op = call->op->name;
    int n_rows = attrs->flatten ? 1 : x->rank - 1;
    REQUIRE(ctx, x->rank >= (attrs->flatten ? 2 : 1), "%s: x is %s, rank %d or more is needed", op,
            info_brief(x), attrs->flatten ? 2 : 1);
    REQUIRE(ctx, weight->rank == 2, "%s: weight is %s, rank 2 is needed", op, info_brief(weight));
    int64_t rows = 0, features = 0;
    REQUIRE(ctx,
            sizes_numel(ctx, n_rows, x->sizes, &rows) &&
                sizes_numel(ctx, x->rank - n_rows, &x->sizes[n_rows], &features) &&
                sym_equal(ctx, features, weight->sizes[1]),
            "%s: weight %s needs %lld features, input %s has %lld", op, info_brief(weight),
            (long long)weight->sizes[1], info_brief(x), (long long)features);
    REQUIRE(ctx, x->dtype == weight->dtype, "%s: x is %s, weight is %s, equal dtypes are needed",
            op, dtype_name(x->dtype), dtype_name(weight->dtype));
    if (call_has(call, BIAS))
        REQUIRE(ctx,
                call->in[BIAS]->rank == 1 &&
                    sym_equal(ctx, call->in[BIAS]->sizes[0], weight->sizes[0]),
                "%s: bias is %s, [%lld] is needed", op, info_brief(call->in[BIAS]),
                (long long)weight->sizes[0]);
    int64_t sizes[TENSOR_MAX_RANK];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[n_rows] = weight->sizes[0];
    TRY(shape_check(ctx, op, x->dtype, n_rows + 1, sizes));
    out[0] = info_dense(x->dtype, n_rows + 1, sizes);
    return accept_post(ctx, call, &out[0]);
}

/* ---- specification ---- */

static double linear_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const linear_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int n_rows = attrs->flatten ? 1 : x->rank - 1;
    int64_t at[TENSOR_MAX_RANK] = {0}, at_weight[2] = {index[n_rows], 0};
    memcpy(at, index, (size_t)n_rows * sizeof *at);
    double sum = spec_has(call, BIAS) ? spec_at(call, BIAS, &index[n_rows]) : 0.0;
    if (call->in[WEIGHT]->sizes[1] > 0) {
        do {
            sum += spec_at(call, X, at) * spec_at(call, WEIGHT, at_weight);
            at_weight[1]++;
        } while (shape_next(x->rank - n_rows, &x->sizes[n_rows], &at[n_rows]));
    }
    return spec_post(call, &attrs->post, POST, sum, index);
}

/* ---- kernel on oneDNN ---- */

tensor_info_t linear_matrix(dtype_t dtype, int64_t rows, int64_t columns)
{
    format_t plain = format_plain(2);
    tensor_info_t info = info_dense(dtype, 2, (int64_t[]){rows, columns});
    return info_mkldnn(&info, &plain);
}

status_t linear_check_blocks(context_t *ctx, prepared_t *prepared, const tensor_info_t *weight)
{
    const tensor_info_t plain = info_dense(weight->dtype, weight->rank, weight->sizes);
    onednn_primitive_t *reorder = NULL;
    status_t status = onednn_reorder(ctx, &plain, weight, &reorder);
    if (status != STATUS_UNSUPPORTED) return status;
    return prepared_decline(prepared, "no blocks: oneDNN makes no %s", info_brief(weight));
}

/* Reads x as a row-major matrix. Tries the weight in oneDNN's preferred format, then row-major. */
status_t linear_choose_matrix(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                              const onednn_problem_t *base, double flops,
                              onednn_primitive_t **out_primitive)
{
    TRY(accept_plain(call, prepared, X));
    int64_t rows = 0, features = 0;
    count_rows(call->attrs, call->in[X], &rows, &features);
    tensor_info_t src = linear_matrix(call->in[X]->dtype, rows, features);
    tensor_info_t weight = linear_matrix(src.dtype, call->in[WEIGHT]->sizes[0], features);
    onednn_problem_t problem = *base;
    problem.src = &src;
    problem.weight = &weight;
    const format_t formats[] = {{.kind = FORMAT_ANY}, format_plain(2)};
    for (int i = 0; i < 2; i++) {
        onednn_primitive_t *primitive = NULL;
        weight.format = formats[i];
        status_t status = onednn_describe(ctx, &problem, &primitive);
        if (status == STATUS_UNSUPPORTED) continue;
        TRY(status);
        const char *implementation = onednn_implementation(primitive);
        status = onednn_is_reference(implementation)
                     ? STATUS_UNSUPPORTED
                     : onednn_query(ctx, primitive, ONEDNN_ARGUMENT_WEIGHT, &prepared->in[WEIGHT]);
        if (status == STATUS_OK) {
            double bytes = (double)info_bytes(&src) + (double)info_bytes(problem.dst);
            prepared->cost_ns = cost_layer(ctx, implementation, flops, bytes,
                                           (double)info_bytes(&prepared->in[WEIGHT]));
            *out_primitive = primitive;
            return STATUS_OK;
        }
        prepared_note(prepared, "onednn: rows of a matrix are %s", implementation);
        onednn_release(primitive);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return prepared_decline(prepared, "onednn: only reference implementations are left");
}

/* Reads a flattened x in its own format, with a weight of the same dimensions. Tries oneDNN's
 * preferred format for the weight first. If no tag describes it, tries the format of x. */
static status_t choose_flattened(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                                 const onednn_problem_t *base, double flops)
{
    op_call_t as_it_lies = *call;
    as_it_lies.keep_formats = true;
    tensor_info_t src = *call->in[X];
    tensor_info_t weight = {.dtype = src.dtype, .layout = LAYOUT_MKLDNN, .rank = src.rank};
    memcpy(weight.sizes, src.sizes, sizeof weight.sizes);
    weight.sizes[0] = call->in[WEIGHT]->sizes[0];
    onednn_problem_t problem = *base;
    problem.src = &src;
    problem.weight = &weight;
    status_t status = choose_formats(ctx, &as_it_lies, prepared, &problem, flops);
    if (status != STATUS_UNSUPPORTED) return status;
    weight.format = info_tag(&src);
    return choose_formats(ctx, &as_it_lies, prepared, &problem, flops);
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const linear_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    int64_t rows = 0, features = 0;
    count_rows(attrs, x, &rows, &features);
    tensor_info_t dst = linear_matrix(x->dtype, rows, weight->sizes[0]), bias, post[POST_MAX];
    onednn_problem_t problem = {.kind = ONEDNN_INNER_PRODUCT, .n_src = 1, .dst = &dst};
    if (call_has(call, BIAS)) {
        bias = info_dense(call->in[BIAS]->dtype, 1, call->in[BIAS]->sizes);
        prepared->in[BIAS] = bias;
        problem.bias = &bias;
    }
    TRY(accept_out_plain(call, prepared, 0));
    TRY(choose_post_ops(call, prepared, &problem, post));
    double flops = 2.0 * (double)rows * (double)features * (double)weight->sizes[0];
    status_t status = STATUS_UNSUPPORTED;
    format_t plain = format_plain(x->rank); /* oneDNN's kernels for matrices are faster */
    if (attrs->flatten && x->rank >= 3 && x->rank <= 5 &&
        !(call->keep_formats && format_same(&x->format, &plain, x->sizes)))
        status = choose_flattened(ctx, call, prepared, &problem, flops);
    if (status != STATUS_UNSUPPORTED) return status;
    onednn_primitive_t *primitive = NULL;
    TRY(linear_choose_matrix(ctx, call, prepared, &problem, flops, &primitive));
    prepared_take_primitive(prepared, primitive);
    return STATUS_OK;
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                         KERNEL_COMPETES};

/* ---- our own kernel: dtypes and sizes that oneDNN does not support ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (!dtype_is_floating(call->in[X]->dtype))
        return prepared_decline(prepared, "native: dtype %s", dtype_name(call->in[X]->dtype));
    TRY(accept_plain(call, prepared, X));
    accept_contiguous(call, prepared, WEIGHT, BIAS);
    prepared->cost_ns = 1e9;
    TRY(accept_out_plain(call, prepared, 0));
    return STATUS_OK;
}

static double dot(dtype_t dtype, const char *a, const char *b, int64_t n)
{
    const size_t size = dtype_size(dtype);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += dtype_load(dtype, a + (size_t)i * size) * dtype_load(dtype, b + (size_t)i * size);
    return sum;
}

typedef struct elements {
    const prepared_t *prepared;
    void *const *in;
    char *out;
} elements_t;

static void run_elements(void *user, int64_t first, int64_t last)
{
    const elements_t *e = user;
    const dtype_t dtype = e->prepared->in[X].dtype, bias_dtype = e->prepared->in[BIAS].dtype;
    const int64_t size = (int64_t)dtype_size(dtype), bias_size = (int64_t)dtype_size(bias_dtype);
    const int64_t *sizes = e->prepared->in[WEIGHT].sizes, outputs = sizes[0], features = sizes[1];
    for (int64_t i = first; i < last; i++) {
        const int64_t row = i / outputs, k = i % outputs;
        double bias = 0.0;
        if (e->in[BIAS] != NULL)
            bias = dtype_load(bias_dtype, (const char *)e->in[BIAS] + k * bias_size);
        const char *x = (const char *)e->in[X] + row * features * size;
        const char *weight = (const char *)e->in[WEIGHT] + k * features * size;
        dtype_store(dtype, e->out + i * size, bias + dot(dtype, x, weight, features));
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const int64_t n = info_numel(&prepared->out[0]);
    elements_t elements = {prepared, in, out[0]};
    threads_share(threads_for(ctx, n * prepared->in[WEIGHT].sizes[1]), n, run_elements, &elements);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = run_native};
static const kernel_t *const kernels[] = {
    &linear_grouped, &linear_stream, &linear_product, &linear_strassen,
    &linear_rows,    &onednn,        &native,         NULL};

/* ---- gradients ---- */

/* Reshapes x to the matrix that the layer multiplies. */
static value_t flatten(const gradient_call_t *call)
{
    const linear_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = emit_info(call->emitter, call->in[X]);
    int64_t sizes[2] = {0};
    if (!attrs->flatten || !count_rows(attrs, x, &sizes[0], &sizes[1])) return call->in[X];
    return emit_ints(call->emitter, &op_def_reshape, call->in[X], 2, sizes);
}

static void linear_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t grad = call->out_grad[0], bias = call->in[BIAS];
    const bool wants_bias = bias != VALUE_NONE && call->is_wanted[BIAS];
    /* backward_weight returns the bias's gradient in grad's dtype, which may be narrower than the
     * bias */
    const bool is_joined = wants_bias && call->is_wanted[WEIGHT] &&
                           emit_info(e, bias)->dtype == emit_info(e, grad)->dtype;
    if (call->is_wanted[X]) {
        value_t of_x = emit_binary(e, &op_def_linear_backward_data, grad, call->in[WEIGHT]);
        call->in_grad[X] = emit_reshape_like(e, of_x, call->in[X]);
    }
    if (call->is_wanted[WEIGHT]) {
        const linear_backward_attrs_t attrs = {.bias = is_joined};
        const value_t in[] = {flatten(call), grad};
        value_t out[2] = {VALUE_NONE, VALUE_NONE};
        emit_op_n(e, &op_def_linear_backward_weight, &attrs, 2, in, is_joined ? 2 : 1, out);
        call->in_grad[WEIGHT] = out[0];
        if (is_joined) call->in_grad[BIAS] = out[1];
    }
    if (wants_bias && !is_joined) call->in_grad[BIAS] = emit_unbroadcast(e, grad, bias);
}

/* ---- definition ---- */

static double amplifies(const void *attrs)
{
    return ((const linear_attrs_t *)attrs)->algorithm == LINEAR_DIRECT ? 1.0 : STRASSEN_AMPLIFIES;
}

const opdef_t op_def_linear = {
    .name = "linear",
    FUNCTIONS_OF(linear),
    .preference = OP_PREFERS,
    .traits = TRAIT_POST_OPS,
    .attrs = {sizeof(linear_attrs_t), sizeof fields / sizeof *fields, fields},
    OPERANDS(operands),
    .kernels = kernels,
    .flops = ops_flops_of_weight,
    .amplifies = amplifies,
    .gradient = GRADIENT(.pass = linear_pass, .reads_in = 1u << X | 1u << WEIGHT)};

/* ---- public ---- */

status_t op_linear(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   tensor_t **out)
{
    const tensor_t *in[] = {x, weight, bias};
    return dispatch_run(ctx, &op_def_linear, NULL, 3, in, NULL, out);
}
