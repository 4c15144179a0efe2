/* The loops of product_impl.h, compiled once for each ISA (isa_impl.h). The inner loop is compiled
 * for each number of rows, so that all sums stay in registers. */
#include "kernels/linear/product_impl.h"
#include "kernels/vector_impl.h"

#if KERNEL_REGISTERS > 16
#define PRODUCT_ROWS 14 /* maximum number of rows in a group */
#else
#define PRODUCT_ROWS 6
#endif
#define VECTORS 2                      /* vectors of outputs that are summed together */
#define WIDTH (VECTORS * KERNEL_LANES) /* outputs that are summed together; divides a block */
#define CHUNK 768                      /* inputs that are summed at once */

/* A tile: one group of rows, a range of inputs, and WIDTH outputs. */
typedef struct tile {
    int64_t row, column;
    int n_columns;       /* WIDTH, or less at the end */
    const float *x;      /* [n_inputs][rows] */
    const float *weight; /* [n_inputs][PRODUCT_BLOCK], from the tile's first output on */
    int64_t n_inputs;
    bool is_first, is_last; /* the first, the last range of inputs */
    const char *ahead;      /* address to prefetch; advances by ahead_step bytes with each input */
    int64_t ahead_step;
} tile_t;

KERNEL_INLINE void leave_some(const product_t *p, const tile_t *tile, int n_rows,
                              const vector_t (*sums)[VECTORS])
{
    for (int r = 0; r < n_rows; r++) {
        float *out = p->out + (tile->row + r) * p->out_stride + tile->column;
        for (int v = 0; v < VECTORS; v++) {
            const int at = v * KERNEL_LANES, n = tile->n_columns - at;
            vector_t sum = sums[r][v];
            if (n <= 0) break;
            if (!tile->is_first || p->accumulates) sum += vector_load_some(out + at, n);
            if (tile->is_last && p->bias != NULL)
                sum += vector_load_some(p->bias + tile->column + at, n);
            vector_store_some(sum, out + at, n);
        }
    }
}

/* Does the same as leave_some for WIDTH columns, but faster, because the sums stay in registers. */
KERNEL_INLINE void leave_all(const product_t *p, const tile_t *tile, int n_rows,
                             const vector_t (*sums)[VECTORS])
{
    float *out = p->out + tile->row * p->out_stride + tile->column;
    vector_t bias[VECTORS] = {{0}};
    if (tile->is_last && p->bias != NULL) KERNEL_UNROLL
    for (int v = 0; v < VECTORS; v++)
        bias[v] = vector_load(p->bias + tile->column + v * KERNEL_LANES);
    if (!tile->is_first || p->accumulates) {
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++, out += p->out_stride) KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++)
            vector_store(sums[r][v] + bias[v] + vector_load(out + v * KERNEL_LANES),
                         out + v * KERNEL_LANES);
    } else {
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++, out += p->out_stride) KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++)
            vector_store(sums[r][v] + bias[v], out + v * KERNEL_LANES);
    }
}

/* Prefetches the cache lines of the result that are read or written at the end. */
KERNEL_INLINE void fetch_out(const product_t *p, const tile_t *tile, int n_rows)
{
    const char *out = (const char *)(p->out + tile->row * p->out_stride + tile->column);
    const int64_t row = p->out_stride * (int64_t)sizeof(float);
    for (int r = 0; r < n_rows; r++)
        for (int64_t at = 0; at < WIDTH * (int64_t)sizeof(float); at += 64)
            __builtin_prefetch(out + r * row + at, 1);
}

