/* The loops of pointwise_impl.h, compiled once for each ISA (isa_impl.h). Sums of KERNEL_ROWS
 * results, for two vectors of outputs, stay in registers.
 *
 * While one group of outputs is multiplied, each tile prefetches its share of the next group's
 * weights, because large weights, as at the end of a ResNet, are not in the caches.
 *
 * Each block of channels is divided among the threads, in ranges of cache lines. A cache line that
 * one core reads and another writes costs both of them time, and the hardware prefetcher reads past
 * the end of a range. So a thread computes the first half of its tiles forwards, and the rest
 * backwards, from its last tile to the middle. Then the prefetcher reads only lines of the thread's
 * own range. */
#include "kernels/conv/pointwise_impl.h"
#include "kernels/tiles_impl.h"
#include "kernels/vector_impl.h"

#define BLOCKS POINTWISE_BLOCKS
#define WIDTH (BLOCKS * KERNEL_LANES)

/* A tile: adjacent results of one group of outputs. */
typedef struct tile {
    const float *x; /* x of the first result; source_plane is the stride of blocks */
    int64_t source_plane;
    int64_t plane;       /* stride of blocks of outputs */
    const float *weight; /* stride of blocks of outputs is `weights` */
    int64_t weights;
    int64_t n_source_blocks;
    int64_t at;          /* offset in out and addend */
    const float *addend; /* addend to prefetch, or NULL */
    int64_t line, step;  /* results to prefetch: offset of the first cache line, and stride */
    vector_t bias[BLOCKS];
    const char *ahead; /* weights to prefetch, ahead_step bytes with each channel */
    int64_t ahead_step;
    const float *next; /* x of the next tile; next_rows lines are prefetched */
    int64_t next_plane, next_rows, next_step;
} tile_t;

/* Each loop processes all sums, so that these stay in registers. */
KERNEL_INLINE void clamp(const pointwise_t *p, int n_rows, vector_t *sums)
{
    const vector_t lower = p->lower - (vector_t){0}, upper = p->upper - (vector_t){0};
    if (!p->is_clamped) return;
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) sums[r] = vector_clamp(sums[r], lower, upper);
}

KERNEL_INLINE void leave(const pointwise_t *p, int64_t at, int n_rows, vector_t *sums)
{
    float *const out = p->out + at;
    if (p->addend != NULL) {
        const float *const addend = p->addend + at;
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) sums[r] += vector_load(addend + r * KERNEL_LANES);
    }
    clamp(p, n_rows, sums);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) vector_store(sums[r], out + r * KERNEL_LANES);
    if (p->finish != NULL) p->finish(p->user, out, n_rows * KERNEL_LANES);
}

/* Sums of a tile: for complete blocks of outputs, and for half of the block after them. */
typedef struct sums {
    vector_t whole[BLOCKS][KERNEL_ROWS];
    vector_half_t half[KERNEL_ROWS];
} sums_t;

/* Adds the products of one block of channels, and prefetches data. The call for the first block
 * also prefetches the lines of the results. */
KERNEL_INLINE void add_block(const pointwise_t *p, const tile_t *tile, int64_t block, bool is_first,
                             int n_rows, int n_whole, bool has_half, sums_t *sums)
{
    const int64_t first = block * KERNEL_LANES, left = p->n_inputs - first;
    const int64_t n = left < KERNEL_LANES ? left : KERNEL_LANES; /* without padding */
    const float *x = tile->x + block * tile->source_plane;
    const float *next = tile->next + block * tile->next_plane;
    const float *weight = tile->weight + first * KERNEL_LANES;
    const char *ahead = tile->ahead + first * tile->ahead_step;
    int64_t line = tile->line;
    for (int64_t c = 0; c < n; c++, x++, weight += KERNEL_LANES) {
        vector_t weights[BLOCKS];
        vector_half_t half = {0};
        __builtin_prefetch(ahead, 0, 2);
        ahead += tile->ahead_step;
        if (c < tile->next_rows) __builtin_prefetch(next, 0, 2);
        next += tile->next_step;
        if (is_first && c < n_rows) {
            KERNEL_UNROLL
            for (int k = 0; k < n_whole + has_half; k++) {
                __builtin_prefetch(p->out + k * tile->plane + line, 1);
                if (tile->addend != NULL) __builtin_prefetch(tile->addend + k * tile->plane + line);
            }
            line += tile->step;
        }
        KERNEL_UNROLL
        for (int k = 0; k < n_whole; k++) weights[k] = vector_load(weight + k * tile->weights);
        if (has_half) half = vector_first_half(vector_load(weight + n_whole * tile->weights));
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) {
            const float *again = vector_again(x + r * KERNEL_LANES, r);
            KERNEL_UNROLL
            for (int k = 0; k < n_whole; k++)
                sums->whole[k][r] += *(k == 0 ? x + r * KERNEL_LANES : again) * weights[k];
            if (has_half) sums->half[r] += *again * half;
        }
    }
}

