/* Cumulative sums and products along one dimension. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

enum { CUMSUM, CUMPROD }; /* opdef_t.variant */

static const attr_field_t fields[] = {FIELD_INT(cumsum_attrs_t, dim, 0),
                                      FIELD_BOOL(cumsum_attrs_t, exclusive, 0),
                                      FIELD_BOOL(cumsum_attrs_t, reverse, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const cumsum_attrs_t *)attrs)->dim);
}

static status_t cumsum_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[0];
    int64_t wanted = ((const cumsum_attrs_t *)call->attrs)->dim;
    int dim = 0;
    REQUIRE(ctx, shape_dim(x->rank, wanted, &dim), "%s: dim %lld of %s, out of range",
            call->op->name, (long long)wanted, info_brief(x));
    out[0] = info_dense(dtype_is_floating(x->dtype) ? x->dtype : DTYPE_S64, x->rank, x->sizes);
    return STATUS_OK;
}

static double cumsum_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const cumsum_attrs_t *attrs = call->attrs;
    const bool is_product = call->op->variant == CUMPROD;
    const bool is_floating = dtype_is_floating(call->in[0]->dtype);
    int rank = call->out->rank, dim = find_dim(attrs, rank);
    if (rank == 0 && !attrs->exclusive) return spec_at(call, 0, index);
    int64_t at[TENSOR_MAX_RANK], first = 0, last = rank > 0 ? index[dim] : -1;
    double total = is_product;
    uint64_t wrapped = is_product; /* result for integers, modulo 2^64 */
    if (attrs->reverse && rank > 0) {
        first = index[dim];
        last = call->out->sizes[dim] - 1;
    }
    memcpy(at, index, (size_t)rank * sizeof *at);
    for (at[dim] = first; at[dim] <= last; at[dim]++) {
        if (attrs->exclusive && at[dim] == index[dim]) continue;
        double element = spec_at(call, 0, at);
        total = is_product ? total * element : total + element;
        if (is_floating) continue;
        int64_t integer = 0;
        dtype_store(DTYPE_S64, &integer, element);
        wrapped = is_product ? wrapped * (uint64_t)integer : wrapped + (uint64_t)integer;
    }
    return is_floating ? total : (double)(int64_t)wrapped;
}

/* ---- dense kernel ---- */

static status_t cumsum_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    TRY(accept_plain(call, prepared, 0));
    return accept_out_plain(call, prepared, 0);
}

/* The elements along the dimension for one index of the others. `step` is the stride between them,
 * negative if they are read from the end. */
typedef struct line {
    bool is_product, exclusive;
    int64_t n, step;
    const char *x;
    char *out;
} line_t;

static void add_floats(const line_t *line, dtype_t dtype)
{
    const int64_t size = line->step * (int64_t)dtype_size(dtype);
    double total = line->is_product, before = 0.0;
    for (int64_t i = 0; i < line->n; i++) {
        const double element = dtype_load(dtype, line->x + i * size);
        before = total;
        total = line->is_product ? total * element : total + element;
        dtype_store(dtype, line->out + i * size, line->exclusive ? before : total);
    }
}

static void add_integers(const line_t *line, dtype_t dtype, dtype_t out_dtype)
{
    const int64_t size = line->step * (int64_t)dtype_size(dtype);
    const int64_t out_size = line->step * (int64_t)dtype_size(out_dtype);
    uint64_t total = line->is_product, before = 0;
    for (int64_t i = 0; i < line->n; i++) {
        const uint64_t element = (uint64_t)dtype_load_integer(dtype, line->x + i * size);
        before = total;
        total = line->is_product ? total * element : total + element;
        dtype_store_integer(out_dtype, line->out + i * out_size,
                            (int64_t)(line->exclusive ? before : total));
    }
}

/* All lines; `step` is the stride between the elements of a line. */
typedef struct lines {
    const prepared_t *prepared;
    const cumsum_attrs_t *attrs;
    int64_t n, step;
    const char *x, *grad;
    char *out;
    double *sums; /* [threads][n]: scratch memory for multiply_back */
} lines_t;

static lines_t lines_of(const prepared_t *prepared, const tensor_info_t *x)
{
    lines_t lines = {.prepared = prepared, .attrs = prepared->attrs, .n = 1, .step = 1};
    const int dim = find_dim(lines.attrs, x->rank);
    if (x->rank > 0) lines.n = x->sizes[dim];
    for (int d = dim + 1; d < x->rank; d++) lines.step *= x->sizes[d];
    return lines;
}

/* Offset of the element that a line's sum starts with: the first one, or the last one if
 * reversed. */
