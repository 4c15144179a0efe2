/* All conversions between layouts and formats. */
#include "tensor/convert/convert.h"

#include <string.h>

#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"
#include "tensor/convert/grouped_impl.h"
#include "tensor/convert/trim_impl.h"
#include "tensor/onednn/onednn.h"
#include "tensor/text/trace.h"
#include "tensor/threads/threads_impl.h"

/* ---- native loops ---- */

/* A loop over one dimension of a copy. src and dst are the strides in bytes. */
typedef struct loop {
    int64_t size, src, dst;
} loop_t;

/* Makes a loop for each dimension of size > 1, in the order of falling destination stride. Merges
 * dimensions that are contiguous in both source and destination. */
static int make_loops(int rank, const int64_t *sizes, const int64_t *src_strides, size_t src_size,
                      const int64_t *dst_strides, size_t dst_size, loop_t *out_loops)
{
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] == 1) continue;
        loop_t loop = {sizes[d], src_strides[d] * (int64_t)src_size,
                       dst_strides[d] * (int64_t)dst_size};
        int at = n++;
        for (; at > 0 && out_loops[at - 1].dst < loop.dst; at--) out_loops[at] = out_loops[at - 1];
        out_loops[at] = loop;
    }
    int merged = 0;
    for (int i = 0; i < n; i++) {
        loop_t *outer = merged > 0 ? &out_loops[merged - 1] : NULL;
        const loop_t *inner = &out_loops[i];
        if (outer != NULL && outer->src == inner->size * inner->src &&
            outer->dst == inner->size * inner->dst)
            *outer = (loop_t){outer->size * inner->size, inner->src, inner->dst};
        else
            out_loops[merged++] = *inner;
    }
    return merged;
}

/* Copies n runs. With a constant size, the compiler replaces memcpy by a few move instructions. */
#define RUNS(size)                                                                                 \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, (size))

void convert_runs(int64_t n, size_t bytes, const char *from, int64_t from_step, char *to,
                  int64_t to_step)
{
    if (from_step == (int64_t)bytes && to_step == (int64_t)bytes) {
        if (n > 0) memcpy(to, from, (size_t)n * bytes);
        return;
    }
    switch (bytes) {
    case 0: return;
    case 1: RUNS(1); return;
    case 2: RUNS(2); return;
    case 4: RUNS(4); return;
    case 8: RUNS(8); return;
    case 12: RUNS(12); return;
    case 16: RUNS(16); return;
    case 24: RUNS(24); return;
    case 32: RUNS(32); return;
    case 64: RUNS(64); return;
    default: RUNS(bytes); return;
    }
}

/* A copy between strides: outer loops, and two inner loops that are divided into tiles. `along` is
 * the loop with the smallest destination stride. `across` is the loop with the smallest source
 * stride, if that is smaller than the source stride of `along`, as in a transposition. A tile of 64
 * x 64 elements fits into the L1 cache. */
typedef struct strided {
    dtype_t src_dtype, dst_dtype;
    size_t run; /* bytes that are contiguous in source and destination, copied with one memcpy; 0 if
                   elements are cast */
    int n;
    loop_t loops[TENSOR_MAX_RANK + 1], along, across;
    int64_t tile_along, tile_across;
} strided_t;

enum { TILE = 64, ELEMENTS = 8192, SHORT = 16 };

static loop_t take_loop(strided_t *s, int at)
{
    const loop_t loop = s->loops[at];
    s->n--;
    for (int i = at; i < s->n; i++) s->loops[i] = s->loops[i + 1];
    return loop;
}

/* Finds the outer loop with the smallest source stride that is below the source stride of `along`.
 * If there is none, returns the last outer loop if `along` is short, else -1. */
static int find_across(const strided_t *s)
{
    int best = s->n > 0 && s->along.size < SHORT ? s->n - 1 : -1;
    int64_t least = s->along.src;
    for (int i = 0; i < s->n; i++)
        if (s->loops[i].src > 0 && s->loops[i].src < least) {
            least = s->loops[i].src;
            best = i;
        }
    return best;
}

