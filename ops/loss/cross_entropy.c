/* Cross entropy of scores, and negative log likelihood of log-probabilities, with their gradients.
 *
 * A row has the scores x[c] of all classes for one target. Its loss is - sum(c) q[c] log p[c],
 * where p is the softmax of the row (nll_loss: x is log p), and q depends on the target:
 *
 *   a label t                q[c] = weight[c] ((1 - smoothing) [c = t] + smoothing / C)
 *   probabilities target[c]  q[c] = weight[c] ((1 - smoothing) target[c] + smoothing / C)
 *
 * The gradient of x[c] is p[c] sum(q) - q[c] (nll_loss: -q[c]), times the gradient of the loss.
 * LOSS_MEAN divides the sum of the losses by the sum of weight[t] over the rows that are not
 * ignored, or, for probabilities, by the number of rows. */
#include <math.h>
#include <string.h>

#include "kernels/loss/exponentials_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/loss/loss_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const char *const reductions[] = {"mean", "sum", "none", NULL};

#define FIELD_REDUCTION FIELD_NAME(cross_entropy_attrs_t, reduction, LOSS_MEAN, reductions)
#define FIELD_IGNORE FIELD_INT(cross_entropy_attrs_t, ignore_index, LOSS_IGNORE_INDEX)
#define FIELD_SMOOTHING FIELD_FLOAT(cross_entropy_attrs_t, label_smoothing, 0)

static const attr_field_t fields[] = {FIELD_REDUCTION, FIELD_IGNORE, FIELD_SMOOTHING};

/* The last operand of a backward operator is the gradient of the loss. */
static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"target", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_STATE, true, false}};
static const operand_t backward_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                              {"target", ROLE_ACTIVATION, false, false},
                                              {"weight", ROLE_STATE, true, false},
                                              {"grad", ROLE_ACTIVATION, false, false}};
enum { X, TARGET, WEIGHT, GRAD };

enum { VARIANT_cross_entropy, VARIANT_nll_loss };

static bool is_nll(const opdef_t *op)
{
    return op->variant == VARIANT_nll_loss;
}

/* ---- inference ---- */

/* The dimension of the classes: 0 in [C], which is one row; 1 in [N][C][...]. */
static int class_dim(const tensor_info_t *x)
{
    return x->rank > 1 ? 1 : 0;
}

/* Finds the sizes of x without the dimension of classes, and returns their number. Each index of
 * these sizes is a row. */
static int row_sizes(const tensor_info_t *x, int64_t *out_sizes)
{
    int n = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != class_dim(x)) out_sizes[n++] = x->sizes[d];
    return n;
}

static int64_t count_rows(const tensor_info_t *x)
{
    int64_t sizes[TENSOR_MAX_RANK], n = 1;
    const int rank = row_sizes(x, sizes);
    for (int d = 0; d < rank; d++) n *= sizes[d];
    return n;
}

static status_t check_target(context_t *ctx, const op_call_t *call)
{
    const tensor_info_t *x = call->in[X], *target = call->in[TARGET];
    const cross_entropy_attrs_t *attrs = call->attrs;
    const bool is_floating = dtype_is_floating(target->dtype);
    int64_t sizes[TENSOR_MAX_RANK];
    const int rank = row_sizes(x, sizes);
    REQUIRE(ctx, dtype_is_integral(target->dtype) || (is_floating && !is_nll(call->op)),
            "%s: target is %s, %s", call->op->name, info_brief(target),
            is_nll(call->op) ? "integers are needed" : "integers or probabilities are needed");
    REQUIRE(ctx,
            is_floating ? sizes_equal(ctx, target->rank, target->sizes, x->rank, x->sizes)
                        : sizes_equal(ctx, target->rank, target->sizes, rank, sizes),
            "%s: target is %s, x %s: labels have x's sizes without dimension %d, probabilities all "
            "of them",
            call->op->name, info_brief(target), info_brief(x), class_dim(x));
    REQUIRE(ctx, !is_floating || attrs->ignore_index < 0,
            "%s: ignore_index=%lld with probabilities %s, only labels can be ignored",
            call->op->name, (long long)attrs->ignore_index, info_brief(target));
    return STATUS_OK;
}

