/* The loops of strassen_impl.h for vectors of KERNEL_LANES floats. The including file defines,
 * besides that,
 *
 *   STRASSEN_LOOPS  the name of its strassen_loops_t
 *   STRASSEN_ROWS   rows by two vectors of outputs whose sums stay in registers
 *
 * Quarters are named by halves of rows and inputs (x), of inputs and outputs (weight), and of rows
 * and outputs (result): x12 has the first rows and the last inputs. */
#include "kernels/strassen_impl.h"
#include "kernels/vector_impl.h"

#define VECTORS STRASSEN_VECTORS
#define WIDTH (VECTORS * KERNEL_LANES)
#define SAVED (STRASSEN_ROWS * WIDTH)

/* What is made of the quarters of x. Rows that are multiplied apart have x21 in the place of X2. */
enum { X11, X12, X22, X2, X2_11, X11_21, X12_2_11, X21 = X2 };

/* What is made of those of the weight: w12_11 is w12 - w11, and so on; W21_T2 is w21 - (w22 - (w12
 * - w11)). */
enum { W12_11, W22_T1, W22_12, W21_T2, W11, W12, W21, W22, N_WEIGHTS };

/* Vectors of outputs, `vector` elements apart, of inputs that lie `input` elements apart. */
typedef struct weights {
    const float *first;
    int64_t input, vector;
} weights_t;

/* Weights that are fetched: so many bytes with each input. */
typedef struct fetch {
    const char *at;
    int64_t step;
} fetch_t;

/* Sums of a tile that several quarters of the result have. */
enum { U1, U2, U3, U5, N_SAVED, NOTHING = -1 };

typedef struct tile {
    int64_t image, row;     /* the first of the tile; the others lie `half` behind */
    int64_t pair;           /* of outputs; the others lie half of them behind */
    bool misses_last;       /* of the rows behind: where those of an image are odd */
    bool is_first, is_last; /* of the inputs */
    int64_t n_blocks;       /* of inputs */
    bool is_apart;          /* see are_apart */
    const float *sources;
    weights_t weights[N_WEIGHTS];
    fetch_t fetch[N_WEIGHTS];
    float *saved; /* [N_SAVED][rows][WIDTH] */
} tile_t;

/* Adds what was saved, then a product, to the sums so far, and saves these. */
typedef struct step {
    int adds, source, weight, save;
} step_t;

typedef struct quarter {
    bool has_last_rows, has_last_outputs;
    int n_steps;
    step_t steps[3];
} quarter_t;

static const quarter_t quarters[] = {
    {false, false, 2, {{NOTHING, X11, W11, U1}, {NOTHING, X12, W21, NOTHING}}},
    {true,
     false,
     3,
     {{U1, X2_11, W22_T1, U2}, {NOTHING, X11_21, W22_12, U3}, {NOTHING, X22, W21_T2, NOTHING}}},
    {false, true, 2, {{NOTHING, X2, W12_11, U5}, {U2, X12_2_11, W22, NOTHING}}},
    {true, true, 2, {{U3, NOTHING, NOTHING, NOTHING}, {U5, NOTHING, NOTHING, NOTHING}}}};

/* Eight products, none of which mixes rows. */
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

/* Where a quarter of a tile's results begins. */
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

/* Elements that lie side by side, at once. */
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

/* Leaves a quarter of a tile's results: each step for all of them, so that sums stay in registers.
 */
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
            for (int r = 0; r < n_rows; r++)
                sums[r][v] = vector_min(vector_max(sums[r][v], lower), upper);
        }
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++)
            if (r + 1 < n_rows || is_whole) vector_store(sums[r][v], s->out + to + r * s->out_row);
    }
    if (tile->is_last && s->finish != NULL)
        finish(images, tile, n_rows - (is_whole ? 0 : 1), quarter);
}

/* Lines of results that are read or written when a quarter is left. */
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

/* Seven products, of which each quarter of the results is a sum. The steps are a loop, so that one
 * set of registers holds the sums of all of them. */
KERNEL_INLINE void multiply(const strassen_images_t *images, const tile_t *tile, int n_rows)
{
    for (int q = 0; q < 4; q++) {
        const quarter_t *quarter = tile->is_apart ? &apart[q] : &quarters[q];
        vector_t sums[STRASSEN_ROWS][VECTORS];
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
        KERNEL_UP_TO(STRASSEN_ROWS, ROWS)
    default: break;
    }
}