KERNEL_INLINE void multiply(const pointwise_t *p, const tile_t *tile, int n_rows, int n_whole,
                            bool has_half)
{
    sums_t sums;
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        KERNEL_UNROLL
        for (int k = 0; k < n_whole; k++) sums.whole[k][r] = tile->bias[k];
        if (has_half) sums.half[r] = vector_first_half(tile->bias[BLOCKS - 1]); /* the last */
    }
    add_block(p, tile, 0, true, n_rows, n_whole, has_half, &sums);
    for (int64_t b = 1; b < tile->n_source_blocks; b++)
        add_block(p, tile, b, false, n_rows, n_whole, has_half, &sums);
    KERNEL_UNROLL
    for (int k = 0; k < n_whole; k++) leave(p, tile->at + k * tile->plane, n_rows, sums.whole[k]);
    if (!has_half) return;
    vector_t widened[KERNEL_ROWS];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) widened[r] = vector_of_half(sums.half[r]);
    leave(p, tile->at + n_whole * tile->plane, n_rows, widened);
}

/* Calls the copy of the loop for the number of results, and for a last group of 1.5 or 1 blocks. */
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (n_blocks < BLOCKS)                                                                     \
            multiply(p, tile, n, 1, false);                                                        \
        else if (is_half)                                                                          \
            multiply(p, tile, n, 1, true);                                                         \
        else                                                                                       \
            multiply(p, tile, n, BLOCKS, false);                                                   \
        break;

static void multiply_tile(const pointwise_t *p, const tile_t *tile, int64_t n_rows, int n_blocks,
                          bool is_half)
{
    switch (n_rows) {
        KERNEL_UP_TO(KERNEL_ROWS, ROWS)
    default: break;
    }
}

static vector_t load_bias(const pointwise_t *p, int64_t output)
{
    if (p->bias == NULL) return (vector_t){0};
    return vector_load_some(p->bias + output, p->n_outputs - output);
}

/* True if step `turn` goes backwards: the first half of a part runs forwards from its first tile,
 * the rest backwards from its last tile. */
static bool is_descending(const pointwise_part_t *part, int64_t turn)
{
    return turn >= (part->last - part->first + 1) / 2;
}

/* The tile that step `turn` computes. */
static int64_t tile_of(const pointwise_part_t *part, int64_t turn)
{
    return is_descending(part, turn) ? part->last - 1 - (turn - (part->last - part->first + 1) / 2)
                                     : part->first + turn;
}

static tile_at_t find_tile(const pointwise_images_t *images, int64_t tile)
{
    return tile_find(images->plane, images->tiles_of_image, tile);
}

static int64_t source_blocks(const pointwise_t *p)
{
    return (p->n_inputs + KERNEL_LANES - 1) / KERNEL_LANES;
}

/* Memory for a tile's normalized or gathered x. */
static float *made_tile(const pointwise_t *p, const pointwise_part_t *part, int64_t tile)
{
    return part->made + (tile - part->first) * source_blocks(p) * KERNEL_ROWS * KERNEL_LANES;
}

/* Offset of the element of x for result i, in the first block of channels of an image. */
static int64_t element_of(const pointwise_t *p, int64_t i)
{
    const int64_t out_width = (p->width + p->stride - 1) / p->stride;
    if (p->stride == 1) return i * KERNEL_LANES;
    return (i / out_width * p->width + i % out_width) * p->stride * KERNEL_LANES;
}

static const float *plain_tile(const pointwise_t *p, tile_at_t at)
{
    const int64_t image = source_blocks(p) * p->height * p->width * KERNEL_LANES;
    return p->x + at.image * image + element_of(p, at.begin);
}

/* Makes the copy of x for a tile: normalizes x, or gathers the elements that a stride of 2
 * reads. */
static void make_tile(const pointwise_t *p, const float *x, tile_at_t at, float *to)
{
    const vector_t lower = p->source_lower - (vector_t){0}, upper = p->source_upper - (vector_t){0};
    int64_t from[KERNEL_ROWS];
    for (int64_t r = 0; r < at.n_rows; r++)
        from[r] = element_of(p, at.begin + r) - element_of(p, at.begin);
    for (int64_t b = 0; b < source_blocks(p); b++, x += p->height * p->width * KERNEL_LANES) {
        const vector_t scale = p->is_scaled ? vector_load(p->scale + b * KERNEL_LANES) : lower;
        const vector_t shift = p->is_scaled ? vector_load(p->shift + b * KERNEL_LANES) : lower;
        float *out = to + b * KERNEL_ROWS * KERNEL_LANES;
        for (int64_t r = 0; r < at.n_rows; r++) {
            vector_t made = vector_load(x + from[r]);
            if (p->is_scaled) made = made * scale + shift;
            if (p->is_scaled && p->is_source_clamped) made = vector_clamp(made, lower, upper);
            vector_store(made, out + r * KERNEL_LANES);
        }
    }
}