static status_t check(context_t *ctx, const op_call_t *call)
{
    const tensor_info_t *x = call->in[X];
    const cross_entropy_attrs_t *attrs = call->attrs;
    REQUIRE(ctx, dtype_is_floating(x->dtype) && x->rank > 0,
            "%s: x is %s, must be floating and have a dimension of classes", call->op->name,
            info_brief(x));
    TRY(check_target(ctx, call));
    const int64_t n_classes = x->sizes[class_dim(x)];
    const tensor_info_t *weight = call_has(call, WEIGHT) ? call->in[WEIGHT] : NULL;
    REQUIRE(ctx,
            weight == NULL || (dtype_is_floating(weight->dtype) && weight->rank == 1 &&
                               sym_equal(ctx, weight->sizes[0], n_classes)),
            "%s: weight is %s, x %s: one number for each class is needed", call->op->name,
            info_brief(weight), info_brief(x));
    REQUIRE(ctx, attrs->label_smoothing >= 0.0 && attrs->label_smoothing <= 1.0,
            "%s: label_smoothing=%g, must be between 0 and 1", call->op->name,
            attrs->label_smoothing);
    return STATUS_OK;
}

static tensor_info_t loss_info(const op_call_t *call)
{
    const tensor_info_t *x = call->in[X];
    const cross_entropy_attrs_t *attrs = call->attrs;
    int64_t sizes[TENSOR_MAX_RANK];
    const int rank = row_sizes(x, sizes);
    return info_dense(x->dtype, attrs->reduction == LOSS_NONE ? rank : 0, sizes);
}

static status_t cross_entropy_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                    tensor_info_t *out)
{
    (void)out_n;
    TRY(check(ctx, call));
    out[0] = loss_info(call);
    return STATUS_OK;
}

static status_t cross_entropy_infer_backward(context_t *ctx, const op_call_t *call, int *out_n,
                                             tensor_info_t *out)
{
    (void)out_n;
    TRY(check(ctx, call));
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD], loss = loss_info(call);
    REQUIRE(ctx, sizes_are_like(ctx, grad, &loss), "%s: grad is %s, the loss %s", call->op->name,
            info_brief(grad), info_brief(&loss));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

/* Index of class c of a row in x. */
static void place_in_x(const tensor_info_t *x, const int64_t *row, int64_t c, int64_t *out)
{
    int n = 0;
    for (int d = 0; d < x->rank; d++) out[d] = d == class_dim(x) ? c : row[n++];
}

static double spec_x(const spec_call_t *call, const int64_t *row, int64_t c)
{
    int64_t at[TENSOR_MAX_RANK];
    place_in_x(call->in[X], row, c, at);
    return spec_at(call, X, at);
}

static double spec_weight(const spec_call_t *call, int64_t c)
{
    return spec_has(call, WEIGHT) ? spec_at(call, WEIGHT, &c) : 1.0;
}

static bool spec_is_ignored(const spec_call_t *call, const int64_t *row)
{
    const cross_entropy_attrs_t *attrs = call->attrs;
    return dtype_is_integral(call->in[TARGET]->dtype) &&
           (int64_t)spec_at(call, TARGET, row) == attrs->ignore_index;
}

/* q[c] for a row that is not ignored. */
static double spec_target(const spec_call_t *call, const int64_t *row, int64_t c)
{
    const cross_entropy_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const double smoothing = attrs->label_smoothing;
    double target = 0.0;
    int64_t at[TENSOR_MAX_RANK];
    place_in_x(x, row, c, at);
    if (dtype_is_integral(call->in[TARGET]->dtype))
        target = (int64_t)spec_at(call, TARGET, row) == c ? 1.0 : 0.0;
    else
        target = spec_at(call, TARGET, at);
    const double spread = smoothing / (double)x->sizes[class_dim(x)];
    return spec_weight(call, c) * ((1.0 - smoothing) * target + spread);
}