/* ---- sums of quarters ---- */

/* Rows of a tile. */
typedef struct tile_at {
    int64_t image, begin, n_rows;
} tile_at_t;

static tile_at_t find_tile(const strassen_images_t *images, int64_t tile)
{
    const int64_t image = tile / images->tiles_of_image, of_image = tile % images->tiles_of_image;
    const int64_t begin = images->half * of_image / images->tiles_of_image;
    const int64_t end = images->half * (of_image + 1) / images->tiles_of_image;
    return (tile_at_t){image, begin, end - begin};
}

/* Elements from the beginning of x to a row. */
static int64_t find_row(const strassen_t *s, int64_t image, int64_t row)
{
    return image * s->x_image + row / s->line_rows * s->x_line + row % s->line_rows * s->x_row;
}

/* Where the sources of a tile begin, and whether its rows are multiplied apart, which stands before
 * them. */
static float *tile_sources(const strassen_images_t *images, const strassen_part_t *part,
                           int64_t tile)
{
    const int64_t n_inputs = (part->last_block - part->first_block) * KERNEL_LANES;
    return part->sources + tile * STRASSEN_TILE(n_inputs, images->tile_rows, KERNEL_LANES) +
           KERNEL_LANES;
}

/* Bits of the absolute value: greater for a greater one, greatest for what is no number. */
KERNEL_INLINE vector_u32_t larger(vector_u32_t largest, vector_t x)
{
    const vector_u32_t bits = (vector_u32_t)x & UINT32_C(0x7fffffff);
    const vector_u32_t is_larger = (vector_u32_t)(bits > largest);
    return (is_larger & bits) | (~is_larger & largest);
}

static uint32_t largest_lane(vector_u32_t bits)
{
    uint32_t largest = 0;
    for (int i = 0; i < KERNEL_LANES; i++) largest = bits[i] > largest ? bits[i] : largest;
    return largest;
}

/* Sums of four elements may overflow from here on. */
#define LARGE UINT32_C(0x7e800000)

/* Whether one of two rows has so much larger elements that the other would be lost in its rounding,
 * or such whose sums might not be finite. */
static bool are_apart(vector_u32_t first, vector_u32_t last)
{
    const uint32_t a = largest_lane(first), b = largest_lane(last);
    const uint32_t larger = a > b ? a : b, smaller = a > b ? b : a;
    return larger >= LARGE || larger - smaller > (uint32_t)STRASSEN_APART_BITS << 23;
}

/* Rows of a tile in x, from a block on. */
typedef struct rows {
    const float *x;
    int64_t block; /* from one block of inputs to the next */
    int64_t last_inputs;
    int64_t n_rows, n_last; /* the last half may have one less: there are zeros */
    int64_t first[STRASSEN_ROWS], last[STRASSEN_ROWS];
} rows_t;

static rows_t find_rows(const strassen_images_t *images, const strassen_part_t *part, tile_at_t at)
{
    const strassen_t *s = images->strassen;
    const int64_t n_last = s->n_rows - images->half - at.begin;
    rows_t rows = {.x = s->x + part->first_block * s->x_block,
                   .block = s->x_block,
                   .last_inputs = s->n_inputs / 2 / KERNEL_LANES * s->x_block,
                   .n_rows = at.n_rows,
                   .n_last = n_last < at.n_rows ? n_last : at.n_rows};
    for (int64_t r = 0; r < at.n_rows; r++) {
        rows.first[r] = find_row(s, at.image, at.begin + r);
        rows.last[r] = find_row(s, at.image, at.begin + r + images->half);
    }
    return rows;
}

