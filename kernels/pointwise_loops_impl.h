/* The loops of pointwise_impl.h for vectors of KERNEL_LANES floats. The including file defines,
 * besides that,
 *
 *   POINTWISE_LOOPS  the name of its pointwise_loops_t
 *   POINTWISE_ROWS   results by two vectors of outputs whose sums stay in registers
 *
 * Weights of the group of outputs that comes next are fetched while this one is multiplied, each
 * tile its part: where weights are many, as at the end of a ResNet, they come from far. */
#include "kernels/pointwise_impl.h"
#include "kernels/vector_impl.h"

#define BLOCKS POINTWISE_BLOCKS
#define WIDTH (BLOCKS * KERNEL_LANES)

/* Results side by side, by a group of outputs. */
typedef struct tile {
    const float *x; /* of the first result; blocks of channels lie `plane` apart */
    int64_t plane;
    const float *weight; /* blocks of outputs lie `weights` apart */
    int64_t weights;
    int64_t n_source_blocks;
    int64_t at, out_plane; /* in out and addend: as x */
    vector_t bias[BLOCKS];
    const char *ahead; /* what is fetched, so many bytes with each channel */
    int64_t ahead_step;
} tile_t;

KERNEL_INLINE void leave(const pointwise_t *p, const tile_t *tile, int n_rows, int n_blocks,
                         vector_t (*sums)[BLOCKS])
{
    const vector_t lower = p->lower - (vector_t){0}, upper = p->upper - (vector_t){0};
    for (int k = 0; k < n_blocks; k++) {
        const int64_t at = tile->at + k * tile->out_plane;
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) {
            vector_t v = sums[r][k] + tile->bias[k];
            if (p->addend != NULL) v += vector_load(p->addend + at + r * KERNEL_LANES);
            if (p->is_clamped) v = vector_min(vector_max(v, lower), upper);
            vector_store(v, p->out + at + r * KERNEL_LANES);
        }
        if (p->finish != NULL) p->finish(p->user, p->out + at, n_rows * KERNEL_LANES);
    }
}

/* What is read or written at the end. */
KERNEL_INLINE void fetch_results(const pointwise_t *p, const tile_t *tile, int n_rows, int n_blocks)
{
    for (int k = 0; k < n_blocks; k++)
        for (int r = 0; r < n_rows; r++) {
            const int64_t at = tile->at + k * tile->out_plane + r * KERNEL_LANES;
            if (p->addend != NULL && p->addend != p->out) __builtin_prefetch(p->addend + at);
            __builtin_prefetch(p->out + at, 1);
        }
}

KERNEL_INLINE void multiply(const pointwise_t *p, const tile_t *tile, int n_rows, int n_blocks,
                            int stride)
{
    vector_t sums[POINTWISE_ROWS][BLOCKS];
    fetch_results(p, tile, n_rows, n_blocks);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) sums[r][k] = (vector_t){0};
    const float *weight = tile->weight;
    const char *ahead = tile->ahead;
    for (int64_t b = 0; b < tile->n_source_blocks; b++) {
        const float *x = tile->x + b * tile->plane;
        for (int c = 0; c < KERNEL_LANES; c++, x++, weight += KERNEL_LANES) {
            vector_t weights[BLOCKS];
            __builtin_prefetch(ahead, 0, 2);
            ahead += tile->ahead_step;
            KERNEL_UNROLL
            for (int k = 0; k < n_blocks; k++) weights[k] = vector_load(weight + k * tile->weights);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
            for (int k = 0; k < n_blocks; k++)
                sums[r][k] += x[r * stride * KERNEL_LANES] * weights[k];
        }
    }
    leave(p, tile, n_rows, n_blocks, sums);
}

/* Kernels of all numbers of results, for each stride; and of the last group where it has but one
 * block of outputs. */
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (n_blocks < BLOCKS)                                                                     \
            multiply(p, tile, n, 1, stride);                                                       \
        else                                                                                       \
            multiply(p, tile, n, BLOCKS, stride);                                                  \
        break