static int64_t line_begin(const lines_t *lines, int64_t line)
{
    const int64_t first = line / lines->step * lines->n * lines->step + line % lines->step;
    return lines->attrs->reverse ? first + (lines->n - 1) * lines->step : first;
}

static void add_lines(void *user, int64_t begin, int64_t end)
{
    const lines_t *lines = user;
    const dtype_t dtype = lines->prepared->in[0].dtype, out_dtype = lines->prepared->out[0].dtype;
    const int64_t size = (int64_t)dtype_size(dtype), out_size = (int64_t)dtype_size(out_dtype);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = line_begin(lines, i);
        const line_t line = {.is_product = lines->prepared->op->variant == CUMPROD,
                             .exclusive = lines->attrs->exclusive,
                             .n = lines->n,
                             .step = lines->attrs->reverse ? -lines->step : lines->step,
                             .x = lines->x + first * size,
                             .out = lines->out + first * out_size};
        if (dtype_is_floating(dtype))
            add_floats(&line, dtype);
        else
            add_integers(&line, dtype, out_dtype);
    }
}

static status_t cumsum_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const int64_t numel = info_numel(&prepared->in[0]);
    lines_t lines = lines_of(prepared, &prepared->in[0]);
    lines.x = in[0];
    lines.out = out[0];
    threads_share(threads_for(ctx, numel), lines.n > 0 ? numel / lines.n : 0, add_lines, &lines);
    return STATUS_OK;
}

/* ---- gradients ---- */

/* The gradient of cumsum is the cumsum of grad in the opposite direction. */
static void pass_sum(const gradient_call_t *call)
{
    cumsum_attrs_t attrs = *(const cumsum_attrs_t *)call->attrs;
    attrs.reverse = !attrs.reverse;
    call->in_grad[0] = emit_op(call->emitter, &op_def_cumsum, &attrs, 1, call->out_grad);
}

static void pass_product(const gradient_call_t *call)
{
    const value_t in[] = {call->out_grad[0], call->in[0]};
    call->in_grad[0] = emit_op(call->emitter, &op_def_cumprod_backward, call->attrs, 2, in);
}

static const gradient_t gradient_cumsum = {.pass = pass_sum};
static const gradient_t gradient_cumprod = {.pass = pass_product, .reads_in = 1};

static const operand_t backward_operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                              {"x", ROLE_ACTIVATION, false, false}};
enum { GRAD, X };

static status_t cumsum_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                      tensor_info_t *out)
{
    const tensor_info_t *grad = call->in[GRAD], *x = call->in[X];
    REQUIRE(ctx, dtype_is_floating(grad->dtype) && sizes_are_like(ctx, grad, x),
            "cumprod_backward: grad is %s, x is %s, equal floating tensors are needed",
            info_brief(grad), info_brief(x));
    return cumsum_infer(ctx, call, out_n, out);
}

/* Sum over all results i that contain x[j]: grad[i] times the product of the result's other
 * elements. */
static double cumsum_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const cumsum_attrs_t *attrs = call->attrs;
    const int rank = call->out->rank, dim = find_dim(attrs, rank);
    const int64_t n = rank > 0 ? call->out->sizes[dim] : 1, j = rank > 0 ? index[dim] : 0;
    int64_t at[TENSOR_MAX_RANK] = {0};
    double sum = 0.0;
    memcpy(at, index, (size_t)rank * sizeof *at);
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = attrs->reverse ? i + attrs->exclusive : 0;
        const int64_t end = attrs->reverse ? n : i + !attrs->exclusive;
        at[dim] = i;
        double term = spec_at(call, GRAD, at);
        for (at[dim] = first; at[dim] < end; at[dim]++)
            if (at[dim] != j) term *= spec_at(call, X, at);
        if (j >= first && j < end) sum += term;
    }
    return sum;
}

typedef struct backward_state {
    int n_threads;
    int64_t n; /* elements of a line; also doubles of scratch memory for each thread */
} backward_state_t;

static status_t prepare_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    backward_state_t *state = NULL;
    TRY(cumsum_prepare(ctx, call, prepared));
    TRY(accept_plain(call, prepared, X));
    TRY(context_get_zeroed(ctx, sizeof *state, "cumprod_backward", &state));
    prepared->state = state;
    state->n_threads = context_threads(ctx);
    state->n = x->rank > 0 ? x->sizes[find_dim(call->attrs, x->rank)] : 1;
    if (state->n > INT64_MAX / (int64_t)sizeof(double) / state->n_threads)
        return prepared_decline(prepared, "native: a line of %lld is too long",
                                (long long)state->n);
    prepared->scratch_bytes = (size_t)(state->n * state->n_threads) * sizeof(double);
    return STATUS_OK;
}

