/* Rotary position embedding: rotates pairs of elements by angles whose cos and sin are operands. */
#include <string.h>

#include "dispatch/dispatch.h"
#include "kernels/attention/rotary_impl.h"
#include "ops/accept_impl.h"
#include "ops/attention/attention.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct rotary_attrs {
    bool interleaved;
} rotary_attrs_t;

static const attr_field_t fields[] = {FIELD_BOOL(rotary_attrs_t, interleaved, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"cos", ROLE_STATE, false, false},
                                     {"sin", ROLE_STATE, false, false}};
enum { X, COS, SIN };

static bool is_interleaved(const void *attrs)
{
    return ((const rotary_attrs_t *)attrs)->interleaved;
}

/* ---- inference ---- */

/* True if the table has rank 1 or more and its rows broadcast to those of x. */
static bool has_rows_of(context_t *ctx, const tensor_info_t *table, const tensor_info_t *x)
{
    int64_t both[TENSOR_MAX_RANK];
    int n = 0;
    return table->rank > 0 && dtype_is_floating(table->dtype) &&
           sizes_broadcast(ctx, x->rank - 1, x->sizes, table->rank - 1, table->sizes, &n, both) &&
           sizes_equal(ctx, x->rank - 1, x->sizes, n, both);
}

static status_t rotary_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *cos = call->in[COS], *sin = call->in[SIN];
    REQUIRE(ctx, x->rank > 0 && dtype_is_floating(x->dtype),
            "rotary_embedding: x is %s, a floating type of rank 1 or more is needed",
            info_brief(x));
    REQUIRE(ctx,
            has_rows_of(ctx, cos, x) && has_rows_of(ctx, sin, x) &&
                sym_equal(ctx, cos->sizes[cos->rank - 1], sin->sizes[sin->rank - 1]) &&
                sym_at_most(ctx, sym_multiply(ctx, cos->sizes[cos->rank - 1], 2),
                            x->sizes[x->rank - 1]),
            "rotary_embedding: cos is %s, sin is %s, x is %s: floating tables are needed that "
            "broadcast to the rows of x, with an angle for each two elements or fewer",
            info_brief(cos), info_brief(sin), info_brief(x));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double rotary_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X], *cos = call->in[COS];
    const int last = x->rank - 1;
    const int64_t n = cos->sizes[cos->rank - 1];
    int64_t at[TENSOR_MAX_RANK], other[TENSOR_MAX_RANK];
    if (index[last] >= 2 * n) return spec_at(call, X, index);
    const bool is_turned = is_interleaved(call->attrs);
    const bool is_second = is_turned ? index[last] % 2 == 1 : index[last] >= n;
    memcpy(at, index, (size_t)x->rank * sizeof *at);
    memcpy(other, index, (size_t)x->rank * sizeof *other);
    other[last] += (is_second ? -1 : 1) * (is_turned ? 1 : n);
    at[last] = is_turned ? index[last] / 2 : index[last] % n;
    const double c = spec_at_broadcast(call, COS, x->rank, at);
    const double s = spec_at_broadcast(call, SIN, x->rank, at);
    const double turned = spec_at(call, X, other) * s;
    return spec_at(call, X, index) * c + (is_second ? turned : -turned);
}

/* ---- kernel: each row in f32, or in double for f64 ---- */

static status_t rotary_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    TRY(accept_rows(call, prepared, X));
    accept_contiguous(call, prepared, COS, SIN);
    const int64_t length = x->sizes[x->rank - 1];
    REQUIRE(ctx, length <= INT64_MAX / 64 / context_threads(ctx),
            "rotary_embedding: x is %s, rows are too long", info_brief(x));
    prepared->scratch_bytes = (size_t)(length * context_threads(ctx)) * 4 * sizeof(double);
    format_t format = accept_order(&prepared->in[X]);
    if (call->out_format != NULL && call->out_format->kind == FORMAT_TAG)
        format = *call->out_format;
    if (format.n_blocks != 0 || format.order[x->rank - 1] != x->rank - 1)
        format = format_plain(x->rank);
    return accept_out(call, prepared, 0, &format);
}

typedef struct rows {
    const prepared_t *prepared;
    const char *x, *cos, *sin;
    char *out, *scratch;
    int64_t n;                                          /* angles in a row */
    int64_t from[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK]; /* strides of x and out */
    int64_t table[2][TENSOR_MAX_RANK];                  /* strides of cos and sin; 0 if repeated */
} rows_t;

static void find_strides(const tensor_info_t *x, const tensor_info_t *table, int64_t *strides)
{
    const int missing = x->rank - table->rank;
    int64_t own[TENSOR_MAX_RANK];
    shape_strides(table->rank, table->sizes, own);
    for (int d = 0; d < x->rank; d++)
        strides[d] = d < missing || table->sizes[d - missing] == 1 ? 0 : own[d - missing];
}

