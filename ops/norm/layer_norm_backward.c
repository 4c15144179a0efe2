/* Gradients of layer and rms norm.
 *
 * With v = grad weight, h = (x - mean) / deviation, and means over the row:
 *
 *     d x       (v - mean(v) - h mean(v h)) / deviation
 *     d weight  sum(rows) grad h
 *     d bias    sum(rows) grad
 *
 * rms_norm is the same with 0 for mean and mean(v), and no bias. Means and deviations are computed
 * again from x: its rows are in the cache anyway, and the forward pass need not store them. */
#include <math.h>
#include <string.h>

#include "kernels/norm/layer_gradient_impl.h"
#include "ops/accept_impl.h"
#include "ops/norm/norm_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_BIAS, true, false},
                                     {"grad", ROLE_ACTIVATION, false, false}};
enum { X, WEIGHT, GRAD };
enum { OF_X, OF_WEIGHT, OF_BIAS };

enum { VARIANT_layer_norm, VARIANT_rms_norm };

static bool is_rms(const opdef_t *op)
{
    return op->variant == VARIANT_rms_norm;
}

/* Dtype of the gradients of weight and bias: they are sums over rows, so at least f32. */
static dtype_t dtype_of_sums(dtype_t dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* ---- inference ---- */

static status_t layer_norm_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                          tensor_info_t *out)
{
    const layer_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT], *grad = call->in[GRAD];
    const char *op = call->op->name;
    REQUIRE(ctx, attrs->n_dims >= 1 && attrs->n_dims <= x->rank,
            "%s: n_dims=%lld, input %s needs 1 to %d", op, (long long)attrs->n_dims, info_brief(x),
            x->rank);
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: x is %s, a floating type is needed", op,
            info_brief(x));
    const int n_dims = (int)attrs->n_dims;
    const int64_t *sizes = &x->sizes[x->rank - n_dims];
    REQUIRE(ctx,
            !call_has(call, WEIGHT) ||
                (dtype_is_floating(weight->dtype) &&
                 sizes_equal(ctx, n_dims, sizes, weight->rank, weight->sizes)),
            "%s: weight is %s, the last %d dimensions of %s are needed", op, info_brief(weight),
            n_dims, info_brief(x));
    REQUIRE(ctx, sizes_are_like(ctx, grad, x), "%s: grad is %s, x is %s, equal ones are needed", op,
            info_brief(grad), info_brief(x));
    out[OF_X] = info_dense(x->dtype, x->rank, x->sizes);
    for (int i = OF_WEIGHT; i < *out_n; i++)
        out[i] = info_dense(dtype_of_sums(x->dtype), n_dims, sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

/* Statistics of one row; v and h as at the top of the file. */
typedef struct spec_row {
    double mean, deviation, mean_v, mean_vh;
} spec_row_t;

static double spec_v(const spec_call_t *call, const int64_t *at)
{
    const tensor_info_t *x = call->in[X];
    const int first = x->rank - (int)((const layer_attrs_t *)call->attrs)->n_dims;
    double v = spec_at(call, GRAD, at);
    return spec_has(call, WEIGHT) ? v * spec_at(call, WEIGHT, &at[first]) : v;
}

static spec_row_t spec_numbers(const spec_call_t *call, const int64_t *index)
{
    const layer_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const int n_dims = (int)attrs->n_dims, first = x->rank - n_dims;
    spec_row_t row = {0};
    double squares = 0.0, n = 0.0;
    int64_t at[TENSOR_MAX_RANK] = {0};
    for (int d = 0; d < first; d++) at[d] = index[d];
    do {
        row.mean += spec_at(call, X, at);
        n++;
    } while (shape_next(n_dims, &x->sizes[first], &at[first]));
    row.mean = is_rms(call->op) ? 0.0 : row.mean / n;
    do {
        double difference = spec_at(call, X, at) - row.mean;
        squares += difference * difference;
        row.mean_v += spec_v(call, at) / n;
        row.mean_vh += spec_v(call, at) * difference / n;
    } while (shape_next(n_dims, &x->sizes[first], &at[first]));
    row.deviation = sqrt(squares / n + attrs->epsilon);
    row.mean_vh /= row.deviation;
    if (is_rms(call->op)) row.mean_v = 0.0;
    return row;
}

static double layer_norm_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    const int n_dims = (int)((const layer_attrs_t *)call->attrs)->n_dims;
    const int first = x->rank - n_dims;
    int64_t at[TENSOR_MAX_RANK] = {0};
    double sum = 0.0;
    if (output == OF_X) {
        const spec_row_t row = spec_numbers(call, index);
        const double h = (spec_at(call, X, index) - row.mean) / row.deviation;
        return (spec_v(call, index) - row.mean_v - h * row.mean_vh) / row.deviation;
    }
    for (int d = 0; d < first; d++)
        if (x->sizes[d] == 0) return 0.0;
    for (int d = 0; d < n_dims; d++) at[first + d] = index[d];
    do {
        double grad = spec_at(call, GRAD, at);
        if (output == OF_WEIGHT) {
            const spec_row_t row = spec_numbers(call, at);
            grad *= (spec_at(call, X, at) - row.mean) / row.deviation;
        }
        sum += grad;
    } while (shape_next(first, x->sizes, at));
    return sum;
}

