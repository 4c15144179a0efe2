/* The loops of strassen_impl.h, compiled once for each ISA (isa_impl.h). The sums of KERNEL_ROWS
 * rows, for two vectors of outputs, stay in registers. */
#include "kernels/linear/strassen_quarters_impl.h"

#define SAVED (KERNEL_ROWS * WIDTH)

/* Weights to prefetch: `step` bytes for each input that is multiplied. */
typedef struct fetch {
    const char *at;
    int64_t step;
} fetch_t;

typedef struct tile {
    int64_t image, row;     /* first row of the tile, which is paired with row + half */
    int64_t pair;           /* pair of vectors in the first half of the outputs */
    bool misses_last;       /* the number of rows is odd, so the last row has no partner */
    bool is_first, is_last; /* the first, the last chunk of inputs */
    int64_t n_blocks;       /* blocks of inputs */
    bool is_apart;          /* rows are multiplied separately: see are_apart */
    const float *sources;
    weights_t weights[N_WEIGHTS];
    fetch_t fetch[N_WEIGHTS];
    float *saved; /* [N_SAVED][rows][WIDTH] */
} tile_t;

/* The eight products for rows that are multiplied separately. */
static const quarter_t apart[] = {
    {false, false, 2, {{NOTHING, X11, W11, NOTHING}, {NOTHING, X12, W21, NOTHING}}},
    {true, false, 2, {{NOTHING, X21, W11, NOTHING}, {NOTHING, X22, W21, NOTHING}}},
    {false, true, 2, {{NOTHING, X11, W12, NOTHING}, {NOTHING, X12, W22, NOTHING}}},
    {true, true, 2, {{NOTHING, X21, W12, NOTHING}, {NOTHING, X22, W22, NOTHING}}}};

/* ---- sums of products ---- */

KERNEL_INLINE void add_product(const tile_t *tile, int n_rows, const step_t *step,
                               vector_t (*sums)[VECTORS])
{
    const int64_t rows = n_rows * KERNEL_LANES;
    const float *block = tile->sources + step->source * tile->n_blocks * rows;
    const weights_t weights = tile->weights[step->weight];
    fetch_t fetch = tile->fetch[step->weight];
    const float *weight = weights.first;
    for (int64_t b = 0; b < tile->n_blocks; b++, block += rows) {
        const float *x = block;
        for (int c = 0; c < KERNEL_LANES; c++, x++, weight += weights.input) {
            vector_t w[VECTORS];
            __builtin_prefetch(fetch.at, 0, 2);
            fetch.at += fetch.step;
            KERNEL_UNROLL
            for (int v = 0; v < VECTORS; v++) w[v] = vector_load(weight + v * weights.vector);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
            for (int v = 0; v < VECTORS; v++) sums[r][v] += x[r * KERNEL_LANES] * w[v];
        }
    }
}

/* Finds the first row of one quarter of a tile's results. */
static inline int64_t first_row(const strassen_images_t *images, const tile_t *tile,
                                const quarter_t *quarter)
{
    return tile->row + (quarter->has_last_rows ? images->half : 0);
}

static inline int64_t first_column(const strassen_images_t *images, const tile_t *tile,
                                   const quarter_t *quarter)
{
    return tile->pair * WIDTH + (quarter->has_last_outputs ? images->strassen->n_outputs / 2 : 0);
}

static inline int64_t find_results(const strassen_images_t *images, const tile_t *tile,
                                   const quarter_t *quarter)
{
    const strassen_t *s = images->strassen;
    return tile->image * s->out_image + first_row(images, tile, quarter) * s->out_row +
           first_column(images, tile, quarter) / KERNEL_LANES * s->out_block;
}

