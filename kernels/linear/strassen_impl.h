/* Products of many rows with a constant weight, using one level of Strassen's algorithm in
 * Winograd's form: 7 products of quarters instead of 8.
 *
 *   out[i][r][o] = act(bias[o] + addend[i][r][o] + sum(c) x[i][r][c] * weight[o][c])
 *
 * Rows, inputs and outputs are halved, which divides x, the weight and the result into quarters.
 * The sums of quarters of x (the sources) and of the weight are computed in parts that fit in the
 * second-level cache; sums of products are computed in registers.
 *
 * Some rows are computed without Strassen's algorithm, with 8 products. The algorithm adds row r of
 * the first half to row r of the last half, so its rounding error is small compared with the
 * largest results of both rows, but not always compared with a smaller result. Therefore this pair
 * of rows is multiplied separately if the rows' largest elements differ by more than a factor of
 * 2^STRASSEN_APART_BITS, or if an element is not finite.
 *
 * The rows are those of a matrix, or the pixels of images in blocks of channels. */
#ifndef TESSERA_KERNELS_LINEAR_STRASSEN_IMPL_H
#define TESSERA_KERNELS_LINEAR_STRASSEN_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef struct strassen {
    int64_t n_images;            /* rows of different images are never paired */
    int64_t n_rows;              /* in an image */
    int64_t n_inputs, n_outputs; /* see strassen_fits */
    const float *x;
    int64_t x_image, x_row, x_block; /* strides in elements: of images, rows, vectors of inputs */
    int64_t line_rows, x_line; /* rows that are x_row apart: pixels of a line; stride of lines */
    const float *weight; /* [outputs / weight_outputs][inputs][weight_outputs]; weight_outputs is a
                            multiple of lanes */
    int64_t weight_outputs;
    int64_t weight_block; /* stride of blocks of outputs, in elements */
    const float *bias;    /* [n_outputs], or NULL */
    const float *addend;  /* in the format of out; may be out; or NULL */
    bool is_clamped;      /* results are clamped to lower and upper; relu: 0 and infinity */
    float lower, upper;
    /* NULL, or a function that may change n adjacent results. They begin at this row (counted over
     * all images) and column. */
    void (*finish)(const void *user, int64_t row, int64_t column, int64_t n, float *values);
    const void *user;
    float *out;                            /* may not be x */
    int64_t out_image, out_row, out_block; /* one of out_row and out_block is the number of lanes */
} strassen_t;

/* True if half of the inputs is a whole number of vectors, and half of the outputs a whole number
 * of pairs of vectors. */
bool strassen_fits(int64_t n_inputs, int64_t n_outputs, isa_t isa);

/* Computes the product on at most n_threads threads; isa_has(isa) must be true. scratch is
 * 64-byte aligned and has strassen_scratch bytes for these sizes and at least n_threads threads. */
void strassen_run(const strassen_t *strassen, isa_t isa, int n_threads, void *scratch);
size_t strassen_scratch(const strassen_t *strassen, isa_t isa, int n_threads);

/* Estimates the time with n_threads threads, as the number of operations that a direct product
 * performs in the same time. (The direct product needs 2 * rows * inputs * outputs operations.) */
double strassen_flops(const strassen_t *strassen, isa_t isa, int n_threads);

/* ---- for the loops of an instruction set ---- */

#define STRASSEN_APART_BITS 4 /* largest difference of the exponents of paired rows */
#define STRASSEN_VECTORS 2    /* vectors of outputs that are summed together: a pair */
#define STRASSEN_MOST_ROWS 14 /* maximum pairs of rows in a tile, for all instruction sets */
#define STRASSEN_SOURCES 7    /* sums of quarters of x */
#define STRASSEN_WEIGHTS 4    /* sums of quarters of the weight */

/* Elements of one sum of quarters of the weight. Slightly larger than needed, so that the
 * STRASSEN_WEIGHTS sums do not compete for the same sets of the cache. */
#define STRASSEN_WEIGHT(n_inputs, lanes) (((n_inputs)*STRASSEN_VECTORS + 5) * (lanes))

/* Elements of a tile's buffer: a vector that holds a flag (rows are multiplied separately), then
 * the sources. */
#define STRASSEN_TILE(n_inputs, n_rows, lanes)                                                     \
    ((STRASSEN_SOURCES * (n_inputs) * (n_rows)) + (lanes))

/* Row r of an image is paired with row r + half. Tiles divide each image's pairs evenly. */
typedef struct strassen_images {
    const strassen_t *strassen;
    int64_t half; /* half of the rows of an image, rounded up */
    int64_t tiles_of_image;
    int64_t tile_rows; /* pairs of rows in the largest tile */
} strassen_images_t;

/* A unit of work: tiles [first, last) of all images, pairs of vectors of outputs [first_pair,
 * last_pair), and blocks of inputs [first_block, last_block). Pairs and blocks are counted in the
 * first half of outputs and inputs; those in the second half are included. */
typedef struct strassen_part {
    int64_t first, last, first_pair, last_pair, first_block, last_block;
    float *sources; /* buffer for [tile][STRASSEN_TILE] */
    float *weights; /* buffer for [STRASSEN_WEIGHTS][input][STRASSEN_VECTORS][lanes] */
} strassen_part_t;

typedef struct strassen_loops {
    int n_rows; /* pairs of rows in a tile */
    void (*multiply)(const strassen_images_t *images, const strassen_part_t *part);
} strassen_loops_t;

ISA_EXTERN(const strassen_loops_t, strassen);

#endif
