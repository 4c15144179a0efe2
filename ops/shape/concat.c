/* Concatenation along one dimension. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/shape/slabs_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef struct concat_attrs {
    int64_t dim;
} concat_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(concat_attrs_t, dim, 0)};

static const operand_t operands[] = {{"tensors", ROLE_ACTIVATION, false, true}};

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const concat_attrs_t *)attrs)->dim);
}

/* ---- inference ---- */

static status_t concat_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *first = call->in[0];
    int64_t wanted = ((const concat_attrs_t *)call->attrs)->dim, sizes[TENSOR_MAX_RANK];
    int dim = 0;
    REQUIRE(ctx, first->rank > 0 && shape_dim(first->rank, wanted, &dim),
            "concat: dim %lld of %s, out of range", (long long)wanted, info_brief(first));
    memcpy(sizes, first->sizes, sizeof sizes);
    for (int i = 1; i < call->n_in; i++) {
        const tensor_info_t *info = call->in[i];
        bool fits = info->rank == first->rank && info->dtype == first->dtype;
        for (int d = 0; fits && d < first->rank; d++)
            fits = d == dim || sym_equal(ctx, info->sizes[d], first->sizes[d]);
        REQUIRE(ctx, fits,
                "concat: %s and %s, equal dtypes and sizes but for dimension %d are needed",
                info_brief(first), info_brief(info), dim);
        REQUIRE(ctx, sizes_add(ctx, sizes[dim], info->sizes[dim], &sizes[dim]),
                "concat: dimension %d overflows", dim);
    }
    TRY(shape_check(ctx, "concat", first->dtype, first->rank, sizes));
    out[0] = info_dense(first->dtype, first->rank, sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double concat_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    int rank = call->out->rank, dim = find_dim(call->attrs, rank), operand = 0;
    int64_t at[TENSOR_MAX_RANK];
    memcpy(at, index, (size_t)rank * sizeof *at);
    while (at[dim] >= call->in[operand]->sizes[dim]) at[dim] -= call->in[operand++]->sizes[dim];
    return spec_at(call, operand, at);
}

/* ---- mkldnn kernel: all inputs have one format, and no block contains parts of two inputs ---- */

static bool blocks_divide(const op_call_t *call, const format_t *format, int dim)
{
    int64_t block = slabs_block(format, dim);
    for (int i = 0; i < call->n_in - 1; i++)
        if (call->in[i]->sizes[dim] % block != 0) return false;
    return true;
}

/* The format of the largest blocked input; if none is blocked, of the largest input. */
static format_t largest_format(const op_call_t *call)
{
    int best = 0;
    for (int i = 1; i < call->n_in; i++) {
        bool is_blocked = format_is_blocked(&call->in[i]->format);
        bool best_is_blocked = format_is_blocked(&call->in[best]->format);
        if (is_blocked == best_is_blocked ? info_numel(call->in[i]) > info_numel(call->in[best])
                                          : is_blocked)
            best = i;
    }
    return info_tag(call->in[best]);
}

/* True if each input is one contiguous range of the result: all dimensions outside of dim have size
 * 1. */
static bool is_join(const prepared_t *prepared, int dim)
{
    size_t bytes = 0;
    const tensor_info_t *result = &prepared->out[0];
    for (int i = 0; i < prepared->n_in; i++) bytes += info_bytes(&prepared->in[i]);
    if (bytes != info_bytes(result) || bytes == 0) return false;
    if (result->layout == LAYOUT_MKLDNN) return slabs_row_bytes(result, dim) == bytes;
    bool is_first = info_is_contiguous(result);
    for (int d = 0; d < dim; d++) is_first &= result->sizes[d] == 1;
    for (int i = 0; i < prepared->n_in; i++) is_first &= info_is_contiguous(&prepared->in[i]);
    return is_first;
}

enum { PIECE_BYTES = 32 * 1024 };

typedef struct piece_copy {
    const char *from;
    char *to;
    size_t bytes;
} piece_copy_t;

static void copy_pieces(void *user, int64_t first, int64_t last)
{
    const piece_copy_t *copy = user;
    const size_t begin = (size_t)first * PIECE_BYTES, end = (size_t)last * PIECE_BYTES;
    memcpy(copy->to + begin, copy->from + begin, (end < copy->bytes ? end : copy->bytes) - begin);
}

static void copy_bytes(context_t *ctx, const char *from, size_t bytes, char *to)
{
    piece_copy_t copy = {from, to, bytes};
    threads_share(threads_for(ctx, (int64_t)(bytes / sizeof(float))),
                  (int64_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES), copy_pieces, &copy);
}

/* Copies each input to its range of the result, unless a graph's plan has stored the input there
 * already. */
static void join(context_t *ctx, const prepared_t *prepared, void *const *in, char *to)
{
    for (int i = 0; i < prepared->n_in; i++) {
        const size_t bytes = info_bytes(&prepared->in[i]);
        if (in[i] != to) copy_bytes(ctx, in[i], bytes, to);
        to += bytes;
    }
}