/* Calls s->finish for each contiguous range of results. */
static void finish(const strassen_images_t *images, const tile_t *tile, int n_rows,
                   const quarter_t *quarter)
{
    const strassen_t *s = images->strassen;
    const int64_t column = first_column(images, tile, quarter);
    const int64_t row = tile->image * s->n_rows + first_row(images, tile, quarter);
    float *out = s->out + find_results(images, tile, quarter);
    if (s->out_row == KERNEL_LANES)
        for (int v = 0; v < VECTORS; v++)
            s->finish(s->user, row, column + v * KERNEL_LANES, n_rows * KERNEL_LANES,
                      out + v * s->out_block);
    else
        for (int r = 0; r < n_rows; r++)
            s->finish(s->user, row + r, column, WIDTH, out + r * s->out_row);
}

/* Writes a quarter of a tile's results. Each loop processes all sums, so that these stay in
 * registers. */
KERNEL_INLINE void leave(const strassen_images_t *images, const tile_t *tile, int n_rows,
                         const quarter_t *quarter, vector_t (*sums)[VECTORS])
{
    const strassen_t *s = images->strassen;
    const int64_t at = find_results(images, tile, quarter);
    const vector_t lower = s->lower - (vector_t){0}, upper = s->upper - (vector_t){0};
    const float *addend = tile->is_first ? s->addend : s->out;
    const bool is_whole = !quarter->has_last_rows || !tile->misses_last;
    KERNEL_UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const int64_t to = at + v * s->out_block;
        if (tile->is_last && s->bias != NULL) {
            const vector_t bias = vector_load(s->bias + first_column(images, tile, quarter) +
                                              v * KERNEL_LANES);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) sums[r][v] += bias;
        }
        if (addend != NULL) {
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++)
                if (r + 1 < n_rows || is_whole)
                    sums[r][v] += vector_load(addend + to + r * s->out_row);
        }
        if (tile->is_last && s->is_clamped) {
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) sums[r][v] = vector_clamp(sums[r][v], lower, upper);
        }
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++)
            if (r + 1 < n_rows || is_whole) vector_store(sums[r][v], s->out + to + r * s->out_row);
    }
    if (tile->is_last && s->finish != NULL)
        finish(images, tile, n_rows - (is_whole ? 0 : 1), quarter);
}

/* Prefetches the lines of results that `leave` reads or writes. */
KERNEL_INLINE void fetch_results(const strassen_images_t *images, const tile_t *tile, int n_rows,
                                 const quarter_t *quarter)
{
    const strassen_t *s = images->strassen;
    const int64_t at = find_results(images, tile, quarter);
    KERNEL_ROLL
    for (int r = 0; r < n_rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            const int64_t to = at + r * s->out_row + v * s->out_block;
            __builtin_prefetch(s->out + to, 0, 2);
            if (tile->is_first && s->addend != NULL) __builtin_prefetch(s->addend + to, 0, 2);
        }
}

KERNEL_INLINE void add_saved(const float *saved, int n_rows, vector_t (*sums)[VECTORS])
{
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int v = 0; v < VECTORS; v++)
        sums[r][v] += vector_load(saved + r * WIDTH + v * KERNEL_LANES);
}

KERNEL_INLINE void save(vector_t (*sums)[VECTORS], int n_rows, float *to)
{
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int v = 0; v < VECTORS; v++) vector_store(sums[r][v], to + r * WIDTH + v * KERNEL_LANES);
}

/* Computes seven products and adds them to the quarters of the result. The steps are a loop, so
 * that all of them use the same registers for the sums. */
KERNEL_INLINE void multiply(const strassen_images_t *images, const tile_t *tile, int n_rows)
{
    for (int q = 0; q < 4; q++) {
        const quarter_t *quarter = tile->is_apart ? &apart[q] : &quarters[q];
        vector_t sums[KERNEL_ROWS][VECTORS];
        fetch_results(images, tile, n_rows, quarter);
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++) sums[r][v] = (vector_t){0};
        for (int i = 0; i < quarter->n_steps; i++) {
            const step_t *step = &quarter->steps[i];
            if (step->adds != NOTHING) add_saved(tile->saved + step->adds * SAVED, n_rows, sums);
            if (step->source != NOTHING) add_product(tile, n_rows, step, sums);
            if (step->save != NOTHING) save(sums, n_rows, tile->saved + step->save * SAVED);
        }
        leave(images, tile, n_rows, quarter, sums);
    }
}

