/* The loops of product_impl.h for vectors of KERNEL_LANES floats. The including file defines,
 * besides that,
 *
 *   PRODUCT_LOOPS    the name of its product_loops_t
 *   PRODUCT_ROWS     rows of a group, at most 14
 *   PRODUCT_VECTORS  vectors of outputs that are summed at once: with the rows and a number of x,
 *                    as many as the machine holds
 *
 * The number of rows is a constant of each copy of the inner loop, so that all sums stay in
 * registers. */
#include "kernels/product_impl.h"
#include "kernels/vector_impl.h"

#define WIDTH (PRODUCT_VECTORS * KERNEL_LANES) /* outputs at once, a part of a block */
#define CHUNK 768                              /* inputs at once */

/* A group of rows, over some inputs, by WIDTH outputs. */
typedef struct tile {
    int64_t row, column;
    int n_columns;       /* of WIDTH: fewer at the end */
    const float *x;      /* [n_inputs][rows] */
    const float *weight; /* [n_inputs][PRODUCT_BLOCK], from the tile's first output on */
    int64_t n_inputs;
    bool is_first, is_last; /* of the inputs */
} tile_t;

/* Up to a vector of n floats; the others are zero, or stay. */
KERNEL_INLINE vector_t load_some(const float *from, int n)
{
    vector_t v = {0};
    if (n >= KERNEL_LANES) return vector_load(from);
    if (n > 0) memcpy(&v, from, (size_t)n * sizeof *from);
    return v;
}

KERNEL_INLINE void store_some(vector_t v, float *to, int n)
{
    if (n >= KERNEL_LANES)
        vector_store(v, to);
    else if (n > 0)
        memcpy(to, &v, (size_t)n * sizeof *to);
}

KERNEL_INLINE void add_sums(const product_t *p, const tile_t *tile, int n_rows,
                            const vector_t (*sums)[PRODUCT_VECTORS])
{
    for (int r = 0; r < n_rows; r++) {
        float *out = p->out + (tile->row + r) * p->out_stride + tile->column;
        KERNEL_UNROLL
        for (int v = 0; v < PRODUCT_VECTORS; v++) {
            const int at = v * KERNEL_LANES, n = tile->n_columns - at;
            vector_t sum = sums[r][v];
            if (n <= 0) break;
            if (!tile->is_first || p->accumulates) sum += load_some(out + at, n);
            if (tile->is_last && p->bias != NULL) sum += load_some(p->bias + tile->column + at, n);
            store_some(sum, out + at, n);
        }
        if (tile->is_last && p->finish != NULL)
            p->finish(p->user, tile->row + r, tile->column, tile->n_columns, out);
    }
}

KERNEL_INLINE void multiply(const product_t *p, const tile_t *tile, int n_rows)
{
    vector_t sums[PRODUCT_ROWS][PRODUCT_VECTORS];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int v = 0; v < PRODUCT_VECTORS; v++) sums[r][v] = (vector_t){0};
    const float *x = tile->x, *weight = tile->weight;
    for (int64_t i = 0; i < tile->n_inputs; i++, x += n_rows, weight += PRODUCT_BLOCK) {
        vector_t weights[PRODUCT_VECTORS];
        KERNEL_UNROLL
        for (int v = 0; v < PRODUCT_VECTORS; v++)
            weights[v] = vector_load(weight + v * KERNEL_LANES);
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
        for (int v = 0; v < PRODUCT_VECTORS; v++) sums[r][v] += x[r] * weights[v];
    }
    add_sums(p, tile, n_rows, (const vector_t(*)[PRODUCT_VECTORS])sums);
}

#define ROWS(n)                                                                                    \
    case n: multiply(p, tile, n); break

static void multiply_group(const product_t *p, const tile_t *tile, int64_t n_rows)
{
    switch (n_rows) {
        ROWS(1);
        ROWS(2);
        ROWS(3);
        ROWS(4);
        ROWS(5);
#if PRODUCT_ROWS > 6
        ROWS(6);
        ROWS(7);
        ROWS(8);
        ROWS(9);
        ROWS(10);
        ROWS(11);
        ROWS(12);
        ROWS(13);
#endif
    default: multiply(p, tile, PRODUCT_ROWS); break;
    }
}

/* All groups of rows by WIDTH outputs, over inputs [from, to). */
static void multiply_columns(const product_rows_t *rows, int64_t column, int64_t from, int64_t to)
{
    const product_t *p = rows->product;
    const int64_t rest = p->n_outputs - column, block = column / PRODUCT_BLOCK;
    for (int64_t g = 0; g < rows->n_groups; g++) {
        const int64_t begin = rows->n_rows * g / rows->n_groups;
        const int64_t n = rows->n_rows * (g + 1) / rows->n_groups - begin;
        const tile_t tile = {.row = rows->first + begin,
                             .column = column,
                             .n_columns = rest < WIDTH ? (int)rest : WIDTH,
                             .x = rows->copy + begin * p->n_inputs + from * n,
                             .weight = p->weight + block * p->block_stride + from * PRODUCT_BLOCK +
                                       column % PRODUCT_BLOCK,
                             .n_inputs = to - from,
                             .is_first = from == 0,
                             .is_last = to == p->n_inputs};
        multiply_group(p, &tile, n);
    }
}

static void blocks(const product_rows_t *rows, int64_t first, int64_t last)
{
    const product_t *p = rows->product;
    const int64_t n_chunks = (p->n_inputs + CHUNK - 1) / CHUNK;
    const int64_t end = last * PRODUCT_BLOCK < p->n_outputs ? last * PRODUCT_BLOCK : p->n_outputs;
    for (int64_t chunk = 0; chunk < n_chunks; chunk++) {
        const int64_t from = p->n_inputs * chunk / n_chunks;
        const int64_t to = p->n_inputs * (chunk + 1) / n_chunks;
        for (int64_t column = first * PRODUCT_BLOCK; column < end; column += WIDTH)
            multiply_columns(rows, column, from, to);
    }
}

const product_loops_t PRODUCT_LOOPS = {PRODUCT_ROWS, blocks};
