/* The loops of expand_depthwise_impl.h, compiled once for each ISA (isa_impl.h).
 *
 * Rows of e, the tensor between the two convolutions, are stored in a ring buffer: row h is in slot
 * h % n_slots. A slot has zeros on both sides for the columns outside the image, so the inner loop
 * needs no bounds check. The inner loop is compiled for each kernel size and stride. AT_ONCE
 * elements of e, for two vectors of channels, are summed in registers. */
#include "kernels/conv/expand_depthwise_impl.h"
#include "kernels/vector_impl.h"

#define BLOCKS EXPAND_DEPTHWISE_BLOCKS
#define TILE EXPAND_DEPTHWISE_TILE
#define AT_ONCE KERNEL_ROWS
#define MAX_KERNEL 5
#define MAX_SPAN ((TILE - 1) * 2 + MAX_KERNEL)

/* The channels of a group, and the buffer of their rows. */
typedef struct group {
    const expand_depthwise_t *pair;
    const float *x; /* the image */
    int64_t first_block;
    int n_blocks;
    int64_t n_slots, columns;
    float *ring; /* [n_blocks][n_slots][columns][lanes] */
    const float *expand;
    int64_t expand_step; /* stride of blocks of channels */
    const char *ahead; /* weights of the next group; ahead_step bytes are prefetched with each input
                          of a tile */
    int64_t ahead_step;
    vector_t expand_bias[BLOCKS];
} group_t;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

KERNEL_INLINE vector_t clamp(vector_t v, const expand_depthwise_act_t *act)
{
    return vector_clamp(v, act->lower - (vector_t){0}, act->upper - (vector_t){0});
}

/* Adds the products of the last input, and stores each sum while others are still multiplied.
 * Storing all sums at the end would leave the multipliers idle. */
KERNEL_INLINE void leave_tile(const group_t *group, const float *x, const float *expand,
                              const int32_t *to, int n, int n_blocks, bool is_clamped,
                              vector_t (*sums)[BLOCKS])
{
    const int64_t ring_step = group->n_slots * group->columns * KERNEL_LANES;
    vector_t weights[BLOCKS];
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) weights[k] = vector_load(expand + k * group->expand_step);
    KERNEL_UNROLL
    for (int r = 0; r < n; r++) {
        float *const row = group->ring + to[r];
        KERNEL_UNROLL
        for (int k = 0; k < n_blocks; k++) {
            vector_t sum = sums[r][k] + x[r * KERNEL_LANES] * weights[k];
            if (is_clamped) sum = clamp(sum, &group->pair->expand_act);
            vector_store(sum, row + k * ring_step);
        }
    }
}

/* Computes n adjacent elements of e, from `at` on. to: their offsets in the ring. */
KERNEL_INLINE void expand_tile(const group_t *group, const float *at, const int32_t *to, int n,
                               int n_blocks)
{
    const expand_depthwise_t *pair = group->pair;
    const int64_t plane = pair->height * pair->width * KERNEL_LANES;
    vector_t sums[AT_ONCE][BLOCKS];
    KERNEL_UNROLL
    for (int r = 0; r < n; r++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) sums[r][k] = group->expand_bias[k];
    const float *expand = group->expand, *x = at;
    const char *ahead = group->ahead;
    /* All inputs except the last, which may be the first of its block. */
    for (int64_t left = pair->n_inputs - 1;; left -= KERNEL_LANES, at += plane) {
        const int n_lanes = left < KERNEL_LANES ? (int)left : KERNEL_LANES;
        x = at;
        for (int c = 0; c < n_lanes; c++, x++, expand += KERNEL_LANES) {
            vector_t weights[BLOCKS];
            __builtin_prefetch(at + (n + c) * KERNEL_LANES); /* the tile after this one */
            __builtin_prefetch(ahead, 0, 2);
            ahead += group->ahead_step;
            KERNEL_UNROLL
            for (int k = 0; k < n_blocks; k++)
                weights[k] = vector_load(expand + k * group->expand_step);
            KERNEL_UNROLL
            for (int r = 0; r < n; r++) {
                const float *again = vector_again(x + r * KERNEL_LANES, r);
                KERNEL_UNROLL
                for (int k = 0; k < n_blocks; k++)
                    sums[r][k] += *(k == 0 ? x + r * KERNEL_LANES : again) * weights[k];
            }
        }
        if (left < KERNEL_LANES) break;
    }
    if (pair->expand_act.is_clamped)
        leave_tile(group, x, expand, to, n, n_blocks, true, sums);
    else
        leave_tile(group, x, expand, to, n, n_blocks, false, sums);
}

#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (group->n_blocks < BLOCKS)                                                              \
            expand_tile(group, x, to, n, 1);                                                       \
        else                                                                                       \
            expand_tile(group, x, to, n, BLOCKS);                                                  \
        break;

static void expand_some(const group_t *group, const float *x, const int32_t *to, int64_t n)
{
    switch (n) {
        KERNEL_UP_TO(KERNEL_ROWS, ROWS)
    default: break;
    }
}

