/* Transforms the products of a tile to results, for vectors of KERNEL_LANES floats. Also finds the
 * positions of a tile's points and results. */
#include "kernels/conv/winograd/winograd_lines_impl.h"
#include "kernels/conv/winograd/winograd_pack_impl.h"

/* Side of a tile of sources. */
KERNEL_INLINE int side_of(int n_pairs, int stride)
{
    return stride == 1 ? 2 * n_pairs + 2 : 4 * n_pairs + 1;
}

/* Kind of the point in this row and column (WINOGRAD_KINDS). */
KERNEL_INLINE int kind_of(int n_pairs, int stride, int y, int x)
{
    return 2 * is_last(n_pairs, stride, y) + is_last(n_pairs, stride, x);
}

/* Finds the first source or result of a tile in a row or column. */
static int64_t begin_of(int64_t tile, int64_t n_long, int n_results)
{
    return tile * n_results - (tile > n_long ? tile - n_long : 0);
}

/* Describes how vectors of results are completed (bias, addend, activation) and stored. */
typedef struct finish {
    const winograd_t *winograd;
    vector_t bias;
    int n_lanes; /* lanes of channels; the others are padding */
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

/* A tile's products of each kind of points, `stride` apart; the offset of its first result; and how
 * many of its rows and columns are inside the image. */
typedef struct result {
    const float *products[WINOGRAD_KINDS];
    int64_t stride, at, n_rows, n_columns;
    bool is_long_y, is_long_x;
} result_t;

/* True if the sum of a row is finite. A sum that overflows counts as not finite. */
KERNEL_INLINE bool is_finite_row(int tile, bool is_whole, int64_t n_columns, const vector_t *row)
{
    vector_t sum = row[0];
    if (is_whole) KERNEL_UNROLL
    for (int x = 1; x < tile; x++) sum += row[x];
    else for (int x = 1; x < n_columns; x++) sum += row[x];
    return vector_is_finite(sum);
}

/* Stores the results of a tile. Does not store rows with results that are not finite; returns these
 * rows as bits. */
KERNEL_INLINE uint8_t finish_tile(const finish_t *finish, int n_pairs, int tile, int step,
                                  const result_t *result)
{
    unsigned left_out = 0;
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
        if (!is_finite_row(tile, is_whole, result->n_columns, out)) {
            left_out |= 1u << y;
            continue;
        }
        if (is_whole) KERNEL_UNROLL
        for (int x = 0; x < tile; x++) put(finish, out[x], at + x * KERNEL_LANES);
        else for (int x = 0; x < result->n_columns; x++) put(finish, out[x], at + x * KERNEL_LANES);
    }
    return (uint8_t)left_out;
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}