KERNEL_INLINE void multiply(const product_t *p, const tile_t *tile, int n_rows)
{
    vector_t sums[PRODUCT_ROWS][VECTORS];
    fetch_out(p, tile, n_rows);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int v = 0; v < VECTORS; v++) sums[r][v] = (vector_t){0};
    const float *x = tile->x, *weight = tile->weight;
    const char *ahead = tile->ahead;
    for (int64_t i = 0; i < tile->n_inputs; i++, x += n_rows, weight += PRODUCT_BLOCK) {
        vector_t weights[VECTORS];
        __builtin_prefetch(ahead);
        ahead += tile->ahead_step;
        KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++) weights[v] = vector_load(weight + v * KERNEL_LANES);
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++) sums[r][v] += x[r] * weights[v];
    }
    if (tile->n_columns == WIDTH)
        leave_all(p, tile, n_rows, (const vector_t(*)[VECTORS])sums);
    else
        leave_some(p, tile, n_rows, (const vector_t(*)[VECTORS])sums);
    if (!tile->is_last || p->finish == NULL) return;
    for (int r = 0; r < n_rows; r++)
        p->finish(p->user, tile->row + r, tile->column, tile->n_columns,
                  p->out + (tile->row + r) * p->out_stride + tile->column);
}

#define ROWS(n)                                                                                    \
    case n: multiply(p, tile, n); break;

static void multiply_group(const product_t *p, const tile_t *tile, int64_t n_rows)
{
    switch (n_rows) {
        KERNEL_UP_TO(PRODUCT_ROWS, ROWS)
    default: break;
    }
}

static const float *weight_at(const product_t *p, int64_t column, int64_t input)
{
    return p->weight + (column / PRODUCT_BLOCK - p->first_block) * p->block_stride +
           input * PRODUCT_BLOCK + column % PRODUCT_BLOCK;
}

/* Multiplies all groups of rows for WIDTH outputs and inputs [from, to). Each group prefetches a
 * part of the weights at `next`, which the hardware does not prefetch. */
static void multiply_columns(const product_rows_t *rows, int64_t column, int64_t from, int64_t to,
                             const float *next)
{
    const product_t *p = rows->product;
    const int64_t rest = p->n_outputs - column;
    const int64_t step = PRODUCT_BLOCK * (int64_t)sizeof(float) / rows->n_groups + 1;
    for (int64_t g = 0; g < rows->n_groups; g++) {
        const int64_t begin = rows->n_rows * g / rows->n_groups;
        const int64_t n = rows->n_rows * (g + 1) / rows->n_groups - begin;
        const tile_t tile = {.row = rows->first + begin,
                             .column = column,
                             .n_columns = rest < WIDTH ? (int)rest : WIDTH,
                             .x = rows->copy + begin * p->n_inputs + from * n,
                             .weight = weight_at(p, column, from),
                             .n_inputs = to - from,
                             .is_first = from == 0,
                             .is_last = to == p->n_inputs,
                             .ahead = (const char *)next + g * step * (to - from),
                             .ahead_step = step};
        multiply_group(p, &tile, n);
    }
}

static void blocks(const product_rows_t *rows, int64_t first, int64_t last)
{
    const product_t *p = rows->product;
    const int64_t n_chunks = (p->n_inputs + CHUNK - 1) / CHUNK, begin = first * PRODUCT_BLOCK;
    const int64_t end = last * PRODUCT_BLOCK < p->n_outputs ? last * PRODUCT_BLOCK : p->n_outputs;
    for (int64_t chunk = 0; chunk < n_chunks; chunk++) {
        const int64_t from = p->n_inputs * chunk / n_chunks;
        const int64_t to = p->n_inputs * (chunk + 1) / n_chunks;
        for (int64_t column = begin; column < end; column += WIDTH) {
            const bool has_next = column + WIDTH < end;
            const float *next = has_next ? weight_at(p, column + WIDTH, from)
                                         : weight_at(p, begin, to < p->n_inputs ? to : 0);
            multiply_columns(rows, column, from, to, next);
        }
    }
}

/* ---- rows ---- */

/* Transposes KERNEL_LANES vectors in log2(KERNEL_LANES) steps. Each step works on pairs of vectors
 * whose numbers differ in one bit (s). It exchanges those elements of the first vector whose index
 * has this bit with those of the second whose index does not. */
#define LOW(j, s) (((j) & (s)) != 0 ? KERNEL_LANES + (j) - (s) : (j))
#define HIGH(j, s) (((j) & (s)) != 0 ? KERNEL_LANES + (j) : (j) + (s))
#define EIGHT(of, j, s)                                                                            \
    of((j), s), of((j) + 1, s), of((j) + 2, s), of((j) + 3, s), of((j) + 4, s), of((j) + 5, s),    \
        of((j) + 6, s), of((j) + 7, s)
