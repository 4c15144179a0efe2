#include "kernels/pool/indices_impl.h"

#include <math.h>
#include <string.h>

#include "tensor/threads/threads_impl.h"

#define INLINE static inline __attribute__((always_inline))

/* Returns true if element a of src is larger than element b, or if a is NaN. */
INLINE bool is_larger(dtype_t dtype, const void *src, int64_t a, int64_t b)
{
    switch (dtype) {
    case DTYPE_F32: {
        const float *x = src;
        return x[a] > x[b] || x[a] != x[a];
    }
    case DTYPE_F64: {
        const double *x = src;
        return x[a] > x[b] || x[a] != x[a];
    }
    case DTYPE_F16:
    case DTYPE_BF16: {
        const uint16_t *bits = src;
        const double x = dtype_load(dtype, &bits[a]);
        return x > dtype_load(dtype, &bits[b]) || x != x;
    }
    case DTYPE_S8: return ((const int8_t *)src)[a] > ((const int8_t *)src)[b];
    case DTYPE_S16: return ((const int16_t *)src)[a] > ((const int16_t *)src)[b];
    case DTYPE_S32: return ((const int32_t *)src)[a] > ((const int32_t *)src)[b];
    case DTYPE_S64: return ((const int64_t *)src)[a] > ((const int64_t *)src)[b];
    case DTYPE_U16: return ((const uint16_t *)src)[a] > ((const uint16_t *)src)[b];
    case DTYPE_U32: return ((const uint32_t *)src)[a] > ((const uint32_t *)src)[b];
    case DTYPE_U64: return ((const uint64_t *)src)[a] > ((const uint64_t *)src)[b];
    default: return ((const uint8_t *)src)[a] > ((const uint8_t *)src)[b]; /* u8, bool */
    }
}

INLINE int64_t find_as(dtype_t dtype, const pool_axis_t *axes, const pool_window_t *w,
                       const void *src)
{
    int64_t best = -1;
    POOL_FOR_TAPS(axes, w, at)
    if (best < 0 || is_larger(dtype, src, at, best)) best = at;
    return best;
}

/* Index in the plane of the largest element of a window; -1 if the window is empty. The loop is
 * compiled for each of the common dtypes. */
static int64_t find(dtype_t dtype, const pool_axis_t *axes, const pool_window_t *w, const void *src)
{
    switch (dtype) {
    case DTYPE_F32: return find_as(DTYPE_F32, axes, w, src);
    case DTYPE_F64: return find_as(DTYPE_F64, axes, w, src);
    case DTYPE_F16: return find_as(DTYPE_F16, axes, w, src);
    case DTYPE_BF16: return find_as(DTYPE_BF16, axes, w, src);
    case DTYPE_S8: return find_as(DTYPE_S8, axes, w, src);
    case DTYPE_S64: return find_as(DTYPE_S64, axes, w, src);
    case DTYPE_U8: return find_as(DTYPE_U8, axes, w, src);
    default: return find_as(dtype, axes, w, src);
    }
}

/* Computes rows of results, numbered over all planes. */
static void run_rows(void *user, int64_t first, int64_t last)
{
    const pool_indices_t *run = user;
    const pool_axis_t *axes = run->axes;
    const size_t size = dtype_size(run->dtype);
    const int64_t in_plane = axes[0].in * axes[1].in * axes[2].in;
    const int64_t rows = axes[0].out * axes[1].out, columns = axes[2].out;
    for (int64_t i = first; i < last; i++) {
        const int64_t plane = i / rows, row = i % rows;
        const char *src = (const char *)run->src + (size_t)(plane * in_plane) * size;
        char *values = (char *)run->values + (size_t)(i * columns) * size;
        pool_window_t w[3] = {pool_window(&axes[0], row / axes[1].out),
                              pool_window(&axes[1], row % axes[1].out),
                              {0, 0, 0, 0}};
        for (int64_t q = 0; q < columns; q++) {
            w[2] = pool_window(&axes[2], q);
            const int64_t best = find(run->dtype, axes, w, src);
            const int64_t line = best < 0 ? -1 : best / axes[2].in;
            const int64_t at[3] = {best < 0 ? -1 : line / axes[1].in,
                                   best < 0 ? -1 : line % axes[1].in,
                                   best < 0 ? -1 : best % axes[2].in};
            if (best < 0)
                dtype_store(run->dtype, values + (size_t)q * size, -INFINITY);
            else
                memcpy(values + (size_t)q * size, src + (size_t)best * size, size);
            run->indices[i * columns + q] = pool_index(run->order, axes, plane, at);
        }
    }
}

void pool_indices_run(const pool_indices_t *indices, int n_threads)
{
    const int64_t rows = indices->axes[0].out * indices->axes[1].out;
    threads_share(n_threads, indices->n_planes * rows, run_rows, (void *)(uintptr_t)indices);
}
