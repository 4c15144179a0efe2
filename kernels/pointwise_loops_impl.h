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
    int64_t at; /* in out and addend, whose blocks lie as those of x */
    vector_t bias[BLOCKS];
    const char *ahead; /* weights that are fetched, so many bytes with each channel */
    int64_t ahead_step;
    const float *next; /* x of the tile that comes next, which is fetched too */
} tile_t;

/* Each step for all sums, so that they stay in registers. */
KERNEL_INLINE void leave(const pointwise_t *p, const tile_t *tile, int n_rows, int n_blocks,
                         vector_t (*sums)[BLOCKS])
{
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) {
        const int64_t at = tile->at + k * tile->plane;
        float *out = p->out + at;
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) sums[r][k] += tile->bias[k];
        if (p->addend != NULL) {
            const float *addend = p->addend + at;
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) sums[r][k] += vector_load(addend + r * KERNEL_LANES);
        }
        if (p->is_clamped) {
            const vector_t lower = p->lower - (vector_t){0}, upper = p->upper - (vector_t){0};
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++)
                sums[r][k] = vector_min(vector_max(sums[r][k], lower), upper);
        }
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) vector_store(sums[r][k], out + r * KERNEL_LANES);
    }
    if (p->finish == NULL) return;
    for (int k = 0; k < n_blocks; k++)
        p->finish(p->user, p->out + tile->at + k * tile->plane, n_rows * KERNEL_LANES);
}

/* What is read or written at the end. */
KERNEL_INLINE void fetch_results(const pointwise_t *p, const tile_t *tile, int n_rows, int n_blocks)
{
    for (int k = 0; k < n_blocks; k++) {
        const int64_t at = tile->at + k * tile->plane;
        const bool is_apart = p->addend != NULL && p->addend != p->out;
        KERNEL_ROLL
        for (int r = 0; r < n_rows; r++) {
            __builtin_prefetch(p->out + at + r * KERNEL_LANES, 1);
            if (is_apart) __builtin_prefetch(p->addend + at + r * KERNEL_LANES);
        }
    }
}

KERNEL_INLINE void multiply(const pointwise_t *p, const tile_t *tile, int n_rows, int n_blocks)
{
    vector_t sums[POINTWISE_ROWS][BLOCKS];
    fetch_results(p, tile, n_rows, n_blocks);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) sums[r][k] = (vector_t){0};
    const float *weight = tile->weight;
    const char *ahead = tile->ahead;
    for (int64_t b = 0; b < tile->n_source_blocks; b++) {
        const float *x = tile->x + b * tile->plane, *next = tile->next + b * tile->plane;
        for (int c = 0; c < KERNEL_LANES; c++, x++, weight += KERNEL_LANES) {
            vector_t weights[BLOCKS];
            __builtin_prefetch(ahead, 0, 2);
            __builtin_prefetch(next + c * KERNEL_LANES, 0, 2);
            ahead += tile->ahead_step;
            KERNEL_UNROLL
            for (int k = 0; k < n_blocks; k++) weights[k] = vector_load(weight + k * tile->weights);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
            for (int k = 0; k < n_blocks; k++) sums[r][k] += x[r * KERNEL_LANES] * weights[k];
        }
    }
    leave(p, tile, n_rows, n_blocks, sums);
}

/* Kernels of all numbers of results; and of the last group where it has but one block. */
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (n_blocks < BLOCKS)                                                                     \
            multiply(p, tile, n, 1);                                                               \
        else                                                                                       \
            multiply(p, tile, n, BLOCKS);                                                          \
        break;

static void multiply_tile(const pointwise_t *p, const tile_t *tile, int64_t n_rows, int n_blocks)
{
    switch (n_rows) {
        KERNEL_UP_TO(POINTWISE_ROWS, ROWS)
    default: break;
    }
}

static vector_t load_bias(const pointwise_t *p, int64_t output)
{
    if (p->bias == NULL) return (vector_t){0};
    return vector_load_some(p->bias + output, p->n_outputs - output);
}

typedef struct tile_at {
    int64_t image, begin, n_rows;
} tile_at_t;

static tile_at_t find_tile(const pointwise_images_t *images, int64_t tile)
{
    const int64_t image = tile / images->tiles_of_image, of_image = tile % images->tiles_of_image;
    const int64_t begin = images->plane * of_image / images->tiles_of_image;
    const int64_t end = images->plane * (of_image + 1) / images->tiles_of_image;
    return (tile_at_t){image, begin, end - begin};
}

static void multiply_group(const pointwise_images_t *images, const pointwise_part_t *part,
                           int64_t group, const float *ahead)
{
    const pointwise_t *p = images->pointwise;
    const int64_t n_out_blocks = (p->n_outputs + KERNEL_LANES - 1) / KERNEL_LANES;
    const int64_t n_tiles = part->last - part->first, first_block = group * BLOCKS;
    const int n_blocks = n_out_blocks - first_block < BLOCKS ? 1 : BLOCKS;
    tile_t tile = {.plane = images->plane * KERNEL_LANES,
                   .n_source_blocks = (p->n_inputs + KERNEL_LANES - 1) / KERNEL_LANES,
                   .ahead = (const char *)ahead,
                   .ahead_step = WIDTH * (int64_t)sizeof(float) / n_tiles + 1};
    tile.weights = tile.n_source_blocks * KERNEL_LANES * KERNEL_LANES;
    tile.weight = p->weight + first_block * tile.weights;
    for (int k = 0; k < n_blocks; k++)
        tile.bias[k] = load_bias(p, (first_block + k) * KERNEL_LANES);
    tile_at_t at = find_tile(images, part->first);
    for (int64_t t = part->first; t < part->last; t++) {
        const tile_at_t next = t + 1 < part->last ? find_tile(images, t + 1) : at;
        tile.x = images->x + at.image * tile.n_source_blocks * tile.plane + at.begin * KERNEL_LANES;
        tile.next = images->x + next.image * tile.n_source_blocks * tile.plane +
                    next.begin * KERNEL_LANES;
        tile.at = (at.image * n_out_blocks + first_block) * tile.plane + at.begin * KERNEL_LANES;
        multiply_tile(p, &tile, at.n_rows, n_blocks);
        tile.ahead += tile.ahead_step * tile.n_source_blocks * KERNEL_LANES;
        at = next;
    }
}

static void multiply_part(const pointwise_images_t *images, const pointwise_part_t *part)
{
    const pointwise_t *p = images->pointwise;
    const int64_t n_channels = (p->n_inputs + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
    for (int64_t group = part->first_group; group < part->last_group; group++) {
        const int64_t next = group + 1 < part->last_group ? group + 1 : part->first_group;
        multiply_group(images, part, group, p->weight + next * n_channels * WIDTH);
    }
}

static void copy_rows(const pointwise_t *p, int64_t first, int64_t last, float *to)
{
    const int64_t out_height = (p->height + p->stride - 1) / p->stride;
    const int64_t out_width = (p->width + p->stride - 1) / p->stride;
    for (int64_t row = first; row < last; row++) {
        const int64_t plane = row / out_height, y = row % out_height * p->stride;
        const float *from = p->x + (plane * p->height + y) * p->width * KERNEL_LANES;
        float *out = to + row * out_width * KERNEL_LANES;
        for (int64_t i = 0; i < out_width; i++)
            vector_store(vector_load(from + i * p->stride * KERNEL_LANES), out + i * KERNEL_LANES);
    }
}

const pointwise_loops_t POINTWISE_LOOPS = {POINTWISE_ROWS, multiply_part, copy_rows};