/* Gives whether the rows are to be multiplied apart. */
static bool make_sources(const rows_t *rows, int64_t n_blocks, float *to)
{
    const int64_t form = n_blocks * rows->n_rows * KERNEL_LANES;
    vector_u32_t largest[2][STRASSEN_ROWS] = {{{0}}};
    const float *x = rows->x;
    for (int64_t b = 0; b < n_blocks; b++, x += rows->block)
        for (int64_t r = 0; r < rows->n_rows; r++, to += KERNEL_LANES) {
            const vector_t x11 = vector_load(x + rows->first[r]);
            const vector_t x12 = vector_load(x + rows->first[r] + rows->last_inputs);
            vector_t x21 = {0}, x22 = {0};
            if (r < rows->n_last) {
                x21 = vector_load(x + rows->last[r]);
                x22 = vector_load(x + rows->last[r] + rows->last_inputs);
            }
            const vector_t x2 = x21 + x22, x2_11 = x2 - x11;
            largest[0][r] = larger(larger(largest[0][r], x11), x12);
            largest[1][r] = larger(larger(largest[1][r], x21), x22);
            vector_store(x11, to + X11 * form);
            vector_store(x12, to + X12 * form);
            vector_store(x22, to + X22 * form);
            vector_store(x2, to + X2 * form);
            vector_store(x2_11, to + X2_11 * form);
            vector_store(x11 - x21, to + X11_21 * form);
            vector_store(x12 - x2_11, to + X12_2_11 * form);
        }
    for (int64_t r = 0; r < rows->n_rows; r++)
        if (are_apart(largest[0][r], largest[r < rows->n_last ? 1 : 0][r])) return true;
    return false;
}

static void copy_last_rows(const rows_t *rows, int64_t n_blocks, float *to)
{
    const float *x = rows->x;
    to += X21 * n_blocks * rows->n_rows * KERNEL_LANES;
    for (int64_t b = 0; b < n_blocks; b++, x += rows->block)
        for (int64_t r = 0; r < rows->n_rows; r++, to += KERNEL_LANES)
            vector_store(r < rows->n_last ? vector_load(x + rows->last[r]) : (vector_t){0}, to);
}

static void make_tile(const strassen_images_t *images, const strassen_part_t *part, int64_t tile)
{
    const rows_t rows = find_rows(images, part, find_tile(images, part->first + tile));
    const int64_t n_blocks = part->last_block - part->first_block;
    float *to = tile_sources(images, part, tile);
    const bool is_apart = make_sources(&rows, n_blocks, to);
    if (is_apart) copy_last_rows(&rows, n_blocks, to);
    to[-1] = is_apart ? 1.0f : 0.0f;
}

static const float *weight_at(const strassen_t *s, int64_t column, int64_t input)
{
    return s->weight + column / s->weight_outputs * s->weight_block + input * s->weight_outputs +
           column % s->weight_outputs;
}

/* A quarter of a pair of outputs, of the inputs of a part. */
static weights_t find_weights(const strassen_t *s, const strassen_part_t *part, int64_t pair,
                              bool has_last_inputs, bool has_last_outputs)
{
    const int64_t input = part->first_block * KERNEL_LANES +
                          (has_last_inputs ? s->n_inputs / 2 : 0);
    const int64_t column = pair * WIDTH + (has_last_outputs ? s->n_outputs / 2 : 0);
    const float *first = weight_at(s, column, input);
    return (weights_t){first, s->weight_outputs,
                       weight_at(s, column + KERNEL_LANES, input) - first};
}

static void make_weights(const strassen_t *s, const strassen_part_t *part, int64_t pair)
{
    const weights_t w11 = find_weights(s, part, pair, false, false);
    const weights_t w12 = find_weights(s, part, pair, false, true);
    const int64_t n_inputs = (part->last_block - part->first_block) * KERNEL_LANES;
    const int64_t last_inputs = s->n_inputs / 2 * s->weight_outputs;
    const int64_t form = STRASSEN_WEIGHT(n_inputs, KERNEL_LANES);
    for (int v = 0; v < VECTORS; v++) {
        const float *first = w11.first + v * w11.vector, *last = w12.first + v * w12.vector;
        float *made = part->weights + v * KERNEL_LANES;
        for (int64_t i = 0; i < n_inputs; i++, made += WIDTH) {
            const vector_t at12 = vector_load(last), t1 = at12 - vector_load(first);
            const vector_t at22 = vector_load(last + last_inputs), t2 = at22 - t1;
            vector_store(t1, made + W12_11 * form);
            vector_store(t2, made + W22_T1 * form);
            vector_store(at22 - at12, made + W22_12 * form);
            vector_store(vector_load(first + last_inputs) - t2, made + W21_T2 * form);
            first += w11.input;
            last += w12.input;
        }
    }
}

/* ---- all tiles ---- */

/* Products while which the quarters of the weights of the next outputs are fetched, those of the
 * first inputs first. */
static const int fetching[4] = {W11, W22_T1, W12_11, W22};

/* The part of such a quarter that a tile fetches. Where the two vectors do not lie side by side the
 * second comes by itself, when it is read. */
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

const strassen_loops_t STRASSEN_LOOPS = {STRASSEN_ROWS, multiply_part};