/* Returns the largest score of a row, and the sum of exp(score - largest). */
static double spec_row(const spec_call_t *call, const int64_t *row, double *out_sum)
{
    const int64_t n = call->in[X]->sizes[class_dim(call->in[X])];
    double largest = -INFINITY;
    for (int64_t c = 0; c < n; c++) {
        const double value = spec_x(call, row, c);
        if (value > largest || isnan(value)) largest = value;
    }
    *out_sum = 0.0;
    for (int64_t c = 0; c < n; c++) *out_sum += exp(spec_x(call, row, c) - largest);
    return largest;
}

static double spec_row_loss(const spec_call_t *call, const int64_t *row)
{
    const int64_t n = call->in[X]->sizes[class_dim(call->in[X])];
    double loss = 0.0, largest = 0.0, sum = 1.0;
    if (spec_is_ignored(call, row)) return 0.0;
    if (!is_nll(call->op)) largest = spec_row(call, row, &sum);
    for (int64_t c = 0; c < n; c++) {
        const double q = spec_target(call, row, c);
        if (q != 0.0) loss += q * (log(sum) + (largest - spec_x(call, row, c)));
    }
    return loss;
}

/* The number by which the reduction divides the sum of losses. */
static double spec_divisor(const spec_call_t *call)
{
    const cross_entropy_attrs_t *attrs = call->attrs;
    int64_t sizes[TENSOR_MAX_RANK], row[TENSOR_MAX_RANK] = {0};
    const int rank = row_sizes(call->in[X], sizes);
    const bool is_label = dtype_is_integral(call->in[TARGET]->dtype);
    double sum = 0.0;
    if (attrs->reduction != LOSS_MEAN) return 1.0;
    if (count_rows(call->in[X]) == 0) return 0.0;
    do {
        if (!spec_is_ignored(call, row))
            sum += is_label ? spec_weight(call, (int64_t)spec_at(call, TARGET, row)) : 1.0;
    } while (shape_next(rank, sizes, row));
    return sum;
}

static double cross_entropy_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const cross_entropy_attrs_t *attrs = call->attrs;
    int64_t sizes[TENSOR_MAX_RANK], row[TENSOR_MAX_RANK] = {0};
    const int rank = row_sizes(call->in[X], sizes);
    double sum = 0.0;
    if (attrs->reduction == LOSS_NONE) return spec_row_loss(call, index);
    if (count_rows(call->in[X]) == 0) return 0.0 / spec_divisor(call);
    do sum += spec_row_loss(call, row);
    while (shape_next(rank, sizes, row));
    return sum / spec_divisor(call);
}

static double cross_entropy_spec_backward(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X];
    int64_t row[TENSOR_MAX_RANK] = {0};
    int n = 0;
    double sum = 1.0, all = 0.0, largest = 0.0;
    const int64_t c = index[class_dim(x)];
    for (int d = 0; d < x->rank; d++)
        if (d != class_dim(x)) row[n++] = index[d];
    if (spec_is_ignored(call, row)) return 0.0;
    const double q = spec_target(call, row, c);
    const double scale = spec_at(call, GRAD, row) / spec_divisor(call);
    if (is_nll(call->op)) return -q * scale;
    largest = spec_row(call, row, &sum);
    for (int64_t i = 0; i < x->sizes[class_dim(x)]; i++) all += spec_target(call, row, i);
    return scale * (exp(spec_x(call, row, c) - largest) / sum * all - q);
}

/* ---- kernel: threads divide the rows; the losses are summed in the order of rows ---- */

typedef struct rows {
    const opdef_t *op;
    int64_t n, classes, inner; /* n rows; the classes of a row are `inner` elements apart */
    dtype_t dtype, target_dtype;
    const char *x, *target;
    const double *weight; /* [classes] */
    int reduction;
    int64_t ignored;
    double smoothing;
} rows_t;

/* Scratch memory of one thread, for one row: -log p[c] in `distance`, and p[c]. */
typedef struct row {
    double *distance, *p;
    float *narrow;
} row_t;

static size_t row_bytes(int64_t classes)
{
    return (size_t)classes * (2 * sizeof(double) + sizeof(float)) + 64;
}