static void turn_doubles(bool interleaved, int64_t n, const double *x, const double *cos,
                         const double *sin, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : n + i;
        const double first = x[a], second = x[b];
        out[a] = first * cos[i] - second * sin[i];
        out[b] = second * cos[i] + first * sin[i];
    }
}

/* Returns the row itself if it has the dtype; otherwise converts it into `room`. */
static const void *read_row(dtype_t dtype, dtype_t from, int64_t n, const char *row, void *room)
{
    if (from == dtype) return row;
    dtype_cast(n, from, row, 1, dtype, room, 1);
    return room;
}

static void turn_row(const rows_t *rows, const char *const *in, char *to, char *scratch)
{
    const prepared_t *prepared = rows->prepared;
    const tensor_info_t *x = &prepared->in[X];
    const bool interleaved = is_interleaved(prepared->attrs);
    const dtype_t dtype = x->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    const int64_t n = rows->n, length = x->sizes[x->rank - 1], rest = length - 2 * n;
    const int64_t size = (int64_t)dtype_size(x->dtype), room = length * (int64_t)sizeof(double);
    const int64_t counts[] = {2 * n, n, n};
    const void *read[3];
    char *out = x->dtype == dtype ? to : scratch + 3 * room;
    for (int i = X; i <= SIN; i++)
        read[i] = read_row(dtype, prepared->in[i].dtype, counts[i], in[i], scratch + i * room);
    if (dtype == DTYPE_F64)
        turn_doubles(interleaved, n, read[X], read[COS], read[SIN], (double *)(void *)out);
    else
        rotary_turn(isa_best(), interleaved, n, read[X], read[COS], read[SIN],
                    (float *)(void *)out);
    if (out != to) dtype_cast(2 * n, dtype, out, 1, x->dtype, to, 1);
    memcpy(to + 2 * n * size, in[X] + 2 * n * size, (size_t)(rest * size));
}

static void turn_rows(void *user, int64_t first, int64_t last, int member)
{
    const rows_t *rows = user;
    const prepared_t *prepared = rows->prepared;
    const tensor_info_t *x = &prepared->in[X];
    const int64_t length = x->sizes[x->rank - 1];
    char *scratch = rows->scratch + member * length * 4 * (int64_t)sizeof(double);
    for (int64_t row = first; row < last; row++) {
        int64_t at[4] = {0}, rest = row;
        for (int d = x->rank - 2; d >= 0; d--) {
            const int64_t i = rest % x->sizes[d];
            rest /= x->sizes[d];
            at[X] += i * rows->from[d];
            at[COS] += i * rows->table[0][d];
            at[SIN] += i * rows->table[1][d];
            at[3] += i * rows->to[d];
        }
        const char *const in[] = {
            rows->x + at[X] * (int64_t)dtype_size(x->dtype),
            rows->cos + at[COS] * (int64_t)dtype_size(prepared->in[COS].dtype),
            rows->sin + at[SIN] * (int64_t)dtype_size(prepared->in[SIN].dtype)};
        turn_row(rows, in, rows->out + at[3] * (int64_t)dtype_size(x->dtype), scratch);
    }
}

static status_t rotary_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const tensor_info_t *x = &prepared->in[X], *cos = &prepared->in[COS];
    const int64_t length = x->sizes[x->rank - 1], numel = info_numel(x);
    rows_t rows = {
        prepared, in[X], in[COS], in[SIN], out[0], scratch, .n = cos->sizes[cos->rank - 1]};
    format_strides(&x->format, x->sizes, rows.from);
    format_strides(&prepared->out[0].format, x->sizes, rows.to);
    find_strides(x, cos, rows.table[0]);
    find_strides(x, &prepared->in[SIN], rows.table[1]);
    threads_share_members(threads_for(ctx, numel), length > 0 ? numel / length : 0, turn_rows,
                          &rows);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = rotary_prepare, .run = rotary_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- definition ---- */

const opdef_t op_def_rotary_embedding = {.name = "rotary_embedding",
                                         .preference = OP_DENSE,
                                         .attrs = {sizeof(rotary_attrs_t), 1, fields},
                                         OPERANDS(operands),
                                         .n_outputs = 1,
                                         .infer = rotary_infer,
                                         .infers_symbols = true,
                                         .kernels = kernels,
                                         .spec = rotary_spec};

/* ---- public ---- */

status_t op_rotary_embedding(context_t *ctx, const tensor_t *x, const tensor_t *cos,
                             const tensor_t *sin, bool interleaved, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_rotary_embedding, &(rotary_attrs_t){interleaved}, 3,
                        (const tensor_t *[]){x, cos, sin}, NULL, out);
}
