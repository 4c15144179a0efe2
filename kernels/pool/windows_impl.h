/* Windows of pooling: which elements of the input they contain, and how a tensor is divided into
 * planes.
 *
 * The folder kernels/pool contains the loops over such windows: maxima, averages, indices of
 * maxima, and the gradients of these. */
#ifndef TESSERA_KERNELS_POOL_WINDOWS_IMPL_H
#define TESSERA_KERNELS_POOL_WINDOWS_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/rows_impl.h"

/* One spatial dimension. Kernel 0 means adaptive windows. */
typedef struct pool_axis {
    int64_t in, out, kernel, stride, dilation;
    int64_t padding, padded; /* padding: before x; padded: end of the padding after x */
} pool_axis_t;

/* The input indices of one window along one axis: first, first + step, ... */
typedef struct pool_window {
    int64_t first, count, step;
    int64_t length; /* count with padding, for the divisor */
} pool_window_t;

/* Divides a tensor: n_outer times in_plane elements of x, and out_plane elements of the result. An
 * "element" is `block` adjacent channels; one channel in plain tensors. */
typedef struct pool_plan {
    pool_axis_t axes[3];
    bool is_average, counts_padding;
    int64_t n_outer, block, in_plane, out_plane;
    image_rows_t rows; /* those to compute, see rows_impl.h; images only */
} pool_plan_t;

/* n / step. Avoids the division for common steps, because it would take most of the time. */
static inline int64_t pool_steps(int64_t n, int64_t step)
{
    return step == 1 ? n : n / step;
}

/* The window of result q. */
static inline pool_window_t pool_window(const pool_axis_t *axis, int64_t q)
{
    if (axis->kernel == 0) {
        if (axis->out == 0) return (pool_window_t){0, 0, 1, 0};
        int64_t first = q * axis->in / axis->out;
        int64_t end = ((q + 1) * axis->in + axis->out - 1) / axis->out;
        return (pool_window_t){first, end - first, 1, end - first};
    }
    int64_t start = q * axis->stride - axis->padding, step = axis->dilation;
    int64_t skipped = start < 0 ? pool_steps(step - 1 - start, step) : 0;
    int64_t end = start < axis->in ? pool_steps(axis->in - 1 - start, step) + 1 : 0;
    if (end > axis->kernel) end = axis->kernel;
    int64_t length = pool_steps(axis->padded - start + step - 1, step);
    if (length > axis->kernel) length = axis->kernel;
    return (pool_window_t){start + skipped * step, end > skipped ? end - skipped : 0, step, length};
}

/* Divisor of an average over a window with three axes; 1 if the window is empty. */
static inline double pool_divisor(const pool_window_t *windows, bool counts_padding)
{
    double divisor = 1.0;
    for (int i = 0; i < 3; i++)
        divisor *= (double)(counts_padding ? windows[i].length : windows[i].count);
    return divisor > 0.0 ? divisor : 1.0;
}

/* Index in the plane of the first element of row r of plane t of the window. */
static inline int64_t pool_row_index(const pool_axis_t *axes, const pool_window_t *w, int64_t t,
                                     int64_t r)
{
    const int64_t d = w[0].first + t * w[0].step, h = w[1].first + r * w[1].step;
    return axes[2].in * (axes[1].in * d + h) + w[2].first;
}

/* A loop over the elements of a window; `at` is an element's index in the plane. */
#define POOL_FOR_TAPS(axes, w, at)                                                                 \
    for (int64_t t_ = 0; t_ < (w)[0].count; t_++)                                                  \
        for (int64_t r_ = 0; r_ < (w)[1].count; r_++)                                              \
            for (int64_t s_ = 0, at = pool_row_index(axes, w, t_, r_); s_ < (w)[2].count;          \
                 s_++, at += (w)[2].step)

#endif