#if KERNEL_LANES == 16
#define ALL(of, s) EIGHT(of, 0, s), EIGHT(of, 8, s)
#else
#define ALL(of, s) EIGHT(of, 0, s)
#endif
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else /* gcc has __builtin_shufflevector from version 12 on */
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vector_u32_t){__VA_ARGS__})
#endif
#define SWAP(s)                                                                                    \
    KERNEL_UNROLL                                                                                  \
    for (int i = 0; i < KERNEL_LANES; i++)                                                         \
        if ((i & (s)) == 0) {                                                                      \
            const vector_t a = v[i], b = v[i + (s)];                                               \
            v[i] = SHUFFLE(a, b, ALL(LOW, s));                                                     \
            v[i + (s)] = SHUFFLE(a, b, ALL(HIGH, s));                                              \
        }

KERNEL_INLINE void transpose(vector_t *v)
{
    SWAP(1)
    SWAP(2)
    SWAP(4)
#if KERNEL_LANES == 16
    SWAP(8)
#endif
}

/* Transposes the next KERNEL_LANES inputs of n rows of x to `to`, with stride `step`. If `step` is
 * less than a vector, each store also writes elements after its own, which the store of the next
 * input overwrites. */
KERNEL_INLINE void copy_inputs(const float *x, int64_t stride, int64_t n, float *to, int64_t step)
{
    vector_t v[KERNEL_LANES];
    KERNEL_UNROLL
    for (int r = 0; r < KERNEL_LANES; r++)
        v[r] = r < n ? vector_load(x + r * stride) : (vector_t){0};
    transpose(v);
    KERNEL_UNROLL
    for (int i = 0; i < KERNEL_LANES; i++) vector_store(v[i], to + i * step);
}

static void copy_groups(const product_rows_t *rows, int64_t first, int64_t last)
{
    const product_t *p = rows->product;
    for (int64_t g = first; g < last; g++) {
        const int64_t begin = rows->n_rows * g / rows->n_groups;
        const int64_t n = rows->n_rows * (g + 1) / rows->n_groups - begin;
        const float *x = p->x + (rows->first + begin) * p->x_stride;
        float *copy = rows->copy + begin * p->n_inputs;
        int64_t i = 0;
        for (; (i + KERNEL_LANES - 1) * n + KERNEL_LANES <= p->n_inputs * n; i += KERNEL_LANES)
            copy_inputs(x + i, p->x_stride, n, copy + i * n, n);
        for (; i < p->n_inputs; i++)
            for (int64_t r = 0; r < n; r++) copy[i * n + r] = x[r * p->x_stride + i];
    }
}

static void pack(const product_pack_t *pack)
{
    const int64_t n_inputs = pack->n_inputs, stride = pack->row_stride;
    const int64_t n_blocks = (pack->n_outputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    for (int64_t o = 0; o < n_blocks * PRODUCT_BLOCK; o += KERNEL_LANES) {
        const int64_t rest = pack->n_outputs - o, some = rest < KERNEL_LANES ? rest : KERNEL_LANES;
        const int64_t n = some > 0 ? some : 0;
        const float *rows = pack->rows + (n > 0 ? o * stride : 0);
        float *to = pack->to + o / PRODUCT_BLOCK * pack->block_stride + o % PRODUCT_BLOCK;
        int64_t i = 0;
        for (; i + KERNEL_LANES <= n_inputs; i += KERNEL_LANES)
            copy_inputs(rows + i, stride, n, to + i * PRODUCT_BLOCK, PRODUCT_BLOCK);
        for (; i < n_inputs; i++)
            for (int64_t r = 0; r < KERNEL_LANES; r++)
                to[i * PRODUCT_BLOCK + r] = r < n ? rows[r * stride + i] : 0.0f;
    }
}

const product_loops_t KERNEL_NAME(product) = {PRODUCT_ROWS, copy_groups, blocks, pack};
