/* Loops over operands that broadcast. */
#include "ops/elementwise/broadcast_impl.h"

#include <stdalign.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

#define PIECE_ELEMENTS 8192
#define CHUNK 512
#define SHORT 8 /* shorter rows are joined in a buffer, because a loop for each row is slower */

/* ---- inference ---- */

/* Promotes two dtypes like torch.result_type. The result is `higher`, unless the category of
 * `lower` is higher (bool < integral < floating). */
static dtype_t combine(dtype_t higher, dtype_t lower)
{
    if (higher == DTYPE_NONE) return lower;
    if (lower == DTYPE_NONE || dtype_is_floating(higher)) return higher;
    bool counts = higher == DTYPE_BOOL || dtype_is_floating(lower);
    return counts ? dtype_promote(higher, lower) : higher;
}

dtype_t broadcast_dtype(const tensor_info_t *a, const tensor_info_t *b)
{
    dtype_t standing[3] = {DTYPE_NONE, DTYPE_NONE, DTYPE_NONE};
    const tensor_info_t *infos[] = {a, b};
    for (int i = 0; i < 2; i++) {
        dtype_t dtype = infos[i]->dtype;
        int level = infos[i]->rank > 0 ? 0 : infos[i]->is_number ? 2 : 1;
        if (level == 2 && dtype_is_floating(dtype)) dtype = DTYPE_F32;
        if (standing[level] != DTYPE_NONE) return dtype_promote(standing[level], dtype);
        standing[level] = dtype;
    }
    return combine(standing[0], combine(standing[1], standing[2]));
}

bool broadcast_infer(context_t *ctx, const op_call_t *call, int *out_rank, int64_t *out_sizes)
{
    *out_rank = 0;
    for (int i = 0; i < call->n_in; i++)
        if (!sizes_broadcast(ctx, *out_rank, out_sizes, call->in[i]->rank, call->in[i]->sizes,
                             out_rank, out_sizes))
            return false;
    return true;
}

/* ---- formats ---- */

/* The blocked dimension of the result; dim is the rank if there is none. */
typedef struct split {
    int rank, dim;
    int64_t size, block;
} split_t;

/* The format of the result: that of an operand with the result's shape, preferably of a blocked
 * operand. */
static format_t pick_format(const op_call_t *call)
{
    const tensor_info_t *out = &call->out[0];
    format_t best = format_plain(out->rank);
    bool is_found = false;
    if (call->out_format != NULL) return *call->out_format;
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t *info = call->in[i];
        format_t own = info_tag(info);
        if (!shape_equal(info->rank, info->sizes, out->rank, out->sizes) || own.n_blocks > 1 ||
            !format_same(&own, &info->format, info->sizes))
            continue;
        if (!is_found || (format_is_blocked(&own) && !format_is_blocked(&best))) best = own;
        is_found = true;
    }
    return best;
}

/* True if the operand has the same blocks as the result. A dimension of size 1 has no blocks. */
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

/* The operand's size in the blocked dimension of the result. */
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

/* True for a plain operand that must be copied with padded channels, because the last block of the
 * result is not full. */
static bool is_padded_by_copy(const tensor_info_t *info, const split_t *split)
{
    return info->rank > 0 && info_is_contiguous(info) && split_size(info, split) > 1;
}

/* Computes the operand's stride for each dimension of the result. The last stride is for the lanes
 * of a block. */
static void spread(const tensor_info_t *info, const split_t *split, int64_t *out_strides)
{
    int64_t own[TENSOR_MAX_RANK];
    int lead = split->rank - info->rank;
    memset(out_strides, 0, BROADCAST_LOOPS * sizeof *out_strides);
    format_strides(&info->format, info->sizes, own);
    for (int d = 0; d < info->rank; d++) {
        if (info->sizes[d] == 1) continue;
        bool is_split = lead + d == split->dim, is_blocked = shares_blocks(info, split);
        out_strides[lead + d] = is_split && !is_blocked ? own[d] * split->block : own[d];
        if (is_split) out_strides[split->rank] = is_blocked ? 1 : own[d];
    }
}