/* ---- kernel ----
 *
 * Sums each of n_parts parts of the rows separately. n_parts depends only on the sizes, so that
 * the sums are the same with any number of threads. */

#define MAX_PARTS 16
#define PART_ELEMENTS 8192 /* parts with fewer elements are not worth splitting */
#define PENDING_ROWS 64    /* rows whose sum in the computation dtype is added to a double */

/* Scratch buffers of a part, each of n doubles: sums of weight and bias in double; pending sums of
 * both, in the computation dtype; x and grad, converted to the computation dtype. */
enum { LINE_SUMS, LINE_PENDING = 2, LINE_WIDE = 4, MAX_LINES = 6 };

typedef struct work {
    const prepared_t *prepared;
    int64_t rows, n, n_parts;
    int n_lines;
    layer_gradient_t layer; /* its dtype is the computation dtype */
    char *weight;           /* [n], in the computation dtype */
    double *lines;          /* [n_parts][n_lines][n] */
} work_t;

static work_t work_of(const prepared_t *prepared, void *scratch)
{
    const dtype_t dtype = prepared->in[X].dtype;
    const dtype_t compute = dtype_of_sums(dtype);
    work_t work = {.prepared = prepared, .weight = scratch};
    layer_rows(&prepared->in[X], prepared->attrs, &work.rows, &work.n);
    work.layer = (layer_gradient_t){.dtype = compute,
                                    .has_mean = !is_rms(prepared->op),
                                    .epsilon = ((const layer_attrs_t *)prepared->attrs)->epsilon,
                                    .n = work.n,
                                    .weight = scratch};
    work.n_lines = dtype == compute ? LINE_WIDE : MAX_LINES;
    work.n_parts = work.rows * work.n / PART_ELEMENTS;
    if (work.n_parts > work.rows) work.n_parts = work.rows;
    if (work.n_parts > MAX_PARTS) work.n_parts = MAX_PARTS;
    if (work.n_parts < 1) work.n_parts = 1;
    if (scratch != NULL) work.lines = (double *)scratch + work.n;
    return work;
}

/* Accepts a dense gradient with any strides between rows, if each row is contiguous. Example: the
 * gradient of a mean over rows is one row, repeated with stride 0. */
static status_t accept_grad(const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *grad = call->in[GRAD];
    int64_t rows = 0, n = 0, expected = 1;
    bool has_rows = call->layout == LAYOUT_DENSE && call->keep_formats;
    layer_rows(grad, call->attrs, &rows, &n);
    for (int d = grad->rank - 1; has_rows && d >= 0 && expected < n; d--) {
        has_rows = grad->sizes[d] == 1 || grad->format.strides[d] == expected;
        expected *= grad->sizes[d];
    }
    if (!has_rows || info_is_contiguous(grad)) return accept_plain(call, prepared, GRAD);
    prepared->in[GRAD] = *grad;
    return STATUS_OK;
}

