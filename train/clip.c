#include "train/clip.h"

#include <math.h>

#include "kernels/optimizer/gradients_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/threads/threads_impl.h"

/* A gradient: the array from which elements are read, and the bytes to which they are written. */
typedef struct part {
    tensor_t *gradient;
    tensor_t *copy;  /* copy of a gradient with gaps, or whose elements share memory */
    float *written;  /* the gradient's bytes */
    float *elements; /* the array without gaps: the gradient's bytes, or the copy's */
    int64_t n;       /* number of elements, with padding */
    bool is_repeat;  /* an earlier gradient has the same bytes */
    uint8_t *seen;   /* one bit for each element in memory, if elements may share memory; or NULL */
} part_t;

/* ---- preparation, which can fail ---- */

static bool is_gapless(const tensor_info_t *info)
{
    if (info->format.kind != FORMAT_STRIDED) return true;
    return format_of_strides(info->rank, info->sizes, info->format.strides).kind == FORMAT_TAG;
}

/* True if elements may share memory: f32[3,2] with strides {1,1} has 6 elements but only 4 in
 * memory. Strides are never negative. */
static bool may_overlap(const tensor_info_t *info)
{
    int64_t last = 0; /* largest offset in the dimensions so far, in elements */
    bool is_done[TENSOR_MAX_RANK] = {false};
    for (int k = 0; k < info->rank; k++) {
        int next = 0;
        while (is_done[next]) next++; /* k dimensions are done */
        for (int d = next + 1; d < info->rank; d++)
            if (!is_done[d] && info->format.strides[d] < info->format.strides[next]) next = d;
        is_done[next] = true;
        if (info->sizes[next] == 1) continue;
        if (info->format.strides[next] <= last) return true;
        last += (info->sizes[next] - 1) * info->format.strides[next];
    }
    return false;
}

static status_t make_seen(context_t *ctx, const tensor_info_t *info, uint8_t **out_seen)
{
    int64_t last = 0;
    if (info_numel(info) == 0 || !may_overlap(info)) return STATUS_OK;
    for (int d = 0; d < info->rank; d++) last += (info->sizes[d] - 1) * info->format.strides[d];
    return context_get_zeroed(ctx, (size_t)(last / 8 + 1), "elements of a gradient", out_seen);
}

/* Marks a gradient that has the same bytes as an earlier one: both operands of a sum can get the
 * same gradient tensor. */
static status_t find_repeat(context_t *ctx, const part_t *parts, part_t *part)
{
    const tensor_t *gradient = part->gradient;
    for (const part_t *other = parts; other < part; other++) {
        const tensor_t *given = other->gradient;
        if (!tensor_overlaps(given, gradient)) continue;
        REQUIRE(ctx, tensor_has_bytes_of(given, gradient),
                "clip_gradients: %s and %s share some of their bytes, must share all or none",
                tensor_text(given), tensor_text(gradient));
        part->is_repeat = true;
    }
    return STATUS_OK;
}

static status_t prepare(context_t *ctx, part_t *parts, part_t *part)
{
    const tensor_info_t *info = &part->gradient->info;
    const bool is_readable = info->layout == LAYOUT_DENSE || info->format.kind == FORMAT_TAG ||
                             info->format.kind == FORMAT_REGROUPED;
    void *bytes = NULL;
    if (info->dtype != DTYPE_F32 || !is_readable)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "clip_gradients: a gradient is %s, must be f32 in a readable format",
             tensor_text(part->gradient));
    TRY(find_repeat(ctx, parts, part));
    TRY(tensor_writable(ctx, part->gradient, &bytes));
    part->written = part->elements = bytes;
    part->n = (int64_t)(info_bytes(info) / sizeof(float));
    if (is_gapless(info)) return STATUS_OK;
    const tensor_info_t plain = info_dense(info->dtype, info->rank, info->sizes);
    TRY(convert_make(ctx, part->gradient, &plain, CAUSE_GRADIENT, &part->copy));
    TRY(tensor_writable(ctx, part->copy, &bytes));
    part->elements = bytes;
    part->n = info_numel(info);
    return make_seen(ctx, info, &part->seen);
}

/* ---- the norm ----
 *
 * Pieces of PIECE elements are summed in parallel; then their sums are added in order. */

#define PIECE 8192

/* Work that threads divide. Pieces are numbered over all gradients. */
typedef struct work {
    int n;
    const part_t *parts;
    double *sums; /* [pieces] sums of squares; NULL: multiply by `factor` instead */
    float factor;
} work_t;

