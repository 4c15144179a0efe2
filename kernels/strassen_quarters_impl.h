/* What Strassen's algorithm makes of the quarters of x and of the weight, for vectors of
 * KERNEL_LANES floats and STRASSEN_ROWS rows: see strassen_loops_impl.h.
 *
 * Quarters are named by halves of rows and inputs (x), of inputs and outputs (weight), and of rows
 * and outputs (result): x12 has the first rows and the last inputs. */
#include "kernels/strassen_impl.h"
#include "kernels/tiles_impl.h"
#include "kernels/vector_impl.h"

#define VECTORS STRASSEN_VECTORS
#define WIDTH (VECTORS * KERNEL_LANES)

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

static tile_at_t find_tile(const strassen_images_t *images, int64_t tile)
{
    return tile_find(images->half, images->tiles_of_image, tile);
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
