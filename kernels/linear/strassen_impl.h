/* Products of many rows with a constant weight with one level of Strassen's algorithm, in
 * Winograd's form: 7 products of quarters instead of 8.
 *
 *   out[i][r][o] = act(bias[o] + addend[i][r][o] + sum(c) x[i][r][c] * weight[o][c])
 *
 * x, the weight and the result are split into halves of rows, inputs and outputs. The sums of
 * quarters of x and of the weight are computed in parts that fit in the second-level cache; sums of
 * the products are computed in registers. The rounding error of a result is small compared with the
 * largest results of its row and of the row paired with it, but not compared with the result
 * itself. Some pairs of rows are therefore multiplied separately, with 8 products: those whose
 * largest elements differ by more than a factor of 2^STRASSEN_APART_BITS, and those with elements
 * that are not finite.
 *
 * The kernel takes the rows of a matrix, or images in blocks of channels; a row is then one
 * pixel. */
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
    int64_t x_image, x_row, x_block; /* strides in elements: image, row, vector of inputs */
    int64_t line_rows, x_line;       /* rows of an image in a line, and the stride of lines in x */
    const float *weight; /* [outputs / weight_outputs][inputs][weight_outputs]; weight_outputs is a
                            multiple of lanes */
    int64_t weight_outputs;
    int64_t weight_block; /* stride of blocks of outputs, in elements */
    const float *bias;    /* [n_outputs], or NULL */
    const float *addend;  /* in the format of out; may be out; or NULL */
    bool is_clamped;      /* results are clamped to lower and upper: relu is 0 and infinity */
    float lower, upper;
    /* Changes n finished adjacent elements, from row (counted over all images) and column on; or
     * NULL. */
    void (*finish)(const void *user, int64_t row, int64_t column, int64_t n, float *values);
    const void *user;
    float *out;                            /* may not be x */
    int64_t out_image, out_row, out_block; /* either out_row or out_block is the number of lanes */
} strassen_t;

/* Returns true if half of the inputs are full vectors, and half of the outputs full pairs of
 * them. */
bool strassen_fits(int64_t n_inputs, int64_t n_outputs, isa_t isa);

/* Computes the product on at most n_threads threads; isa_has must be true for isa. scratch: 64-byte
 * aligned bytes, strassen_scratch of the same sizes and at least as many threads. */
void strassen_run(const strassen_t *strassen, isa_t isa, int n_threads, void *scratch);
size_t strassen_scratch(const strassen_t *strassen, isa_t isa, int n_threads);

/* Estimated time, as the number of operations that a direct product performs in the same time with
 * n_threads threads. The direct product itself has 2 * rows * inputs * outputs. */
double strassen_flops(const strassen_t *strassen, isa_t isa, int n_threads);

/* ---- for the loops of an instruction set ---- */

#define STRASSEN_APART_BITS 4 /* largest difference of the exponents of paired rows */
#define STRASSEN_VECTORS 2    /* vectors of outputs that are summed together: a pair */
#define STRASSEN_MOST_ROWS 14 /* maximum in half a tile, for any instruction set */
#define STRASSEN_SOURCES 7    /* sums of quarters of x */
#define STRASSEN_WEIGHTS 4    /* sums of quarters of the weight */

/* Elements of one sum of quarters of the weight. It is slightly larger than needed, so that the
 * sums of one input are in different sets of the cache. */
#define STRASSEN_WEIGHT(n_inputs, lanes) (((n_inputs)*STRASSEN_VECTORS + 5) * (lanes))

/* Elements of the sources of a tile, with one vector in front of them for a flag. */
#define STRASSEN_TILE(n_inputs, n_rows, lanes)                                                     \
    ((STRASSEN_SOURCES * (n_inputs) * (n_rows)) + (lanes))

/* Row r of an image is paired with row r + half. Tiles split each image's pairs evenly. */
typedef struct strassen_images {
    const strassen_t *strassen;
    int64_t half; /* half of the rows of an image, rounded up */
    int64_t tiles_of_image;
    int64_t tile_rows; /* pairs of rows in the largest tile */
} strassen_images_t;

/* Tiles [first, last) of all images. Pairs of vectors of outputs [first_pair, last_pair) and blocks
 * of inputs [first_block, last_block) are in the first half; the part includes their counterparts
 * in the second half. */
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
