/* Products of matrices of 8-bit integers to s32: ONNX MatMulInteger.
 *
 * oneDNN's products have no zero points za and zb, so these are subtracted afterwards. Sums are
 * over the K elements of a row of a or a column of b:
 *
 *   sum((a - za) * (b - zb)) = sum(a * b) - za * sum(b) - zb * (sum(a) - K * za)
 *
 * oneDNN computes the sums of the columns of its packed b as a product of ones with b: of a row of
 * ones below a, or, if a has many rows, of a single one. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/linear/matmul_impl.h"
#include "ops/ops_impl.h"
#include "ops/quantized/integer_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const operand_t operands[] = {{"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_WEIGHT, false, false},
                                     {"a_zero", ROLE_STATE, true, false},
                                     {"b_zero", ROLE_STATE, true, false}};
enum { A, B, A_ZERO, B_ZERO };

/* ---- inference ---- */

static status_t check_operand(context_t *ctx, const op_call_t *call, int operand, int64_t n)
{
    const char *op = call->op->name;
    const tensor_info_t *info = call->in[operand], *zero = call->in[A_ZERO + operand];
    REQUIRE(ctx, integer_is_byte(info->dtype), "%s: %s is %s, s8 or u8 is needed", op,
            operands[operand].name, info_brief(info));
    if (!call_has(call, A_ZERO + operand)) return STATUS_OK;
    REQUIRE(ctx, zero->dtype == info->dtype, "%s: %s is %s, that of %s is %s", op,
            operands[A_ZERO + operand].name, info_brief(zero), operands[operand].name,
            dtype_name(info->dtype));
    bool is_one = zero->rank <= 1 && sizes_are_one(ctx, zero);
    REQUIRE(ctx, is_one || (zero->rank == 1 && sym_equal(ctx, zero->sizes[0], n)),
            "%s: %s is %s, one for all or [%lld] is needed", op, operands[A_ZERO + operand].name,
            info_brief(zero), (long long)n);
    return STATUS_OK;
}

static status_t matmul_integer_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                     tensor_info_t *out)
{
    (void)out_n;
    TRY(product_infer(ctx, call, DTYPE_S32, &out[0]));
    const product_t p = product_sizes(call->in[A], call->in[B]);
    TRY(check_operand(ctx, call, A, p.m));
    return check_operand(ctx, call, B, p.n);
}

/* ---- specification ---- */

static double matmul_integer_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    product_t p;
    if (!product_describe(a, b, &p)) return 0.0;
    int64_t at_a[TENSOR_MAX_RANK] = {0}, at_b[TENSOR_MAX_RANK] = {0};
    product_at(&p, a, b, index, call->out->rank, at_a, at_b);
    const double a_zero = integer_zero_at(call, A_ZERO, a->rank > 1 ? index[p.n_batch] : 0);
    const double b_zero = integer_zero_at(call, B_ZERO,
                                          b->rank > 1 ? index[call->out->rank - 1] : 0);
    double sum = 0.0;
    for (int64_t k = 0; k < p.k; k++) {
        at_a[a->rank - 1] = k;
        at_b[b->rank > 1 ? b->rank - 2 : 0] = k;
        sum += (spec_at(call, A, at_a) - a_zero) * (spec_at(call, B, at_b) - b_zero);
    }
    return sum;
}

/* ---- kernel on oneDNN: b is a single matrix ---- */

/* Below this number of rows, reading b a second time for the sums of its columns takes long. So a
 * copy of a gets a row of ones, and the product has a row of sums. */
#define FEW_ROWS 64

typedef struct state {
    onednn_primitive_t *sums; /* computes sums of the columns of b; NULL if they are not needed */
    bool has_ones;            /* a is copied, with a row of ones; sums is NULL */
    bool is_shifted;          /* a is s8 and is copied as u8 */
    int64_t m, n_rows, k, n;
    size_t sums_at, zeros_at, ones_at, copy_at, product_at; /* offsets in scratch */
} state_t;

static void destroy(void *state)
{
    onednn_release(((state_t *)state)->sums);
}