static void place_padded(prepared_t *prepared, broadcast_t *plan, int index, const split_t *split,
                         int64_t *out_strides)
{
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

/* Decides how operand `index` is read: in its own format, after a reorder, or from a copy with
 * padded channels. Sets the operand's strides. */
static status_t place(const op_call_t *call, prepared_t *prepared, broadcast_t *plan, int index,
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
        place_padded(prepared, plan, index, split, out_strides);
    return STATUS_OK;
}

/* ---- loops ---- */

/* An operand's strides, as computed by `spread`. */
typedef struct strides {
    int64_t of[BROADCAST_LOOPS];
} strides_t;

static bool is_merged(const broadcast_loop_t *outer, const broadcast_loop_t *inner, int n)
{
    for (int i = 0; i < n; i++)
        if (outer->step[i] != inner->size * inner->step[i]) return false;
    return outer->out == inner->size * inner->out;
}

/* Makes a loop for each dimension whose size exceeds 1, outermost first, and merges loops. */
static int make_loops(broadcast_t *plan, const split_t *split, const tensor_info_t *out,
                      const strides_t *strides)
{
    broadcast_loop_t sorted[BROADCAST_LOOPS];
    int64_t out_strides[BROADCAST_LOOPS];
    int n = 0, merged = 0;
    spread(out, split, out_strides);
    out_strides[split->rank] = 1;
    for (int d = 0; d <= split->rank; d++) {
        int64_t size = d == split->rank ? split->block : out->sizes[d];
        if (d == split->dim && d < split->rank) size = (size + split->block - 1) / split->block;
        if (size == 1) continue;
        int at = n++;
        for (; at > 0 && sorted[at - 1].out < out_strides[d]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = (broadcast_loop_t){.size = size, .out = out_strides[d]};
        for (int i = 0; i < plan->n; i++) sorted[at].step[i] = strides[i].of[d];
    }
    for (int i = 0; i < n; i++) {
        broadcast_loop_t *outer = merged > 0 ? &plan->loops[merged - 1] : NULL;
        if (outer != NULL && is_merged(outer, &sorted[i], plan->n)) {
            int64_t size = outer->size * sorted[i].size;
            *outer = sorted[i];
            outer->size = size;
        } else {
            plan->loops[merged++] = sorted[i];
        }
    }
    return merged;
}

/* Cuts the innermost loop into pieces. If that loop is short, cuts the next one too. */
static void cut_pieces(broadcast_t *plan, int n_loops)
{
    const broadcast_loop_t one = {.size = 1, .out = 1};
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

static bool is_direct(const prepared_t *prepared, const broadcast_t *plan)
{
    bool is = prepared->out[0].dtype == plan->out_dtype &&
              (plan->inner.size >= SHORT || plan->rows.size == 1);
    for (int i = 0; i < plan->n; i++)
        is = is && prepared->in[i].dtype == plan->in_dtype[i] && plan->inner.step[i] <= 1 &&
             plan->inner.step[i] >= 0;
    return is;
}

status_t broadcast_prepare(const op_call_t *call, prepared_t *prepared, broadcast_t *plan)
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
    strides_t strides[ELEMENTWISE_OPERANDS];
    bool keeps_zero = plan->keeps_zero;
    plan->n = call->n_in;
    prepared->overwrites = 0;
    for (int i = 0; i < plan->n; i++) {
        TRY(place(call, prepared, plan, i, &format, &split, strides[i].of));
        keeps_zero = keeps_zero && strides[i].of[split.rank] == 1;
        prepared->overwrites |= 1u << i;
    }
    plan->dirties_padding = format_is_padded(&format, out->sizes) && !keeps_zero;
    cut_pieces(plan, make_loops(plan, &split, &prepared->out[0], strides));
    plan->n_elements = walk_elements(&prepared->out[0]);
    plan->is_direct = is_direct(prepared, plan);
    return STATUS_OK;
}

/* ---- running ---- */

static int64_t size_of(const tensor_info_t *info)
{
    return (int64_t)dtype_size(info->dtype);
}

/* Casts rows of an operand, at most CHUNK elements, to the loop's dtype, as [rows][n] in buffer. If
 * all columns or all rows of an operand are equal, only one is cast, unless rows are joined. */
static void gather(const prepared_t *prepared, const broadcast_t *plan, int i, const char *from,
                   bool is_joined, elementwise_rows_t *rows, char *buffer)
{
    const int64_t step = plan->inner.step[i], row_step = plan->rows.step[i];
    const bool is_one = step == 0 && row_step == 0;
    const int64_t n = step != 0 || (is_joined && !is_one) ? rows->n : 1;
    const int64_t n_rows = row_step != 0 || (is_joined && !is_one) ? rows->rows : 1;
    const int64_t size = (int64_t)dtype_size(plan->in_dtype[i]);
    const bool by_rows = n_rows > n; /* the longer loop is the inner one */
    const int64_t outer = by_rows ? n : n_rows, inner = by_rows ? n_rows : n;
    for (int64_t o = 0; o < outer; o++)
        dtype_cast(inner, prepared->in[i].dtype,
                   from + o * (by_rows ? step : row_step) * size_of(&prepared->in[i]),
                   by_rows ? row_step : step, plan->in_dtype[i],
                   buffer + o * (by_rows ? 1 : n) * size, by_rows ? n : 1);
    rows->in[i] = buffer;
    rows->step[i] = is_joined ? !is_one : step != 0;
    rows->row_step[i] = row_step != 0 ? n : 0;
}

/* Computes at most CHUNK elements, using buffers of the loop's dtypes. */
static void compute_some(const prepared_t *prepared, const broadcast_t *plan,
                         elementwise_loop_t *loop, const elementwise_rows_t *part,
                         int64_t out_row_step)
{
    alignas(64) char in_buffer[ELEMENTWISE_OPERANDS][CHUNK * 8], out_buffer[CHUNK * 8];
    const bool is_joined = part->n < SHORT;
    const int64_t out_size = size_of(&prepared->out[0]);
    elementwise_rows_t rows = *part;
    rows.out = out_buffer;
    rows.out_row_step = part->n;
    for (int i = 0; i < plan->n; i++)
        gather(prepared, plan, i, part->in[i], is_joined, &rows, in_buffer[i]);
    if (is_joined) {
        rows.n *= rows.rows;
        rows.rows = 1;
    }
    loop(&rows);
    const bool is_whole = out_row_step == part->n;
    const int64_t n = is_whole ? part->rows * part->n : part->n;
    for (int64_t row = 0; row < (is_whole ? 1 : part->rows); row++)
        dtype_cast(n, plan->out_dtype, out_buffer + row * n * (int64_t)dtype_size(plan->out_dtype),
                   1, prepared->out[0].dtype, (char *)part->out + row * out_row_step * out_size, 1);
}

/* Computes rows through buffers, with as many rows at a time as fit. */
static void compute_rows(const prepared_t *prepared, const broadcast_t *plan,
                         elementwise_loop_t *loop, const elementwise_rows_t *all)
{
    const int64_t most_rows = all->n < CHUNK ? CHUNK / all->n : 1;
    for (int64_t at = 0; at < all->n; at += CHUNK)
        for (int64_t r = 0; r < all->rows; r += most_rows) {
            elementwise_rows_t part = *all;
            part.rows = all->rows - r < most_rows ? all->rows - r : most_rows;
            part.n = all->n - at < CHUNK ? all->n - at : CHUNK;
            for (int i = 0; i < plan->n; i++)
                part.in[i] = (const char *)all->in[i] +
                             (r * all->row_step[i] + at * all->step[i]) * size_of(&prepared->in[i]);
            part.out = (char *)all->out + (r * all->out_row_step + at) * size_of(&prepared->out[0]);
            compute_some(prepared, plan, loop, &part, all->out_row_step);
        }
}

/* Returns the operand's bytes. Pads the channels, if needed, in a copy at *cursor (scratch). */
static const char *fetch(const broadcast_t *plan, int index, const char *bytes, char **cursor)
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

/* Start of a piece: row, column, and offsets of operands and result in elements. */
typedef struct start {
    int64_t row, column, in[ELEMENTWISE_OPERANDS], out;
} start_t;

static start_t find_start(const broadcast_t *plan, int64_t piece)
{
    const int64_t row_pieces = (plan->rows.size + plan->piece_rows - 1) / plan->piece_rows;
    const int64_t column_pieces = (plan->inner.size + plan->piece_columns - 1) /
                                  plan->piece_columns;
    start_t start = {.column = piece % column_pieces * plan->piece_columns,
                     .row = piece / column_pieces % row_pieces * plan->piece_rows};
    int64_t rest = piece / column_pieces / row_pieces;
    for (int i = 0; i < plan->n; i++)
        start.in[i] = start.row * plan->rows.step[i] + start.column * plan->inner.step[i];
    start.out = start.row * plan->rows.out + start.column * plan->inner.out;
    for (int l = plan->n_outer - 1; l >= 0; l--) {
        const broadcast_loop_t *loop = &plan->loops[l];
        int64_t index = rest % loop->size;
        rest /= loop->size;
        for (int i = 0; i < plan->n; i++) start.in[i] += index * loop->step[i];
        start.out += index * loop->out;
    }
    return start;
}

static void run_piece(const prepared_t *prepared, const broadcast_t *plan, elementwise_loop_t *loop,
                      const char *const *in, char *out, int64_t piece)
{
    const start_t start = find_start(plan, piece);
    int64_t n_rows = plan->rows.size - start.row, n = plan->inner.size - start.column;
    elementwise_rows_t rows = {.rows = n_rows < plan->piece_rows ? n_rows : plan->piece_rows,
                               .n = n < plan->piece_columns ? n : plan->piece_columns,
                               .out = out + start.out * size_of(&prepared->out[0]),
                               .out_row_step = plan->rows.out,
                               .alpha = plan->alpha,
                               .beta = plan->beta};
    for (int i = 0; i < plan->n; i++) {
        rows.in[i] = in[i] + start.in[i] * size_of(&prepared->in[i]);
        rows.step[i] = plan->inner.step[i];
        rows.row_step[i] = plan->rows.step[i];
    }
    if (plan->is_direct) {
        loop(&rows);
        return;
    }
    compute_rows(prepared, plan, loop, &rows);
}

/* Arguments of the threads in a run. */
typedef struct run {
    const prepared_t *prepared;
    const broadcast_t *plan;
    elementwise_loop_t *loop;
    const char *in[ELEMENTWISE_OPERANDS];
    char *out;
} run_t;

static void run_pieces(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    for (int64_t piece = first; piece < last; piece++)
        run_piece(run->prepared, run->plan, run->loop, run->in, run->out, piece);
}

void broadcast_run_by(context_t *ctx, const prepared_t *prepared, elementwise_loop_t *loop,
                      void *const *in, void *const *out, void *scratch)
{
    const broadcast_t *plan = prepared->state;
    char *cursor = scratch;
    run_t run = {.prepared = prepared, .plan = plan, .loop = loop, .out = out[0]};
    for (int i = 0; i < plan->n; i++) run.in[i] = fetch(plan, i, in[i], &cursor);
    threads_share(threads_for(ctx, plan->n_elements), plan->n_pieces, run_pieces, &run);
    if (plan->dirties_padding) walk_zero_padding(&prepared->out[0], out[0]);
}

status_t broadcast_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                       void *const *out, void *scratch)
{
    const broadcast_t *plan = prepared->state;
    broadcast_run_by(ctx, prepared, plan->loop, in, out, scratch);
    return STATUS_OK;
}
