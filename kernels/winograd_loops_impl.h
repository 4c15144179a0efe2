/* The loops of winograd_impl.h for vectors of KERNEL_LANES floats. The including file defines,
 * besides that,
 *
 *   WINOGRAD_LOOPS   the name of its winograd_loops_t
 *   WINOGRAD_ROWS    tiles whose products with two vectors of outputs stay in registers */
#include "kernels/winograd_lines_impl.h"
#include "kernels/winograd_pack_impl.h"

#define VECTORS WINOGRAD_VECTORS
#define LINE 64 /* bytes */

/* of(pairs of points, results in a row of a tile, stride) for all there are: 3 by 3, then 5 by 5.
 */
#define SHAPES(of)                                                                                 \
    of(1, 2, 1) of(2, 4, 1) of(3, 6, 1) of(1, 2, 2) of(2, 4, 2) of(2, 2, 1) of(3, 4, 1)

static int count_pairs(const winograd_t *w)
{
    return (w->tile + w->kernel - 3) / 2;
}

/* Of a tile of sources. */
KERNEL_INLINE int side_of(int n_pairs, int stride)
{
    return stride == 1 ? 2 * n_pairs + 2 : 4 * n_pairs + 1;
}

/* ---- where tiles lie ---- */

typedef struct tile_at {
    int64_t image, y, x; /* in tiles */
} tile_at_t;

static tile_at_t find_tile(const winograd_group_t *g, int64_t tile)
{
    const int64_t row = tile / g->tiles_x;
    return (tile_at_t){row / g->tiles_y, row % g->tiles_y, tile % g->tiles_x};
}

static void next_tile(const winograd_group_t *g, tile_at_t *at)
{
    if (++at->x < g->tiles_x) return;
    at->x = 0;
    if (++at->y < g->tiles_y) return;
    at->y = 0;
    at->image++;
}

/* ---- sources ---- */

/* What of [from, from + side) lies in [0, n). */
typedef struct range {
    int first, last;
} range_t;

static range_t clip(int64_t from, int side, int64_t n)
{
    const int64_t first = from < 0 ? -from : 0, last = n - from;
    return (range_t){(int)(first < side ? first : side), (int)(last < side ? last : side)};
}

/* `from` is the tile's first element, which may lie outside of the image; `to` that of its
 * transform, of which the elements lie `stride` apart. */
KERNEL_INLINE void transform_tile(int n_pairs, int step, bool is_whole, range_t rows,
                                  range_t columns, const float *from, int64_t row, float *to,
                                  int64_t stride)
{
    const int side = side_of(n_pairs, step);
    vector_t half[WINOGRAD_MAX_SIDE][WINOGRAD_MAX_SIDE]; /* [column][row] */
    for (int y = 0; y < side; y++) {
        vector_t line[WINOGRAD_MAX_SIDE], out[WINOGRAD_MAX_SIDE];
        const bool has_row = is_whole || (y >= rows.first && y < rows.last);
        KERNEL_UNROLL
        for (int x = 0; x < side; x++) {
            const bool has = is_whole || (has_row && x >= columns.first && x < columns.last);
            line[x] = has ? vector_load(from + y * row + x * KERNEL_LANES) : (vector_t){0};
        }
        transform_line(n_pairs, step, line, out);
        KERNEL_UNROLL
        for (int x = 0; x < side; x++) half[x][y] = out[x];
    }
    for (int x = 0; x < side; x++) {
        vector_t out[WINOGRAD_MAX_SIDE];
        transform_line(n_pairs, step, half[x], out);
        KERNEL_UNROLL
        for (int y = 0; y < side; y++) vector_store(out[y], to + (y * side + x) * stride);
    }
}