/* Finds x of a step's tile, and x of the next step's tile to prefetch (half of it with stride 2). A
 * normalized or gathered copy is made right before the first group of outputs reads it. */
static void find_sources(const pointwise_images_t *images, const pointwise_part_t *part,
                         int64_t group, int64_t turn, tile_at_t at, tile_at_t next, tile_t *tile)
{
    const pointwise_t *p = images->pointwise;
    const int64_t t = tile_of(part, turn);
    const bool is_last = turn + 1 == part->last - part->first;
    const bool is_first = group == part->first_group;
    tile->x = plain_tile(p, at);
    tile->next = plain_tile(p, next);
    tile->next_rows = next.n_rows;
    if (part->made != NULL) {
        float *made = made_tile(p, part, t);
        if (is_first) make_tile(p, tile->x, at, made);
        tile->x = made;
        tile->source_plane = KERNEL_ROWS * KERNEL_LANES;
    }
    if (part->made != NULL && !is_first) {
        tile->next = made_tile(p, part, is_last ? t : tile_of(part, turn + 1));
        tile->next_plane = tile->source_plane;
    }
    tile->next_step = is_descending(part, turn + 1) ? -KERNEL_LANES : KERNEL_LANES;
    if (tile->next_step < 0) tile->next -= (next.n_rows - 1) * tile->next_step;
}

static void multiply_group(const pointwise_images_t *images, const pointwise_part_t *part,
                           int64_t group, const float *ahead)
{
    const pointwise_t *p = images->pointwise;
    const int64_t n_out_blocks = (p->n_outputs + KERNEL_LANES - 1) / KERNEL_LANES;
    const int64_t n_tiles = part->last - part->first, first_block = group * BLOCKS;
    const int64_t n_outputs = p->n_outputs - first_block * KERNEL_LANES;
    const int n_blocks = n_out_blocks - first_block < BLOCKS ? 1 : BLOCKS;
    const bool is_half = n_outputs <= WIDTH - KERNEL_LANES / 2;
    tile_t tile = {.plane = images->out_plane,
                   .n_source_blocks = source_blocks(p),
                   .addend = p->addend != p->out ? p->addend : NULL,
                   .ahead = (const char *)ahead,
                   .ahead_step = WIDTH * (int64_t)sizeof(float) / n_tiles + 1};
    tile.source_plane = tile.next_plane = images->source_plane;
    tile.weights = tile.n_source_blocks * KERNEL_LANES * KERNEL_LANES;
    tile.weight = p->weight + first_block * tile.weights;
    for (int k = 0; k < n_blocks; k++)
        tile.bias[k] = load_bias(p, (first_block + k) * KERNEL_LANES);
    tile_at_t at = find_tile(images, part->first);
    for (int64_t turn = 0; turn < n_tiles; turn++) {
        const tile_at_t next = turn + 1 < n_tiles ? find_tile(images, tile_of(part, turn + 1)) : at;
        find_sources(images, part, group, turn, at, next, &tile);
        tile.at = (at.image * n_out_blocks + first_block) * tile.plane + at.begin * KERNEL_LANES;
        tile.step = is_descending(part, turn) ? -KERNEL_LANES : KERNEL_LANES;
        tile.line = tile.step < 0 ? tile.at - (at.n_rows - 1) * tile.step : tile.at;
        multiply_tile(p, &tile, at.n_rows, n_blocks, is_half);
        tile.ahead += tile.ahead_step * tile.n_source_blocks * KERNEL_LANES;
        at = next;
    }
}

static void multiply_part(const pointwise_images_t *images, const pointwise_part_t *part)
{
    const pointwise_t *p = images->pointwise;
    const int64_t n_channels = source_blocks(p) * KERNEL_LANES;
    for (int64_t group = part->first_group; group < part->last_group; group++) {
        const int64_t next = group + 1 < part->last_group ? group + 1 : part->first_group;
        multiply_group(images, part, group, p->weight + next * n_channels * WIDTH);
    }
}

const pointwise_loops_t KERNEL_NAME(pointwise) = {KERNEL_ROWS, multiply_part};
