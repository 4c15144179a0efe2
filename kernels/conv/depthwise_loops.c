/* The loops of depthwise_impl.h, compiled once for each ISA (isa_impl.h).
 *
 * TILE results of a row are summed together, in registers. For each row of the kernel, the elements
 * of x that they need are loaded once for all columns of the kernel. The loops are compiled for
 * each kernel size and stride. */
#include "kernels/conv/depthwise_impl.h"
#include "kernels/vector_impl.h"

#define TILE 7 /* divides the sides of common images: 112, 56, 28, 14, 7 */
#define MAX_KERNEL 7
#define AHEAD (4 * TILE) /* cache lines are prefetched for so many results later */
#define MAX_SPAN ((TILE - 1) * 2 + MAX_KERNEL)

/* A row of results; pointers to the first elements of x and of the weight that it needs. */
typedef struct row {
    const float *x, *weight;
    vector_t bias;
    int64_t source_plane;
    int first, last; /* rows [first, last) of the kernel are inside the image */
    float *out;
} row_t;

/* The loops are compiled for each shape; only `inputs` is not a constant. */
typedef struct shape {
    int kernel, stride;
    int lanes;      /* lanes of a block that belong to one group; at most all lanes */
    int64_t inputs; /* inputs of a group */
    int64_t step;   /* elements from one column of an image to the next */
} shape_t;

/* The columns of x that TILE results of a row read. */
typedef struct columns {
    bool is_inside; /* all of them are inside the image */
    int64_t left, width;
} columns_t;

/* The first lane of each lane's group: 0, 0, 0, 0, 4, 4, 4, 4, 8, ... for groups of 4. */
KERNEL_INLINE vector_u32_t first_of_group(int lanes)
{
    vector_u32_t first = {0};
    for (int i = 0; i < KERNEL_LANES; i++) first[i] = (uint32_t)(i / lanes * lanes);
    return first;
}

/* Adds the products of one row of the kernel with one block of inputs. Input j of each group is
 * copied to all lanes of the group. */
KERNEL_INLINE void add_row(shape_t shape, columns_t columns, const float *x, const float *weight,
                           vector_t *sums)
{
    const int span = (TILE - 1) * shape.stride + shape.kernel;
    vector_u32_t input = first_of_group(shape.lanes);
    for (int j = 0; j < shape.lanes; j++, weight += KERNEL_LANES, input += 1) {
        vector_t source[MAX_SPAN] = {{0}};
        KERNEL_UNROLL
        for (int i = 0; i < span; i++) {
            const int64_t at = columns.left + i;
            const bool is_there = columns.is_inside || (at >= 0 && at < columns.width);
            source[i] = is_there ? vector_load_once(x + i * shape.step) : (vector_t){0};
            if (shape.lanes > 1) source[i] = vector_pick(source[i], input);
        }
        KERNEL_UNROLL
        for (int s = 0; s < shape.kernel; s++) {
            const vector_t w = vector_load(weight + s * shape.inputs * KERNEL_LANES);
            KERNEL_UNROLL
            for (int t = 0; t < TILE; t++) sums[t] += source[t * shape.stride + s] * w;
        }
    }
}

/* Computes at most TILE results: n results from column q on. */
KERNEL_INLINE void sum_tile(const depthwise_t *d, const row_t *row, shape_t shape,
                            columns_t columns, int64_t q, int n)
{
    vector_t sums[TILE];
    float *out = row->out + q * shape.step;
    KERNEL_UNROLL
    for (int t = 0; t < TILE; t++) __builtin_prefetch(out + (AHEAD + t) * shape.step, 1);
    KERNEL_UNROLL
    for (int t = 0; t < TILE; t++) sums[t] = row->bias;
    for (int r = row->first; r < row->last; r++) {
        const float *x = pointer_apart(row->x + (r * d->width + columns.left) * shape.step);
        const float *weight = row->weight + r * shape.kernel * shape.inputs * KERNEL_LANES;
        for (int64_t j = 0; j < shape.inputs; j += shape.lanes) {
            add_row(shape, columns, x, weight + j * KERNEL_LANES, sums);
            x += row->source_plane;
        }
    }
    if (d->is_clamped) {
        const vector_t lower = d->lower - (vector_t){0}, upper = d->upper - (vector_t){0};
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++) sums[t] = vector_clamp(sums[t], lower, upper);
    }
    if (columns.is_inside) {
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++) vector_store(sums[t], out + t * shape.step);
    } else {
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++)
            if (t < n) vector_store(sums[t], out + t * shape.step);
    }
}

