/* The loops of depthwise_impl.h for vectors of KERNEL_LANES floats; the including file defines that
 * and DEPTHWISE_ROWS, the name of its depthwise_rows_t.
 *
 * TILE results of a row are summed up in registers at once. A row of the source under them is
 * loaded once for all columns of the kernel. Kernel and stride are constants of each copy. */
#include "kernels/depthwise_impl.h"
#include "kernels/vector_impl.h"

#define TILE 7 /* divides the sides of common pictures: 112, 56, 28, 14, 7 */
#define MAX_KERNEL 5
#define MAX_SPAN ((TILE - 1) * 2 + MAX_KERNEL)

/* A row of results: where its sources and its weights begin. */
typedef struct row {
    const float *x, *weight;
    vector_t bias;
    int first, last; /* rows of the kernel that lie on the source: [first, last) */
    float *out;
} row_t;

/* n results from q on, TILE or fewer; is_inside: all columns lie on the source. */
KERNEL_INLINE void sum_tile(const depthwise_t *d, const row_t *row, int kernel, int stride,
                            bool is_inside, int64_t q, int n)
{
    const int span = (TILE - 1) * stride + kernel;
    const int64_t left = q * stride - d->left;
    vector_t sums[TILE], source[MAX_SPAN];
    KERNEL_UNROLL
    for (int t = 0; t < TILE; t++) sums[t] = row->bias;
    for (int r = row->first; r < row->last; r++) {
        const float *x = row->x + (r * d->width + left) * KERNEL_LANES;
        const float *weight = row->weight + r * kernel * KERNEL_LANES;
        KERNEL_UNROLL
        for (int i = 0; i < span; i++) {
            const vector_t zero = {0};
            const bool is_there = is_inside || (left + i >= 0 && left + i < d->width);
            source[i] = is_there ? vector_load(x + i * KERNEL_LANES) : zero;
        }
        KERNEL_UNROLL
        for (int s = 0; s < kernel; s++) {
            const vector_t w = vector_load(weight + s * KERNEL_LANES);
            KERNEL_UNROLL
            for (int t = 0; t < TILE; t++) sums[t] += source[t * stride + s] * w;
        }
    }
    if (d->is_clamped) {
        const vector_t lower = d->lower - (vector_t){0}, upper = d->upper - (vector_t){0};
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++) sums[t] = vector_min(vector_max(sums[t], lower), upper);
    }
    float *out = row->out + q * KERNEL_LANES;
    if (is_inside) {
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++) vector_store(sums[t], out + t * KERNEL_LANES);
    } else {
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++)
            if (t < n) vector_store(sums[t], out + t * KERNEL_LANES);
    }
}

KERNEL_INLINE void sum_row(const depthwise_t *d, const row_t *row, int kernel, int stride)
{
    for (int64_t q = 0; q < d->out_width; q += TILE) {
        const int64_t rest = d->out_width - q, left = q * stride - d->left;
        const bool is_inside = rest >= TILE && left >= 0 &&
                               left + (TILE - 1) * stride + kernel <= d->width;
        if (is_inside)
            sum_tile(d, row, kernel, stride, true, q, TILE);
        else
            sum_tile(d, row, kernel, stride, false, q, rest < TILE ? (int)rest : TILE);
    }
}

static vector_t load_bias(const depthwise_t *d, int64_t channel)
{
    if (d->bias == NULL) return (vector_t){0};
    return vector_load_some(d->bias + channel, d->n_channels - channel);
}

KERNEL_INLINE void sum_rows(const depthwise_t *d, int kernel, int stride,
                            const depthwise_part_t *part)
{
    const int64_t n_blocks = (d->n_channels + KERNEL_LANES - 1) / KERNEL_LANES;
    for (int64_t block = part->first_block; block < part->last_block; block++) {
        const int64_t plane = part->image * n_blocks + block;
        row_t row = {.weight = d->weight + block * kernel * kernel * KERNEL_LANES,
                     .bias = load_bias(d, block * KERNEL_LANES)};
        for (int64_t p = part->first; p < part->last; p++) {
            const int64_t top = p * stride - d->top, below = d->height - top;
            row.x = d->x + (plane * d->height + top) * d->width * KERNEL_LANES;
            row.first = top < 0 ? (int)(top < -kernel ? kernel : -top) : 0;
            row.last = below < kernel ? (int)(below < 0 ? 0 : below) : kernel;
            row.out = d->out + (plane * d->out_height + p) * d->out_width * KERNEL_LANES;
            sum_row(d, &row, kernel, stride);
            if (d->finish != NULL) d->finish(d->user, row.out, d->out_width * KERNEL_LANES);
        }
    }
}

static void rows(const depthwise_t *d, const depthwise_part_t *part)
{
    if (d->kernel == 3 && d->stride == 1)
        sum_rows(d, 3, 1, part);
    else if (d->kernel == 3)
        sum_rows(d, 3, 2, part);
    else if (d->stride == 1)
        sum_rows(d, 5, 1, part);
    else
        sum_rows(d, 5, 2, part);
}

depthwise_rows_t *const DEPTHWISE_ROWS = rows;