static row_t row_at(char *memory, int64_t classes, int member)
{
    char *mine = memory + (size_t)member * (row_bytes(classes) / 64 * 64);
    double *distance = (double *)(void *)mine;
    return (row_t){distance, distance + classes, (float *)(void *)(distance + 2 * classes)};
}

/* Scratch memory has the weights of the classes, the losses of all rows, and a row_t for each
 * thread. */
static status_t cross_entropy_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const int64_t n = count_rows(x), classes = x->sizes[class_dim(x)];
    size_t numbers = 0, rows = 0;
    TRY(ops_prepare_dense(ctx, call, prepared));
    REQUIRE(ctx,
            !__builtin_mul_overflow((size_t)(n + classes), sizeof(double), &numbers) &&
                !__builtin_mul_overflow(row_bytes(classes), (size_t)context_threads(ctx), &rows) &&
                !__builtin_add_overflow(numbers, rows, &prepared->scratch_bytes),
            "%s: %s, the memory it takes overflows", call->op->name, info_brief(x));
    return STATUS_OK;
}

static int64_t label_at(const rows_t *rows, int64_t row)
{
    return dtype_load_integer(rows->target_dtype,
                              rows->target + row * (int64_t)dtype_size(rows->target_dtype));
}

static bool has_labels(const rows_t *rows)
{
    return dtype_is_integral(rows->target_dtype);
}

/* Collects the arguments of the call. Checks all labels, before anything is written. */
static status_t begin(context_t *ctx, const prepared_t *prepared, void *const *in, double *weight,
                      rows_t *out_rows)
{
    const tensor_info_t *x = &prepared->in[X];
    const cross_entropy_attrs_t *attrs = prepared->attrs;
    const bool has_weight = prepared->in[WEIGHT].dtype != DTYPE_NONE;
    rows_t rows = {.op = prepared->op,
                   .n = count_rows(x),
                   .classes = x->sizes[class_dim(x)],
                   .inner = 1,
                   .dtype = x->dtype,
                   .target_dtype = prepared->in[TARGET].dtype,
                   .x = in[X],
                   .target = in[TARGET],
                   .weight = weight,
                   .reduction = attrs->reduction,
                   .ignored = attrs->ignore_index,
                   .smoothing = is_nll(prepared->op) ? 0.0 : attrs->label_smoothing};
    for (int d = class_dim(x) + 1; d < x->rank; d++) rows.inner *= x->sizes[d];
    for (int64_t r = 0; has_labels(&rows) && r < rows.n; r++) {
        const int64_t label = label_at(&rows, r);
        REQUIRE(ctx, (label >= 0 && label < rows.classes) || label == rows.ignored,
                "%s: label %lld at index %lld of the target, x %s has %lld classes",
                prepared->op->name, (long long)label, (long long)r, info_brief(x),
                (long long)rows.classes);
    }
    for (int64_t c = 0; c < rows.classes; c++) weight[c] = 1.0;
    if (has_weight && rows.classes > 0)
        dtype_cast(rows.classes, prepared->in[WEIGHT].dtype, in[WEIGHT], 1, DTYPE_F64, weight, 1);
    *out_rows = rows;
    return STATUS_OK;
}

static double divisor(const rows_t *rows)
{
    double sum = 0.0;
    if (rows->reduction != LOSS_MEAN) return 1.0;
    if (!has_labels(rows)) return (double)rows->n;
    for (int64_t r = 0; r < rows->n; r++) {
        const int64_t label = label_at(rows, r);
        if (label != rows->ignored) sum += rows->weight[label];
    }
    return sum;
}

/* Index of element c of a row in x. */
static int64_t place(const rows_t *rows, int64_t row, int64_t c)
{
    return (row / rows->inner * rows->classes + c) * rows->inner + row % rows->inner;
}

static void load(const rows_t *rows, dtype_t dtype, const char *from, int64_t row, double *to)
{
    dtype_cast(rows->classes, dtype, from + place(rows, row, 0) * (int64_t)dtype_size(dtype),
               rows->inner, DTYPE_F64, to, 1);
}

static double exact_exponentials(int64_t n, double largest, const double *x, double *p)
{
    double sum = 0.0;
    for (int64_t c = 0; c < n; c++) {
        p[c] = exp(x[c] - largest);
        sum += p[c];
    }
    return sum;
}

