/* Products of rows with a packed weight of sequence_impl.h, using Strassen's algorithm and vectors
 * of KERNEL_LANES floats. Included by sequence_loops.c.
 *
 * The first half of the outputs is gates i and f, the last half is g and o. In a block, a half has
 * HALF_WIDTH elements. */
#include "kernels/linear/strassen_sources_impl.h"
#include "kernels/tiles_impl.h"

#define HALF_GATES 2
#define HALF_WIDTH (HALF_GATES * KERNEL_LANES)
#define SAVED (KERNEL_ROWS * HALF_WIDTH)

/* Floats in one block of the weight. */
#define HALVES_BLOCK(n_inputs) (SEQUENCE_HALVES * (n_inputs)*KERNEL_LANES)

/* Prefetch distances in bytes: to the L2 cache, and from there to the L1 cache. */
#define FAR_AHEAD 8192
#define AHEAD 1024

/* Position of each weight factor (kernels/linear/strassen_impl.h) in a packed weight, in the order
 * in which they are read. W12 is not packed, because W12 = W11 + W12_11. */
static const int packed_at[N_WEIGHTS] = {
    [W11] = 0, [W21] = 1, [W22_T1] = 2, [W22_12] = 3, [W21_T2] = 4, [W12_11] = 5, [W22] = 6};

/* Eight plain products instead of seven, for rows that Strassen's algorithm must not mix. */
static const quarter_t halves_apart[] = {
    {false, false, 2, {{NOTHING, X11, W11, U1}, {NOTHING, X12, W21, NOTHING}}},
    {false, true, 2, {{U1, X11, W12_11, NOTHING}, {NOTHING, X12, W22, NOTHING}}},
    {true, false, 2, {{NOTHING, X21, W11, U2}, {NOTHING, X22, W21, NOTHING}}},
    {true, true, 2, {{U2, X21, W12_11, NOTHING}, {NOTHING, X22, W22, NOTHING}}}};

/* ---- tiles ---- */

/* A tile is a range of rows in the first half of all rows, and the rows `half` later. */
typedef struct tiles {
    int64_t n, n_rows, half, n_inputs;
    float *sources; /* STRASSEN_TILE floats for each tile */
} tiles_t;

/* Number of rows in the last half of a tile. May be one less than in the first half. */
static int64_t last_rows(const tiles_t *tiles, tile_at_t at)
{
    const int64_t n = tiles->n_rows - tiles->half - at.begin;
    return n < at.n_rows ? n : at.n_rows;
}

static float *tile_sources(const tiles_t *tiles, int64_t t)
{
    const int64_t most = divide_up(tiles->half, tiles->n);
    return tiles->sources + t * STRASSEN_TILE(tiles->n_inputs / 2, most, KERNEL_LANES) +
           KERNEL_LANES;
}

static source_rows_t begin_rows(const tiles_t *tiles, tile_at_t at, const float *x)
{
    return (source_rows_t){.x = x,
                           .block = KERNEL_LANES,
                           .last_inputs = tiles->n_inputs / 2,
                           .n_rows = at.n_rows,
                           .n_last = last_rows(tiles, at)};
}

/* ---- products ---- */

/* Product of a tile with a block of the weight. */
typedef struct halves {
    bool is_apart, misses_last; /* multiply with halves_apart; the last half has one row less */
    int64_t n_blocks;           /* blocks of KERNEL_LANES in half of the inputs */
    const float *sources, *weight;
    const float *from[2]; /* initial sums of the first and the last rows */
    int64_t from_stride;  /* 0: same initial sums for all rows */
    float *to[2];         /* [rows][gates][lanes] */
    float *saved;         /* [N_SAVED][rows][HALF_WIDTH] */
} halves_t;