static int64_t count_tiles(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

/* Chooses the tile size of one of the two inner loops, at most `most`. `other` is the other inner
 * loop. */
static int64_t cut_tile(const loop_t *loop, const loop_t *other, int64_t most)
{
    int64_t tile = other->size < TILE ? TILE * TILE / other->size : TILE;
    if (other->size == 1 || tile > most) tile = most;
    if (tile < 1) tile = 1;
    return loop->size < tile ? loop->size : tile;
}

/* Chooses the inner loops and the tiles. Returns the number of pieces; a piece is one tile in one
 * iteration of the outer loops. */
static int64_t plan_strided(strided_t *s, size_t src_size, size_t dst_size)
{
    const loop_t one = {1, (int64_t)src_size, (int64_t)dst_size};
    int64_t n_pieces = 1;
    if (s->src_dtype == s->dst_dtype) s->run = src_size;
    if (s->run > 0 && s->n > 0 && s->loops[s->n - 1].src == one.src &&
        s->loops[s->n - 1].dst == one.dst && s->loops[s->n - 1].size * one.src <= ELEMENTS)
        s->run *= (size_t)take_loop(s, s->n - 1).size;
    s->along = s->n > 0 ? take_loop(s, s->n - 1) : one;
    const int across = find_across(s);
    s->across = across >= 0 ? take_loop(s, across) : (loop_t){.size = 1};
    const int64_t most = ELEMENTS / (s->run > src_size ? (int64_t)(s->run / src_size) : 1);
    s->tile_along = cut_tile(&s->along, &s->across, most);
    s->tile_across = cut_tile(&s->across, &s->along, most);
    for (int i = 0; i < s->n; i++) n_pieces *= s->loops[i].size;
    return n_pieces * count_tiles(s->along.size, s->tile_along) *
           count_tiles(s->across.size, s->tile_across);
}

static void move_run(const strided_t *s, int64_t n, const char *from, int64_t from_step, char *to,
                     int64_t to_step)
{
    if (s->run > 0)
        convert_runs(n, s->run, from, from_step, to, to_step);
    else
        dtype_cast(n, s->src_dtype, from, from_step / (int64_t)dtype_size(s->src_dtype),
                   s->dst_dtype, to, to_step / (int64_t)dtype_size(s->dst_dtype));
}

/* Copies one piece. The longer of the two inner loops becomes the innermost. */
static void move_piece(const strided_t *s, int64_t piece, const char *from, char *to)
{
    loop_t inner = s->along, outer = s->across;
    const int64_t n_along = count_tiles(inner.size, s->tile_along);
    const int64_t n_across = count_tiles(outer.size, s->tile_across);
    const int64_t first = piece % n_along * s->tile_along;
    const int64_t second = piece / n_along % n_across * s->tile_across;
    int64_t rest = piece / n_along / n_across;
    from += first * inner.src + second * outer.src;
    to += first * inner.dst + second * outer.dst;
    for (int i = s->n - 1; i >= 0; i--) {
        from += rest % s->loops[i].size * s->loops[i].src;
        to += rest % s->loops[i].size * s->loops[i].dst;
        rest /= s->loops[i].size;
    }
    inner.size = inner.size - first < s->tile_along ? inner.size - first : s->tile_along;
    outer.size = outer.size - second < s->tile_across ? outer.size - second : s->tile_across;
    if (inner.size < outer.size) {
        const loop_t other = inner;
        inner = outer;
        outer = other;
    }
    for (int64_t i = 0; i < outer.size; i++)
        move_run(s, inner.size, from + i * outer.src, inner.src, to + i * outer.dst, inner.dst);
}

typedef struct pieces {
    const strided_t *s;
    const char *from;
    char *to;
} pieces_t;

static void move_pieces(void *user, int64_t first, int64_t last)
{
    const pieces_t *pieces = user;
    for (int64_t piece = first; piece < last; piece++)
        move_piece(pieces->s, piece, pieces->from, pieces->to);
}

void convert_strided(int rank, const int64_t *sizes, dtype_t src_dtype, const int64_t *src_strides,
                     const void *src, dtype_t dst_dtype, const int64_t *dst_strides, void *dst,
                     int n_threads)
{
    for (int d = 0; d < rank; d++)
        if (sizes[d] == 0) return;
    const size_t src_size = dtype_size(src_dtype), dst_size = dtype_size(dst_dtype);
    strided_t s = {.src_dtype = src_dtype, .dst_dtype = dst_dtype};
    s.n = make_loops(rank, sizes, src_strides, src_size, dst_strides, dst_size, s.loops);
    const int64_t n_pieces = plan_strided(&s, src_size, dst_size);
    threads_share(n_threads, n_pieces, move_pieces, &(pieces_t){&s, src, dst});
}

/* Visits all elements in the padding: for each padded dimension, the elements whose index in this
 * dimension is beyond its size. Sets them to zero, or returns true if all are zero. */
static bool visit_padding(const tensor_info_t *info, char *bytes, bool is_to_zero)
{
    static const char zero[sizeof(double)];
    const format_t *format = &info->format;
    if (!format_is_padded(format, info->sizes)) return true;
    const size_t size = dtype_size(info->dtype);
    int64_t padded[TENSOR_MAX_RANK], index[TENSOR_MAX_RANK];
    format_padded_sizes(format, info->sizes, padded);
    for (int d = 0; d < info->rank; d++) {
        if (padded[d] == info->sizes[d]) continue;
        int64_t range[TENSOR_MAX_RANK];
        memcpy(range, padded, sizeof range);
        range[d] = padded[d] - info->sizes[d];
        memset(index, 0, sizeof index);
        do {
            index[d] += info->sizes[d];
            char *element = bytes + (size_t)format_offset(format, info->sizes, index) * size;
            if (is_to_zero)
                memset(element, 0, size);
            else if (memcmp(element, zero, size) != 0)
                return false;
            index[d] -= info->sizes[d];
        } while (shape_next(info->rank, range, index));
    }
    return true;
}

void convert_zero_padding(const tensor_info_t *info, void *bytes)
{
    visit_padding(info, bytes, true);
}

bool convert_padding_is_zero(const tensor_info_t *info, const void *bytes)
{
    return visit_padding(info, (char *)(uintptr_t)bytes, false);
}

/* ---- one conversion ---- */

/* True if elements share an address; oneDNN rejects such sources. */
static bool has_overlap(const tensor_info_t *info)
{
    if (info->format.kind != FORMAT_STRIDED) return false;
    for (int d = 0; d < info->rank; d++)
        if (info->sizes[d] > 1 && info->format.strides[d] == 0) return true;
    return false;
}

tensor_info_t convert_inner_info(const tensor_info_t *info)
{
    tensor_info_t inner = *info;
    if (info->format.kind != FORMAT_REGROUPED) return inner;
    inner.rank = info->format.inner_rank;
    memcpy(inner.sizes, info->format.inner, sizeof inner.sizes);
    inner.format = format_inner(&info->format);
    return inner;
}

/* Converts a source with gaps or repeated elements, such as f32[2,3,4]{4,0,1}, in two steps: native
 * loops make a row-major copy, which oneDNN converts. */
static status_t convert_by_plain(context_t *ctx, const tensor_info_t *src_info, const void *src,
                                 const tensor_info_t *dst_info, void *dst, reorder_cause_t cause)
{
    tensor_info_t plain = info_dense(src_info->dtype, src_info->rank, src_info->sizes);
    void *bytes = NULL;
    TRY(context_get(ctx, info_bytes(&plain), "a plain copy", &bytes));
    status_t status = convert_bytes(ctx, src_info, src, &plain, bytes, cause);
    if (status == STATUS_OK) status = convert_bytes(ctx, &plain, bytes, dst_info, dst, cause);
    context_put(ctx, bytes);
    return status;
}

/* Converts a regrouped source (format_regroup) by way of row-major bytes, which are the same for
 * both ways to group the dimensions. */
static status_t convert_regrouped(context_t *ctx, const tensor_info_t *src_info, const void *src,
                                  const tensor_info_t *dst_info, void *dst, reorder_cause_t cause)
{
    tensor_info_t inner = convert_inner_info(src_info);
    tensor_info_t plain = info_dense(inner.dtype, inner.rank, inner.sizes);
    if (info_is_contiguous(dst_info)) return convert_bytes(ctx, &inner, src, &plain, dst, cause);
    return convert_by_plain(ctx, src_info, src, dst_info, dst, cause);
}

static bool is_for_onednn(const tensor_info_t *src_info)
{
    return onednn_has_dtype(src_info->dtype) && src_info->rank > 0 && !has_overlap(src_info);
}

static status_t run_reorder(context_t *ctx, onednn_primitive_t *primitive, const void *src,
                            void *dst)
{
    void *arguments[2] = {(void *)(uintptr_t)src, dst}, *scratch = NULL;
    TRY(context_scratch(ctx, onednn_scratch_bytes(primitive), &scratch));
    return onednn_run(ctx, primitive, arguments, scratch);
}

static status_t convert_by_onednn(context_t *ctx, const tensor_info_t *src_info, const void *src,
                                  const tensor_info_t *dst_info, void *dst)
{
    onednn_primitive_t *primitive = NULL;
    if (!is_for_onednn(src_info)) return STATUS_UNSUPPORTED;
    TRY(onednn_reorder(ctx, src_info, dst_info, &primitive));
    return run_reorder(ctx, primitive, src, dst);
}

static void convert_by_loops(context_t *ctx, const tensor_info_t *src_info, const void *src,
                             const tensor_info_t *dst_info, void *dst)
{
    int64_t src_strides[TENSOR_MAX_RANK], dst_strides[TENSOR_MAX_RANK];
    format_strides(&src_info->format, src_info->sizes, src_strides);
    format_strides(&dst_info->format, dst_info->sizes, dst_strides);
    convert_strided(src_info->rank, src_info->sizes, src_info->dtype, src_strides, src,
                    dst_info->dtype, dst_strides, dst, threads_for(ctx, info_numel(src_info)));
}

/* For each dimension, lists the offset that each index contributes. An element's offset is the sum
 * of the offsets of its indices. */
static void fill_offsets(const tensor_info_t *info, int64_t *offsets)
{
    int64_t index[TENSOR_MAX_RANK] = {0};
    for (int d = 0; d < info->rank; d++) {
        for (int64_t i = 0; i < info->sizes[d]; i++) {
            index[d] = i;
            *offsets++ = format_offset(&info->format, info->sizes, index);
        }
        index[d] = 0;
    }
}

/* Offset of the first element of a row. Rows are along the last dimension. */
static int64_t row_offset(const tensor_info_t *info, const int64_t *offsets, int64_t row)
{
    int64_t at = 0;
    for (int d = 0; d < info->rank - 1; d++) offsets += info->sizes[d];
    for (int d = info->rank - 2; d >= 0; d--) {
        offsets -= info->sizes[d];
        at += offsets[row % info->sizes[d]];
        row /= info->sizes[d];
    }
    return at;
}

static bool has_offsets(const tensor_info_t *info)
{
    return info->format.kind == FORMAT_TAG || info->format.kind == FORMAT_STRIDED;
}

/* True if convert_by_offsets supports the conversion: source or destination is row-major. */
static bool may_go_by_offsets(const tensor_info_t *src_info, const tensor_info_t *dst_info)
{
    return has_offsets(src_info) && has_offsets(dst_info) &&
           (info_is_contiguous(src_info) || info_is_contiguous(dst_info));
}

typedef struct offset_rows {
    const tensor_info_t *src_info, *dst_info;
    const int64_t *from, *to; /* offsets of all dimensions */
    int64_t n_offsets;
    const char *src;
    char *dst;
} offset_rows_t;

static void move_rows(void *user, int64_t first, int64_t end)
{
    const offset_rows_t *r = user;
    const size_t size = dtype_size(r->src_info->dtype);
    const int64_t last = r->src_info->sizes[r->src_info->rank - 1];
    const int64_t *from = r->from + r->n_offsets - last, *to = r->to + r->n_offsets - last;
    for (int64_t row = first; row < end; row++) {
        const char *src = r->src + row_offset(r->src_info, r->from, row) * (int64_t)size;
        char *dst = r->dst + row_offset(r->dst_info, r->to, row) * (int64_t)size;
        for (int64_t i = 0; i < last; i++)
            memcpy(dst + to[i] * (int64_t)size, src + from[i] * (int64_t)size, size);
    }
}

/* Copies element by element, for formats that oneDNN cannot reorder, such as bf16 to ABcd2b4a2b. */
static status_t convert_by_offsets(context_t *ctx, const tensor_info_t *src_info, const void *src,
                                   const tensor_info_t *dst_info, void *dst)
{
    const int64_t last = src_info->sizes[src_info->rank - 1], rows = info_numel(src_info) / last;
    int64_t n = 0, *from = NULL;
    for (int d = 0; d < src_info->rank; d++) n += src_info->sizes[d];
    TRY(context_get(ctx, 2 * (size_t)n * sizeof *from, "offsets of a reorder", &from));
    int64_t *const to = from + n;
    fill_offsets(src_info, from);
    fill_offsets(dst_info, to);
    offset_rows_t moved = {src_info, dst_info, from, to, n, src, dst};
    threads_share(threads_for(ctx, rows * last), rows, move_rows, &moved);
    context_put(ctx, from);
    if (dst_info->format.kind == FORMAT_TAG) convert_zero_padding(dst_info, dst);
    return STATUS_OK;
}

void convert_tell(context_t *ctx, conversion_t conversion, uint64_t begin)
{
    counters_t *counters = context_counters(ctx);
    const reorder_cause_t cause = conversion.cause;
    conversion.begin = begin;
    conversion.ns = context_now() - begin;
    *(conversion.is_copy ? &counters->copies[cause] : &counters->reorders[cause]) += 1;
    counters->reorder_bytes += conversion.bytes;
    counters->reorder_ns += conversion.ns;
    if (trace_wanted(ctx, TRACE_CONVERT)) {
        char from[INFO_TEXT_MAX], to[INFO_TEXT_MAX];
        trace_event(ctx, TRACE_CONVERT, "%s,%s,\"%s\",\"%s\",%llu,%.3f", cause_name(cause),
                    conversion.by, info_text(conversion.from, from), info_text(conversion.to, to),
                    (unsigned long long)conversion.bytes, (double)conversion.ns / 1e3);
    }
    if (*context_listener(ctx) != NULL) (*context_listener(ctx))(ctx, &conversion);
}

/* Reports a conversion by oneDNN or by native loops. */
static void tell_bytes(context_t *ctx, bool is_ours, const tensor_info_t *src_info, const void *src,
                       const tensor_info_t *dst_info, const void *dst, reorder_cause_t cause,
                       uint64_t begin)
{
    convert_tell(ctx,
                 (conversion_t){.cause = cause,
                                .by = is_ours ? "tessera" : "onednn",
                                .is_copy = is_ours,
                                .from = src_info,
                                .to = dst_info,
                                .from_bytes = src,
                                .to_bytes = dst,
                                .bytes = info_bytes(src_info) + info_bytes(dst_info)},
                 begin);
}

/* Converts from or to a format that only row-major elements can be converted to or from. */
static status_t convert_packed(context_t *ctx, const tensor_info_t *src_info, const void *src,
                               const tensor_info_t *dst_info, void *dst, reorder_cause_t cause)
{
    const uint64_t begin = context_now();
    grouped_t grouped;
    if (grouped_find(&src_info->format, src_info->sizes, &grouped))
        grouped_unpack(ctx, &grouped, src, dst);
    else if (trim_is(dst_info))
        TRY(trim_pack(ctx, dst_info, src, dst));
    else
        TRY(trim_unpack(ctx, src_info, src, dst));
    tell_bytes(ctx, true, src_info, src, dst_info, dst, cause, begin);
    return STATUS_OK;
}

static bool is_packed(const tensor_info_t *info)
{
    return trim_is(info) || grouped_is(info);
}

bool convert_is_readable(const tensor_info_t *info)
{
    return info->format.kind != FORMAT_OPAQUE || trim_is(info);
}

/* Tries oneDNN first. Then tries native loops: with strides, or element by element if source or
 * destination is row-major. If none of these works, converts to row-major bytes first. */
status_t convert_bytes(context_t *ctx, const tensor_info_t *src_info, const void *src,
                       const tensor_info_t *dst_info, void *dst, reorder_cause_t cause)
{
    INVARIANT(src_info->dtype == dst_info->dtype);
    INVARIANT(shape_equal(src_info->rank, src_info->sizes, dst_info->rank, dst_info->sizes));
    if (info_numel(src_info) == 0) return STATUS_OK;
    if (src_info->format.kind == FORMAT_REGROUPED)
        return convert_regrouped(ctx, src_info, src, dst_info, dst, cause);
    if (dst_info->format.kind == FORMAT_OPAQUE && !info_is_contiguous(src_info))
        return convert_by_plain(ctx, src_info, src, dst_info, dst, cause);
    if (grouped_is(dst_info))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "reorder: %s to %s, only tensor_grouped writes a grouped format", info_brief(src_info),
             info_brief(dst_info));
    if (is_packed(src_info) && !info_is_contiguous(dst_info))
        return convert_by_plain(ctx, src_info, src, dst_info, dst, cause);
    if (is_packed(src_info) || is_packed(dst_info))
        return convert_packed(ctx, src_info, src, dst_info, dst, cause);
    bool is_blocked = format_is_blocked(&src_info->format) || format_is_blocked(&dst_info->format);
    threads_guard_t guard = threads_enter(ctx);
    uint64_t begin = context_now();
    status_t status = convert_by_onednn(ctx, src_info, src, dst_info, dst);
    bool is_ours = status == STATUS_UNSUPPORTED && !is_blocked;
    if (is_ours) {
        convert_by_loops(ctx, src_info, src, dst_info, dst);
        status = STATUS_OK;
    } else if (status == STATUS_UNSUPPORTED && may_go_by_offsets(src_info, dst_info)) {
        is_ours = true;
        status = convert_by_offsets(ctx, src_info, src, dst_info, dst);
    }
    threads_leave(ctx, guard);
    if (status == STATUS_UNSUPPORTED) {
        if (!info_is_contiguous(src_info) && !info_is_contiguous(dst_info))
            return convert_by_plain(ctx, src_info, src, dst_info, dst, cause);
        FAIL(ctx, status, "reorder: oneDNN cannot reorder %s to %s", info_brief(src_info),
             info_brief(dst_info));
    }
    if (status == STATUS_OK) tell_bytes(ctx, is_ours, src_info, src, dst_info, dst, cause, begin);
    return status;
}