static float *ring_slot(const group_t *group, int block, int64_t slot)
{
    return group->ring + (block * group->n_slots + slot) * group->columns * KERNEL_LANES;
}

/* A position in the ring of rows of e. */
typedef struct place {
    int64_t slot, column;
} place_t;

static void advance(const group_t *group, place_t *place, int64_t n)
{
    place->column += n;
    if (place->column < group->pair->width) return;
    place->column = 0;
    if (++place->slot == group->n_slots) place->slot = 0;
}

/* Finds the offsets of n elements from a position on, in floats, and advances the position. If the
 * elements are in one row, as most are, entries of out_to from n on are invalid. */
KERNEL_INLINE void find_places(const group_t *group, place_t *place, int64_t n, int32_t *out_to)
{
    const int64_t width = group->pair->width, before = group->pair->left;
    if (place->column + n <= width) {
        const int64_t at = place->slot * group->columns + before + place->column;
        for (int i = 0; i < AT_ONCE; i++) out_to[i] = ((int32_t)at + i) * KERNEL_LANES;
        advance(group, place, n);
        return;
    }
    for (int64_t i = 0; i < n; i++, advance(group, place, 1))
        out_to[i] = (int32_t)(place->slot * group->columns + before + place->column) * KERNEL_LANES;
}

/* Computes rows [first, last) of e. */
static void expand_rows(group_t *group, int64_t first, int64_t last)
{
    const expand_depthwise_t *pair = group->pair;
    const int64_t n = (last - first) * pair->width, n_tiles = (n + AT_ONCE - 1) / AT_ONCE;
    place_t place = {.slot = first % group->n_slots};
    for (int64_t t = 0; t < n_tiles; t++) {
        const int64_t begin = n * t / n_tiles, end = n * (t + 1) / n_tiles;
        int32_t to[AT_ONCE];
        find_places(group, &place, end - begin, to);
        expand_some(group, group->x + (first * pair->width + begin) * KERNEL_LANES, to,
                    end - begin);
        group->ahead += group->ahead_step * pair->n_inputs;
    }
    if (pair->expand_act.finish == NULL) return;
    for (int k = 0; k < group->n_blocks; k++)
        for (int64_t row = first; row < last; row++)
            pair->expand_act.finish(pair->expand_act.user,
                                    ring_slot(group, k, row % group->n_slots) +
                                        pair->left * KERNEL_LANES,
                                    pair->width * KERNEL_LANES);
}

/* A row of results, and the rows of e for rows [first, last) of the kernel. */
typedef struct row {
    const float *from[MAX_KERNEL], *weight;
    int first, last;
    vector_t bias;
    float *out;
} row_t;

/* Computes at most TILE results: n results from column q on. */
KERNEL_INLINE void sum_tile(const expand_depthwise_t *pair, const row_t *row, int kernel,
                            int stride, int64_t q, int64_t n)
{
    const int span = (TILE - 1) * stride + kernel;
    vector_t sums[TILE], source[MAX_SPAN];
    KERNEL_UNROLL
    for (int t = 0; t < TILE; t++) sums[t] = row->bias;
    KERNEL_ROLL
    for (int r = row->first; r < row->last; r++) {
        const float *from = pointer_apart(row->from[r] + q * stride * KERNEL_LANES);
        const float *weight = row->weight + r * kernel * KERNEL_LANES;
        KERNEL_UNROLL
        for (int i = 0; i < span; i++) source[i] = vector_load_once(from + i * KERNEL_LANES);
        KERNEL_UNROLL
        for (int s = 0; s < kernel; s++) {
            const vector_t w = vector_load(weight + s * KERNEL_LANES);
            KERNEL_UNROLL
            for (int t = 0; t < TILE; t++) sums[t] += source[t * stride + s] * w;
        }
    }
    if (pair->act.is_clamped) {
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++) sums[t] = clamp(sums[t], &pair->act);
    }
    float *out = row->out + q * KERNEL_LANES;
    if (n >= TILE) {
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++) vector_store(sums[t], out + t * KERNEL_LANES);
    } else {
        KERNEL_UNROLL
        for (int t = 0; t < TILE; t++)
            if (t < n) vector_store(sums[t], out + t * KERNEL_LANES);
    }
}

static vector_t load_bias(const expand_depthwise_t *pair, const float *bias, int64_t block)
{
    const int64_t channel = block * KERNEL_LANES;
    if (bias == NULL) return (vector_t){0};
    return vector_load_some(bias + channel, pair->n_channels - channel);
}