/* Computes -log p[c] and p[c] from a row of scores. */
static void soften(const rows_t *rows, int64_t index, row_t *row)
{
    const int64_t n = rows->classes;
    double largest = -INFINITY;
    load(rows, rows->dtype, rows->x, index, row->distance);
    for (int64_t c = 0; c < n; c++)
        if (row->distance[c] > largest || isnan(row->distance[c])) largest = row->distance[c];
    const double sum = rows->dtype == DTYPE_F64
                           ? exact_exponentials(n, largest, row->distance, row->p)
                           : exponentials_run(isa_best(), n, largest, row->distance, row->narrow,
                                              row->p);
    const double logarithm = log(sum);
    for (int64_t c = 0; c < n; c++) {
        row->distance[c] = largest - row->distance[c] + logarithm;
        row->p[c] /= sum;
    }
}

/* Writes q[c] of a row to `to`. */
static void load_target(const rows_t *rows, int64_t index, double *to)
{
    const double spread = rows->smoothing / (double)rows->classes;
    if (has_labels(rows)) {
        for (int64_t c = 0; c < rows->classes; c++) to[c] = 0.0;
        to[label_at(rows, index)] = 1.0;
    } else {
        load(rows, rows->target_dtype, rows->target, index, to);
    }
    for (int64_t c = 0; c < rows->classes; c++)
        to[c] = rows->weight[c] * ((1.0 - rows->smoothing) * to[c] + spread);
}

static double row_loss(const rows_t *rows, int64_t index, row_t *row)
{
    const int64_t label = has_labels(rows) ? label_at(rows, index) : 0;
    double loss = 0.0;
    if (has_labels(rows) && label == rows->ignored) return 0.0;
    if (is_nll(rows->op))
        return -rows->weight[label] *
               dtype_load(rows->dtype,
                          rows->x + place(rows, index, label) * (int64_t)dtype_size(rows->dtype));
    soften(rows, index, row);
    if (has_labels(rows) && rows->smoothing == 0.0)
        return rows->weight[label] * row->distance[label];
    load_target(rows, index, row->p);
    for (int64_t c = 0; c < rows->classes; c++)
        if (row->p[c] != 0.0) loss += row->p[c] * row->distance[c];
    return loss;
}

typedef struct run {
    const rows_t *rows;
    char *memory; /* memory of all threads */
    double *losses;
    double divisor;
    const char *grad;
    char *out;
} run_t;

static void run_losses(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    row_t row = row_at(run->memory, run->rows->classes, member);
    for (int64_t r = first; r < last; r++) run->losses[r] = row_loss(run->rows, r, &row);
}

static int count_threads(context_t *ctx, const rows_t *rows)
{
    return threads_for(ctx, rows->n * rows->classes);
}

static status_t cross_entropy_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    rows_t rows;
    TRY(begin(ctx, prepared, in, scratch, &rows));
    double *losses = (double *)scratch + rows.classes, sum = 0.0;
    const int64_t size = (int64_t)dtype_size(rows.dtype);
    run_t run = {.rows = &rows, .memory = (char *)(losses + rows.n), .losses = losses};
    threads_share_members(count_threads(ctx, &rows), rows.n, run_losses, &run);
    if (rows.reduction == LOSS_NONE) {
        for (int64_t r = 0; r < rows.n; r++)
            dtype_store(rows.dtype, (char *)out[0] + r * size, losses[r]);
        return STATUS_OK;
    }
    for (int64_t r = 0; r < rows.n; r++) sum += losses[r];
    dtype_store(rows.dtype, out[0], sum / divisor(&rows));
    return STATUS_OK;
}

/* Writes the gradient of a row to row->distance. */
static void row_gradient(const rows_t *rows, int64_t index, double scale, row_t *row)
{
    double sum = 0.0;
    if (has_labels(rows) && label_at(rows, index) == rows->ignored) {
        for (int64_t c = 0; c < rows->classes; c++) row->distance[c] = 0.0;
        return;
    }
    if (!is_nll(rows->op)) soften(rows, index, row);
    load_target(rows, index, row->distance);
    for (int64_t c = 0; c < rows->classes; c++) sum += row->distance[c];
    for (int64_t c = 0; c < rows->classes; c++) {
        const double all = is_nll(rows->op) ? 0.0 : row->p[c] * sum;
        row->distance[c] = scale * (all - row->distance[c]);
    }
}

