#include "kernels/conv/taps_impl.h"

#include <string.h>

#include "tensor/threads/threads_impl.h"

#define STRIP_BYTES ((size_t)192 * 1024) /* a copy of this size stays in the second-level cache */
#define LANES 16                         /* lanes of the widest vector, which may read past a row */

static bool multiply(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out) && *out <= INT32_MAX;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Counts the floats of the copy for `strip` rows of the result. */
static bool count_copy(const taps_t *t, int64_t strip, taps_shape_t *s, int64_t *out_n)
{
    s->strip = strip;
    if (!multiply(strip - 1, t->stride[1], &s->rows)) return false;
    s->rows += (t->kernel[1] - 1) * t->dilation[1] + 1;
    return s->rows <= INT32_MAX && multiply(s->phases, s->width, out_n) &&
           multiply(*out_n, s->rows, out_n) && multiply(*out_n, t->kernel[0], out_n) &&
           multiply(*out_n, t->group_channels, out_n);
}

bool taps_describe(const taps_t *t, taps_shape_t *s)
{
    int64_t reach = 0, n = 0;
    *s = (taps_shape_t){0};
    s->phases = t->is_blocked && t->stride[2] <= TAPS_MOST_STEP ? 1 : t->stride[2];
    s->step = t->stride[2] / s->phases;
    if (!multiply(t->kernel[1] - 1, t->dilation[1], &reach) ||
        !multiply(t->kernel[2] - 1, t->dilation[2], &reach))
        return false;
    s->width = reach / s->phases + round_up(t->out[2], LANES) * s->step;
    if (!multiply(t->group_channels * t->kernel[0], t->kernel[1], &s->n_taps) ||
        !multiply(s->n_taps, t->kernel[2], &s->n_taps) || !count_copy(t, 1, s, &n) ||
        (size_t)n * sizeof(float) > TAPS_MOST_BYTES)
        return false;
    for (int64_t strip = t->out[1]; strip > 1; strip = (strip + 1) / 2) {
        taps_shape_t larger = *s;
        int64_t n_larger = 0;
        if (!count_copy(t, strip, &larger, &n_larger)) continue;
        if ((size_t)n_larger * sizeof(float) > STRIP_BYTES) continue;
        *s = larger;
        n = n_larger;
        break;
    }
    s->n_strips = (t->out[1] + s->strip - 1) / s->strip;
    /* with space for reads past the end */
    s->bytes = ((size_t)n * sizeof(float) + 127) & ~(size_t)63;
    s->offset_bytes = ((size_t)s->n_taps * sizeof(int32_t) + 63) & ~(size_t)63;
    return true;
}

size_t taps_scratch(const taps_t *t, int n_threads)
{
    taps_shape_t shape;
    if (!taps_describe(t, &shape)) return 0;
    return shape.offset_bytes + shape.bytes * (size_t)n_threads;
}

static taps_row_loop_t *const loops[ISA_COUNT] = ISA_TABLE(taps);
static taps_row_loop_t *const block_loops[ISA_COUNT] = ISA_TABLE(taps_blocks);

typedef struct run {
    const taps_t *taps;
    const taps_shape_t *shape;
    taps_row_loop_t *loop;
    int32_t *offsets;
    char *copies;
    int64_t n;
    int64_t lanes;    /* outputs that are adjacent in the result */
    int64_t of_group; /* outputs of a group, or blocks of them */
} run_t;

/* Finds the offset of each tap, in the order of the weight's elements. */
static void find_offsets(const run_t *run)
{
    const taps_t *t = run->taps;
    const taps_shape_t *s = run->shape;
    const int64_t n_channels = t->group_channels, window = s->n_taps / n_channels;
    for (int64_t c = 0; c < n_channels; c++)
        for (int64_t i = 0; i < window; i++) {
            const int64_t of_row = i / t->kernel[2];
            const int64_t plane = c * t->kernel[0] + of_row / t->kernel[1];
            const int64_t row = plane * s->rows + of_row % t->kernel[1] * t->dilation[1];
            const int64_t at = i % t->kernel[2] * t->dilation[2];
            run->offsets[t->is_blocked ? i * n_channels + c : c * window + i] =
                (int32_t)((row * s->phases + at % s->phases) * s->width + at / s->phases);
        }
}

/* Copies a row of x, phase by phase (taps_shape_t). x is NULL for a row outside the image. */
static void copy_row(const taps_t *t, const taps_shape_t *s, const float *x, float *to)
{
    const int64_t stride = s->phases, width = s->width, padding = t->padding[2];
    if (x == NULL) {
        memset(to, 0, (size_t)(s->phases * width) * sizeof *to);
        return;
    }
    for (int64_t phase = 0; phase < s->phases; phase++, to += width) {
        /* x[i * stride + phase - padding] for i in [begin, end) */
        int64_t begin = padding > phase ? (padding - phase + stride - 1) / stride : 0;
        int64_t end = (t->in[2] + padding - phase + stride - 1) / stride;
        if (begin > width) begin = width;
        if (end > width) end = width;
        if (end < begin) end = begin;
        const float *from = x + begin * stride + phase - padding;
        memset(to, 0, (size_t)begin * sizeof *to);
        if (stride == 1)
            memcpy(to + begin, from, (size_t)(end - begin) * sizeof *to);
        else
            for (int64_t i = begin; i < end; i++, from += stride) to[i] = *from;
        memset(to + end, 0, (size_t)(width - end) * sizeof *to);
    }
}

