#include "kernels/pool/gradient_impl.h"

#include <math.h>
#include <string.h>

#include "tensor/threads/threads_impl.h"

#define LANES POOL_GRADIENT_LANES

static const pool_gradient_loops_t *const loops[ISA_COUNT] = ISA_TABLE(pool_gradient);

/* Sets the windows of a row of results, except along the last axis. False if all are empty. */
static bool find_row(const pool_plan_t *plan, int64_t row, pool_window_t *out_windows)
{
    const int64_t rows = plan->axes[1].out;
    out_windows[0] = pool_window(&plan->axes[0], row / rows);
    out_windows[1] = pool_window(&plan->axes[1], row % rows);
    return out_windows[0].count > 0 && out_windows[1].count > 0;
}

/* Sets the window of result `column` along the last axis. Returns false if it is empty. */
static bool find_column(const pool_plan_t *plan, int64_t column, pool_window_t *out_windows)
{
    out_windows[2] = pool_window(&plan->axes[2], column);
    return out_windows[2].count > 0;
}

static void clear(const pool_plan_t *plan, const pool_lanes_t *lanes)
{
    const size_t bytes = (size_t)lanes->n * sizeof *lanes->dst;
    if (lanes->n == lanes->step)
        memset(lanes->dst, 0, (size_t)plan->in_plane * bytes);
    else
        for (int64_t i = 0; i < plan->in_plane; i++) memset(lanes->dst + i * lanes->step, 0, bytes);
}

/* Adds the gradients of all windows one after another in one thread, because windows may
 * overlap. */
static void run_lanes(const pool_plan_t *plan, const pool_gradient_loops_t *own,
                      const pool_lanes_t *lanes)
{
    const int64_t rows = plan->axes[0].out * plan->axes[1].out, columns = plan->axes[2].out;
    clear(plan, lanes);
    for (int64_t row = 0; row < rows; row++) {
        pool_window_t w[3];
        if (!find_row(plan, row, w)) continue;
        for (int64_t column = 0; column < columns; column++) {
            if (!find_column(plan, column, w)) continue;
            if (plan->is_average)
                own->average(plan, w, row * columns + column, lanes);
            else
                own->largest(plan, w, row * columns + column, lanes);
        }
    }
}

/* Casts n channels of each element of a plane. */
static void cast_plane(int64_t n_elements, int64_t n, dtype_t src_dtype, const char *src,
                       int64_t src_step, dtype_t dst_dtype, char *dst, int64_t dst_step)
{
    const int64_t src_size = src_step * (int64_t)dtype_size(src_dtype);
    const int64_t dst_size = dst_step * (int64_t)dtype_size(dst_dtype);
    if (src_step == n && dst_step == n) {
        dtype_cast(n_elements * n, src_dtype, src, 1, dst_dtype, dst, 1);
        return;
    }
    for (int64_t i = 0; i < n_elements; i++)
        dtype_cast(n, src_dtype, src + i * src_size, 1, dst_dtype, dst + i * dst_size, 1);
}

typedef struct run {
    const pool_gradient_t *gradient;
    const pool_gradient_loops_t *loops;
    int64_t n_parts; /* number of parts of a block, LANES channels each */
    int64_t floats;  /* scratch floats of each thread */
    float *scratch;
} run_t;

/* Does the same as run_lanes for n channels of bf16 or f16, using copies in f32. */
static void run_narrow(const run_t *run, int64_t n, const char *src, const char *grad, char *dst,
                       float *scratch)
{
    const pool_plan_t *plan = run->gradient->plan;
    const dtype_t dtype = run->gradient->dtype;
    float *wide_dst = scratch + plan->in_plane * n, *wide_grad = wide_dst + plan->in_plane * n;
    const pool_lanes_t lanes = {
        .n = n, .step = n, .src = scratch, .grad = wide_grad, .dst = wide_dst};
    if (!plan->is_average)
        cast_plane(plan->in_plane, n, dtype, src, plan->block, DTYPE_F32, (char *)scratch, n);
    cast_plane(plan->out_plane, n, dtype, grad, plan->block, DTYPE_F32, (char *)wide_grad, n);
    run_lanes(plan, run->loops, &lanes);
    cast_plane(plan->in_plane, n, DTYPE_F32, (const char *)wide_dst, n, dtype, dst, plan->block);
}

/* Computes one channel of f64. */
static void run_double(const pool_plan_t *plan, const double *src, const double *grad, double *dst)
{
    const int64_t step = plan->block, columns = plan->axes[2].out;
    for (int64_t i = 0; i < plan->in_plane; i++) dst[i * step] = 0.0;
    for (int64_t q = 0; q < plan->out_plane; q++) {
        pool_window_t w[3];
        if (!find_row(plan, q / columns, w) || !find_column(plan, q % columns, w)) continue;
        const double divisor = plan->is_average ? pool_divisor(w, plan->counts_padding) : 1.0;
        const double part = grad[q * step] / divisor;
        int64_t largest = pool_row_index(plan->axes, w, 0, 0);
        POOL_FOR_TAPS(plan->axes, w, at)
        {
            if (plan->is_average)
                dst[at * step] += part;
            else if (src[at * step] > src[largest * step] || isnan(src[at * step]))
                largest = at;
        }
        if (!plan->is_average) dst[largest * step] += part;
    }
}

/* Computes at most LANES channels of a block, from channel `lane` on. */
static void run_part(const run_t *run, int64_t outer, int64_t lane, float *scratch)
{
    const pool_gradient_t *gradient = run->gradient;
    const pool_plan_t *plan = gradient->plan;
    const int64_t size = (int64_t)dtype_size(gradient->dtype), block = plan->block;
    const int64_t n = block - lane < LANES ? block - lane : LANES;
    const int64_t from = (outer * plan->in_plane * block + lane) * size;
    const void *grad = (const char *)gradient->grad +
                       (outer * plan->out_plane * block + lane) * size;
    const void *src = plan->is_average ? NULL : (const char *)gradient->src + from;
    void *dst = (char *)gradient->out + from;
    if (gradient->dtype == DTYPE_F32) {
        const pool_lanes_t lanes = {.n = n, .step = block, .src = src, .grad = grad, .dst = dst};
        run_lanes(plan, run->loops, &lanes);
    } else if (gradient->dtype == DTYPE_F64) {
        for (int64_t i = 0; i < n; i++)
            run_double(plan, plan->is_average ? NULL : (const double *)src + i,
                       (const double *)grad + i, (double *)dst + i);
    } else {
        run_narrow(run, n, src, grad, dst, scratch);
    }
}

static void run_parts(void *user, int64_t first, int64_t last, int member)
{
    const run_t *run = user;
    for (int64_t i = first; i < last; i++)
        run_part(run, i / run->n_parts, i % run->n_parts * LANES,
                 run->floats == 0 ? NULL : run->scratch + member * run->floats);
}

int64_t pool_gradient_scratch(const pool_plan_t *plan, dtype_t dtype)
{
    if (dtype == DTYPE_F32 || dtype == DTYPE_F64) return 0;
    return (2 * plan->in_plane + plan->out_plane) * (plan->block < LANES ? plan->block : LANES);
}

void pool_gradient_run(const pool_gradient_t *gradient, isa_t isa, int n_threads, float *scratch)
{
    run_t run = {.gradient = gradient,
                 .loops = loops[isa],
                 .n_parts = (gradient->plan->block + LANES - 1) / LANES,
                 .floats = pool_gradient_scratch(gradient->plan, gradient->dtype),
                 .scratch = scratch};
    threads_share_members(n_threads, gradient->plan->n_outer * run.n_parts, run_parts, &run);
}