KERNEL_INLINE void transform_at(const winograd_group_t *g, int n_pairs, int tile, int step,
                                const tile_at_t *at, int64_t source_block, float *to)
{
    const winograd_t *w = g->winograd;
    const int side = side_of(n_pairs, step);
    const int64_t y = at->y * tile * step - w->top, x = at->x * tile * step - w->left;
    const range_t rows = clip(y, side, w->height), columns = clip(x, side, w->width);
    const int64_t plane = at->image * g->n_source_blocks + source_block;
    const int64_t row = w->width * KERNEL_LANES;
    const float *from = w->x + ((plane * w->height + y) * w->width + x) * KERNEL_LANES;
    if (rows.first == 0 && rows.last == side && columns.first == 0 && columns.last == side)
        transform_tile(n_pairs, step, true, rows, columns, from, row, to, g->stride);
    else
        transform_tile(n_pairs, step, false, rows, columns, from, row, to, g->stride);
}

KERNEL_INLINE void transform_units(const winograd_group_t *g, int n_pairs, int n_results, int step,
                                   int64_t first, int64_t last)
{
    int64_t unit = first;
    while (unit < last) {
        const int64_t source_block = unit / g->n_tiles, end = (source_block + 1) * g->n_tiles;
        int64_t tile = unit % g->n_tiles, block = 0;
        tile_at_t at = find_tile(g, g->first + tile);
        for (; unit < last && unit < end; unit++, tile++) {
            while (winograd_block_begin(g, block + 1) <= tile) block++;
            const int64_t begin = winograd_block_begin(g, block);
            const int64_t n_rows = winograd_block_begin(g, block + 1) - begin;
            const int64_t place = begin * g->n_source_blocks + source_block * n_rows;
            transform_at(g, n_pairs, n_results, step, &at, source_block,
                         g->source + (place + tile - begin) * KERNEL_LANES);
            next_tile(g, &at);
        }
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

/* Weights that come next, which are far away: so many bytes are fetched with each channel. None of
 * the lines is left out, which would be waited for as long as all of them take. */
typedef struct ahead {
    const char *from;
    int64_t step;
} ahead_t;

/* Tiles by vectors of outputs, over all blocks of channels. */
KERNEL_INLINE void multiply_rows(int n_rows, int n_vectors, int64_t n_blocks, const float *source,
                                 const float *weight, float *out, ahead_t ahead)
{
    vector_t sums[WINOGRAD_ROWS][VECTORS] = {{{0}}};
    for (int64_t b = 0; b < n_blocks; b++) {
        for (int lane = 0; lane < KERNEL_LANES; lane++) {
            vector_t weights[VECTORS];
            __builtin_prefetch(ahead.from, 0, 2);
            __builtin_prefetch(ahead.from + LINE, 0, 2);
            ahead.from += ahead.step;
            KERNEL_UNROLL
            for (int k = 0; k < n_vectors; k++) weights[k] = vector_load(weight + k * KERNEL_LANES);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) {
                const float x = source[r * KERNEL_LANES + lane];
                KERNEL_UNROLL
                for (int k = 0; k < n_vectors; k++) sums[r][k] += x * weights[k];
            }
            weight += n_vectors * KERNEL_LANES;
        }
        source += n_rows * KERNEL_LANES;
    }
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int k = 0; k < n_vectors; k++)
        vector_store(sums[r][k], out + r * WIDTH + k * KERNEL_LANES);
}

#define ROWS(n)                                                                                    \
    static void multiply_##n##_1(int64_t n_blocks, const float *source, const float *weight,       \
                                 float *out, ahead_t ahead)                                        \
    {                                                                                              \
        multiply_rows(n, 1, n_blocks, source, weight, out, ahead);                                 \
    }                                                                                              \
    static void multiply_##n##_2(int64_t n_blocks, const float *source, const float *weight,       \
                                 float *out, ahead_t ahead)                                        \
    {                                                                                              \
        multiply_rows(n, 2, n_blocks, source, weight, out, ahead);                                 \
    }
KERNEL_UP_TO(WINOGRAD_ROWS, ROWS)