KERNEL_INLINE void sum_row(const depthwise_t *d, const row_t *row, shape_t shape)
{
    const int span = (TILE - 1) * shape.stride + shape.kernel;
    for (int64_t q = 0; q < d->out_width; q += TILE) {
        const int64_t rest = d->out_width - q, left = q * shape.stride - d->left;
        const bool is_inside = rest >= TILE && left >= 0 && left + span <= d->width;
        if (is_inside)
            sum_tile(d, row, shape, (columns_t){true, left, d->width}, q, TILE);
        else
            sum_tile(d, row, shape, (columns_t){false, left, d->width}, q,
                     rest < TILE ? (int)rest : TILE);
    }
}

static vector_t load_bias(const depthwise_t *d, int64_t channel)
{
    if (d->bias == NULL) return (vector_t){0};
    return vector_load_some(d->bias + channel, d->n_channels - channel);
}

KERNEL_INLINE void sum_rows(const depthwise_t *d, shape_t shape, const depthwise_part_t *part)
{
    const int64_t n_blocks = (d->n_channels + KERNEL_LANES - 1) / KERNEL_LANES;
    const int64_t source_rows = rows_of_x(&d->rows, d->height);
    const int64_t out_rows = rows_of_out(&d->rows, d->out_height);
    /* blocks of inputs for one block of outputs */
    const int64_t of_group = shape.inputs / shape.lanes;
    const int64_t weights = shape.kernel * shape.kernel * shape.inputs * KERNEL_LANES;
    for (int64_t block = part->first_block; block < part->last_block; block++) {
        const int64_t plane = part->image * n_blocks + block;
        const int64_t source = plane - (of_group > 1 ? block % of_group : 0);
        const float *x = d->is_last ? d->x + part->image * d->height * d->width * shape.step +
                                          block * KERNEL_LANES
                                    : d->x + source * source_rows * d->width * KERNEL_LANES;
        float *out = d->is_last ? d->out + part->image * d->out_height * d->out_width * shape.step +
                                      block * KERNEL_LANES
                                : d->out + plane * out_rows * d->out_width * KERNEL_LANES;
        row_t row = {.weight = d->weight + block * weights,
                     .source_plane = source_rows * d->width * KERNEL_LANES,
                     .bias = load_bias(d, block * KERNEL_LANES)};
        for (int64_t p = part->first; p < part->last; p++) {
            const int64_t top = p * shape.stride - d->top, below = d->height - top;
            const int kernel = shape.kernel;
            row.x = x + top * d->width * shape.step;
            row.first = top < 0 ? (int)(top < -kernel ? kernel : -top) : 0;
            row.last = below < kernel ? (int)(below < 0 ? 0 : below) : kernel;
            row.out = out + p * d->out_width * shape.step;
            sum_row(d, &row, shape);
            if (d->finish != NULL) d->finish(d->user, row.out, d->out_width * KERNEL_LANES);
        }
    }
}

KERNEL_INLINE void choose_group(const depthwise_t *d, int stride, const depthwise_part_t *part)
{
    switch (d->group) {
    case 2: sum_rows(d, (shape_t){3, stride, 2, 2, KERNEL_LANES}, part); break;
    case 4: sum_rows(d, (shape_t){3, stride, 4, 4, KERNEL_LANES}, part); break;
#if KERNEL_LANES > 8
    case 8: sum_rows(d, (shape_t){3, stride, 8, 8, KERNEL_LANES}, part); break;
#endif
    default: sum_rows(d, (shape_t){3, stride, KERNEL_LANES, d->group, KERNEL_LANES}, part); break;
    }
}

KERNEL_INLINE void choose_kernel(const depthwise_t *d, int stride, int64_t step,
                                 const depthwise_part_t *part)
{
    switch (d->kernel) {
    case 3: sum_rows(d, (shape_t){3, stride, 1, 1, step}, part); break;
    case 5: sum_rows(d, (shape_t){5, stride, 1, 1, step}, part); break;
    default: sum_rows(d, (shape_t){7, stride, 1, 1, step}, part); break;
    }
}

void KERNEL_NAME(depthwise)(const depthwise_t *d, const depthwise_part_t *part)
{
    if (d->group > 1 && d->stride == 1)
        choose_group(d, 1, part);
    else if (d->group > 1)
        choose_group(d, 2, part);
    else if (d->is_last && d->stride == 1)
        choose_kernel(d, 1, d->n_channels, part);
    else if (d->is_last)
        choose_kernel(d, 2, d->n_channels, part);
    else if (d->stride == 1)
        choose_kernel(d, 1, KERNEL_LANES, part);
    else
        choose_kernel(d, 2, KERNEL_LANES, part);
}