/* ---- tensors ---- */

const char *convert_refusal(const tensor_info_t *info)
{
    if (!onednn_has_dtype(info->dtype)) return "oneDNN does not have this dtype";
    if (info->rank == 0) return "oneDNN has no tensors of rank 0";
    if (info_numel(info) == 0) return "empty tensors never reach oneDNN";
    return NULL;
}

static bool has_sizes_of(const tensor_info_t *info, const tensor_info_t *want)
{
    return shape_equal(info->rank, info->sizes, want->rank, want->sizes);
}

/* Describes the tensor's bytes with the sizes of `want`, for example a weight [K][C/G].. as
 * [G][K/G][C/G].., or [K][C H W] as [K][C][H][W]. Returns false if the bytes are not in row-major
 * order, so that they must be converted first. */
static bool with_sizes_of(const tensor_info_t *info, const tensor_info_t *want, tensor_info_t *out)
{
    *out = *info;
    if (has_sizes_of(info, want)) return true;
    *out = convert_inner_info(info);
    if (has_sizes_of(out, want)) return true;
    *out = info_dense(want->dtype, want->rank, want->sizes);
    return info_is_contiguous(info);
}

bool convert_moves_bytes(const tensor_info_t *from, const tensor_info_t *want)
{
    tensor_info_t info;
    return !with_sizes_of(from, want, &info) ||
           !format_same(&info.format, &want->format, want->sizes);
}