typedef void (*multiply_t)(int64_t n_blocks, const float *source, const float *weight, float *out,
                           ahead_t ahead);
#define PAIR(n) {multiply_##n##_1, multiply_##n##_2},
static const multiply_t multiplies[WINOGRAD_ROWS][VECTORS] = {KERNEL_UP_TO(WINOGRAD_ROWS, PAIR)};

/* ---- results ---- */

/* Where a vector of results goes, and what is done to it. */
typedef struct finish {
    const winograd_t *winograd;
    vector_t bias;
    int n_lanes; /* the others are padding */
} finish_t;

KERNEL_INLINE vector_t activate(const winograd_t *w, vector_t v)
{
    const vector_t zero = {0};
    switch (w->act) {
    case WINOGRAD_CLAMP: return vector_min(vector_max(v, zero + w->alpha), zero + w->beta);
    case WINOGRAD_LEAKY: return vector_max(v, zero) + w->alpha * vector_min(v, zero);
    default: return v;
    }
}

static vector_t keep_lanes(vector_t v, int n)
{
    for (int i = n; i < KERNEL_LANES; i++) v[i] = 0.0f;
    return v;
}

KERNEL_INLINE void put(const finish_t *finish, vector_t v, int64_t at)
{
    const winograd_t *w = finish->winograd;
    v += finish->bias;
    if (w->addend != NULL) v += vector_load(w->addend + at);
    v = activate(w, v);
    if (finish->n_lanes < KERNEL_LANES) v = keep_lanes(v, finish->n_lanes);
    vector_store(v, w->out + at);
}

/* The tile whose first result is element `at` of the output, of which these many rows and columns
 * exist. */
KERNEL_INLINE void finish_tile(const finish_t *finish, int n_pairs, int tile, int step,
                               const float *products, int64_t stride, int64_t at, int64_t n_rows,
                               int64_t n_columns)
{
    const int side = side_of(n_pairs, step);
    const int64_t row = finish->winograd->out_width * KERNEL_LANES;
    vector_t half[WINOGRAD_MAX_SIDE][WINOGRAD_MAX_SIDE]; /* [row][column] */
    for (int x = 0; x < side; x++) {
        vector_t column[WINOGRAD_MAX_SIDE], out[WINOGRAD_MAX_SIDE];
        KERNEL_UNROLL
        for (int y = 0; y < side; y++) column[y] = vector_load(products + (y * side + x) * stride);
        transform_result(n_pairs, tile, step, column, out);
        KERNEL_UNROLL
        for (int y = 0; y < tile; y++) half[y][x] = out[y];
    }
    for (int y = 0; y < tile && y < n_rows; y++) {
        vector_t out[WINOGRAD_MAX_SIDE];
        transform_result(n_pairs, tile, step, half[y], out);
        if (n_columns >= tile) KERNEL_UNROLL
        for (int x = 0; x < tile; x++) put(finish, out[x], at + y * row + x * KERNEL_LANES);
        else for (int x = 0; x < n_columns; x++)
            put(finish, out[x], at + y * row + x * KERNEL_LANES);
    }
}

/* One vector of outputs of all tiles from `first` on. */
KERNEL_INLINE void finish_tiles(const winograd_group_t *g, int n_pairs, int tile, int step,
                                int64_t out_block, int64_t first, int64_t n, const float *products,
                                int64_t stride)
{
    const winograd_t *w = g->winograd;
    const int64_t rest = w->n_outputs - out_block * KERNEL_LANES;
    const int64_t n_blocks = (w->n_outputs + KERNEL_LANES - 1) / KERNEL_LANES;
    const finish_t finish = {w, vector_load(g->bias + out_block * KERNEL_LANES),
                             rest < KERNEL_LANES ? (int)rest : KERNEL_LANES};
    tile_at_t at = find_tile(g, first);
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = at.y * tile, x = at.x * tile;
        const int64_t plane = at.image * n_blocks + out_block;
        finish_tile(&finish, n_pairs, tile, step, products + i * WIDTH, stride,
                    ((plane * w->out_height + y) * w->out_width + x) * KERNEL_LANES,
                    w->out_height - y, w->out_width - x);
        next_tile(g, &at);
    }
}