static tensor_info_t matrix(dtype_t dtype, int64_t rows, int64_t columns)
{
    const format_t plain = format_plain(2);
    tensor_info_t info = info_dense(dtype, 2, (int64_t[]){rows, columns});
    return info_mkldnn(&info, &plain);
}

/* Describes the product, and if needed the product of ones with the same packed b. */
static status_t describe_pair(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                              dtype_t dtype, state_t *state, onednn_primitive_t **out_primitive)
{
    const bool needs_sums = dtype != call->in[A]->dtype || call_has(call, A_ZERO);
    state->has_ones = needs_sums && state->n_rows < FEW_ROWS;
    const int64_t n_rows = state->n_rows + state->has_ones;
    tensor_info_t src = matrix(dtype, n_rows, state->k), packed, same;
    tensor_info_t dst = matrix(DTYPE_S32, n_rows, state->n);
    tensor_info_t any = matrix(DTYPE_S8, state->k, state->n);
    any.format = (format_t){.kind = FORMAT_ANY};
    onednn_problem_t problem = {
        .kind = ONEDNN_MATMUL, .n_src = 1, .src = &src, .weight = &any, .dst = &dst};
    TRY(integer_describe(ctx, prepared, &problem, (double)state->k, out_primitive, &packed));
    prepared->in[B] = packed;
    if (!needs_sums || state->has_ones) return STATUS_OK;
    problem.weight = &packed;
    src.sizes[0] = dst.sizes[0] = 1;
    status_t status = integer_describe(ctx, prepared, &problem, (double)state->k / 255,
                                       &state->sums, &same);
    if (status != STATUS_OK) onednn_release(*out_primitive);
    return status;
}

static status_t describe(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         state_t *state)
{
    const dtype_t dtype = call->in[A]->dtype;
    onednn_primitive_t *primitive = NULL;
    status_t status = describe_pair(ctx, call, prepared, dtype, state, &primitive);
    if (status == STATUS_UNSUPPORTED && dtype == DTYPE_S8) {
        state->is_shifted = true;
        status = describe_pair(ctx, call, prepared, DTYPE_U8, state, &primitive);
    }
    TRY(status);
    prepared_take_primitive(prepared, primitive);
    size_t own = onednn_scratch_bytes(primitive), other = 0;
    if (state->sums != NULL) other = onednn_scratch_bytes(state->sums);
    state->sums_at = integer_align(own > other ? own : other);
    state->zeros_at = state->sums_at + integer_align((size_t)state->n * sizeof(int32_t));
    state->ones_at = state->zeros_at + integer_align((size_t)state->n * sizeof(int32_t));
    state->copy_at = state->ones_at + integer_align((size_t)state->k);
    const int64_t n_copied = state->has_ones     ? state->n_rows + 1
                             : state->is_shifted ? state->n_rows
                                                 : 0;
    state->product_at = state->copy_at + integer_align((size_t)(n_copied * state->k));
    prepared->scratch_bytes = state->product_at;
    if (state->has_ones)
        prepared->scratch_bytes += (size_t)((state->n_rows + 1) * state->n) * sizeof(int32_t);
    const double n = (double)state->n_rows * (double)state->n;
    prepared->cost_ns = cost_run(ctx, prepared->implementation, n * (double)state->k / 2,
                                 (double)info_bytes(call->in[A]) + 4 * n);
    return STATUS_OK;
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    product_t p;
    state_t *state = NULL;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "onednn: dense only");
    if (b->dtype != DTYPE_S8) return prepared_decline(prepared, "onednn: b is s8");
    if (!product_describe(a, b, &p) || b->rank < 2 || info_numel(b) != p.k * p.n)
        return prepared_decline(prepared, "onednn: one matrix b");
    for (int i = A; i < call->n_in; i++)
        if (i != B && call_has(call, i)) TRY(accept_plain(call, prepared, i));
    TRY(accept_out_plain(call, prepared, 0));
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    *state = (state_t){.m = p.m, .n_rows = info_numel(a) / p.k, .k = p.k, .n = p.n};
    return describe(ctx, call, prepared, state);
}