static status_t layer_norm_backward_prepare(context_t *ctx, const op_call_t *call,
                                            prepared_t *prepared)
{
    TRY(accept_plain(call, prepared, X));
    TRY(accept_grad(call, prepared));
    TRY(accept_out_plain(call, prepared, OF_X));
    const tensor_info_t *weight = call->in[WEIGHT];
    if (call_has(call, WEIGHT))
        prepared->in[WEIGHT] = info_dense(weight->dtype, weight->rank, weight->sizes);
    for (int i = OF_WEIGHT; i < call->n_out; i++) {
        const format_t plain = format_plain(call->out[i].rank);
        prepared->out[i] = accept_info(&call->out[i], call->layout, &plain);
    }
    const work_t work = work_of(prepared, NULL);
    size_t lines = 0;
    if (__builtin_mul_overflow((size_t)(work.n_parts * work.n_lines + 1),
                               (size_t)work.n * sizeof(double), &lines))
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "%s: rows of %lld elements have no room", call->op->name,
             (long long)work.n);
    prepared->scratch_bytes = lines;
    const bool has_own_rows = info_is_contiguous(&prepared->in[GRAD]) ||
                              call->layout == LAYOUT_MKLDNN;
    prepared->overwrites = 1u << X | (has_own_rows ? 1u << GRAD : 0);
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 5.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* Computes one row of x's gradient and adds the row to the pending sums. x and grad have the
 * computation dtype; of_x may be grad. */
static void pass_row(const work_t *work, const void *x, const void *grad, void *of_x,
                     double *const *lines)
{
    layer_gradient_row(&work->layer, isa_best(), x, grad, of_x, lines[LINE_PENDING],
                       lines[LINE_PENDING + 1]);
}

/* Adds the pending sums to the sums in double. */
static void add_pending(const work_t *work, double *const *lines)
{
    const int64_t n = work->n;
    for (int k = 0; k < 2; k++) {
        double *sum = lines[LINE_SUMS + k];
        void *pending = lines[LINE_PENDING + k];
        if (work->layer.dtype == DTYPE_F32)
            for (int64_t i = 0; i < n; i++) sum[i] += (double)((float *)pending)[i];
        else
            for (int64_t i = 0; i < n; i++) sum[i] += ((double *)pending)[i];
        memset(pending, 0, (size_t)n * dtype_size(work->layer.dtype));
    }
}

/* Byte offset of a row in grad. */
static int64_t find_grad(const work_t *work, int64_t row)
{
    const tensor_info_t *grad = &work->prepared->in[GRAD];
    const int64_t size = (int64_t)dtype_size(grad->dtype);
    int64_t at = 0, rest = row * work->n;
    if (grad->format.kind != FORMAT_STRIDED) return rest * size;
    for (int d = grad->rank - 1; d >= 0; d--) {
        at += rest % grad->sizes[d] * grad->format.strides[d];
        rest /= grad->sizes[d];
    }
    return at * size;
}

static void run_part(const work_t *work, int64_t part, void *const *in, void *const *out)
{
    const dtype_t dtype = work->prepared->in[X].dtype;
    const int64_t n = work->n, bytes = n * (int64_t)dtype_size(dtype);
    const int64_t first = work->rows * part / work->n_parts;
    const int64_t end = work->rows * (part + 1) / work->n_parts;
    double *lines[MAX_LINES] = {NULL};
    for (int i = 0; i < work->n_lines; i++) lines[i] = work->lines + (part * work->n_lines + i) * n;
    memset(lines[0], 0, (size_t)(LINE_WIDE * n) * sizeof(double));
    for (int64_t row = first; row < end; row++) {
        const char *x = (const char *)in[X] + row * bytes,
                   *grad = (const char *)in[GRAD] + find_grad(work, row);
        char *of_x = (char *)out[OF_X] + row * bytes;
        if (dtype == work->layer.dtype) {
            pass_row(work, x, grad, of_x, lines);
        } else {
            dtype_cast(n, dtype, x, 1, work->layer.dtype, lines[LINE_WIDE], 1);
            dtype_cast(n, dtype, grad, 1, work->layer.dtype, lines[LINE_WIDE + 1], 1);
            pass_row(work, lines[LINE_WIDE], lines[LINE_WIDE + 1], lines[LINE_WIDE + 1], lines);
            dtype_cast(n, work->layer.dtype, lines[LINE_WIDE + 1], 1, dtype, of_x, 1);
        }
        if ((row - first) % PENDING_ROWS == PENDING_ROWS - 1) add_pending(work, lines);
    }
    add_pending(work, lines);
}