KERNEL_INLINE void multiply_rows(const pointwise_t *p, const tile_t *tile, int64_t n_rows,
                                 int n_blocks, int stride)
{
    switch (n_rows) {
        ROWS(1);
        ROWS(2);
#if POINTWISE_ROWS > 3
        ROWS(3);
        ROWS(4);
        ROWS(5);
#endif
#if POINTWISE_ROWS > 6
        ROWS(6);
        ROWS(7);
        ROWS(8);
        ROWS(9);
        ROWS(10);
        ROWS(11);
        ROWS(12);
        ROWS(13);
#endif
        ROWS(POINTWISE_ROWS);
    default: break;
    }
}

static void multiply_tile(const pointwise_t *p, const tile_t *tile, int64_t n_rows, int n_blocks)
{
    if (p->stride == 1)
        multiply_rows(p, tile, n_rows, n_blocks, 1);
    else
        multiply_rows(p, tile, n_rows, n_blocks, 2);
}

static vector_t load_bias(const pointwise_t *p, int64_t output)
{
    float bias[KERNEL_LANES] = {0};
    const int64_t rest = p->n_outputs - output;
    for (int i = 0; p->bias != NULL && i < KERNEL_LANES && i < rest; i++)
        bias[i] = p->bias[output + i];
    return vector_load(bias);
}

static void multiply_group(const pointwise_lines_t *lines, const pointwise_part_t *part,
                           int64_t group, const float *next)
{
    const pointwise_t *p = lines->pointwise;
    const int64_t out_height = (p->height + p->stride - 1) / p->stride;
    const int64_t out_width = (p->width + p->stride - 1) / p->stride;
    const int64_t n_out_blocks = (p->n_outputs + KERNEL_LANES - 1) / KERNEL_LANES;
    const int64_t n_tiles = part->last - part->first, first_block = group * BLOCKS;
    const int n_blocks = n_out_blocks - first_block < BLOCKS ? 1 : BLOCKS;
    tile_t tile = {.plane = p->height * p->width * KERNEL_LANES,
                   .n_source_blocks = (p->n_inputs + KERNEL_LANES - 1) / KERNEL_LANES,
                   .out_plane = out_height * out_width * KERNEL_LANES,
                   .ahead = (const char *)next,
                   .ahead_step = WIDTH * (int64_t)sizeof(float) / n_tiles + 1};
    tile.weights = tile.n_source_blocks * KERNEL_LANES * KERNEL_LANES;
    tile.weight = p->weight + first_block * tile.weights;
    for (int k = 0; k < n_blocks; k++)
        tile.bias[k] = load_bias(p, (first_block + k) * KERNEL_LANES);
    for (int64_t t = part->first; t < part->last; t++) {
        const int64_t line = t / lines->tiles_of_line, of_line = t % lines->tiles_of_line;
        const int64_t begin = lines->length * of_line / lines->tiles_of_line;
        const int64_t end = lines->length * (of_line + 1) / lines->tiles_of_line;
        const int64_t image = line / lines->n_in_image, y = line % lines->n_in_image;
        tile.x = p->x + image * tile.n_source_blocks * tile.plane +
                 (y * p->width + begin) * p->stride * KERNEL_LANES;
        tile.at = (image * n_out_blocks + first_block) * tile.out_plane +
                  (y * out_width + begin) * KERNEL_LANES;
        multiply_tile(p, &tile, end - begin, n_blocks);
        tile.ahead += tile.ahead_step * tile.n_source_blocks * KERNEL_LANES;
    }
}

static void multiply_part(const pointwise_lines_t *lines, const pointwise_part_t *part)
{
    const pointwise_t *p = lines->pointwise;
    const int64_t n_channels = (p->n_inputs + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
    for (int64_t group = part->first_group; group < part->last_group; group++) {
        const int64_t next = group + 1 < part->last_group ? group + 1 : part->first_group;
        multiply_group(lines, part, group, p->weight + next * n_channels * WIDTH);
    }
}

const pointwise_loops_t POINTWISE_LOOPS = {POINTWISE_ROWS, multiply_part};
