/* Max and average pooling. A maximum is NaN if its window contains a NaN, and -infinity (integers:
 * the lowest number) if the window is empty. */
#ifndef TESSERA_KERNELS_POOL_POOL_IMPL_H
#define TESSERA_KERNELS_POOL_POOL_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "kernels/pool/windows_impl.h"
#include "tensor/dtype.h"

/* ---- maxima of a line of windows; all channels of an element at a time ---- */

/* The elements of a window along its line: index of the first one, and number. */
typedef struct pool_span {
    int64_t first, count;
} pool_span_t;

/* One line of results, in f32 or bf16:
 *
 *   dst[q][c] = max(d, h, s) src[d * plane_step + h * line_step
 *                                + (columns[q].first + s * column_step) * n_channels + c]
 *
 * over d < n_planes, h < n_lines, s < columns[q].count. plane_step and line_step are in numbers;
 * column_step is in elements of n_channels numbers. */
typedef struct pool_line {
    bool is_bf16;
    const void *src;
    void *dst;
    int64_t n_channels;
    int64_t n_planes, plane_step, n_lines, line_step, column_step;
    int64_t n_columns;
    const pool_span_t *columns;
} pool_line_t;

void pool_max_line(isa_t isa, const pool_line_t *line);

/* Adds one tap to the maxima of n windows: dst[q] = max(dst[q], src[q * step]). NaN stays NaN. */
void pool_raise(isa_t isa, int64_t n, int64_t step, const float *src, float *dst);

typedef struct pool_loops {
    void (*max_line)(const pool_line_t *line);
    void (*raise)(int64_t n, int64_t step, const float *src, float *dst);
} pool_loops_t;
ISA_EXTERN(const pool_loops_t, pool);

/* ---- whole tensors ---- */

/* Pools src, of any dtype (for averages: floating), to dst. Padded channels of a block are pooled
 * like others. scratch has pool_scratch bytes. */
void pool_forward(const pool_plan_t *plan, dtype_t dtype, const void *src, void *dst, int n_threads,
                  void *scratch);
size_t pool_scratch(const pool_plan_t *plan, dtype_t dtype);

#endif