/* Sums n bytes; wraps around, like all integer sums. */
static int32_t sum_bytes(dtype_t dtype, int64_t n, const void *x)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (uint32_t)integer_load(dtype, x, i);
    return (int32_t)sum;
}

/* Arguments of take_zeros. */
typedef struct zero_rows {
    const prepared_t *prepared;
    void *const *in;
    const char *a;
    const int32_t *sums, *zeros;
    const uint32_t *product; /* may be `out` */
    uint32_t *out;
} zero_rows_t;

/* Subtracts the zero-point terms (top of the file) from one row of the product. */
static void take_zeros(const zero_rows_t *z, int64_t row)
{
    const state_t *state = z->prepared->state;
    const bool has_zeros = z->prepared->in[B_ZERO].dtype != DTYPE_NONE;
    const dtype_t dtype = state->is_shifted ? DTYPE_U8 : z->prepared->in[A].dtype;
    int32_t zero = integer_zero(z->prepared, z->in, A_ZERO, row % state->m);
    if (state->is_shifted) zero += integer_shift(z->prepared->in[A].dtype);
    const uint32_t *from = z->product + row * state->n;
    uint32_t *to = z->out + row * state->n;
    if (zero != 0) {
#pragma omp simd
        for (int64_t i = 0; i < state->n; i++)
            to[i] = from[i] - (uint32_t)zero * (uint32_t)z->sums[i];
    } else if (to != from) {
        memcpy(to, from, (size_t)state->n * sizeof *to);
    }
    if (!has_zeros) return;
    const uint32_t rest = (uint32_t)sum_bytes(dtype, state->k, z->a + row * state->k) -
                          (uint32_t)state->k * (uint32_t)zero;
#pragma omp simd
    for (int64_t i = 0; i < state->n; i++) to[i] -= (uint32_t)z->zeros[i] * rest;
}

static void take_zeros_of_rows(void *user, int64_t first, int64_t last)
{
    for (int64_t row = first; row < last; row++) take_zeros(user, row);
}

/* Returns a as the product reads it: itself, or a copy. */
static void *copy_rows(const prepared_t *prepared, void *a, char *copy)
{
    const state_t *state = prepared->state;
    const int64_t n = state->n_rows * state->k;
    if (!state->is_shifted && !state->has_ones) return a;
    integer_unsign(state->is_shifted ? DTYPE_S8 : DTYPE_U8, n, a, (uint8_t *)copy);
    if (state->has_ones) memset(copy + n, 1, (size_t)state->k);
    return copy;
}

static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const state_t *state = prepared->state;
    const bool has_zeros = prepared->in[B_ZERO].dtype != DTYPE_NONE;
    char *bytes = scratch, *a = copy_rows(prepared, in[A], bytes + state->copy_at);
    void *product = state->has_ones ? bytes + state->product_at : out[0];
    void *arguments[] = {a, in[B], product};
    int32_t *sums = (int32_t *)(void *)(bytes + state->sums_at);
    int32_t *zeros = (int32_t *)(void *)(bytes + state->zeros_at);
    TRY(onednn_run(ctx, prepared->primitive, arguments, scratch));
    if (state->sums == NULL && !state->has_ones && !has_zeros) return STATUS_OK;
    if (state->has_ones) sums = (int32_t *)product + state->n_rows * state->n;
    if (state->sums != NULL) {
        arguments[0] = memset(bytes + state->ones_at, 1, (size_t)state->k);
        arguments[2] = sums;
        TRY(onednn_run(ctx, state->sums, arguments, scratch));
    }
    for (int64_t i = 0; has_zeros && i < state->n; i++)
        zeros[i] = integer_zero(prepared, in, B_ZERO, i);
    zero_rows_t rows = {prepared, in, a, sums, zeros, product, out[0]};
    threads_share(threads_for(ctx, state->n_rows * state->n), state->n_rows, take_zeros_of_rows,
                  &rows);
    return STATUS_OK;
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = prepare_onednn,
                                .run = run_onednn,
                                .flags = KERNEL_NEEDS_ELEMENTS,
                                .destroy = destroy};

