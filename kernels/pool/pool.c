#include "kernels/pool/pool_impl.h"

#include <math.h>
#include <string.h>

#include "kernels/sums_impl.h"
#include "tensor/threads/threads_impl.h"

#define LANES SUMS_LANES
#define FEW_ROWS 64

static const pool_loops_t *const loops[ISA_COUNT] = ISA_TABLE(pool);

void pool_max_line(isa_t isa, const pool_line_t *line)
{
    loops[isa]->max_line(line);
}

void pool_raise(isa_t isa, int64_t n, int64_t step, const float *src, float *dst)
{
    loops[isa]->raise(n, step, src, dst);
}

/* True if pool_max_line computes the maxima: for f32 and bf16, except for f32 rows that row_f32
 * computes. */
static bool runs_lines(const pool_plan_t *plan, dtype_t dtype)
{
    const bool has_row = plan->block == 1 && plan->axes[2].kernel != 0;
    return !plan->is_average && ((dtype == DTYPE_F32 && !has_row) || dtype == DTYPE_BF16);
}

size_t pool_scratch(const pool_plan_t *plan, dtype_t dtype)
{
    return runs_lines(plan, dtype) ? (size_t)plan->axes[2].out * sizeof(pool_span_t) : 0;
}

/* ---- channels of one window, rows of windows ---- */

static void average_f32(const pool_plan_t *plan, const pool_window_t *w, const float *src,
                        int64_t n, float *dst)
{
    float value[LANES] = {0.0f};
    double sum[LANES] = {0.0};
    const double divisor = pool_divisor(w, plan->counts_padding);
    const float scale = (float)(1.0 / divisor);
    const int64_t block = plan->block, line_step = plan->axes[2].in * block;
    if (w[0].count * w[1].count * w[2].count <= SUMS_RUN) {
        POOL_FOR_TAPS(plan->axes, w, at)
        for (int64_t i = 0; i < n; i++) value[i] += src[at * block + i];
        for (int64_t i = 0; i < n; i++) dst[i] = value[i] * scale;
        return;
    }
    /* Adjacent complete rows of a window are treated as one row. */
    const bool is_whole = w[1].step == 1 && w[2].step == 1 && w[2].count == plan->axes[2].in;
    const int64_t n_lines = is_whole ? 1 : w[1].count, n_joined = is_whole ? w[1].count : 1;
    for (int64_t i = 0; i < w[0].count * n_lines; i++) {
        const int64_t d = w[0].first + i / n_lines * w[0].step;
        const int64_t h = w[1].first + i % n_lines * w[1].step;
        const float *line = src + (d * plan->axes[1].in + h) * line_step + w[2].first * block;
        sums_add_rows(line, n_joined * w[2].count, w[2].step * block, n, sum);
    }
    for (int64_t i = 0; i < n; i++) dst[i] = (float)(sum[i] / divisor);
}

/* Computes a row of results of a plain tensor, tap by tap. */
static void row_f32(const pool_plan_t *plan, pool_window_t *w, const float *src, float *dst)
{
    const pool_axis_t *axis = &plan->axes[2];
    const bool average = plan->is_average;
    for (int64_t q = 0; q < axis->out; q++) dst[q] = average ? 0.0f : -INFINITY;
    for (int64_t t = 0; t < w[0].count; t++)
        for (int64_t r = 0; r < w[1].count; r++) {
            int64_t d = w[0].first + t * w[0].step, h = w[1].first + r * w[1].step;
            const float *line = src + (d * plan->axes[1].in + h) * axis->in;
            for (int64_t s = 0; s < axis->kernel; s++) {
                const int64_t offset = s * axis->dilation - axis->padding, step = axis->stride;
                int64_t q = offset < 0 ? (step - 1 - offset) / step : 0;
                int64_t end = offset < axis->in ? (axis->in - 1 - offset) / step + 1 : 0;
                if (end > axis->out) end = axis->out;
                if (q < end && !average)
                    pool_raise(isa_best(), end - q, step, line + q * step + offset, dst + q);
                for (; average && q < end; q++) dst[q] += line[q * step + offset];
            }
        }
    for (int64_t q = 0; average && q < axis->out; q++) {
        w[2] = pool_window(axis, q);
        dst[q] = (float)((double)dst[q] / pool_divisor(w, plan->counts_padding));
    }
}

/* For maxima of s8, which are computed as u8: flipping the sign bit maps the order of s8 to that of
 * u8. */
#define SIGN_BIT 0x80