KERNEL_INLINE void add_halves(const halves_t *halves, int n_rows, const step_t *of,
                              vector_t (*sums)[HALF_GATES])
{
    const int64_t rows = n_rows * KERNEL_LANES;
    const float *x = halves->sources + of->source * halves->n_blocks * rows;
    const float *weight = halves->weight +
                          packed_at[of->weight] * halves->n_blocks * KERNEL_LANES * HALF_WIDTH;
    for (int64_t b = 0; b < halves->n_blocks; b++, x += rows - KERNEL_LANES)
        for (int c = 0; c < KERNEL_LANES; c++, x++, weight += HALF_WIDTH) {
            vector_t w[HALF_GATES];
            KERNEL_UNROLL
            for (int v = 0; v < HALF_GATES; v++) {
                const char *next = (const char *)(weight + v * KERNEL_LANES);
                __builtin_prefetch(next + FAR_AHEAD, 0, 2);
                __builtin_prefetch(next + AHEAD);
                w[v] = vector_load(weight + v * KERNEL_LANES);
            }
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
            for (int v = 0; v < HALF_GATES; v++) sums[r][v] += x[r * KERNEL_LANES] * w[v];
        }
}

KERNEL_INLINE void leave_halves(const halves_t *halves, int n_rows, const quarter_t *quarter,
                                vector_t (*sums)[HALF_GATES])
{
    const int half = quarter->has_last_rows ? 1 : 0;
    const int64_t gates = quarter->has_last_outputs ? HALF_WIDTH : 0;
    const float *from = halves->from[half] + gates;
    float *to = halves->to[half] + gates;
    const bool is_whole = half == 0 || !halves->misses_last;
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int v = 0; v < HALF_GATES; v++)
        if (r + 1 < n_rows || is_whole)
            vector_store(sums[r][v] +
                             vector_load(from + r * halves->from_stride + v * KERNEL_LANES),
                         to + (r * 2 * HALF_GATES + v) * KERNEL_LANES);
}

KERNEL_INLINE void add_saved(const float *saved, int n_rows, vector_t (*sums)[HALF_GATES])
{
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int v = 0; v < HALF_GATES; v++)
        sums[r][v] += vector_load(saved + r * HALF_WIDTH + v * KERNEL_LANES);
}

KERNEL_INLINE void save(vector_t (*sums)[HALF_GATES], int n_rows, float *to)
{
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int v = 0; v < HALF_GATES; v++)
        vector_store(sums[r][v], to + r * HALF_WIDTH + v * KERNEL_LANES);
}

/* The steps of a quarter stay a loop, so that all of them use the same registers for sums. */
KERNEL_INLINE void multiply_halves(const halves_t *halves, int n_rows)
{
    for (int q = 0; q < 4; q++) {
        const quarter_t *quarter = halves->is_apart ? &halves_apart[q] : &quarters[q];
        vector_t sums[KERNEL_ROWS][HALF_GATES];
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
        for (int v = 0; v < HALF_GATES; v++) sums[r][v] = (vector_t){0};
        for (int i = 0; i < quarter->n_steps; i++) {
            const step_t *of = &quarter->steps[i];
            if (of->adds != NOTHING) add_saved(halves->saved + of->adds * SAVED, n_rows, sums);
            if (of->source != NOTHING) add_halves(halves, n_rows, of, sums);
            if (of->save != NOTHING) save(sums, n_rows, halves->saved + of->save * SAVED);
        }
        leave_halves(halves, n_rows, quarter, sums);
    }
}

#define HALVES(n)                                                                                  \
    case n: multiply_halves(halves, n); break;

static void multiply_tile(const tiles_t *tiles, int64_t t, const halves_t *given)
{
    const tile_at_t at = tile_find(tiles->half, tiles->n, t);
    float saved[N_SAVED * SAVED];
    halves_t of_tile = *given;
    const halves_t *halves = &of_tile;
    of_tile.sources = tile_sources(tiles, t);
    of_tile.is_apart = of_tile.sources[-1] != 0.0f;
    of_tile.misses_last = last_rows(tiles, at) < at.n_rows;
    of_tile.n_blocks = tiles->n_inputs / 2 / KERNEL_LANES;
    of_tile.saved = saved;
    switch (at.n_rows) {
        KERNEL_UP_TO(KERNEL_ROWS, HALVES)
    default: break;
    }
}
