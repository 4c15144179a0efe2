/* The loops of gradient_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/pool/gradient_impl.h"
#include "kernels/vector_impl.h"

#include <math.h>

#define LANES POOL_GRADIENT_LANES

static void average_lanes(const pool_plan_t *plan, const pool_window_t *w, int64_t q,
                          const pool_lanes_t *lanes)
{
    float part[LANES];
    const int64_t n = lanes->n;
    const float *grad = lanes->grad + q * lanes->step;
    const float scale = (float)(1.0 / pool_divisor(w, plan->counts_padding));
    for (int64_t i = 0; i < n; i++) part[i] = grad[i] * scale;
    POOL_FOR_TAPS(plan->axes, w, at)
    {
        float *line = lanes->dst + at * lanes->step;
        for (int64_t i = 0; i < n; i++) line[i] += part[i];
    }
}

/* Adds the gradients of maxima for channels [lane, lanes->n). */
static void add_rest(const pool_plan_t *plan, const pool_window_t *w, int64_t q,
                     const pool_lanes_t *lanes, int64_t lane)
{
    float value[LANES];
    int64_t largest[LANES];
    const int64_t n = lanes->n - lane, first = pool_row_index(plan->axes, w, 0, 0);
    const float *src = lanes->src + lane, *grad = lanes->grad + q * lanes->step + lane;
    float *dst = lanes->dst + lane;
    for (int64_t i = 0; i < n; i++) {
        value[i] = -INFINITY;
        largest[i] = first;
    }
    POOL_FOR_TAPS(plan->axes, w, at)
    {
        const float *line = src + at * lanes->step;
        for (int64_t i = 0; i < n; i++) {
            const float x = line[i];
            const bool is_larger = (x > value[i]) | (x != x);
            value[i] = is_larger ? x : value[i];
            largest[i] = is_larger ? at : largest[i];
        }
    }
    for (int64_t i = 0; i < n; i++) dst[largest[i] * lanes->step + i] += grad[i];
}

KERNEL_INLINE vector_u32_t choose(vector_u32_t is_a, vector_u32_t a, vector_u32_t b)
{
    return (is_a & a) | (~is_a & b);
}

/* Adds the gradients for n_vectors vectors of channels. Maxima and indices stay in registers. */
KERNEL_INLINE void add_vectors(const pool_plan_t *plan, const pool_window_t *w, int64_t q,
                               const pool_lanes_t *lanes, int64_t lane, int n_vectors)
{
    const int64_t step = lanes->step;
    const float *src = lanes->src + lane, *grad = lanes->grad + q * step + lane;
    float *dst = lanes->dst + lane;
    vector_t value[2];
    vector_u32_t largest[2];
    KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++) {
        value[v] = (vector_t){0} - INFINITY;
        largest[v] = (vector_u32_t){0} + (uint32_t)pool_row_index(plan->axes, w, 0, 0);
    }
    POOL_FOR_TAPS(plan->axes, w, at)
    {
        const vector_u32_t here = (vector_u32_t){0} + (uint32_t)at;
        KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++) {
            const vector_t x = vector_load(src + at * step + v * KERNEL_LANES);
            const vector_u32_t is_larger = (vector_u32_t)(x > value[v]) | vector_is_nan(x, x);
            value[v] = (vector_t)choose(is_larger, (vector_u32_t)x, (vector_u32_t)value[v]);
            largest[v] = choose(is_larger, here, largest[v]);
        }
    }
    KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++)
        for (int i = 0; i < KERNEL_LANES; i++) {
            const int64_t at = (int64_t)largest[v][i] * step + v * KERNEL_LANES + i;
            dst[at] += grad[v * KERNEL_LANES + i];
        }
}

/* Vectors hold indices of 32 bits, so larger planes use the slow loop. */
static void largest_lanes(const pool_plan_t *plan, const pool_window_t *w, int64_t q,
                          const pool_lanes_t *lanes)
{
    int64_t lane = 0;
    if (plan->in_plane <= UINT32_MAX) {
        for (; lane + 2 * KERNEL_LANES <= lanes->n; lane += 2 * KERNEL_LANES)
            add_vectors(plan, w, q, lanes, lane, 2);
        for (; lane + KERNEL_LANES <= lanes->n; lane += KERNEL_LANES)
            add_vectors(plan, w, q, lanes, lane, 1);
    }
    if (lane < lanes->n) add_rest(plan, w, q, lanes, lane);
}

const pool_gradient_loops_t KERNEL_NAME(pool_gradient) = {average_lanes, largest_lanes};