void convert_count_transition(context_t *ctx, layout_t to)
{
    counters_t *counters = context_counters(ctx);
    *(to == LAYOUT_MKLDNN ? &counters->to_mkldnn : &counters->to_dense) += 1;
}

status_t convert_into(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                      const tensor_info_t *want, void *bytes, reorder_cause_t cause)
{
    tensor_info_t info;
    if (with_sizes_of(from, want, &info))
        return convert_bytes(ctx, &info, from_bytes, want, bytes, cause);
    tensor_info_t plain = info_dense(want->dtype, from->rank, from->sizes);
    void *rows = NULL;
    TRY(context_get(ctx, info_bytes(&plain), "a plain copy", &rows));
    status_t status = convert_bytes(ctx, from, from_bytes, &plain, rows, cause);
    if (status == STATUS_OK) status = convert_bytes(ctx, &info, rows, want, bytes, cause);
    context_put(ctx, rows);
    return status;
}

/* True if convert_bytes would try oneDNN first. */
static bool begins_with_onednn(const tensor_info_t *src_info, const tensor_info_t *dst_info)
{
    bool is_by_plain = dst_info->format.kind == FORMAT_OPAQUE && !info_is_contiguous(src_info);
    return info_numel(src_info) > 0 && src_info->format.kind != FORMAT_REGROUPED && !is_by_plain &&
           !is_packed(src_info) && !is_packed(dst_info) && is_for_onednn(src_info);
}