static int64_t count_pieces(const part_t *part)
{
    return (part->n + PIECE - 1) / PIECE;
}

static void run_piece(const work_t *work, const part_t *part, int64_t piece, int64_t number)
{
    const int64_t first = piece * PIECE, left = part->n - first;
    const int64_t n = left < PIECE ? left : PIECE;
    if (work->sums != NULL)
        work->sums[number] = gradients_sum_squares(n, part->elements + first);
    else if (!part->is_repeat && part->copy == NULL)
        gradients_scale(n, work->factor, part->elements + first, part->elements + first);
}

static void run_pieces(void *user, int64_t first, int64_t last)
{
    const work_t *work = user;
    int64_t begin = 0;
    for (int i = 0; i < work->n && begin < last; i++) {
        const int64_t end = begin + count_pieces(&work->parts[i]);
        for (int64_t p = begin > first ? begin : first; p < end && p < last; p++)
            run_piece(work, &work->parts[i], p - begin, p);
        begin = end;
    }
}

/* ---- multiplication ---- */

/* Multiplies a gradient with gaps. Multiplies each element in memory once, even if several indices
 * refer to it. */
static void multiply_gapped(const part_t *part, float factor)
{
    const tensor_info_t *info = &part->gradient->info;
    int64_t index[TENSOR_MAX_RANK] = {0};
    if (info_numel(info) == 0) return;
    do {
        int64_t at = 0;
        for (int d = 0; d < info->rank; d++) at += index[d] * info->format.strides[d];
        const uint8_t bit = (uint8_t)(1u << (at % 8));
        if (part->seen != NULL && (part->seen[at / 8] & bit) != 0) continue;
        if (part->seen != NULL) part->seen[at / 8] |= bit;
        part->written[at] *= factor;
    } while (shape_next(info->rank, info->sizes, index));
}

/* Multiplies a gradient with gaps. If the factor is NaN, sets the padding of a blocked gradient
 * back to 0. */
static void finish(const part_t *part, float factor)
{
    const tensor_info_t info = convert_inner_info(&part->gradient->info);
    if (part->copy != NULL && !part->is_repeat) multiply_gapped(part, factor);
    if (isnan(factor) && info.format.kind == FORMAT_TAG) convert_zero_padding(&info, part->written);
}

static void clip(context_t *ctx, work_t *work, int64_t n_pieces, double max_norm, double *out_norm)
{
    double sum = 0.0;
    threads_guard_t guard = threads_enter(ctx);
    const int n_threads = threads_for(ctx, n_pieces * PIECE);
    threads_share(n_threads, n_pieces, run_pieces, work);
    for (int64_t p = 0; p < n_pieces; p++) sum += work->sums[p];
    const double norm = sqrt(sum), factor = max_norm / (norm + 1e-6);
    if (!(factor >= 1.0)) {
        work->sums = NULL;
        work->factor = (float)factor;
        threads_share(n_threads, n_pieces, run_pieces, work);
        for (int i = 0; i < work->n; i++) finish(&work->parts[i], work->factor);
    }
    threads_leave(ctx, guard);
    if (out_norm != NULL) *out_norm = norm;
}

status_t clip_gradients(context_t *ctx, int n, tensor_t *const *gradients, double max_norm,
                        double *out_norm)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (n > 0 && gradients == NULL) return context_null(ctx, "clip_gradients", "gradients");
    REQUIRE(ctx, n >= 0 && max_norm >= 0.0,
            "clip_gradients: max_norm %g of %d gradients, neither may be negative", max_norm, n);
    part_t *parts = NULL;
    double *sums = NULL;
    int n_parts = 0;
    int64_t n_pieces = 0;
    status_t status = STATUS_OK;
    TRY(context_get_zeroed(ctx, (size_t)n * sizeof *parts, "gradients", &parts));
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        if (gradients[i] == NULL) continue;
        part_t *part = &parts[n_parts++];
        part->gradient = gradients[i];
        status = prepare(ctx, parts, part);
        n_pieces += count_pieces(part);
    }
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)n_pieces * sizeof *sums, "sums of squares", &sums);
    work_t work = {.n = n_parts, .parts = parts, .sums = sums};
    if (status == STATUS_OK) clip(ctx, &work, n_pieces, max_norm, out_norm);
    for (int i = 0; i < n_parts; i++) {
        tensor_drop(parts[i].copy);
        context_put(ctx, parts[i].seen);
    }
    CONTEXT_PUT(ctx, sums, parts);
    return status;
}