/* A row of the result is one contiguous range of bytes from each input. */
typedef struct rows {
    int64_t n;
    int n_in;
    size_t bytes;                /* bytes of a row of the result */
    size_t slabs[OP_MAX_INPUTS]; /* bytes of a row of each input */
} rows_t;

static rows_t rows_of(const prepared_t *prepared, int dim)
{
    const format_t format = info_tag(&prepared->out[0]);
    rows_t rows = {.n_in = prepared->n_in};
    for (int i = 0; i < prepared->n_in; i++) {
        tensor_info_t info = prepared->in[i];
        info.format = format;
        rows.slabs[i] = slabs_row_bytes(&info, dim);
        rows.bytes += rows.slabs[i];
    }
    rows.n = rows.bytes > 0 ? (int64_t)(info_bytes(&prepared->out[0]) / rows.bytes) : 0;
    return rows;
}

/* True if the first input may be stored at the start of the result's buffer. Its rows must be at
 * most half as long as the result's. Then the last half of them can move to destinations after all
 * of its rows. */
static bool may_grow(const rows_t *rows)
{
    return rows->n > 1 && rows->bytes >= 2 * rows->slabs[0];
}

/* A copy of rows [first, first + n) of the inputs [operand, end). */
typedef struct copy {
    const rows_t *rows;
    void *const *in;
    char *to;
    int64_t first, block; /* block: rows copied at a time */
    int operand, end;
} copy_t;

static void copy_rows(void *user, int64_t first, int64_t last)
{
    const copy_t *copy = user;
    const rows_t *rows = copy->rows;
    first += copy->first;
    last += copy->first;
    for (int64_t r = first; r < last; r += copy->block) {
        const int64_t n = last - r < copy->block ? last - r : copy->block;
        char *to = copy->to + (size_t)r * rows->bytes;
        for (int i = 0; i < copy->end; i++) {
            const size_t slab = rows->slabs[i];
            if (i >= copy->operand)
                convert_runs(n, slab, (const char *)copy->in[i] + (size_t)r * slab, (int64_t)slab,
                             to, (int64_t)rows->bytes);
            to += slab;
        }
    }
}

/* Copies inputs [operand, end), one block of rows at a time, so that a block of the result stays in
 * the cache while all inputs are written to it. */
static void share_rows(context_t *ctx, const rows_t *rows, int64_t first, int64_t n, int operand,
                       int end, void *const *in, char *to)
{
    copy_t copy = {.rows = rows, .in = in, .to = to, .first = first, .block = 1};
    size_t bytes = 0;
    copy.operand = operand;
    copy.end = end;
    for (int i = operand; i < end; i++) bytes += rows->slabs[i];
    if (rows->bytes < PIECE_BYTES / 2)
        copy.block = (int64_t)(PIECE_BYTES / 2 / (rows->bytes > 0 ? rows->bytes : 1));
    threads_share(threads_for(ctx, n * (int64_t)(bytes / sizeof(float))), n, copy_rows, &copy);
}

/* Moves the rows of the first input from the start of the result's buffer to their positions. Each
 * step moves, in any order, the rows whose destinations are after all rows not yet moved. Example
 * with 8 rows and two inputs of 4 bytes a row: first rows 4 to 7, then 2 and 3, then 1. Row 0
 * stays. */
static void grow(context_t *ctx, const rows_t *rows, void *const *in, char *to)
{
    const size_t slab = rows->slabs[0];
    for (int64_t end = rows->n; end > 1 && slab > 0;) {
        const int64_t begin = (int64_t)(((size_t)end * slab + rows->bytes - 1) / rows->bytes);
        share_rows(ctx, rows, begin, end - begin, 0, 1, in, to);
        end = begin;
    }
    share_rows(ctx, rows, 0, rows->n, 1, rows->n_in, in, to);
}

static void run_rows(context_t *ctx, const rows_t *rows, void *const *in, char *to)
{
    if (in[0] == to)
        grow(ctx, rows, in, to);
    else
        share_rows(ctx, rows, 0, rows->n, 0, rows->n_in, in, to);
}

static status_t accept_all(const op_call_t *call, prepared_t *prepared, const format_t *format)
{
    for (int i = 0; i < call->n_in; i++) TRY(accept_format(call, prepared, i, format));
    return accept_out(call, prepared, 0, format);
}

