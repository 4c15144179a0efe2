/* The loops of winograd_impl.h, compiled once for each ISA (isa_impl.h). Products of KERNEL_ROWS
 * tiles, for two vectors of outputs, are summed in registers. The including file defines
 *
 *   WINOGRAD_LOOPS   the name of its winograd_loops_t
 *   WINOGRAD_PAIRS   1: products of bf16 in pairs of channels; 0: of f32 */
#include "kernels/conv/winograd/winograd_direct_impl.h"

#define VECTORS WINOGRAD_VECTORS
#define LINE 64 /* bytes */

/* Expands `of` to (pairs of points, results in a row of a tile, stride) for each transform. */
#if WINOGRAD_PAIRS
#define SHAPES(of) of(1, 2, 1) of(1, 2, 2)
#else
#define SHAPES(of)                                                                                 \
    of(1, 2, 1) of(2, 4, 1) of(3, 6, 1) of(1, 2, 2) of(2, 4, 2) of(2, 2, 1) of(3, 4, 1)            \
        of(2, 3, 1) of(3, 5, 1)
#endif

static int count_pairs(const winograd_t *w)
{
    return (w->tile + w->kernel - 3) / 2;
}

/* ---- transform of x ---- */

/* Storage of the points of one kind: offset in the first block of channels, and stride of
 * blocks. */
typedef struct place {
    int64_t first, step;
} place_t;

typedef place_t places_t[WINOGRAD_MAX_TILES][WINOGRAD_KINDS];

static void find_places(const winograd_group_t *g, place_t (*places)[WINOGRAD_KINDS])
{
    winograd_tile_t tile = winograd_first_tile(g);
    int64_t blocks[WINOGRAD_KINDS] = {0};
    for (int64_t i = 0; i < g->n_tiles; i++, winograd_next_tile(g, &tile))
        for (int kind = 0; kind < WINOGRAD_KINDS; kind++) {
            const int64_t number = tile.number[kind];
            if (!winograd_has(g, &tile, kind)) continue;
            while (winograd_block_begin(g, kind, blocks[kind] + 1) <= number) blocks[kind]++;
            const int64_t begin = winograd_block_begin(g, kind, blocks[kind]);
            const int64_t n_rows = winograd_block_begin(g, kind, blocks[kind] + 1) - begin;
            places[i][kind] = (place_t){(begin * g->n_source_blocks + number - begin) *
                                            KERNEL_LANES,
                                        n_rows * KERNEL_LANES};
        }
}

/* The part of [from, from + side) that is inside [0, n), relative to `from`. */
typedef struct range {
    int first, last;
} range_t;

static range_t clip(int64_t from, int side, int64_t n)
{
    const int64_t first = from < 0 ? -from : 0, last = n - from;
    return (range_t){(int)(first < side ? first : side), (int)(last < side ? last : side)};
}

/* x of one tile. first: offset of its first element, which may be outside the image. to:
 * destination of the points of each kind, which are `stride` apart. */
typedef struct source {
    const void *from; /* all images */
    int64_t first, row;
    range_t rows, columns; /* rows and columns inside the image */
    bool is_bf16, is_long_y, is_long_x;
    factor_t *to[WINOGRAD_KINDS];
    int64_t stride;
} source_t;

KERNEL_INLINE void load_row(const source_t *source, int side, bool is_whole, bool is_bf16, int y,
                            vector_t *line)
{
    const int64_t first = source->first + y * source->row;
    const bool has_row = is_whole || (y >= source->rows.first && y < source->rows.last);
    KERNEL_UNROLL
    for (int x = 0; x < side; x++) {
        const bool has = is_whole ||
                         (has_row && x >= source->columns.first && x < source->columns.last);
        line[x] = has ? vector_load_as(source->from, first + x * KERNEL_LANES, is_bf16)
                      : (vector_t){0};
    }
}

KERNEL_INLINE void transform_tile(int n_pairs, int step, bool is_whole, const source_t *source)
{
    const int side = side_of(n_pairs, step);
    const int n_rows = source->is_long_y ? side : side - step;
    vector_t half[WINOGRAD_MAX_SIDE][WINOGRAD_MAX_SIDE]; /* [column][row] */
    for (int y = 0; y < n_rows; y++) {
        vector_t line[WINOGRAD_MAX_SIDE], out[WINOGRAD_MAX_SIDE];
        if (source->is_bf16)
            load_row(source, side, is_whole, true, y, line);
        else
            load_row(source, side, is_whole, false, y, line);
        transform_line(n_pairs, step, true, line, out);
        KERNEL_UNROLL
        for (int x = 0; x < side; x++) half[x][y] = out[x];
    }
    for (int x = 0; x < side; x++) {
        vector_t out[WINOGRAD_MAX_SIDE];
        if (is_last(n_pairs, step, x) && !source->is_long_x) continue;
        transform_line(n_pairs, step, source->is_long_y, half[x], out);
        KERNEL_UNROLL
        for (int y = 0; y < side; y++)
            if (!is_last(n_pairs, step, y) || source->is_long_y)
                put_sources(out[y], source->to[kind_of(n_pairs, step, y, x)] +
                                        (y * side + x) * source->stride);
    }
}