static uint8_t larger_byte(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

static void lanes_bytes(const pool_plan_t *plan, const pool_window_t *w, uint8_t flip,
                        const uint8_t *src, int64_t n, uint8_t *dst)
{
    uint8_t largest[LANES] = {0};
    POOL_FOR_TAPS(plan->axes, w, at)
    for (int64_t i = 0; i < n; i++)
        largest[i] = larger_byte(src[at * plan->block + i] ^ flip, largest[i]);
    for (int64_t i = 0; i < n; i++) dst[i] = largest[i] ^ flip;
}

static void row_bytes(const pool_plan_t *plan, const pool_window_t *w, uint8_t flip,
                      const uint8_t *src, uint8_t *dst)
{
    const pool_axis_t *axis = &plan->axes[2];
    memset(dst, 0, (size_t)axis->out);
    for (int64_t i = 0; i < w[0].count * w[1].count * axis->kernel; i++) {
        const int64_t rows = i / axis->kernel, s = i % axis->kernel;
        const int64_t d = w[0].first + rows / w[1].count * w[0].step;
        const int64_t h = w[1].first + rows % w[1].count * w[1].step;
        const uint8_t *line = src + (d * plan->axes[1].in + h) * axis->in;
        const int64_t offset = s * axis->dilation - axis->padding, step = axis->stride;
        int64_t q = offset < 0 ? (step - 1 - offset) / step : 0;
        int64_t end = offset < axis->in ? (axis->in - 1 - offset) / step + 1 : 0;
        if (end > axis->out) end = axis->out;
        for (; q < end; q++) dst[q] = larger_byte(line[q * step + offset] ^ flip, dst[q]);
    }
    for (int64_t q = 0; q < axis->out; q++) dst[q] ^= flip;
}

/* Computes one channel of any dtype. Stores a pointer to the largest element instead of its value,
 * because a double cannot hold every s64. */
static void pool_any(const pool_plan_t *plan, const pool_window_t *w, dtype_t dtype,
                     const char *src, char *dst)
{
    const int64_t size = (int64_t)dtype_size(dtype), step = plan->block * size;
    const bool is_floating = dtype_is_floating(dtype);
    const char *best = NULL;
    double sum = 0.0;
    POOL_FOR_TAPS(plan->axes, w, at)
    {
        const char *element = src + at * step;
        if (plan->is_average) {
            sum += dtype_load(dtype, element);
        } else if (best == NULL) {
            best = element;
        } else if (is_floating) {
            double x = dtype_load(dtype, element);
            if (x > dtype_load(dtype, best) || isnan(x)) best = element;
        } else if (dtype_load_integer(dtype, element) > dtype_load_integer(dtype, best)) {
            best = element;
        }
    }
    if (plan->is_average)
        dtype_store(dtype, dst, sum / pool_divisor(w, plan->counts_padding));
    else if (best != NULL)
        memcpy(dst, best, (size_t)size);
    else
        dtype_store(dtype, dst, -INFINITY);
}

static void run_line(const pool_plan_t *plan, const pool_window_t *w, dtype_t dtype,
                     const pool_span_t *columns, const char *src, char *dst)
{
    const pool_axis_t *axes = plan->axes;
    const int64_t size = (int64_t)dtype_size(dtype), line = axes[2].in * plan->block;
    const int64_t first = (w[0].first * axes[1].in + w[1].first) * line;
    const pool_line_t windows = {.is_bf16 = dtype == DTYPE_BF16,
                                 .src = src + first * size,
                                 .dst = dst,
                                 .n_channels = plan->block,
                                 .n_planes = w[0].count,
                                 .plane_step = w[0].step * axes[1].in * line,
                                 .n_lines = w[1].count,
                                 .line_step = w[1].step * line,
                                 .column_step = axes[2].kernel == 0 ? 1 : axes[2].dilation,
                                 .n_columns = axes[2].out,
                                 .columns = columns};
    pool_max_line(isa_best(), &windows);
}

/* Computes a row of results at once, or returns false if there is no loop for it. The loop for
 * averages also visits taps in the padding, and adds in float, so it is used for small windows
 * only. */
static bool pool_row(const pool_plan_t *plan, pool_window_t *w, dtype_t dtype,
                     const pool_span_t *columns, const void *src, void *dst)
{
    if (columns != NULL) {
        run_line(plan, w, dtype, columns, src, dst);
        return true;
    }
    const pool_axis_t *axis = &plan->axes[2];
    if (plan->block != 1 || axis->kernel == 0 || axis->kernel > axis->in) return false;
    if (plan->is_average && w[0].count * w[1].count * axis->kernel > SUMS_RUN) return false;
    if (dtype == DTYPE_F32)
        row_f32(plan, w, src, dst);
    else if (dtype == DTYPE_S8 && !plan->is_average)
        row_bytes(plan, w, SIGN_BIT, src, dst);
    else if (dtype == DTYPE_U8 && !plan->is_average)
        row_bytes(plan, w, 0, src, dst);
    else
        return false;
    return true;
}

/* Computes channels [first, end) of one result. */
static void run_window(const pool_plan_t *plan, const pool_window_t *w, dtype_t dtype,
                       int64_t first, int64_t end, const char *src, char *dst)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    const bool is_byte = (dtype == DTYPE_S8 || dtype == DTYPE_U8) && !plan->is_average;
    const bool is_f32 = dtype == DTYPE_F32 && plan->is_average;
    const int64_t step = is_f32 || is_byte ? LANES : 1;
    for (int64_t lane = first; lane < end; lane += step) {
        const void *from = src + lane * size;
        void *to = dst + lane * size;
        const int64_t n = end - lane < LANES ? end - lane : LANES;
        if (is_f32)
            average_f32(plan, w, from, n, to);
        else if (is_byte)
            lanes_bytes(plan, w, dtype == DTYPE_S8 ? SIGN_BIT : 0, from, n, to);
        else
            pool_any(plan, w, dtype, from, to);
    }
}