#define ROWS(n)                                                                                    \
    case n: multiply(images, tile, n); break;

static void multiply_rows(const strassen_images_t *images, const tile_t *tile, int64_t n_rows)
{
    switch (n_rows) {
        KERNEL_UP_TO(KERNEL_ROWS, ROWS)
    default: break;
    }
}

/* ---- all tiles ---- */

/* Weight factors whose products prefetch the weights of the next outputs, one quarter of these
 * each. Quarters with the first half of the inputs come first. */
static const int fetching[4] = {W11, W22_T1, W12_11, W22};

/* Finds the part of a weight's quarter that one tile prefetches. If its two vectors of outputs are
 * not adjacent, only the first is prefetched. */
static fetch_t fetch_share(weights_t weights, int64_t n_inputs, int64_t tile, int64_t n_tiles)
{
    const int64_t step = weights.input * (int64_t)sizeof(float) / n_tiles + 1;
    return (fetch_t){(const char *)weights.first + tile * step * n_inputs, step};
}

static void multiply_pair(const strassen_images_t *images, const strassen_part_t *part,
                          int64_t pair, int64_t next)
{
    const strassen_t *s = images->strassen;
    const int64_t n_blocks = part->last_block - part->first_block;
    const int64_t n_inputs = n_blocks * KERNEL_LANES, n_tiles = part->last - part->first;
    float saved[N_SAVED * SAVED];
    const fetch_t nothing = {(const char *)saved, 0};
    weights_t later[4];
    tile_t tile = {.pair = pair,
                   .is_first = part->first_block == 0,
                   .is_last = part->last_block * KERNEL_LANES * 2 == s->n_inputs,
                   .n_blocks = n_blocks,
                   .saved = saved};
    make_weights(s, part, pair);
    for (int i = 0; i < STRASSEN_WEIGHTS; i++)
        tile.weights[i] = (weights_t){part->weights + i * STRASSEN_WEIGHT(n_inputs, KERNEL_LANES),
                                      WIDTH, KERNEL_LANES};
    tile.weights[W11] = find_weights(s, part, pair, false, false);
    tile.weights[W12] = find_weights(s, part, pair, false, true);
    tile.weights[W21] = find_weights(s, part, pair, true, false);
    tile.weights[W22] = find_weights(s, part, pair, true, true);
    for (int i = 0; i < N_WEIGHTS; i++) tile.fetch[i] = nothing;
    for (int q = 0; q < 4; q++) later[q] = find_weights(s, part, next, q / 2 == 1, q % 2 == 1);
    for (int64_t t = 0; t < n_tiles; t++) {
        const tile_at_t at = find_tile(images, part->first + t);
        tile.image = at.image;
        tile.row = at.begin;
        tile.misses_last = at.begin + at.n_rows + images->half > s->n_rows;
        tile.sources = tile_sources(images, part, t);
        tile.is_apart = tile.sources[-1] != 0.0f;
        for (int q = 0; q < 4; q++)
            tile.fetch[fetching[q]] = fetch_share(later[q], n_inputs, t, n_tiles);
        multiply_rows(images, &tile, at.n_rows);
    }
}

static void multiply_part(const strassen_images_t *images, const strassen_part_t *part)
{
    for (int64_t t = 0; t < part->last - part->first; t++) make_tile(images, part, t);
    for (int64_t pair = part->first_pair; pair < part->last_pair; pair++)
        multiply_pair(images, part, pair, pair + 1 < part->last_pair ? pair + 1 : part->first_pair);
}

const strassen_loops_t KERNEL_NAME(strassen) = {KERNEL_ROWS, multiply_part};
