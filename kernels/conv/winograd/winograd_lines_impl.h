/* Winograd's transforms in one dimension, for vectors of KERNEL_LANES floats.
 *
 * A polynomial of degree side - 1 is determined by its values at zero, at pairs of points +-p, and
 * by its leading coefficient ("at infinity"): sides of 4, 6 and 8 have 1, 2 and 3 pairs. The two
 * points of a pair differ only in the sign of the odd terms, so each transform computes the even
 * and odd parts once.
 *
 * With stride 2, samples 0, 2, 4, ... are transformed in this way: 3 or 5 samples with 1 or 2 pairs
 * and infinity, without zero. The samples between them are appended unchanged; in a row or a
 * column, all of them are multiplied by the last element of the weight.
 *
 * Short tiles lack the last point or points. No other point depends on the missing sample. */
#include "kernels/conv/winograd/winograd_impl.h"
#include "kernels/conv/winograd/winograd_points_impl.h"
#include "kernels/vector_impl.h"

/* The sum of coefficients[k] * from[2 * k] for k < n. The last coefficient is 1 and is not read. */
KERNEL_INLINE vector_t evaluate(const float *coefficients, int n, const vector_t *from)
{
    vector_t sum = from[2 * (n - 1)];
    KERNEL_UNROLL
    for (int k = 0; k < n - 1; k++) sum += coefficients[k] * from[2 * k];
    return sum;
}

/* Number of points at zero: 1, with stride 2 none; and of last points, which short tiles lack. */
KERNEL_INLINE int count_zeros(int stride)
{
    return stride == 1 ? 1 : 0;
}

KERNEL_INLINE bool is_last(int n_pairs, int stride, int point)
{
    const int infinity = 2 * n_pairs + count_zeros(stride);
    return point == infinity || (stride == 2 && point == 4 * n_pairs);
}

/* Transform of sources: out[i] is the polynomial without its root i, applied to `from`. */
KERNEL_INLINE void transform_source(int n_pairs, int n_zeros, bool is_long, const vector_t *from,
                                    vector_t *out)
{
    const winograd_points_t *points = &winograd_points[n_pairs - 1];
    if (n_zeros > 0) out[0] = evaluate(points->all, n_pairs + 1, from);
    from += n_zeros;
    out += n_zeros;
    KERNEL_UNROLL
    for (int p = 0; p < n_pairs; p++) {
        const vector_t even = evaluate(points->others[p], n_pairs, from + 1);
        const vector_t odd = points->point[p] * evaluate(points->others[p], n_pairs, from);
        out[2 * p] = even + odd;
        out[2 * p + 1] = even - odd;
    }
    out[2 * n_pairs] = is_long ? evaluate(points->all, n_pairs + 1, from) : (vector_t){0};
}

KERNEL_INLINE void transform_line(int n_pairs, int stride, bool is_long, const vector_t *from,
                                  vector_t *out)
{
    const int n = 2 * n_pairs + 1;
    vector_t outer[WINOGRAD_MAX_SIDE];
    if (stride == 1) {
        transform_source(n_pairs, 1, is_long, from, out);
        return;
    }
    KERNEL_UNROLL
    for (int i = 0; i < n; i++) outer[i] = from[2 * i];
    transform_source(n_pairs, 0, is_long, outer, out);
    KERNEL_UNROLL
    for (int i = 0; i < n - 1; i++) out[n + i] = from[2 * i + 1];
}

/* Transform of results: out[i] = sum(p) point^i from[p]; with stride 2 plus the other samples. */
KERNEL_INLINE void transform_result(int n_pairs, int tile, int stride, bool is_long,
                                    const vector_t *from, vector_t *out)
{
    const winograd_points_t *points = &winograd_points[n_pairs - 1];
    const int n_zeros = count_zeros(stride), infinity = n_zeros + 2 * n_pairs;
    vector_t even[3], odd[3];
    KERNEL_UNROLL
    for (int p = 0; p < n_pairs; p++) {
        const vector_t *pair = from + n_zeros + 2 * p;
        even[p] = pair[0] + pair[1];
        odd[p] = pair[0] - pair[1];
    }
    KERNEL_UNROLL
    for (int i = 0; i < tile; i++) {
        const vector_t *terms = i % 2 == 0 ? even : odd;
        vector_t sum = points->power[0][i] * terms[0];
        KERNEL_UNROLL
        for (int p = 1; p < n_pairs; p++) sum += points->power[p][i] * terms[p];
        if (i == 0 && n_zeros > 0) sum += from[0];
        if (stride == 2 && i < tile - 1) sum += from[infinity + 1 + i];
        out[i] = sum;
    }
    if (is_long) out[tile - 1] += from[infinity];
    if (is_long && stride == 2) out[tile - 1] += from[infinity + tile];
}
