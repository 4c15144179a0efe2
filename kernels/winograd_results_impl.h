/* Winograd's results: what is made of the products of a tile, for vectors of KERNEL_LANES floats;
 * and where points and results of a tile lie. */
#include "kernels/winograd_lines_impl.h"
#include "kernels/winograd_pack_impl.h"

/* Of a tile of sources. */
KERNEL_INLINE int side_of(int n_pairs, int stride)
{
    return stride == 1 ? 2 * n_pairs + 2 : 4 * n_pairs + 1;
}

/* Of a point's row and column. */
KERNEL_INLINE int kind_of(int n_pairs, int stride, int y, int x)
{
    return 2 * is_last(n_pairs, stride, y) + is_last(n_pairs, stride, x);
}

/* First source of a tile, or first result, in a row or column. */
static int64_t begin_of(int64_t tile, int64_t n_long, int n_results)
{
    return tile * n_results - (tile > n_long ? tile - n_long : 0);
}

/* Where a vector of results goes, and what is done to it. */
typedef struct finish {
    const winograd_t *winograd;
    vector_t bias;
    int n_lanes; /* the others are padding */
    bool streams;
} finish_t;

KERNEL_INLINE vector_t activate(const winograd_t *w, vector_t v)
{
    const vector_t zero = {0};
    switch (w->act) {
    case WINOGRAD_CLAMP: return vector_clamp(v, zero + w->alpha, zero + w->beta);
    case WINOGRAD_LEAKY: return vector_max(zero, v) + w->alpha * vector_min(zero, v);
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
    if (w->addend != NULL) v += vector_load_as(w->addend, at, w->is_bf16);
    v = activate(w, v);
    if (finish->n_lanes < KERNEL_LANES) v = keep_lanes(v, finish->n_lanes);
    if (finish->streams)
        vector_stream_as(v, w->out, at, w->is_bf16);
    else
        vector_store_as(v, w->out, at, w->is_bf16);
}

/* A tile's products of each kind of points, `stride` apart, and where its first result goes, of
 * which these many rows and columns exist. */
typedef struct result {
    const float *products[WINOGRAD_KINDS];
    int64_t stride, at, n_rows, n_columns;
    bool is_long_y, is_long_x;
} result_t;

KERNEL_INLINE void finish_tile(const finish_t *finish, int n_pairs, int tile, int step,
                               const result_t *result)
{
    const int side = side_of(n_pairs, step);
    const int64_t row = finish->winograd->out_width * KERNEL_LANES;
    const bool is_whole = result->is_long_x && result->n_columns >= tile;
    vector_t half[WINOGRAD_MAX_SIDE][WINOGRAD_MAX_SIDE]; /* [row][column] */
    for (int x = 0; x < side; x++) {
        vector_t column[WINOGRAD_MAX_SIDE], out[WINOGRAD_MAX_SIDE];
        if (is_last(n_pairs, step, x) && !result->is_long_x) continue;
        KERNEL_UNROLL
        for (int y = 0; y < side; y++)
            if (!is_last(n_pairs, step, y) || result->is_long_y)
                column[y] = vector_load(result->products[kind_of(n_pairs, step, y, x)] +
                                        (y * side + x) * result->stride);
        transform_result(n_pairs, tile, step, result->is_long_y, column, out);
        KERNEL_UNROLL
        for (int y = 0; y < tile; y++) half[y][x] = out[y];
    }
    for (int y = 0; y < tile && y < result->n_rows; y++) {
        vector_t out[WINOGRAD_MAX_SIDE];
        const int64_t at = result->at + y * row;
        transform_result(n_pairs, tile, step, result->is_long_x, half[y], out);
        if (is_whole) KERNEL_UNROLL
        for (int x = 0; x < tile; x++) put(finish, out[x], at + x * KERNEL_LANES);
        else for (int x = 0; x < result->n_columns; x++) put(finish, out[x], at + x * KERNEL_LANES);
    }
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* One vector of outputs of all tiles. */
KERNEL_INLINE void finish_tiles(const winograd_group_t *g, int n_pairs, int tile, int step,
                                int64_t out_block, const float *products, int64_t stride)
{
    const winograd_t *w = g->winograd;
    const int64_t rest = w->n_outputs - out_block * KERNEL_LANES;
    const int64_t n_blocks = (w->n_outputs + KERNEL_LANES - 1) / KERNEL_LANES;
    const finish_t finish = {w, vector_load(g->bias + out_block * KERNEL_LANES),
                             rest < KERNEL_LANES ? (int)rest : KERNEL_LANES,
                             w->streams && (uintptr_t)w->out % sizeof(vector_t) == 0};
    winograd_tile_t at = winograd_first_tile(g);
    for (int64_t i = 0; i < g->n_tiles; i++, winograd_next_tile(g, &at)) {
        const int64_t y = begin_of(at.y, g->long_y, tile), x = begin_of(at.x, g->long_x, tile);
        const int64_t plane = at.image * n_blocks + out_block;
        result_t result = {.stride = stride,
                           .at = ((plane * w->out_height + y) * w->out_width + x) * KERNEL_LANES,
                           .is_long_y = at.y < g->long_y,
                           .is_long_x = at.x < g->long_x};
        result.n_rows = at_most(w->out_height - y, result.is_long_y ? tile : tile - 1);
        result.n_columns = at_most(w->out_width - x, result.is_long_x ? tile : tile - 1);
        for (int kind = 0; kind < WINOGRAD_KINDS; kind++)
            result.products[kind] = products + at.number[kind] * WIDTH;
        finish_tile(&finish, n_pairs, tile, step, &result);
    }
    if (finish.streams) vector_fence();
}