/* Copies the rows of x that `strip` rows of the result read, from row p of depth d on. */
static void copy_strip(const run_t *run, int64_t n, int64_t group, int64_t d, int64_t p,
                       float *copy)
{
    const taps_t *t = run->taps;
    const taps_shape_t *s = run->shape;
    const int64_t plane = t->in[0] * rows_of_x(&t->rows, t->in[1]) * t->in[2];
    const float *x = t->x + (n * t->groups + group) * t->group_channels * plane;
    for (int64_t c = 0; c < t->group_channels; c++, x += plane)
        for (int64_t depth = 0; depth < t->kernel[0]; depth++)
            for (int64_t r = 0; r < s->rows; r++, copy += s->phases * s->width) {
                const int64_t at_d = d * t->stride[0] + depth * t->dilation[0] - t->padding[0];
                const int64_t at_h = p * t->stride[1] + r - t->padding[1];
                const bool is_inside = at_d >= 0 && at_d < t->in[0] && at_h >= 0 && at_h < t->in[1];
                copy_row(t, s, is_inside ? x + (at_d * t->in[1] + at_h) * t->in[2] : NULL, copy);
            }
}

static void run_strip(const run_t *run, int64_t item, float *copy)
{
    const taps_t *t = run->taps;
    const taps_shape_t *s = run->shape;
    const int64_t p = t->rows.first + item % s->n_strips * s->strip,
                  d = item / s->n_strips % t->out[0];
    const int64_t of_image = item / s->n_strips / t->out[0];
    const int64_t group = of_image % t->groups, n = of_image / t->groups;
    const int64_t end = rows_end(&t->rows, t->out[1]);
    const int64_t last = p + s->strip < end ? p + s->strip : end;
    const int64_t out_plane = t->out[0] * rows_of_out(&t->rows, t->out[1]) * t->out[2];
    taps_row_t row = {.taps = t,
                      .offsets = run->offsets,
                      .n_taps = s->n_taps,
                      .first = group * run->of_group,
                      .last = (group + 1) * run->of_group,
                      .x = copy,
                      .step = s->step,
                      .out_step = out_plane * run->lanes};
    row.out = t->out_values + (n * t->groups * run->of_group + row.first) * row.out_step +
              (d * t->out[1] + p) * t->out[2] * run->lanes;
    copy_strip(run, n, group, d, p, copy);
    for (int64_t r = p; r < last; r++, row.out += t->out[2] * run->lanes) {
        run->loop(&row);
        row.x += t->stride[1] * s->phases * s->width;
    }
}

static void run_strips(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    float *copy = (float *)(void *)(run->copies + (size_t)member * run->shape->bytes);
    for (int64_t i = first; i < last; i++) run_strip(run, i, copy);
}

/* Makes the strips shorter if there are too few for all threads. */
static void divide(const taps_t *t, int n_threads, taps_shape_t *s)
{
    const int64_t n_rows = rows_end(&t->rows, t->out[1]) - t->rows.first;
    const int64_t n_planes = t->n_images * t->groups * t->out[0];
    const int64_t n_wanted = (n_threads + n_planes - 1) / n_planes;
    taps_shape_t shorter = *s;
    int64_t n = 0;
    s->n_strips = (n_rows + s->strip - 1) / s->strip;
    if (s->n_strips >= n_wanted) return;
    if (!count_copy(t, (n_rows + n_wanted - 1) / n_wanted, &shorter, &n)) return;
    shorter.n_strips = (n_rows + shorter.strip - 1) / shorter.strip;
    *s = shorter;
}

void taps_run(const taps_t *taps, isa_t isa, int n_threads, void *scratch)
{
    taps_shape_t shape;
    if (!taps_describe(taps, &shape)) return;
    divide(taps, n_threads, &shape);
    run_t run = {.taps = taps,
                 .shape = &shape,
                 .loop = taps->is_blocked ? block_loops[isa] : loops[isa],
                 .offsets = scratch,
                 .copies = (char *)scratch + shape.offset_bytes,
                 .lanes = taps->is_blocked ? isa_lanes(isa) : 1};
    run.of_group = (taps->group_outputs + run.lanes - 1) / run.lanes;
    run.n = taps->n_images * taps->groups * taps->out[0] * shape.n_strips;
    find_offsets(&run);
    threads_share_members(n_threads, run.n, run_strips, &run);
}