/* Adds the sums of all parts and stores the gradients of weight and bias. */
static void give_sums(const work_t *work, void *const *out)
{
    const int64_t n = work->n, size = (int64_t)dtype_size(work->layer.dtype);
    for (int k = 0; k + OF_WEIGHT < work->prepared->n_out; k++) {
        double *total = work->lines + (LINE_SUMS + k) * n;
        for (int64_t part = 1; part < work->n_parts; part++) {
            const double *sum = total + part * work->n_lines * n;
            for (int64_t i = 0; i < n; i++) total[i] += sum[i];
        }
        for (int64_t i = 0; i < n; i++)
            dtype_store(work->layer.dtype, (char *)out[OF_WEIGHT + k] + i * size, total[i]);
    }
}

typedef struct parts {
    const work_t *work;
    void *const *in, *const *out;
} parts_t;

static void run_parts(void *user, int64_t first, int64_t last)
{
    const parts_t *parts = user;
    for (int64_t part = first; part < last; part++)
        run_part(parts->work, part, parts->in, parts->out);
}

static status_t layer_norm_backward_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                        void *const *out, void *scratch)
{
    if (info_numel(&prepared->out[OF_WEIGHT]) == 0) return STATUS_OK;
    const work_t work = work_of(prepared, scratch);
    const int64_t size = (int64_t)dtype_size(work.layer.dtype);
    if (in[WEIGHT] != NULL)
        dtype_cast(work.n, prepared->in[WEIGHT].dtype, in[WEIGHT], 1, work.layer.dtype, work.weight,
                   1);
    for (int64_t i = 0; in[WEIGHT] == NULL && i < work.n; i++)
        dtype_store(work.layer.dtype, work.weight + i * size, 1.0);
    parts_t parts = {&work, in, out};
    threads_share(threads_for(ctx, work.rows * work.n), work.n_parts, run_parts, &parts);
    give_sums(&work, out);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = layer_norm_backward_prepare, .run = layer_norm_backward_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- gradient rules ---- */

static void layer_norm_backward_pass(const gradient_call_t *call, const opdef_t *op, int n_out)
{
    enum { BIAS = 2 };
    emitter_t *e = call->emitter;
    const value_t in[] = {call->in[X], call->in[WEIGHT], call->out_grad[0]};
    value_t out[] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    emit_op_n(e, op, call->attrs, 3, in, n_out, out);
    call->in_grad[X] = out[OF_X];
    for (int i = WEIGHT; i <= BIAS && i < call->n_in; i++)
        if (call->in[i] != VALUE_NONE)
            call->in_grad[i] = emit_cast(e, out[i], emit_info(e, call->in[i])->dtype);
}

static void pass_layer_norm(const gradient_call_t *call)
{
    layer_norm_backward_pass(call, &op_def_layer_norm_backward, 3);
}

static void pass_rms_norm(const gradient_call_t *call)
{
    layer_norm_backward_pass(call, &op_def_rms_norm_backward, 2);
}

const gradient_t layer_norm_gradient = {.pass = pass_layer_norm,
                                        .reads_in = 1u << X | 1u << WEIGHT};
const gradient_t rms_norm_gradient = {.pass = pass_rms_norm, .reads_in = 1u << X | 1u << WEIGHT};

/* ---- definitions ---- */

#define DEFINE(of, outputs)                                                                        \
    const opdef_t op_def_##of##_backward = {                                                       \
        .name = #of "_backward",                                                                   \
        .variant = VARIANT_##of,                                                                   \
        .preference = OP_FOLLOWS,                                                                  \
        .attrs = {sizeof(layer_attrs_t), LAYER_FIELDS, layer_fields},                              \
        OPERANDS(operands),                                                                        \
        .n_outputs = outputs,                                                                      \
        .infer = layer_norm_backward_infer,                                                        \
        .infers_symbols = true,                                                                    \
        .kernels = kernels,                                                                        \
        .spec = layer_norm_backward_spec}

DEFINE(layer_norm, 3);
DEFINE(rms_norm, 2);