status_t convert_settle(context_t *ctx, const tensor_info_t *src_info,
                        const tensor_info_t *dst_info, onednn_primitive_t **out_primitive)
{
    onednn_primitive_t *primitive = NULL;
    tensor_info_t info; /* src_info with the sizes of dst_info */
    *out_primitive = NULL;
    if (!with_sizes_of(src_info, dst_info, &info) || !begins_with_onednn(&info, dst_info))
        return STATUS_OK;
    threads_guard_t guard = threads_enter(ctx); /* oneDNN fixes the number of threads here */
    status_t status = onednn_reorder(ctx, &info, dst_info, &primitive);
    threads_leave(ctx, guard);
    if (status == STATUS_UNSUPPORTED) return STATUS_OK;
    TRY(status);
    *out_primitive = onednn_retain(primitive);
    return STATUS_OK;
}

status_t convert_settled(context_t *ctx, onednn_primitive_t *primitive,
                         const tensor_info_t *src_info, const void *src,
                         const tensor_info_t *dst_info, void *dst, reorder_cause_t cause)
{
    if (primitive == NULL) return convert_into(ctx, src_info, src, dst_info, dst, cause);
    threads_guard_t guard = threads_enter(ctx);
    uint64_t begin = context_now();
    status_t status = run_reorder(ctx, primitive, src, dst);
    threads_leave(ctx, guard);
    if (status == STATUS_OK) tell_bytes(ctx, false, src_info, src, dst_info, dst, cause, begin);
    return status;
}

