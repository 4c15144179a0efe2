/* The largest of each window of a line of windows, all channels of an element at a time. A NaN
 * under a window is its result; -infinity is the result where nothing is under it. */
#ifndef TESSERA_KERNELS_POOL_POOL_IMPL_H
#define TESSERA_KERNELS_POOL_POOL_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

/* The first element under a window in a line, and how many. */
typedef struct pool_span {
    int64_t first, count;
} pool_span_t;

/* One line of results, f32 or bf16:
 *
 *   dst[q][c] = max(d, h, s) src[d * plane_step + h * line_step
 *                                + (columns[q].first + s * column_step) * n_channels + c]
 *
 * over d < n_planes, h < n_lines, s < columns[q].count. Steps between planes and lines are in
 * numbers, that between columns in elements of n_channels numbers. */
typedef struct pool_line {
    bool is_bf16;
    const void *src;
    void *dst;
    int64_t n_channels;
    int64_t n_planes, plane_step, n_lines, line_step, column_step;
    int64_t n_columns;
    const pool_span_t *columns;
} pool_line_t;

/* By an instruction set that isa_has. */
void pool_max_line(isa_t isa, const pool_line_t *line);

/* Loops of one instruction set. */
typedef void pool_loop_t(const pool_line_t *line);
ISA_EXTERN(pool_loop_t, pool);

#endif