static status_t prepare_slabs(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_DENSE) return prepared_decline(prepared, "slabs: mkldnn only");
    int rank = call->out[0].rank, dim = find_dim(call->attrs, rank);
    format_t formats[2 + CANDIDATES_MAX];
    int n = 0;
    if (call->out_format != NULL)
        formats[n++] = *call->out_format;
    else
        formats[n++] = largest_format(call);
    if (!call->keep_formats) n += candidates_list(rank, &formats[n]);
    for (int i = 0; i < n; i++) {
        if (formats[i].kind != FORMAT_TAG || !blocks_divide(call, &formats[i], dim)) continue;
        status_t status = accept_all(call, prepared, &formats[i]);
        if (status == STATUS_OK) {
            const rows_t rows = rows_of(prepared, dim);
            prepared->is_joined = is_join(prepared, dim);
            prepared->may_grow = !prepared->is_joined && may_grow(&rows);
        }
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return prepared_decline(prepared, "slabs: no format whose blocks hold one input each");
}

static status_t run_slabs(context_t *ctx, const prepared_t *prepared, void *const *in,
                          void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *result = &prepared->out[0];
    int dim = find_dim(prepared->attrs, result->rank);
    if (prepared->is_joined) {
        join(ctx, prepared, in, out[0]);
        return STATUS_OK;
    }
    const rows_t rows = rows_of(prepared, dim);
    run_rows(ctx, &rows, in, out[0]);
    return STATUS_OK;
}

/* ---- dense kernel: copies each input with its own strides ---- */

/* The result is channels last if all inputs are; otherwise row-major. */
static format_t dense_format(const op_call_t *call)
{
    int rank = call->out[0].rank;
    format_t format = format_channels_last(rank);
    for (int i = 0; i < call->n_in; i++)
        if (!format_same(&call->in[i]->format, &format, call->in[i]->sizes))
            return format_plain(rank);
    return format;
}

static status_t prepare_dense(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    format_t format = call->out_format != NULL ? *call->out_format : dense_format(call);
    TRY(accept_out(call, prepared, 0, &format));
    prepared->is_joined = is_join(prepared, find_dim(call->attrs, call->out[0].rank));
    return STATUS_OK;
}

/* True if all inputs have the dimension order of the result, and no gaps. */
static bool has_rows(const prepared_t *prepared)
{
    const tensor_info_t *result = &prepared->out[0];
    const format_t format = info_tag(result);
    for (int i = 0; i < prepared->n_in; i++)
        if (!format_same(&prepared->in[i].format, &format, prepared->in[i].sizes)) return false;
    return format_same(&result->format, &format, result->sizes);
}

static status_t run_dense(context_t *ctx, const prepared_t *prepared, void *const *in,
                          void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *result = &prepared->out[0];
    const size_t size = dtype_size(result->dtype);
    int dim = find_dim(prepared->attrs, result->rank);
    char *to = out[0];
    if (prepared->is_joined) {
        join(ctx, prepared, in, to);
        return STATUS_OK;
    }
    if (has_rows(prepared)) {
        const rows_t rows = rows_of(prepared, dim);
        run_rows(ctx, &rows, in, to);
        return STATUS_OK;
    }
    for (int i = 0; i < prepared->n_in; i++) {
        const tensor_info_t *info = &prepared->in[i];
        convert_strided(info->rank, info->sizes, info->dtype, info->format.strides, in[i],
                        result->dtype, result->format.strides, to,
                        threads_for(ctx, info_numel(info)));
        to += (size_t)(info->sizes[dim] * result->format.strides[dim]) * size;
    }
    return STATUS_OK;
}

/* ---- gradients ---- */

static void concat_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    int64_t start = 0;
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t info = *emit_info(e, call->in[i]);
        if (info.rank == 0) return; /* an earlier emitter call failed */
        const int dim = find_dim(call->attrs, info.rank);
        const int64_t end = start + info.sizes[dim];
        if (call->is_wanted[i])
            call->in_grad[i] = emit_slice(e, call->out_grad[0], dim, start, end);
        start = end;
    }
}

value_t emit_concat(emitter_t *emitter, int n, const value_t *values, int64_t dim)
{
    const concat_attrs_t attrs = {dim};
    return emit_op(emitter, &op_def_concat, &attrs, n, values);
}

/* ---- definition ---- */

const opdef_t op_def_concat = {.name = "concat",
                               FUNCTIONS_OF(concat),
                               .preference = OP_FOLLOWS,
                               .traits = TRAIT_BATCHED,
                               .attrs = {sizeof(concat_attrs_t), 1, fields},
                               OPERANDS(operands),
                               .kernels = KERNELS(KERNEL("slabs", prepare_slabs, run_slabs),
                                                  KERNEL("native", prepare_dense, run_dense)),
                               .gradient = GRADIENT(.pass = concat_pass)};

/* ---- public ---- */

status_t op_concat(context_t *ctx, int n, const tensor_t *const *tensors, int64_t dim,
                   tensor_t **out)
{
    TRY(context_output(ctx, "concat", out));
    concat_attrs_t attrs = {dim};
    if (tensors == NULL) return context_null(ctx, "concat", "tensors");
    return dispatch_run(ctx, &op_def_concat, &attrs, n, tensors, NULL, out);
}