/* What products of one block of the weight with tiles in blocks [first, last) read and write. */
typedef struct factors {
    const winograd_group_t *group;
    int64_t first, last;
    int n_vectors;
    float *products;
    int64_t stride;
} factors_t;

/* Those of one element of the weight, for points of these rows and columns. */
static void multiply_element(const factors_t *f, const float *weight, range_t rows, range_t columns)
{
    const winograd_group_t *g = f->group;
    const winograd_t *w = g->winograd;
    const int side = winograd_side(w->tile, w->kernel, w->stride);
    const int n_points = (rows.last - rows.first) * (columns.last - columns.first);
    const int64_t n_channels = g->n_source_blocks * KERNEL_LANES;
    const int64_t begin = winograd_block_begin(g, f->first), n_blocks = f->last - f->first;
    const int64_t bytes = f->n_vectors * KERNEL_LANES * (int64_t)sizeof(float);
    const int64_t step = (bytes + n_blocks * n_points - 1) / (n_blocks * n_points);
    ahead_t ahead = {(const char *)(weight + n_channels * f->n_vectors * KERNEL_LANES), step};
    for (int y = rows.first; y < rows.last; y++)
        for (int x = columns.first; x < columns.last; x++) {
            const int point = y * side + x;
            for (int64_t b = f->first; b < f->last; b++, ahead.from += n_channels * step) {
                const int64_t from = winograd_block_begin(g, b);
                const int64_t n_rows = winograd_block_begin(g, b + 1) - from;
                multiplies[n_rows - 1][f->n_vectors - 1](
                    g->n_source_blocks, g->source + point * g->stride + from * n_channels, weight,
                    f->products + point * f->stride + (from - begin) * WIDTH, ahead);
            }
        }
}

/* Points of a row or column that have an element of the weight. */
static range_t find_points(const winograd_t *w, int element)
{
    const bool has_more = w->stride == 2 && element == w->tile + 1;
    return (range_t){element, element + (has_more ? w->tile : 1)};
}

static void multiply(const winograd_group_t *g, int64_t weight_block, int64_t first, int64_t last,
                     float *products, int64_t stride)
{
    const winograd_t *w = g->winograd;
    const int tile = w->tile, n_pairs = count_pairs(w), n_elements = tile + w->kernel - 1;
    const int64_t n_channels = g->n_source_blocks * KERNEL_LANES;
    const int64_t out_block = weight_block * VECTORS;
    const int n_vectors = w->n_outputs - out_block * KERNEL_LANES > KERNEL_LANES ? 2 : 1;
    const float *weight = w->weight + weight_block * n_elements * n_elements * n_channels * WIDTH;
    const factors_t factors = {g, first, last, n_vectors, products, stride};
    if (first == last) return;
    for (int y = 0; y < n_elements; y++)
        for (int x = 0; x < n_elements; x++, weight += n_channels * n_vectors * KERNEL_LANES)
            multiply_element(&factors, weight, find_points(w, y), find_points(w, x));
    const int64_t begin = winograd_block_begin(g, first);
    const int64_t n = winograd_block_begin(g, last) - begin;
    for (int k = 0; k < n_vectors; k++) {
        const float *of = products + k * KERNEL_LANES;
#define FINISH(pairs, results, step)                                                               \
    if (n_pairs == (pairs) && tile == (results) && w->stride == (step))                            \
        finish_tiles(g, pairs, results, step, out_block + k, g->first + begin, n, of, stride);
        SHAPES(FINISH)
    }
}

const winograd_loops_t WINOGRAD_LOOPS = {WINOGRAD_ROWS, transform, multiply, pack};