/* The gradient of x[j] is P[j] S[j]. P[j] is the product of all elements before j. S[j] is grad[j]
 * + x[j + 1] S[j + 1], or, if exclusive, grad[j + 1] + x[j + 1] S[j + 1]. Nothing is divided by x,
 * so elements may be 0. S is double, because S[j] may exceed the range of x's dtype if P[j] is
 * small. */
static void multiply_back(const line_t *line, dtype_t dtype, const char *grad, double *sums)
{
    const int64_t size = line->step * (int64_t)dtype_size(dtype);
    double after = 0.0, before = 1.0;
    for (int64_t j = line->n - 1; j >= 0; j--) {
        const double x = j + 1 < line->n ? dtype_load(dtype, line->x + (j + 1) * size) : 0.0;
        const int64_t i = line->exclusive ? j + 1 : j;
        after = x * after + (i < line->n ? dtype_load(dtype, grad + i * size) : 0.0);
        sums[j] = after;
    }
    for (int64_t j = 0; j < line->n; j++) {
        dtype_store(dtype, line->out + j * size, before * sums[j]);
        before *= dtype_load(dtype, line->x + j * size);
    }
}

static void multiply_lines_back(void *user, int64_t begin, int64_t end, int member)
{
    const lines_t *lines = user;
    const dtype_t dtype = lines->prepared->in[X].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = line_begin(lines, i);
        const line_t line = {.exclusive = lines->attrs->exclusive,
                             .n = lines->n,
                             .step = lines->attrs->reverse ? -lines->step : lines->step,
                             .x = lines->x + first * size,
                             .out = lines->out + first * size};
        multiply_back(&line, dtype, lines->grad + first * size, lines->sums + member * lines->n);
    }
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    const int64_t numel = info_numel(&prepared->in[X]);
    lines_t lines = lines_of(prepared, &prepared->in[X]);
    lines.x = in[X];
    lines.grad = in[GRAD];
    lines.out = out[0];
    lines.sums = scratch;
    threads_share_members(threads_for(ctx, numel), lines.n > 0 ? numel / lines.n : 0,
                          multiply_lines_back, &lines);
    return STATUS_OK;
}

static const kernel_t backward_native = {.name = "native",
                                         .prepare = prepare_backward,
                                         .run = run_backward,
                                         .flags = KERNEL_NEEDS_ELEMENTS};

#define DEFINE(op, which)                                                                          \
    const opdef_t op_def_##op = {.name = #op,                                                      \
                                 .variant = (which),                                               \
                                 .preference = OP_DENSE,                                           \
                                 .attrs = {sizeof(cumsum_attrs_t), 3, fields},                     \
                                 OPERANDS(operands),                                               \
                                 .n_outputs = 1,                                                   \
                                 .infer = cumsum_infer,                                            \
                                 .infers_symbols = true,                                           \
                                 .kernels = KERNELS(KERNEL("native", cumsum_prepare, cumsum_run)), \
                                 .spec = cumsum_spec,                                              \
                                 .gradient = &gradient_##op}
DEFINE(cumsum, CUMSUM);
DEFINE(cumprod, CUMPROD);

const opdef_t op_def_cumprod_backward = {.name = "cumprod_backward",
                                         .preference = OP_DENSE,
                                         .attrs = {sizeof(cumsum_attrs_t), 3, fields},
                                         OPERANDS(backward_operands),
                                         .n_outputs = 1,
                                         .infer = cumsum_backward_infer,
                                         .infers_symbols = true,
                                         .kernels = KERNELS(&backward_native),
                                         .spec = cumsum_backward_spec};

status_t op_cumsum(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    return op_cumsum_attrs(ctx, x, &(cumsum_attrs_t){.dim = dim}, out);
}

status_t op_cumsum_attrs(context_t *ctx, const tensor_t *x, const cumsum_attrs_t *attrs,
                         tensor_t **out)
{
    return dispatch_run(ctx, &op_def_cumsum, attrs, 1, &x, NULL, out);
}

status_t op_cumprod(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    return op_cumprod_attrs(ctx, x, &(cumsum_attrs_t){.dim = dim}, out);
}

status_t op_cumprod_attrs(context_t *ctx, const tensor_t *x, const cumsum_attrs_t *attrs,
                          tensor_t **out)
{
    return dispatch_run(ctx, &op_def_cumprod, attrs, 1, &x, NULL, out);
}