/* ---- our own kernel: a minus its zero point becomes s16, b is packed ---- */

enum { BLOCK, N_NUMBERS }; /* numbers stored in the format of a packed b */
#define VERSION 1

typedef struct native_state {
    bool is_packed;
    /* pairs in a row of a; bytes of a packed matrix; number of packed matrices */
    int64_t n_pairs, packed, n_packed;
    size_t weight_at, starts_at, sums_at, zeros_at; /* offsets in scratch, after the rows */
} native_state_t;

/* Offset of element i of a column of b. To the kernel, a column is an output of its weight. */
static int64_t find_element(const void *user, int64_t i)
{
    const int64_t *sizes = user; /* [K, N] */
    return i < sizes[0] ? i * sizes[1] : -1;
}

static void pack_matrices(const tensor_info_t *b, const void *from, int8_t *to)
{
    const int64_t k = b->sizes[b->rank > 1 ? b->rank - 2 : 0];
    const int64_t sizes[] = {k, b->rank > 1 ? b->sizes[b->rank - 1] : 1}, n_pairs = (k + 1) / 2;
    for (int64_t i = 0; i < info_numel(b) / (k * sizes[1]); i++)
        integer_pack(b->dtype, sizes[1], n_pairs, INTEGER_PAIRS, 1, find_element, sizes,
                     (const char *)from + i * k * sizes[1],
                     to + i * integer_packed(sizes[1], n_pairs, INTEGER_PAIRS));
}

static status_t pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out)
{
    (void)ctx, (void)want;
    pack_matrices(from, bytes, out);
    return STATUS_OK;
}

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *a = call->in[A];
    product_t p;
    native_state_t *s = NULL;
    if (call->layout == LAYOUT_MKLDNN || !product_describe(a, call->in[B], &p))
        return prepared_decline(prepared, "native: dense only");
    accept_contiguous(call, prepared, A, call->n_in - 1);
    prepared->cost_ns = 1e9;
    TRY(accept_out_plain(call, prepared, 0));
    if (p.k == 0 || info_numel(&call->out[0]) == 0) return STATUS_OK;
    TRY(prepared_make_state(ctx, prepared, sizeof *s, &s));
    s->n_pairs = (p.k + 1) / 2;
    s->packed = integer_packed(p.n, s->n_pairs, INTEGER_PAIRS);
    s->n_packed = info_numel(call->in[B]) / (p.k * p.n);
    s->is_packed = call->weights == WEIGHT_CONSTANT && !call->per_op;
    if (s->is_packed)
        TRY(prepared_want_packed(ctx, prepared, B, s->n_packed * s->packed, VERSION, N_NUMBERS,
                                 (const int64_t[]){[BLOCK] = INTEGER_BLOCK}));
    const size_t rows = (size_t)(info_numel(a) / p.k);
    s->weight_at = integer_align(rows * 2 * (size_t)s->n_pairs * sizeof(int16_t));
    s->starts_at = s->weight_at;
    if (!s->is_packed) s->starts_at += integer_align((size_t)(s->n_packed * s->packed));
    s->sums_at = s->starts_at + integer_align((size_t)p.m * sizeof(int64_t));
    s->zeros_at = s->sums_at + integer_align(rows * sizeof(int32_t));
    prepared->scratch_bytes = s->zeros_at + integer_zero_bytes(p.n);
    prepared->cost_ns = cost_run(ctx, "native",
                                 (double)info_numel(&call->out[0]) * 2.0 * (double)p.k,
                                 (double)info_bytes(a) + (double)info_bytes(call->in[B]));
    return STATUS_OK;
}

/* Arguments of center_some_rows, which subtracts the zero points from rows of a, pads the rows to
 * an even length, and sums each row. */
typedef struct centering {
    const prepared_t *prepared;
    void *const *in;
    const product_t *p;
    int16_t *rows;
    int32_t *sums;
} centering_t;