KERNEL_INLINE void transform_at(const winograd_group_t *g, int n_pairs, int n_results, int step,
                                const winograd_tile_t *tile, const place_t *places,
                                int64_t source_block)
{
    const winograd_t *w = g->winograd;
    const int side = side_of(n_pairs, step);
    const int64_t y = begin_of(tile->y, g->long_y, n_results) * step - w->top;
    const int64_t x = begin_of(tile->x, g->long_x, n_results) * step - w->left;
    const int64_t plane = tile->image * g->n_source_blocks + source_block;
    const int64_t row = plane * rows_of_x(&w->rows, w->height) + y;
    source_t source = {.from = w->x,
                       .first = (row * w->width + x) * KERNEL_LANES,
                       .row = w->width * KERNEL_LANES,
                       .rows = clip(y, side, w->height),
                       .columns = clip(x, side, w->width),
                       .is_bf16 = w->is_bf16,
                       .is_long_y = tile->y < g->long_y,
                       .is_long_x = tile->x < g->long_x,
                       .stride = g->stride};
    for (int kind = 0; kind < WINOGRAD_KINDS; kind++)
        source.to[kind] = (factor_t *)g->source + places[kind].first +
                          source_block * places[kind].step;
    if (source.rows.first == 0 && source.rows.last == side && source.columns.first == 0 &&
        source.columns.last == side)
        transform_tile(n_pairs, step, true, &source);
    else
        transform_tile(n_pairs, step, false, &source);
}

KERNEL_INLINE void transform_units(const winograd_group_t *g, int n_pairs, int n_results, int step,
                                   int64_t first, int64_t last)
{
    places_t places = {{{0}}};
    int64_t unit = first;
    find_places(g, places);
    while (unit < last) {
        const int64_t source_block = unit / g->n_tiles, begin = source_block * g->n_tiles;
        winograd_tile_t tile = winograd_first_tile(g);
        for (int64_t i = 0; i < g->n_tiles && begin + i < last; i++, winograd_next_tile(g, &tile))
            if (begin + i >= first)
                transform_at(g, n_pairs, n_results, step, &tile, places[i], source_block);
        unit = begin + g->n_tiles;
    }
}

static void transform(const winograd_group_t *group, int64_t first, int64_t last)
{
    const int tile = group->winograd->tile, stride = group->winograd->stride;
    const int n_pairs = count_pairs(group->winograd);
#define TRANSFORM(pairs, results, step)                                                            \
    if (n_pairs == (pairs) && tile == (results) && stride == (step))                               \
        transform_units(group, pairs, results, step, first, last);
    SHAPES(TRANSFORM)
}

/* ---- products ---- */

/* Weights to prefetch from memory, `step` bytes at a time. Every cache line must be prefetched,
 * because waiting for one line takes as long as waiting for all. */
typedef struct ahead {
    const char *from;
    int64_t step;
} ahead_t;

/* Multiplies n_rows tiles by n_vectors vectors of outputs, summed over all channels. */
KERNEL_INLINE void multiply_rows(int n_rows, int n_vectors, int64_t n_inputs,
                                 const factor_t *source, const factor_t *weight, float *out,
                                 ahead_t ahead)
{
    vector_t sums[KERNEL_ROWS][VECTORS] = {{{0}}};
    for (int64_t c = 0; c < n_inputs; c += KERNEL_LANES) {
        const int n_lanes = n_inputs - c < KERNEL_LANES ? (int)(n_inputs - c) : KERNEL_LANES;
        for (int lane = 0; lane < n_lanes; lane += FACTOR_CHANNELS) {
            vector_t weights[VECTORS];
            __builtin_prefetch(ahead.from, 0, 2);
            __builtin_prefetch(ahead.from + LINE, 0, 2);
            ahead.from += ahead.step;
            KERNEL_UNROLL
            for (int k = 0; k < n_vectors; k++)
                weights[k] = load_weights(weight + k * FACTOR_CHANNELS * KERNEL_LANES);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) {
                KERNEL_UNROLL
                for (int k = 0; k < n_vectors; k++)
                    sums[r][k] = add_products(sums[r][k], source + r * KERNEL_LANES + lane,
                                              weights[k]);
            }
            weight += n_vectors * FACTOR_CHANNELS * KERNEL_LANES;
        }
        source += n_rows * KERNEL_LANES;
    }
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int k = 0; k < n_vectors; k++)
        vector_store(sums[r][k], out + r * WIDTH + k * KERNEL_LANES);
}