/* ---- whole tensors ---- */

typedef struct run {
    const pool_plan_t *plan;
    dtype_t dtype;
    const char *src;
    char *dst;
    const pool_span_t *spans; /* for pool_max_line, or NULL */
    int64_t n_parts, width;   /* parts of a row of results, channels in a part */
    int64_t n_rows, in_plane, out_plane;
} run_t;

/* Part i is part i % n_parts of row i / n_parts. */
static void run_parts(void *user, int64_t begin, int64_t last)
{
    const run_t *run = user;
    const pool_plan_t *plan = run->plan;
    const int64_t size = (int64_t)dtype_size(run->dtype), block = plan->block;
    const int64_t columns = plan->axes[2].out, n_rows = run->n_rows;
    for (int64_t i = begin; i < last; i++) {
        const int64_t outer = i / run->n_parts / n_rows;
        const int64_t row = plan->rows.first + i / run->n_parts % n_rows;
        const int64_t first = i % run->n_parts * run->width;
        const int64_t end = block - first < run->width ? block : first + run->width;
        const char *src = run->src + outer * run->in_plane * block * size;
        char *dst = run->dst + (outer * run->out_plane + row * columns) * block * size;
        pool_window_t w[3] = {pool_window(&plan->axes[0], row / plan->axes[1].out),
                              pool_window(&plan->axes[1], row % plan->axes[1].out),
                              {0, 0, 0, 0}};
        if (pool_row(plan, w, run->dtype, run->spans, src, dst)) continue;
        for (int64_t q = 0; q < columns; q++) {
            w[2] = pool_window(&plan->axes[2], q);
            run_window(plan, w, run->dtype, first, end, src, dst + q * block * size);
        }
    }
}

void pool_forward(const pool_plan_t *plan, dtype_t dtype, const void *src, void *dst, int n_threads,
                  void *scratch)
{
    pool_span_t *spans = runs_lines(plan, dtype) ? scratch : NULL;
    for (int64_t q = 0; spans != NULL && q < plan->axes[2].out; q++) {
        const pool_window_t w = pool_window(&plan->axes[2], q);
        spans[q] = (pool_span_t){w.first, w.count};
    }
    const pool_axis_t *axes = plan->axes;
    const int64_t of_plane = axes[0].out * (rows_end(&plan->rows, axes[1].out) - plan->rows.first);
    const int64_t n_rows = plan->n_outer * of_plane;
    /* For few rows of many channels, such as a mean over an image, channels are divided, too. */
    const bool is_divided = spans == NULL && n_rows < FEW_ROWS && plan->block > LANES;
    run_t run = {.plan = plan,
                 .dtype = dtype,
                 .src = src,
                 .dst = dst,
                 .spans = spans,
                 .n_rows = of_plane,
                 .in_plane = axes[0].in * rows_of_x(&plan->rows, axes[1].in) * axes[2].in,
                 .out_plane = axes[0].out * rows_of_out(&plan->rows, axes[1].out) * axes[2].out,
                 .width = is_divided ? LANES : plan->block};
    run.n_parts = (plan->block + run.width - 1) / run.width;
    threads_share(n_threads, n_rows * run.n_parts, run_parts, &run);
}
