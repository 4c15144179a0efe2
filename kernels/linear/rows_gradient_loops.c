/* The loops of rows_gradient_impl.h, compiled once for each ISA (isa_impl.h). Sums stay in
 * registers over all rows. While one tile is computed, the data of the next tile is prefetched. */
#include "kernels/linear/rows_gradient_impl.h"
#include "kernels/vector_impl.h"

#define STEP ROWS_GRADIENT_STEP
#define VECTORS (KERNEL_REGISTERS / 8) /* vectors of outputs that are summed at once */
#define LINE 16

/* x and grad of a chunk's tiles, contiguous and padded with zeros. */
typedef struct packed {
    float x[ROWS_GRADIENT_CHUNK];                         /* [rows][n_inputs] */
    float grad[ROWS_GRADIENT_ROWS * ROWS_GRADIENT_BLOCK]; /* [rows][block of outputs] */
    int64_t n_inputs;
} packed_t;

static void pack(const float *from, int64_t n_rows, int64_t stride, int64_t n, int64_t n_padded,
                 float *to)
{
    for (int64_t r = 0; r < n_rows; r++, from += stride, to += n_padded) {
        memcpy(to, from, (size_t)n * sizeof *to);
        for (int64_t i = n; i < n_padded; i++) to[i] = 0.0f;
    }
}

/* One step of a tile: a few inputs and one block of outputs. */
typedef struct step {
    int64_t n_rows, n_inputs, block; /* n_inputs and block are also the row strides of x and grad */
    const float *x, *grad;
    float *out;
    const float *const *ahead;
    int64_t next; /* offset in `ahead` of the next tile's data to prefetch */
} step_t;

/* Prefetches elements [from, to) of the next tile in each array that `take` reads. They are
 * prefetched to the second-level cache, which can wait for more lines at the same time than the
 * first-level cache. */
KERNEL_INLINE void fetch(const step_t *s, int64_t from, int64_t to)
{
    for (int i = 0; i < ROWS_GRADIENT_AHEAD && s->ahead[i] != NULL; i++)
        for (int64_t at = from; at < to; at += LINE) __builtin_prefetch(s->ahead[i] + at, 0, 2);
}

/* Computes n_vectors vectors of outputs, from `output` of the block on. Also prefetches a share of
 * the next tile's data, spread evenly over the rows. */
KERNEL_INLINE void multiply(const step_t *s, int64_t output, int n_vectors)
{
    const int64_t n_floats = STEP * n_vectors * KERNEL_LANES;
    const int64_t with_row = ((n_floats / LINE + s->n_rows - 1) / s->n_rows) * LINE;
    const float *x = s->x, *grad = s->grad + output;
    int64_t next = s->next + STEP * output;
    const int64_t next_end = next + n_floats;
    vector_t sums[STEP][VECTORS];
    KERNEL_UNROLL
    for (int k = 0; k < STEP; k++) KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++) sums[k][v] = (vector_t){0};
    for (int64_t r = 0; r < s->n_rows; r++, x += s->n_inputs, grad += s->block) {
        vector_t grads[VECTORS];
        if (next < next_end) fetch(s, next, next + with_row);
        next += with_row;
        KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++) grads[v] = vector_load(grad + v * KERNEL_LANES);
        KERNEL_UNROLL
        for (int k = 0; k < STEP; k++) KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++) sums[k][v] += x[k] * grads[v];
    }
    KERNEL_UNROLL
    for (int k = 0; k < STEP; k++) KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++)
        vector_store(sums[k][v], s->out + output + k * s->block + v * KERNEL_LANES);
}

/* Computes a tile: n_inputs inputs of the chunk, from `input` on. The next tile is at `next`. */
static void make_tile(const rows_gradient_t *g, const packed_t *packed, int64_t input,
                      int64_t n_inputs, int64_t next, float *out)
{
    const int64_t block = g->outputs.block, width = VECTORS * KERNEL_LANES;
    for (int64_t k = 0; k < n_inputs; k += STEP) {
        const step_t step = {g->n_rows,    packed->n_inputs, block,    packed->x + input + k,
                             packed->grad, out + k * block,  g->ahead, next + k * block};
        int64_t j = 0;
        for (; j + width <= block; j += width) multiply(&step, j, VECTORS);
        for (; j < block; j += KERNEL_LANES) multiply(&step, j, 1);
    }
}

/* The inputs of a chunk. */
typedef struct chunk {
    int64_t first, last; /* blocks */
} chunk_t;

static chunk_t chunk_at(const rows_gradient_tiles_t *tiles, int64_t number)
{
    const int64_t n_blocks = axis_blocks(&tiles->gradient->inputs);
    const int64_t first = number * tiles->chunk_blocks, last = first + tiles->chunk_blocks;
    return (chunk_t){first, last < n_blocks ? last : n_blocks};
}

static void pack_inputs(const rows_gradient_t *g, chunk_t chunk, packed_t *packed)
{
    const int64_t first = chunk.first * g->inputs.block, rest = g->inputs.n - first;
    packed->n_inputs = (chunk.last - chunk.first) * g->inputs.block;
    pack(g->x + first, g->n_rows, g->inputs.n, rest < packed->n_inputs ? rest : packed->n_inputs,
         packed->n_inputs, packed->x);
}

static void pack_outputs(const rows_gradient_t *g, int64_t number, packed_t *packed)
{
    const int64_t block = g->outputs.block, first = number * block, rest = g->outputs.n - first;
    pack(g->grad + first, g->n_rows, g->outputs.n, rest < block ? rest : block, block,
         packed->grad);
}

/* Computes the tiles of one chunk and one block of outputs. `next` is the offset of the tile after
 * these. */
static void one_chunk(const rows_gradient_tiles_t *tiles, const packed_t *packed, chunk_t chunk,
                      int64_t output, int64_t next)
{
    const rows_gradient_t *g = tiles->gradient;
    const int64_t size = g->inputs.outer, tile = tiles->tile_blocks;
    float local[ROWS_GRADIENT_BLOCK * ROWS_GRADIENT_BLOCK];
    for (int64_t b = chunk.first; b < chunk.last; b += tile) {
        const int64_t end = b + tile < chunk.last ? b + tile : chunk.last;
        const int64_t at = output * g->outputs.outer + b * size;
        const int64_t behind = end < chunk.last ? at + (end - b) * size : next;
        float *out = g->out != NULL ? g->out + at : local;
        make_tile(g, packed, (b - chunk.first) * g->inputs.block, (end - b) * g->inputs.block,
                  behind, out);
        if (g->out == NULL) g->take(g->user, at, (end - b) * size, local);
    }
}

static void chunks(const rows_gradient_tiles_t *tiles, int64_t first, int64_t last)
{
    const rows_gradient_t *g = tiles->gradient;
    const int64_t n_outputs = axis_blocks(&g->outputs);
    packed_t packed;
    for (int64_t c = first; c < last; c++) {
        const chunk_t chunk = chunk_at(tiles, c / n_outputs);
        if (c == first || c % n_outputs == 0) pack_inputs(g, chunk, &packed);
        pack_outputs(g, c % n_outputs, &packed);
        const int64_t next = c + 1 < last ? c + 1 : c;
        one_chunk(tiles, &packed, chunk, c % n_outputs,
                  next % n_outputs * g->outputs.outer +
                      chunk_at(tiles, next / n_outputs).first * g->inputs.outer);
    }
}

const rows_gradient_loops_t KERNEL_NAME(rows_gradient) = {chunks};