#define ROWS(n)                                                                                    \
    static void multiply_##n##_1(int64_t n_inputs, const factor_t *source, const factor_t *weight, \
                                 float *out, ahead_t ahead)                                        \
    {                                                                                              \
        multiply_rows(n, 1, n_inputs, source, weight, out, ahead);                                 \
    }                                                                                              \
    static void multiply_##n##_2(int64_t n_inputs, const factor_t *source, const factor_t *weight, \
                                 float *out, ahead_t ahead)                                        \
    {                                                                                              \
        multiply_rows(n, 2, n_inputs, source, weight, out, ahead);                                 \
    }
KERNEL_UP_TO(KERNEL_ROWS, ROWS)

typedef void (*multiply_t)(int64_t n_inputs, const factor_t *source, const factor_t *weight,
                           float *out, ahead_t ahead);
#define PAIR(n) {multiply_##n##_1, multiply_##n##_2},
static const multiply_t multiplies[KERNEL_ROWS][VECTORS] = {KERNEL_UP_TO(KERNEL_ROWS, PAIR)};

/* ---- products of all points ---- */

/* Arguments of the products with one block of the weight. */
typedef struct factors {
    const winograd_group_t *group;
    int n_pairs, n_vectors;
    float *products;
    int64_t stride;
} factors_t;

/* Counts the blocks of tiles at the points of these rows and columns. */
static int64_t count_blocks(const factors_t *f, range_t rows, range_t columns)
{
    int64_t n = 0;
    for (int y = rows.first; y < rows.last; y++)
        for (int x = columns.first; x < columns.last; x++)
            n += f->group->n_blocks[kind_of(f->n_pairs, f->group->winograd->stride, y, x)];
    return n;
}

/* Multiplies points of these rows and columns by one element of the transformed weight. */
static void multiply_element(const factors_t *f, const factor_t *weight, range_t rows,
                             range_t columns)
{
    const winograd_group_t *g = f->group;
    const winograd_t *w = g->winograd;
    const int side = winograd_side(w->tile, w->kernel, w->stride);
    const int64_t n_channels = g->n_source_blocks * KERNEL_LANES;
    const int64_t n = count_blocks(f, rows, columns);
    const int64_t n_turns = n_channels / FACTOR_CHANNELS;
    const int64_t bytes = f->n_vectors * KERNEL_LANES * (int64_t)sizeof(float); /* in a step */
    if (n == 0) return;
    ahead_t ahead = {(const char *)(weight + n_channels * f->n_vectors * KERNEL_LANES),
                     (bytes + n - 1) / n};
    for (int y = rows.first; y < rows.last; y++)
        for (int x = columns.first; x < columns.last; x++) {
            const int point = y * side + x, kind = kind_of(f->n_pairs, w->stride, y, x);
            const factor_t *source = (const factor_t *)g->source + point * g->stride;
            float *products = f->products + point * f->stride;
            for (int64_t b = 0; b < g->n_blocks[kind]; b++) {
                const int64_t begin = winograd_block_begin(g, kind, b);
                const int64_t n_rows = winograd_block_begin(g, kind, b + 1) - begin;
                multiplies[n_rows - 1][f->n_vectors - 1](w->n_inputs, source + begin * n_channels,
                                                         weight, products + begin * WIDTH, ahead);
                ahead.from += n_turns * ahead.step;
            }
        }
}

/* Finds the points of a row or column that are multiplied by this element of the weight. */
static range_t find_points(const winograd_t *w, int element)
{
    const bool has_more = w->stride == 2 && element == w->tile + 1;
    return (range_t){element, element + (has_more ? w->tile : 1)};
}

static void multiply(const winograd_group_t *g, int64_t weight_block, float *products,
                     int64_t stride)
{
    const winograd_t *w = g->winograd;
    const int tile = w->tile, n_pairs = count_pairs(w), n_elements = tile + w->kernel - 1;
    const int64_t n_channels = g->n_source_blocks * KERNEL_LANES;
    const int64_t out_block = weight_block * VECTORS;
    const int n_vectors = w->n_outputs - out_block * KERNEL_LANES > KERNEL_LANES ? 2 : 1;
    const factor_t *weight = (const factor_t *)w->weight +
                             weight_block * n_elements * n_elements * n_channels * WIDTH;
    const factors_t factors = {g, n_pairs, n_vectors, products, stride};
    for (int y = 0; y < n_elements; y++)
        for (int x = 0; x < n_elements; x++, weight += n_channels * n_vectors * KERNEL_LANES)
            multiply_element(&factors, weight, find_points(w, y), find_points(w, x));
    for (int k = 0; k < n_vectors; k++) {
        float *of = products + k * KERNEL_LANES;
#define FINISH(pairs, results, step)                                                               \
    if (n_pairs == (pairs) && tile == (results) && w->stride == (step))                            \
        finish_tiles(g, pairs, results, step, out_block + k, of, stride);
        SHAPES(FINISH)
    }
}

const winograd_loops_t WINOGRAD_LOOPS = {KERNEL_ROWS, transform, multiply, pack};
