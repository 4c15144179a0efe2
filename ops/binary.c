/* Arithmetic of two tensors, with broadcasting and PyTorch's type promotion. */
#include <math.h>
#include <stdalign.h>
#include <string.h>

#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "ops/walk_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes: none; which function it is follows from the operator ---- */

typedef enum function { ADD, SUB, MUL, DIV, POW, MAXIMUM, MINIMUM, FUNCTION_COUNT } function_t;

static const opdef_t *const table[FUNCTION_COUNT] = {&op_def_add,    &op_def_sub, &op_def_mul,
                                                     &op_def_div,    &op_def_pow, &op_def_maximum,
                                                     &op_def_minimum};

static function_t function_of(const opdef_t *op)
{
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (table[i] == op) return (function_t)i;
    return ADD;
}

static const operand_t operands[] = {{"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_ACTIVATION, false, false}};
enum { A, B };

/* ---- inference ---- */

/* Of two dtypes of which the first has the higher standing, as torch.result_type: the other counts
 * only where it is of a higher category (bool, integral, floating). */
static dtype_t combine(dtype_t higher, dtype_t lower)
{
    if (higher == DTYPE_NONE) return lower;
    if (lower == DTYPE_NONE || dtype_is_floating(higher)) return higher;
    bool counts = higher == DTYPE_BOOL || dtype_is_floating(lower);
    return counts ? dtype_promote(higher, lower) : higher;
}

/* Tensors with dimensions stand above 0-dim tensors, and these above numbers. */
static dtype_t result_dtype(const tensor_info_t *a, const tensor_info_t *b)
{
    dtype_t standing[3] = {DTYPE_NONE, DTYPE_NONE, DTYPE_NONE};
    const tensor_info_t *infos[] = {a, b};
    for (int i = 0; i < 2; i++) {
        dtype_t dtype = infos[i]->dtype;
        int level = infos[i]->rank > 0 ? 0 : infos[i]->is_number ? 2 : 1;
        if (level == 2 && dtype_is_floating(dtype)) dtype = DTYPE_F32;
        standing[level] = standing[level] == DTYPE_NONE ? dtype
                                                        : dtype_promote(standing[level], dtype);
    }
    return combine(standing[0], combine(standing[1], standing[2]));
}

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    function_t function = function_of(call->op);
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    REQUIRE(ctx, shape_broadcast(a->rank, a->sizes, b->rank, b->sizes, &rank, sizes),
            "%s: a is %s, b is %s, these shapes do not broadcast", call->op->name, info_brief(a),
            info_brief(b));
    dtype_t dtype = result_dtype(a, b);
    REQUIRE(ctx, dtype != DTYPE_BOOL || (function != SUB && function != POW),
            "%s: a is %s, b is %s, numbers are needed", call->op->name, info_brief(a),
            info_brief(b));
    if (function == DIV && !dtype_is_floating(dtype)) dtype = DTYPE_F32;
    out[0] = info_dense(dtype, rank, sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double value(function_t function, double x, double y)
{
    switch (function) {
    case ADD: return x + y;
    case SUB: return x - y;
    case MUL: return x * y;
    case DIV: return x / y;
    case POW: return pow(x, y);
    case MAXIMUM: return x > y || isnan(x) ? x : y;
    default: return x < y || isnan(x) ? x : y;
    }
}

/* By squaring; a negative exponent leaves nothing of any base but 1 and -1. */
static int64_t integer_power(int64_t base, int64_t exponent)
{
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    uint64_t power = 1, square = (uint64_t)base;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) power *= square;
        square *= square;
    }
    return (int64_t)power;
}

/* Integers wrap. */
static int64_t integer_value(function_t function, int64_t x, int64_t y)
{
    switch (function) {
    case ADD: return (int64_t)((uint64_t)x + (uint64_t)y);
    case SUB: return (int64_t)((uint64_t)x - (uint64_t)y);
    case MUL: return (int64_t)((uint64_t)x * (uint64_t)y);
    case POW: return integer_power(x, y);
    case MAXIMUM: return x > y ? x : y;
    default: return x < y ? x : y;
    }
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *out = &call->out[output];
    function_t function = function_of(call->op);
    double x = spec_at_broadcast(call, A, out->rank, index);
    double y = spec_at_broadcast(call, B, out->rank, index);
    if (dtype_is_floating(out->dtype)) return value(function, x, y);
    int64_t element = 0;
    dtype_store_integer(out->dtype, &element, integer_value(function, (int64_t)x, (int64_t)y));
    return dtype_load(out->dtype, &element);
}

/* ---- kernel on oneDNN: equal shapes in one format, over the bytes as they lie ---- */

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    static const onednn_algorithm_t algorithms[FUNCTION_COUNT] = {[ADD] = ONEDNN_BINARY_ADD,
                                                                  [SUB] = ONEDNN_BINARY_SUB,
                                                                  [MUL] = ONEDNN_BINARY_MUL,
                                                                  [DIV] = ONEDNN_BINARY_DIV};
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    function_t function = function_of(call->op);
    onednn_primitive_t *primitive = NULL;
    if (function == POW) return prepared_decline(prepared, "onednn: no pow of two tensors");
    if (function == MAXIMUM || function == MINIMUM)
        return prepared_decline(prepared, "onednn: %s loses NaN", call->op->name);
    if ((a->dtype != DTYPE_F32 && a->dtype != DTYPE_BF16) || a->dtype != b->dtype)
        return prepared_decline(prepared, "onednn: dtypes %s and %s", dtype_name(a->dtype),
                                dtype_name(b->dtype));
    format_t own = accept_own(a);
    if (a->rank == 0 || !shape_equal(a->rank, a->sizes, b->rank, b->sizes) ||
        !format_same(&a->format, &b->format, a->sizes) || !format_same(&a->format, &own, a->sizes))
        return prepared_decline(prepared, "onednn: %s and %s do not lie alike", info_brief(a),
                                info_brief(b));
    TRY(accept_out(call, prepared, 0, &own));

    int64_t n = walk_elements(a);
    tensor_info_t flat = info_dense(a->dtype, 1, &n);
    const tensor_info_t src[] = {flat, flat};
    onednn_problem_t problem = {.kind = ONEDNN_BINARY,
                                .algorithm = algorithms[function],
                                .n_src = 2,
                                .src = src,
                                .dst = &flat};
    status_t status = onednn_describe(ctx, &problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: no %s for %s", call->op->name, info_brief(a));
    TRY(status);
    prepared_take_primitive(prepared, primitive);
    prepared->overwrites = 1u << A; /* of B oneDNN promises nothing */
    if (onednn_is_reference(prepared->implementation))
        return prepared_decline(prepared, "onednn: %s is %s", call->op->name,
                                prepared->implementation);
    prepared->cost_ns = choose_cost(ctx, prepared->implementation, 0.0,
                                    3.0 * (double)info_bytes(a));
    return STATUS_OK;
}

/* 0 / 0 is what division leaves in padded lanes. */
static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    if (prepared->op == &op_def_div) walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {"onednn", prepare_onednn, run_onednn};

/* ---- kernel of our own: any strides, and blocks of one dimension ----
 *
 * The result's dimensions become loops, a blocked one two of them: its blocks, and the lanes of a
 * block. Operands have a stride in each, 0 where they broadcast. Loops that walk all three tensors
 * alike are merged, so that equal formats and scalars end up as a single loop. */

#define MAX_LOOPS (TENSOR_MAX_RANK + 1)
#define PIECE_ELEMENTS 8192
#define CHUNK 512

typedef struct loop {
    int64_t size, a, b, out;
} loop_t;

typedef struct plan {
    function_t function;
    dtype_t compute;
    int n_outer; /* loops before the last one or two, which a piece runs over */
    int64_t n_pieces;
    loop_t loops[MAX_LOOPS], rows, inner;
    int64_t piece_rows, piece_columns;
    size_t n_rows[2], row_bytes[2], padded_row_bytes[2]; /* of operands that are padded by copy */
    bool dirties_padding;
} plan_t;

/* The blocked dimension of the result, or rank if there is none. */
typedef struct split {
    int rank, dim;
    int64_t size, block;
} split_t;

/* A format for the result: that of an operand of its shape, rather a blocked one. */
static format_t pick_format(const op_call_t *call)
{
    const tensor_info_t *out = &call->out[0];
    format_t best = format_plain(out->rank);
    bool is_found = false;
    if (call->out_format != NULL) return *call->out_format;
    for (int i = A; i <= B; i++) {
        const tensor_info_t *info = call->in[i];
        format_t own = accept_own(info);
        if (!shape_equal(info->rank, info->sizes, out->rank, out->sizes) || own.n_blocks > 1 ||
            !format_same(&own, &info->format, info->sizes))
            continue;
        if (!is_found || (format_is_blocked(&own) && !format_is_blocked(&best))) best = own;
        is_found = true;
    }
    return best;
}

/* Has blocks of the result's kind; those of a dimension of size 1 are none. */
static bool shares_blocks(const tensor_info_t *info, const split_t *split)
{
    int lead = split->rank - info->rank;
    const format_t *format = &info->format;
    return format->n_blocks == 1 && format->block_dims[0] + lead == split->dim &&
           format->block_sizes[0] == split->block && info->sizes[format->block_dims[0]] > 1;
}

static bool is_unblocked(const tensor_info_t *info)
{
    for (int i = 0; i < info->format.n_blocks; i++)
        if (info->sizes[info->format.block_dims[i]] != 1) return false;
    return true;
}

/* Its size in the dimension that the result has blocks of. */
static int64_t split_size(const tensor_info_t *info, const split_t *split)
{
    int own = split->dim - (split->rank - info->rank);
    return own >= 0 && own < info->rank ? info->sizes[own] : 1;
}

static bool is_readable(const tensor_info_t *info, const split_t *split)
{
    if (info_numel(info) == 1 || shares_blocks(info, split)) return true;
    return is_unblocked(info) && (split_size(info, split) == 1 || split->size % split->block == 0);
}

/* A plain operand that broadcasts, while the result has more channels in its last block than there
 * are: read from a copy that has them, too. */
static bool is_padded_by_copy(const tensor_info_t *info, const split_t *split)
{
    return info->rank > 0 && info_is_contiguous(info) && split_size(info, split) > 1;
}

/* Strides of an operand over the result's dimensions; the last is that over lanes. */
static void spread(const tensor_info_t *info, const split_t *split, int64_t *out_strides)
{
    int64_t own[TENSOR_MAX_RANK];
    int lead = split->rank - info->rank;
    memset(out_strides, 0, MAX_LOOPS * sizeof *out_strides);
    format_strides(&info->format, info->sizes, own);
    for (int d = 0; d < info->rank; d++) {
        if (info->sizes[d] == 1) continue;
        bool is_split = lead + d == split->dim, is_blocked = shares_blocks(info, split);
        out_strides[lead + d] = is_split && !is_blocked ? own[d] * split->block : own[d];
        if (is_split) out_strides[split->rank] = is_blocked ? 1 : own[d];
    }
}

static void place_padded(prepared_t *prepared, int index, const split_t *split,
                         int64_t *out_strides)
{
    plan_t *plan = prepared->state;
    tensor_info_t padded = info_dense(prepared->in[index].dtype, prepared->in[index].rank,
                                      prepared->in[index].sizes);
    int dim = split->dim - (split->rank - padded.rank);
    plan->row_bytes[index] = dtype_size(padded.dtype);
    for (int d = dim; d < padded.rank; d++) plan->row_bytes[index] *= (size_t)padded.sizes[d];
    plan->n_rows[index] = info_bytes(&padded) / plan->row_bytes[index];
    padded.sizes[dim] = (padded.sizes[dim] + split->block - 1) / split->block * split->block;
    padded = info_dense(padded.dtype, padded.rank, padded.sizes);
    plan->padded_row_bytes[index] = info_bytes(&padded) / plan->n_rows[index];
    prepared->scratch_bytes += (info_bytes(&padded) + 63) & ~(size_t)63;
    spread(&padded, split, out_strides);
}

/* Settles how operand `index` is read: as it lies, reordered first, or from a padded copy. */
static status_t place(const op_call_t *call, prepared_t *prepared, int index,
                      const format_t *format, const split_t *split, int64_t *out_strides)
{
    const tensor_info_t *info = call->in[index];
    bool is_whole = shape_equal(info->rank, info->sizes, split->rank, call->out[0].sizes);
    bool differs = is_whole && call->layout == LAYOUT_MKLDNN && !call->keep_formats &&
                   !format_same(&info->format, format, info->sizes);
    bool may_copy = !is_whole && is_padded_by_copy(info, split);
    if (differs || !(is_readable(info, split) || may_copy)) {
        format_t wanted = info->rank == split->rank ? *format : format_plain(info->rank);
        TRY(accept_format(call, prepared, index, &wanted));
    }
    if (is_readable(&prepared->in[index], split))
        spread(&prepared->in[index], split, out_strides);
    else
        place_padded(prepared, index, split, out_strides);
    return STATUS_OK;
}

/* Loops over all but dimensions of size 1, slowest in the result first, merged. */
static int make_loops(const split_t *split, const tensor_info_t *out, const int64_t *a,
                      const int64_t *b, loop_t *loops)
{
    loop_t sorted[MAX_LOOPS];
    int64_t strides[MAX_LOOPS];
    int n = 0, merged = 0;
    spread(out, split, strides);
    strides[split->rank] = 1;
    for (int d = 0; d <= split->rank; d++) {
        int64_t size = d == split->rank ? split->block : out->sizes[d];
        if (d == split->dim && d < split->rank) size = (size + split->block - 1) / split->block;
        if (size == 1) continue;
        int at = n++;
        for (; at > 0 && sorted[at - 1].out < strides[d]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = (loop_t){size, a[d], b[d], strides[d]};
    }
    for (int i = 0; i < n; i++) {
        loop_t *outer = merged > 0 ? &loops[merged - 1] : NULL;
        const loop_t *inner = &sorted[i];
        if (outer != NULL && outer->a == inner->size * inner->a &&
            outer->b == inner->size * inner->b && outer->out == inner->size * inner->out)
            *outer = (loop_t){outer->size * inner->size, inner->a, inner->b, inner->out};
        else
            loops[merged++] = *inner;
    }
    return merged;
}

/* The innermost loop, and where it is short the one before, make pieces. */
static void cut_pieces(plan_t *plan, int n_loops)
{
    const loop_t one = {1, 0, 0, 1};
    plan->inner = n_loops > 0 ? plan->loops[n_loops - 1] : one;
    bool has_rows = n_loops > 1 && plan->inner.size < PIECE_ELEMENTS / 4;
    plan->rows = has_rows ? plan->loops[n_loops - 2] : one;
    plan->n_outer = n_loops - 1 - has_rows < 0 ? 0 : n_loops - 1 - has_rows;
    plan->piece_columns = has_rows ? plan->inner.size : PIECE_ELEMENTS;
    plan->piece_rows = has_rows ? PIECE_ELEMENTS / plan->inner.size : 1;
    int64_t row_pieces = (plan->rows.size + plan->piece_rows - 1) / plan->piece_rows;
    int64_t column_pieces = (plan->inner.size + plan->piece_columns - 1) / plan->piece_columns;
    plan->n_pieces = row_pieces * column_pieces;
    for (int i = 0; i < plan->n_outer; i++) plan->n_pieces *= plan->loops[i].size;
}

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *out = &call->out[0];
    format_t format = pick_format(call);
    if (format.kind != FORMAT_TAG || format.n_blocks > 1)
        return prepared_decline(prepared, "native: blocks of more than one dimension");
    TRY(accept_out(call, prepared, 0, &format));
    split_t split = {.rank = out->rank, .dim = out->rank, .size = 1, .block = 1};
    if (format.n_blocks == 1) {
        split.dim = format.block_dims[0];
        split.size = out->sizes[split.dim];
        split.block = format.block_sizes[0];
    }
    plan_t *plan = NULL;
    TRY(context_get_zeroed(ctx, sizeof *plan, "a binary operator", &plan));
    prepared->state = plan;
    plan->function = function_of(call->op);
    plan->compute = !dtype_is_floating(out->dtype) ? DTYPE_S64
                    : out->dtype == DTYPE_F64      ? DTYPE_F64
                                                   : DTYPE_F32;
    int64_t a[MAX_LOOPS], b[MAX_LOOPS];
    TRY(place(call, prepared, A, &format, &split, a));
    TRY(place(call, prepared, B, &format, &split, b));
    bool keeps_zero = plan->function != DIV && plan->function != POW;
    plan->dirties_padding = format_is_padded(&format, out->sizes) &&
                            !(keeps_zero && a[split.rank] == 1 && b[split.rank] == 1);
    prepared->overwrites = 1u << A | 1u << B;
    cut_pieces(plan, make_loops(&split, &prepared->out[0], a, b, plan->loops));
    prepared->cost_ns = choose_cost(ctx, "native", 0.0, 3.0 * (double)info_bytes(out));
    return STATUS_OK;
}

/* Rows of elements; steps are 0 or 1. */
typedef struct run {
    int64_t rows, n;
    loop_t row;
    int64_t a_step, b_step;
} run_t;

/* The result may lie where an operand lies, element for element: hence simd, and not restrict. */
#define EACH(i, n) _Pragma("omp simd") for (int64_t i = 0; i < (n); i++)
#define LOOP(type, expr)                                                                           \
    for (int64_t row = 0; row < run->rows; row++) {                                                \
        const type *p = a + row * run->row.a, *q = b + row * run->row.b;                           \
        type *o = out + row * run->row.out;                                                        \
        if (run->a_step != 0 && run->b_step != 0) {                                                \
            EACH(i, run->n)                                                                        \
            {                                                                                      \
                const type x = p[i], y = q[i];                                                     \
                o[i] = (expr);                                                                     \
            }                                                                                      \
        } else if (run->a_step != 0) {                                                             \
            const type y = q[0];                                                                   \
            EACH(i, run->n)                                                                        \
            {                                                                                      \
                const type x = p[i];                                                               \
                o[i] = (expr);                                                                     \
            }                                                                                      \
        } else {                                                                                   \
            const type x = p[0];                                                                   \
            EACH(i, run->n)                                                                        \
            {                                                                                      \
                const type y = q[run->b_step != 0 ? i : 0];                                        \
                o[i] = (expr);                                                                     \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    return

#define COMPUTE(name, type, power, root)                                                           \
    static void name(function_t function, const run_t *run, const type *a, const type *b,          \
                     type *out)                                                                    \
    {                                                                                              \
        bool is_scalar = run->b_step == 0 && run->row.b == 0;                                      \
        switch (function) {                                                                        \
        case ADD: LOOP(type, x + y);                                                               \
        case SUB: LOOP(type, x - y);                                                               \
        case MUL: LOOP(type, x *y);                                                                \
        case DIV: LOOP(type, x / y);                                                               \
        case MAXIMUM: LOOP(type, x > y || x != x ? x : y);                                         \
        case MINIMUM: LOOP(type, x < y || x != x ? x : y);                                         \
        default: break;                                                                            \
        }                                                                                          \
        if (is_scalar && *b == (type)2) {                                                          \
            LOOP(type, ((void)y, x * x));                                                          \
        }                                                                                          \
        if (is_scalar && *b == (type)0.5) {                                                        \
            LOOP(type, ((void)y, root(x)));                                                        \
        }                                                                                          \
        LOOP(type, power(x, y));                                                                   \
    }

COMPUTE(compute_f32, float, powf, sqrtf)
COMPUTE(compute_f64, double, pow, sqrt)

static void compute_s64(function_t function, const run_t *run, const int64_t *a, const int64_t *b,
                        int64_t *out)
{
    LOOP(int64_t, integer_value(function, x, y));
}

/* One row through buffers of the type that is computed in. */
static void compute_row(const prepared_t *prepared, int64_t n, const char *a, int64_t a_stride,
                        const char *b, int64_t b_stride, char *out)
{
    const plan_t *plan = prepared->state;
    alignas(64) char a_buffer[CHUNK * 8], b_buffer[CHUNK * 8], out_buffer[CHUNK * 8];
    void *p = a_buffer, *q = b_buffer, *o = out_buffer;
    const dtype_t a_dtype = prepared->in[A].dtype, b_dtype = prepared->in[B].dtype;
    const int64_t a_size = a_stride * (int64_t)dtype_size(a_dtype);
    const int64_t b_size = b_stride * (int64_t)dtype_size(b_dtype);
    const int64_t out_size = (int64_t)dtype_size(prepared->out[0].dtype);
    for (int64_t i = 0; i < n; i += CHUNK) {
        run_t run = {.rows = 1, .n = n - i < CHUNK ? n - i : CHUNK};
        run.a_step = a_stride != 0;
        run.b_step = b_stride != 0;
        dtype_cast(a_stride != 0 ? run.n : 1, a_dtype, a + i * a_size, a_stride, plan->compute, p,
                   1);
        dtype_cast(b_stride != 0 ? run.n : 1, b_dtype, b + i * b_size, b_stride, plan->compute, q,
                   1);
        switch (plan->compute) {
        case DTYPE_F32: compute_f32(plan->function, &run, p, q, o); break;
        case DTYPE_F64: compute_f64(plan->function, &run, p, q, o); break;
        default: compute_s64(plan->function, &run, p, q, o); break;
        }
        dtype_cast(run.n, plan->compute, o, 1, prepared->out[0].dtype, out + i * out_size, 1);
    }
}

static void run_piece(const prepared_t *prepared, const run_t *run, const char *a, const char *b,
                      char *out)
{
    const plan_t *plan = prepared->state;
    const loop_t *inner = &plan->inner;
    const dtype_t dtype = plan->compute;
    bool is_direct = prepared->in[A].dtype == dtype && prepared->in[B].dtype == dtype &&
                     prepared->out[0].dtype == dtype && inner->a <= 1 && inner->b <= 1;
    if (is_direct && dtype == DTYPE_F32) {
        compute_f32(plan->function, run, (const void *)a, (const void *)b, (void *)out);
        return;
    }
    if (is_direct && dtype == DTYPE_F64) {
        compute_f64(plan->function, run, (const void *)a, (const void *)b, (void *)out);
        return;
    }
    for (int64_t row = 0; row < run->rows; row++)
        compute_row(prepared, run->n,
                    a + row * run->row.a * (int64_t)dtype_size(prepared->in[A].dtype), inner->a,
                    b + row * run->row.b * (int64_t)dtype_size(prepared->in[B].dtype), inner->b,
                    out + row * run->row.out * (int64_t)dtype_size(prepared->out[0].dtype));
}

/* The operand's bytes, or where it needs padded channels a copy in scratch, of which *cursor is the
 * free part. */
static const char *fetch(const plan_t *plan, int index, const char *bytes, char **cursor)
{
    const size_t row = plan->row_bytes[index], padded = plan->padded_row_bytes[index];
    if (plan->n_rows[index] == 0) return bytes;
    char *copy = *cursor;
    *cursor += (plan->n_rows[index] * padded + 63) & ~(size_t)63;
    for (size_t i = 0; i < plan->n_rows[index]; i++) {
        memcpy(copy + i * padded, bytes + i * row, row);
        memset(copy + i * padded + row, 0, padded - row);
    }
    return copy;
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const plan_t *plan = prepared->state;
    char *cursor = scratch;
    const char *a = fetch(plan, A, in[A], &cursor), *b = fetch(plan, B, in[B], &cursor);
    const int64_t a_size = (int64_t)dtype_size(prepared->in[A].dtype);
    const int64_t b_size = (int64_t)dtype_size(prepared->in[B].dtype);
    const int64_t out_size = (int64_t)dtype_size(prepared->out[0].dtype);
    const int64_t row_pieces = (plan->rows.size + plan->piece_rows - 1) / plan->piece_rows;
    const int64_t column_pieces = (plan->inner.size + plan->piece_columns - 1) /
                                  plan->piece_columns;
#pragma omp parallel for num_threads(threads_for(ctx, walk_elements(&prepared->out[0])))           \
    schedule(static)
    for (int64_t piece = 0; piece < plan->n_pieces; piece++) {
        int64_t column = piece % column_pieces * plan->piece_columns;
        int64_t row = piece / column_pieces % row_pieces * plan->piece_rows;
        int64_t rest = piece / column_pieces / row_pieces;
        int64_t at_a = row * plan->rows.a + column * plan->inner.a;
        int64_t at_b = row * plan->rows.b + column * plan->inner.b;
        int64_t at_out = row * plan->rows.out + column * plan->inner.out;
        for (int i = plan->n_outer - 1; i >= 0; i--) {
            int64_t index = rest % plan->loops[i].size;
            rest /= plan->loops[i].size;
            at_a += index * plan->loops[i].a;
            at_b += index * plan->loops[i].b;
            at_out += index * plan->loops[i].out;
        }
        int64_t rows = plan->rows.size - row, n = plan->inner.size - column;
        run_t run = {.rows = rows < plan->piece_rows ? rows : plan->piece_rows,
                     .n = n < plan->piece_columns ? n : plan->piece_columns,
                     .row = plan->rows,
                     .a_step = plan->inner.a,
                     .b_step = plan->inner.b};
        run_piece(prepared, &run, a + at_a * a_size, b + at_b * b_size,
                  (char *)out[0] + at_out * out_size);
    }
    if (plan->dirties_padding) walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native = {"native", prepare_native, run_native};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- cases ---- */

#define SHAPES                                                                                     \
    "(f32[2,3,7,5], f32[2,3,7,5])", "(f32[1,17,9,9], f32[1,17,9,9])", "(f32[2,7,11], f32[])",      \
        "(f32[], f32[1,31,6,6])", "(f32[2,17,5,5], f32[2,17,1,1])",                                \
        "(f32[2,32,5,5], f32[1,32,1,1])", "(f32[2,31,6,7], f32[31,1,1])",                          \
        "(f32[2,1,6,7], f32[2,17,6,7])", "(f32[1,7,1,1], f32[3,7,4,4])", "(f32[2,3,4,5], f32[5])", \
        "(f32[3,1], f32[1,7])", "(f32[2,1,5,1], f32[1,3,1,4])", "(f32[1,1,4,3], f32[1,1,4,3])",    \
        "(f32[1,16,40,40], f32[1,16,40,40])", "(f32[2,17,3,4,5], f32[2,17,1,1,1])",                \
        "(f32[2,17,4,4], f32[1])", "(f32[2,17,4,4], f32[17,4,1])", "(f32[0,3,4], f32[3,1])",       \
        "(bf16[2,17,5,5], bf16[2,17,5,5])", "(bf16[2,7,5], f32[])", "(f32[2,7,5], bf16[2,7,1])",   \
        "(f16[3,4], f16[3,4])", "(f64[2,7,3,3], f32[2,7,3,3])", "(f32[3,5], s64[3,5]<9)",          \
        "(s32[3,5]<9, f32[])"

#define INTEGERS                                                                                   \
    "(s32[3,5]<9, s32[3,5]<9)", "(s64[3,5]<9, s32[5]<9)", "(s8[2,17,3], u8[2,17,3]<9)",            \
        "(u8[2,7,4,4], u8[2,7,1,1]<9)", "(s64[3,5]<9, s64[])"

static const char *const cases_arithmetic[] = {SHAPES, INTEGERS, "(bool[7], s8[7])", NULL};
static const char *const cases_logic[] = {SHAPES, INTEGERS, "(bool[7], bool[7])", NULL};

/* ---- definitions ---- */

#define DEFINE(op_name, more_traits, op_cases)                                                     \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .preference = OP_FOLLOWS,                                    \
                                      .traits = TRAIT_ELEMENTWISE | (more_traits),                 \
                                      .n_operands = 2,                                             \
                                      .operands = operands,                                        \
                                      .n_outputs = 1,                                              \
                                      .infer = infer,                                              \
                                      .kernels = kernels,                                          \
                                      .spec = spec,                                                \
                                      .cases = op_cases}

DEFINE(add, TRAIT_COMMUTATIVE, cases_logic);
DEFINE(sub, 0, cases_arithmetic);
DEFINE(mul, TRAIT_COMMUTATIVE, cases_logic);
DEFINE(div, 0, cases_logic);
DEFINE(pow, 0, cases_arithmetic);
DEFINE(maximum, TRAIT_COMMUTATIVE, cases_logic);
DEFINE(minimum, TRAIT_COMMUTATIVE, cases_logic);

/* ---- public ---- */

#define PUBLIC(op_name)                                                                            \
    status_t op_##op_name(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)    \
    {                                                                                              \
        const tensor_t *in[] = {a, b};                                                             \
        return dispatch_run(ctx, &op_def_##op_name, NULL, 2, in, NULL, out);                       \
    }

PUBLIC(add)
PUBLIC(sub)
PUBLIC(mul)
PUBLIC(div)
PUBLIC(pow)
PUBLIC(maximum)
PUBLIC(minimum)