static status_t count_packing(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                              const void *from_bytes, const tensor_info_t *want, void *bytes,
                              reorder_cause_t cause)
{
    const uint64_t begin = context_now();
    TRY(pack(ctx, from, from_bytes, want, bytes));
    convert_tell(ctx,
                 (conversion_t){.cause = cause,
                                .by = "kernel",
                                .is_copy = true,
                                .from = from,
                                .to = want,
                                .from_bytes = from_bytes,
                                .to_bytes = bytes,
                                .bytes = info_bytes(from) + info_bytes(want)},
                 begin);
    return STATUS_OK;
}

status_t convert_pack_bytes(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                            const void *from_bytes, const tensor_info_t *want, void *bytes,
                            reorder_cause_t cause)
{
    tensor_info_t plain = info_dense(from->dtype, from->rank, from->sizes);
    void *rows = NULL;
    if (pack == NULL) return convert_into(ctx, from, from_bytes, want, bytes, cause);
    if (info_is_contiguous(from))
        return count_packing(ctx, pack, &plain, from_bytes, want, bytes, cause);
    TRY(context_get(ctx, info_bytes(&plain), "a plain copy", &rows));
    status_t status = convert_bytes(ctx, from, from_bytes, &plain, rows, cause);
    if (status == STATUS_OK) status = count_packing(ctx, pack, &plain, rows, want, bytes, cause);
    context_put(ctx, rows);
    return status;
}