static void run_gradients(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    const rows_t *rows = run->rows;
    const int64_t size = (int64_t)dtype_size(rows->dtype);
    row_t row = row_at(run->memory, rows->classes, member);
    for (int64_t r = first; r < last; r++) {
        const int64_t at = rows->reduction == LOSS_NONE ? r : 0;
        const double grad = dtype_load(rows->dtype, run->grad + at * size);
        row_gradient(rows, r, grad / run->divisor, &row);
        dtype_cast(rows->classes, DTYPE_F64, row.distance, 1, rows->dtype,
                   run->out + place(rows, r, 0) * size, rows->inner);
    }
}

static status_t cross_entropy_run_backward(context_t *ctx, const prepared_t *prepared,
                                           void *const *in, void *const *out, void *scratch)
{
    rows_t rows;
    TRY(begin(ctx, prepared, in, scratch, &rows));
    run_t run = {.rows = &rows,
                 .memory = (char *)((double *)scratch + rows.classes + rows.n),
                 .divisor = divisor(&rows),
                 .grad = in[GRAD],
                 .out = out[0]};
    threads_share_members(count_threads(ctx, &rows), rows.n, run_gradients, &run);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = cross_entropy_prepare, .run = cross_entropy_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- gradient ---- */

static void pass_to(const gradient_call_t *call, const opdef_t *backward)
{
    const value_t in[] = {call->in[X], call->in[TARGET],
                          call->n_in > WEIGHT ? call->in[WEIGHT] : VALUE_NONE, call->out_grad[0]};
    for (int i = TARGET; i <= WEIGHT && i < call->n_in; i++)
        if (call->is_wanted[i])
            emit_fail(call->emitter, STATUS_UNSUPPORTED,
                      "%s: the gradient of %s is wanted, only x has one", call->op->name,
                      operands[i].name);
    call->in_grad[X] = emit_op(call->emitter, backward, call->attrs, 4, in);
}

static void pass_cross_entropy(const gradient_call_t *call)
{
    pass_to(call, &op_def_cross_entropy_backward);
}

static void pass_nll_loss(const gradient_call_t *call)
{
    pass_to(call, &op_def_nll_loss_backward);
}

static const gradient_t gradient_cross_entropy = {.pass = pass_cross_entropy, .reads_in = 7};
static const gradient_t gradient_nll_loss = {.pass = pass_nll_loss, .reads_in = 7};

/* ---- definitions: nll_loss does not have the last field, label_smoothing ---- */

#define DEFINE(op_name, op_fields)                                                                 \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .variant = VARIANT_##op_name,                                \
                                      .preference = OP_DENSE,                                      \
                                      .attrs = {sizeof(cross_entropy_attrs_t), op_fields, fields}, \
                                      OPERANDS(operands),                                          \
                                      .n_outputs = 1,                                              \
                                      .infer = cross_entropy_infer,                                \
                                      .infers_symbols = true,                                      \
                                      .kernels = kernels,                                          \
                                      .spec = cross_entropy_spec,                                  \
                                      .cancels = 0.25,                                             \
                                      .gradient = &gradient_##op_name};                            \
    const opdef_t op_def_##op_name##_backward = {                                                  \
        .name = #op_name "_backward",                                                              \
        .variant = VARIANT_##op_name,                                                              \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(cross_entropy_attrs_t), op_fields, fields},                               \
        OPERANDS(backward_operands),                                                               \
        .n_outputs = 1,                                                                            \
        .infer = cross_entropy_infer_backward,                                                     \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(KERNEL("native", cross_entropy_prepare, cross_entropy_run_backward)),   \
        .spec = cross_entropy_spec_backward,                                                       \
        .cancels = 1.0}

DEFINE(cross_entropy, 3);
DEFINE(nll_loss, 2);
