/* The loops of pool_impl.h, compiled once for each ISA (isa_impl.h). The instruction for the
 * maximum of vectors ignores a NaN in its first operand. So NaN is tested separately, with one
 * comparison for two vectors. */
#include <math.h>

#include "kernels/pool/pool_impl.h"
#include "kernels/vector_impl.h"

#define AT_ONCE 4 /* vectors of an element that are computed together */

typedef struct largest {
    vector_t value;
    vector_u32_t is_nan;
} largest_t;

/* Loads the first n_lanes channels of a vector. */
KERNEL_INLINE vector_t load(const pool_line_t *line, int64_t at, int n_lanes)
{
    if (n_lanes == KERNEL_LANES) return vector_load_as(line->src, at, line->is_bf16);
    uint16_t narrow[KERNEL_LANES] = {0};
    if (!line->is_bf16) return vector_load_some((const float *)line->src + at, n_lanes);
    memcpy(narrow, (const uint16_t *)line->src + at, (size_t)n_lanes * sizeof *narrow);
    return vector_load_bf16(narrow);
}

KERNEL_INLINE void store(const pool_line_t *line, vector_t v, int64_t at, int n_lanes)
{
    uint16_t narrow[KERNEL_LANES];
    if (n_lanes == KERNEL_LANES) {
        vector_store_as(v, line->dst, at, line->is_bf16);
    } else if (line->is_bf16) {
        vector_store_as(v, narrow, 0, true);
        memcpy((uint16_t *)line->dst + at, narrow, (size_t)n_lanes * sizeof *narrow);
    } else {
        vector_store_some(v, (float *)line->dst + at, n_lanes);
    }
}

/* Computes the window of column q: maxima of n_vectors vectors, from channel c on. */
KERNEL_INLINE void reduce(const pool_line_t *line, int64_t q, int64_t c, int n_vectors, int n_lanes)
{
    const pool_span_t span = line->columns[q];
    const int64_t step = line->column_step * line->n_channels;
    largest_t largest[AT_ONCE];
    KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++)
        largest[v] = (largest_t){(vector_t){0} - INFINITY, (vector_u32_t){0}};
    for (int64_t d = 0; d < line->n_planes; d++)
        for (int64_t h = 0; h < line->n_lines; h++) {
            int64_t at = d * line->plane_step + h * line->line_step +
                         span.first * line->n_channels + c;
            int64_t left = span.count;
            for (; left >= 2; left -= 2, at += 2 * step) {
                KERNEL_UNROLL
                for (int v = 0; v < n_vectors; v++) {
                    const vector_t a = load(line, at + v * KERNEL_LANES, n_lanes);
                    const vector_t b = load(line, at + step + v * KERNEL_LANES, n_lanes);
                    largest[v].is_nan |= vector_is_nan(a, b);
                    largest[v].value = vector_max(largest[v].value, vector_max(a, b));
                }
            }
            if (left == 0) continue;
            KERNEL_UNROLL
            for (int v = 0; v < n_vectors; v++) {
                const vector_t a = load(line, at + v * KERNEL_LANES, n_lanes);
                largest[v].is_nan |= vector_is_nan(a, a);
                largest[v].value = vector_max(largest[v].value, a);
            }
        }
    KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++) { /* all bits set: NaN */
        const vector_t made = (vector_t)((vector_u32_t)largest[v].value | largest[v].is_nan);
        store(line, made, q * line->n_channels + c + v * KERNEL_LANES, n_lanes);
    }
}

/* Computes the vectors of each element. The last one overlaps the vector before it, or is short. */
KERNEL_INLINE void run(const pool_line_t *line)
{
    const int64_t n = line->n_channels;
    for (int64_t q = 0; q < line->n_columns; q++) {
        int64_t c = 0;
        for (; c + AT_ONCE * KERNEL_LANES <= n; c += AT_ONCE * KERNEL_LANES)
            reduce(line, q, c, AT_ONCE, KERNEL_LANES);
        for (; c + KERNEL_LANES <= n; c += KERNEL_LANES) reduce(line, q, c, 1, KERNEL_LANES);
        if (c < n && n >= KERNEL_LANES)
            reduce(line, q, n - KERNEL_LANES, 1, KERNEL_LANES);
        else if (n == KERNEL_LANES / 2)
            reduce(line, q, 0, 1, KERNEL_LANES / 2);
        else if (c < n)
            reduce(line, q, c, 1, (int)(n - c));
    }
}

/* The loop is compiled for each dtype. */
static void max_line(const pool_line_t *line)
{
    pool_line_t own = *line;
    own.is_bf16 = false;
    if (!line->is_bf16) {
        run(&own);
        return;
    }
    own.is_bf16 = true;
    run(&own);
}

KERNEL_INLINE void raise_by(int64_t n, int64_t step, const float *restrict src, float *restrict dst)
{
    for (int64_t q = 0; q < n; q++) {
        const float x = src[q * step];
        dst[q] = ((x > dst[q]) | (x != x)) ? x : dst[q];
    }
}

/* The loop is compiled for the common steps 1 and 2. */
static void raise_row(int64_t n, int64_t step, const float *src, float *dst)
{
    if (step == 1)
        raise_by(n, 1, src, dst);
    else if (step == 2)
        raise_by(n, 2, src, dst);
    else
        raise_by(n, step, src, dst);
}

const pool_loops_t KERNEL_NAME(pool) = {max_line, raise_row};