status_t convert_pack(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                      const void *from_bytes, const tensor_info_t *want, reorder_cause_t cause,
                      tensor_t **out_tensor)
{
    tensor_t *result = NULL;
    void *bytes = NULL;
    size_t n_bytes = 0;
    TRY(tensor_count_bytes(ctx, want, &n_bytes));
    TRY(tensor_make_of(ctx, want, n_bytes, 0, &result, &bytes));
    TRY_OR(convert_pack_bytes(ctx, pack, from, from_bytes, want, bytes, cause),
           tensor_drop(result));
    if (from->layout != want->layout) convert_count_transition(ctx, want->layout);
    *out_tensor = result;
    return STATUS_OK;
}

status_t convert_make_from(context_t *ctx, const tensor_info_t *from, const void *from_bytes,
                           const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_tensor)
{
    return convert_pack(ctx, NULL, from, from_bytes, want, cause, out_tensor);
}

status_t convert_make(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause, tensor_t **out_tensor)
{
    TRY(storage_restore(ctx, tensor->storage, cause));
    return convert_make_from(ctx, &tensor->info, tensor_bytes(tensor), want, cause, out_tensor);
}

status_t convert_for_call(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                          reorder_cause_t cause, tensor_t **out_tensor)
{
    INVARIANT(tensor->info.dtype == want->dtype);
    if (convert_moves_bytes(&tensor->info, want)) {
        if (tensor->info.layout == LAYOUT_MKLDNN && want->layout == LAYOUT_MKLDNN)
            return form_get(ctx, tensor, want, NULL, cause, NULL, out_tensor);
        return convert_make(ctx, tensor, want, cause, out_tensor);
    }
    TRY(storage_restore(ctx, tensor->storage, cause));
    if (tensor->info.layout == want->layout && has_sizes_of(&tensor->info, want)) {
        *out_tensor = tensor_hold((tensor_t *)(uintptr_t)tensor);
        return STATUS_OK;
    }
    if (tensor->info.layout != want->layout) convert_count_transition(ctx, want->layout);
    return tensor_over(ctx, want, tensor->storage, tensor->offset, out_tensor);
}

status_t convert_own(context_t *ctx, const tensor_t *tensor, tensor_t **converted)
{
    tensor_t *shared = *converted, *own = NULL;
    if (shared == tensor) return STATUS_OK;
    /* a form has another reference, from the storage that keeps it */
    bool is_new = shared->storage != tensor->storage && atomic_load(&shared->n_references) == 1;
    if (is_new) return STATUS_OK;
    status_t status = tensor_snapshot(ctx, shared, &shared->info, shared->offset, &own);
    tensor_drop(shared);
    *converted = own;
    return status;
}