static void center_some_rows(void *user, int64_t first, int64_t last)
{
    const centering_t *c = user;
    const int64_t k = c->p->k, step = (k + 1) / 2 * 2;
    for (int64_t i = first; i < last; i++) {
        int16_t *row = c->rows + i * step;
        integer_loops()->center(k, c->prepared->in[A].dtype == DTYPE_S8,
                                (const char *)c->in[A] + i * k,
                                integer_zero(c->prepared, c->in, A_ZERO, i % c->p->m), row);
        if (step > k) row[k] = 0;
        integer_loops()->sums(1, step, k, row, &c->sums[i]);
    }
}

static void center_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                        const product_t *p, int16_t *rows, int32_t *sums)
{
    const int64_t numel = info_numel(&prepared->in[A]);
    centering_t centering = {prepared, in, p, rows, sums};
    threads_share(threads_for(ctx, numel), numel / p->k, center_some_rows, &centering);
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const tensor_info_t *a = &prepared->in[A], *b = &prepared->in[B];
    const native_state_t *s = prepared->state;
    product_t p;
    const int64_t numel = info_numel(&prepared->out[0]);
    if (!product_describe(a, b, &p)) return STATUS_INVALID_ARGUMENT;
    if (numel == 0) return STATUS_OK;
    if (p.k == 0) {
        memset(out[0], 0, (size_t)numel * sizeof(int32_t));
        return STATUS_OK;
    }
    char *bytes = scratch;
    int8_t *weight = s->is_packed ? in[B] : (int8_t *)(bytes + s->weight_at);
    int64_t *starts = (int64_t *)(void *)(bytes + s->starts_at);
    int32_t *sums = (int32_t *)(void *)(bytes + s->sums_at);
    int32_t *zeros = (int32_t *)(void *)(bytes + s->zeros_at);
    if (!s->is_packed) pack_matrices(b, in[B], weight);
    const bool has_zeros = integer_zeros(prepared, in, B, B_ZERO, p.n, zeros);
    center_rows(ctx, prepared, in, &p, scratch, sums);
    for (int64_t i = 0; i < p.m; i++) starts[i] = i * 2 * s->n_pairs;
    integer_t product = {.n_rows = p.m,
                         .n_outputs = p.n,
                         .n_runs = 1,
                         .n_steps = s->n_pairs,
                         .step = INTEGER_PAIRS,
                         .starts = starts,
                         .zeros = has_zeros ? zeros : NULL,
                         .out = out[0],
                         .out_stride = p.n};
    for (int64_t i = 0; i < numel / (p.m * p.n); i++, product.out += p.m * p.n) {
        const int64_t at_a = product_matrix(&p, a, p.n_batch_a, i) * p.m;
        product.x = (const int16_t *)scratch + at_a * 2 * s->n_pairs;
        product.sums = sums + at_a;
        product.weight = weight + product_matrix(&p, b, p.n_batch_b, i) * s->packed;
        integer_run(&product, isa_best(), threads_for(ctx, p.m * p.n * p.k));
    }
    return STATUS_OK;
}

static const kernel_t native = {.name = "native",
                                .prepare = prepare_native,
                                .run = run_native,
                                .flags = KERNEL_IS_STORED,
                                .pack = pack};

/* ---- definition ---- */

const opdef_t op_def_matmul_integer = {.name = "matmul_integer",
                                       FUNCTIONS_OF(matmul_integer),
                                       .preference = OP_DENSE,
                                       OPERANDS(operands),
                                       .kernels = KERNELS(&onednn, &native),
                                       .flops = product_flops};

/* ---- public ---- */

status_t op_matmul_integer(context_t *ctx, const tensor_t *a, const tensor_t *b,
                           const tensor_t *a_zero, const tensor_t *b_zero, tensor_t **out)
{
    const tensor_t *in[] = {a, b, a_zero, b_zero};
    return dispatch_run(ctx, &op_def_matmul_integer, NULL, 4, in, NULL, out);
}