/* Computes row p of the results, whose rows of e have been computed. */
KERNEL_INLINE void sum_row(const group_t *group, int k, int kernel, int stride, int64_t image,
                           int64_t p)
{
    const expand_depthwise_t *pair = group->pair;
    const int64_t n_blocks = (pair->n_channels + KERNEL_LANES - 1) / KERNEL_LANES;
    const int64_t block = group->first_block + k, plane = image * n_blocks + block;
    row_t row = {.weight = pair->weight + block * kernel * kernel * KERNEL_LANES,
                 .bias = load_bias(pair, pair->bias, block),
                 .out = pair->out +
                        (plane * pair->out_height + p) * pair->out_width * KERNEL_LANES};
    const int64_t top = p * stride - pair->top;
    row.first = top < 0 ? (int)least(-top, kernel) : 0;
    row.last = (int)least(pair->height - top, kernel);
    int64_t slot = (top + row.first) % group->n_slots;
    KERNEL_UNROLL
    for (int r = 0; r < kernel; r++) {
        row.from[r] = ring_slot(group, k, slot);
        if (r >= row.first && ++slot == group->n_slots) slot = 0;
    }
    for (int64_t q = 0; q < pair->out_width; q += TILE)
        sum_tile(pair, &row, kernel, stride, q, pair->out_width - q);
    if (pair->act.finish != NULL)
        pair->act.finish(pair->act.user, row.out, pair->out_width * KERNEL_LANES);
}

/* Computes each row of results as soon as its rows of e are computed. Short rows of e are computed
 * several at a time. */
KERNEL_INLINE void run_group(group_t *group, int kernel, int stride,
                             const expand_depthwise_part_t *part)
{
    const expand_depthwise_t *pair = group->pair;
    const int64_t n_at_once = group->n_slots - kernel + 1, top = part->first * stride - pair->top;
    const int64_t end = least(pair->height, (part->last - 1) * stride - pair->top + kernel);
    int64_t made = top < 0 ? 0 : top;
    for (int64_t p = part->first; p < part->last; p++) {
        const int64_t wanted = least(end, p * stride - pair->top + kernel);
        while (made < wanted) {
            const int64_t next = least(end, made + n_at_once);
            expand_rows(group, made, next);
            made = next;
        }
        for (int k = 0; k < group->n_blocks; k++) sum_row(group, k, kernel, stride, part->image, p);
    }
}

/* Prefetches the weights of the depthwise convolution, which are needed as soon as the first rows
 * of e are computed. Also makes each tile prefetch an equal part of the next group's weights. */
KERNEL_INLINE void fetch_weights(group_t *group, int kernel, const expand_depthwise_part_t *part,
                                 bool is_last)
{
    const expand_depthwise_t *pair = group->pair;
    const int window = kernel * kernel * KERNEL_LANES;
    const float *weight = pair->weight + group->first_block * window;
    for (int i = 0; i < group->n_blocks * window; i += KERNEL_LANES) __builtin_prefetch(weight + i);
    const int64_t n_rows = (part->last - part->first) * pair->stride;
    const int64_t n_tiles = n_rows * pair->width / AT_ONCE + 1;
    const float *next = is_last ? pair->expand : group->expand + BLOCKS * group->expand_step;
    group->ahead = (const char *)next;
    group->ahead_step = BLOCKS * KERNEL_LANES * (int64_t)sizeof(float) / n_tiles + 1;
}

KERNEL_INLINE void run_part(const expand_depthwise_t *pair, int kernel, int stride,
                            const expand_depthwise_part_t *part)
{
    const int64_t n_blocks = (pair->n_channels + KERNEL_LANES - 1) / KERNEL_LANES;
    const int64_t n_source_blocks = (pair->n_inputs + KERNEL_LANES - 1) / KERNEL_LANES;
    group_t group = {.pair = pair,
                     .x = pair->x +
                          part->image * n_source_blocks * pair->height * pair->width * KERNEL_LANES,
                     .n_slots = expand_depthwise_kept(pair, AT_ONCE),
                     .columns = expand_depthwise_columns(pair),
                     .ring = part->ring,
                     .expand_step = n_source_blocks * KERNEL_LANES * KERNEL_LANES};
    memset(part->ring, 0,
           (size_t)(BLOCKS * group.n_slots * group.columns * KERNEL_LANES) * sizeof(float));
    for (int64_t i = part->first_group; i < part->last_group; i++) {
        group.first_block = i * BLOCKS;
        group.n_blocks = (int)least(BLOCKS, n_blocks - group.first_block);
        group.expand = pair->expand + group.first_block * group.expand_step;
        for (int k = 0; k < group.n_blocks; k++)
            group.expand_bias[k] = load_bias(pair, pair->expand_bias, group.first_block + k);
        fetch_weights(&group, kernel, part, i + 1 == part->last_group);
        run_group(&group, kernel, stride, part);
    }
}

void KERNEL_NAME(expand_depthwise)(const expand_depthwise_t *pair,
                                   const expand_depthwise_part_t *part)
{
    if (pair->kernel == 3 && pair->stride == 1)
        run_part(pair, 3, 1, part);
    else if (pair->kernel == 3)
        run_part(pair, 3, 2, part);
    else if (pair->stride == 1)
        run_part(pair, 5, 1, part);
    else
        run_part(pair, 5, 2, part);
}
