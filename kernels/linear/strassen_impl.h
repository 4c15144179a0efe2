/* Products of many rows with a constant weight by Strassen's algorithm, in Winograd's form, at one
 * level: 7 products of quarters take the place of 8.
 *
 *   out[i][r][o] = act(bias[o] + addend[i][r][o] + sum(c) x[i][r][c] * weight[o][c])
 *
 * x, the weight and the result are cut in halves of rows, inputs and outputs. Sums of quarters of x
 * and of the weight are made a part at a time, which stays in the second cache; those of the
 * products are made in registers. What a result loses by rounding is small beside the largest
 * results of its row and of the one that is multiplied with it, not beside itself. Rows whose
 * largest elements differ by more than a factor of 2^STRASSEN_APART_BITS, and what is not finite,
 * are multiplied apart, by 8 products.
 *
 * Rows of a matrix are taken, and images in blocks of channels, whose elements are rows. */
#ifndef TESSERA_KERNELS_LINEAR_STRASSEN_IMPL_H
#define TESSERA_KERNELS_LINEAR_STRASSEN_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef struct strassen {
    int64_t n_images;            /* rows of one do not meet those of another */
    int64_t n_rows;              /* of an image */
    int64_t n_inputs, n_outputs; /* see strassen_fits */
    const float *x;
    int64_t x_image, x_row, x_block; /* elements from one image, row and vector to the next */
    int64_t line_rows, x_line;       /* so many rows of an image lie in a line; lines likewise */
    const float
        *weight; /* [outputs / weight_outputs][inputs][weight_outputs], a multiple of lanes */
    int64_t weight_outputs;
    int64_t weight_block; /* elements from one block of outputs to the next */
    const float *bias;    /* [n_outputs], or NULL */
    const float *addend;  /* as out lies; may be out; or NULL */
    bool is_clamped;      /* to lower and upper: relu is 0 and infinity */
    float lower, upper;
    /* What becomes of n elements that lie side by side when they are done: from this row, counted
     * over all images, and column on. NULL: nothing. */
    void (*finish)(const void *user, int64_t row, int64_t column, int64_t n, float *values);
    const void *user;
    float *out;                            /* not x */
    int64_t out_image, out_row, out_block; /* one of the last two is the number of lanes */
} strassen_t;

/* Whether inputs and outputs have halves of whole vectors, and of pairs of them. */
bool strassen_fits(int64_t n_inputs, int64_t n_outputs, isa_t isa);

/* On at most so many threads, by an instruction set that isa_has. scratch: 64-byte aligned bytes,
 * as strassen_scratch says for these sizes and so many threads or more. */
void strassen_run(const strassen_t *strassen, isa_t isa, int n_threads, void *scratch);
size_t strassen_scratch(const strassen_t *strassen, isa_t isa, int n_threads);

/* Operations of sums of products that take as long on so many threads; those of the product are 2 *
 * rows * inputs * outputs. */
double strassen_flops(const strassen_t *strassen, isa_t isa, int n_threads);

/* ---- for the loops of an instruction set ---- */

#define STRASSEN_APART_BITS 4 /* by which the exponents of two rows differ at most */
#define STRASSEN_VECTORS 2    /* of outputs, whose sums are made at once: a pair */
#define STRASSEN_MOST_ROWS 14 /* of half a tile, of any instruction set */
#define STRASSEN_SOURCES 7    /* what is made of the quarters of x */
#define STRASSEN_WEIGHTS 4    /* and of the weight */

/* Elements of what is made of a quarter of the weight: some more than are used, so that those of
 * one input do not meet in one set of a cache. */
#define STRASSEN_WEIGHT(n_inputs, lanes) (((n_inputs)*STRASSEN_VECTORS + 5) * (lanes))

/* Elements of what is made of the sources of a tile, and a vector before them. */
#define STRASSEN_TILE(n_inputs, n_rows, lanes)                                                     \
    ((STRASSEN_SOURCES * (n_inputs) * (n_rows)) + (lanes))

/* Row r of an image is multiplied together with row r + half. Each image is cut in tiles of at most
 * `n_rows` such rows, evenly. */
typedef struct strassen_images {
    const strassen_t *strassen;
    int64_t half; /* of the rows, rounded up */
    int64_t tiles_of_image;
    int64_t tile_rows; /* of the largest tile */
} strassen_images_t;

/* Tiles [first, last) of all images, by pairs of vectors of outputs [first_pair, last_pair) and
 * those half of all outputs behind, over blocks of inputs [first_block, last_block) and those half
 * of all inputs behind. */
typedef struct strassen_part {
    int64_t first, last, first_pair, last_pair, first_block, last_block;
    float *sources; /* room for [tile][STRASSEN_TILE] */
    float *weights; /* room for [STRASSEN_WEIGHTS][input][STRASSEN_VECTORS][lanes] */
} strassen_part_t;

typedef struct strassen_loops {
    int n_rows; /* of a tile */
    void (*multiply)(const strassen_images_t *images, const strassen_part_t *part);
} strassen_loops_t;

ISA_EXTERN(const strassen_loops_t, strassen);

#endif