status_t convert_to(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                    reorder_cause_t cause, tensor_t **out_tensor)
{
    INVARIANT(has_sizes_of(&tensor->info, want));
    tensor_t *result = NULL;
    TRY(convert_for_call(ctx, tensor, want, cause, &result));
    TRY(convert_own(ctx, tensor, &result));
    *out_tensor = result;
    return STATUS_OK;
}

/* Info of a dense tensor's mkldnn snapshot. It is row-major if elements share an address, because
 * the snapshot is then a copy. */
static tensor_info_t snapshot_info(const tensor_info_t *info)
{
    format_t format = has_overlap(info)
                          ? format_plain(info->rank)
                          : format_of_strides(info->rank, info->sizes, info->format.strides);
    return info_mkldnn(info, &format);
}

status_t to_mkldnn(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "to_mkldnn", out_tensor));
    if (tensor == NULL) return context_null(ctx, "to_mkldnn", "tensor");
    tensor_t *result = NULL;
    if (tensor->info.layout == LAYOUT_MKLDNN) {
        result = tensor_hold((tensor_t *)(uintptr_t)tensor);
    } else {
        const char *refusal = convert_refusal(&tensor->info);
        if (refusal != NULL)
            FAIL(ctx, STATUS_UNSUPPORTED, "to_mkldnn: %s, %s", tensor_text(tensor), refusal);
        tensor_info_t want = snapshot_info(&tensor->info);
        TRY(convert_to(ctx, tensor, &want, CAUSE_INPUT, &result));
    }
    return tensor_give(ctx, result, out_tensor);
}

status_t to_dense(context_t *ctx, const tensor_t *tensor, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "to_dense", out_tensor));
    if (tensor == NULL) return context_null(ctx, "to_dense", "tensor");
    tensor_t *result = NULL;
    if (tensor->info.layout == LAYOUT_DENSE) {
        result = tensor_hold((tensor_t *)(uintptr_t)tensor);
    } else {
        tensor_info_t want = info_dense(tensor->info.dtype, tensor->info.rank, tensor->info.sizes);
        TRY(convert_to(ctx, tensor, &want, CAUSE_OUTPUT, &result));
    }
    return tensor_give(ctx, result, out_tensor);
}

status_t convert_reorder(context_t *ctx, const tensor_t *tensor, const char *format,
                         tensor_t **out_tensor)
{
    TRY(context_output(ctx, "convert_reorder", out_tensor));
    if (tensor == NULL) return context_null(ctx, "reorder", "tensor");
    format_t wanted;
    TRY(format_parse(ctx, format, &wanted));
    REQUIRE(ctx, wanted.kind == FORMAT_TAG && wanted.rank == tensor->info.rank,
            "reorder: format %s of %s, a tag of rank %d is needed", format, tensor_text(tensor),
            tensor->info.rank);
    const char *refusal = convert_refusal(&tensor->info);
    if (refusal != NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "reorder: %s, %s", tensor_text(tensor), refusal);
    int64_t elements = 0, bytes = 0;
    REQUIRE(ctx,
            format_elements(&wanted, tensor->info.sizes, &elements) &&
                shape_multiply(elements, (int64_t)dtype_size(tensor->info.dtype), &bytes),
            "reorder: %s in format %s, its bytes overflow", tensor_text(tensor), format);
    tensor_info_t want = info_mkldnn(&tensor->info, &wanted);
    tensor_t *result = NULL;
    TRY(convert_to(ctx, tensor, &want, CAUSE_USER, &result));
    return tensor_give(ctx, result, out_tensor);
}

const char *convert_format(const tensor_t *tensor, char *out_text)
{
    if (tensor == NULL || out_text == NULL) return NULL;
    return format_text(&tensor->info.format, out_text);
}

void convert_repro(const tensor_info_t *from, const tensor_info_t *to, text_t *text)
{
    if (from == NULL || to == NULL || text == NULL) return;
    char a[INFO_TEXT_MAX], b[INFO_TEXT_MAX];
    if (convert_refusal(from) != NULL) {
        text_append(text, "# copy: %s to %s", info_text(from, a), info_text(to, b));
        return;
    }
    onednn_problem_t problem = {.kind = ONEDNN_REORDER, .n_src = 1, .src = from, .dst = to};
    onednn_repro_problem(&problem, text);
}
