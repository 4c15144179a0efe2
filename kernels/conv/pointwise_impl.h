/* Convolution with kernels of 1 by 1, without padding:
 *
 *   out[n][k][p][q] = act(bias[k] + addend[n][k][p][q]
 *                         + sum(c) x[n][c][p*stride][q*stride] * weight[k][c])
 *
 * Activations lie in blocks of the instruction set's lanes, [N][C / lanes][H][W][lanes], the weight
 * as [K / lanes][C / lanes][lanes of c][lanes of k], which oneDNN calls ABcd16b16a; last blocks are
 * padded by zeros. In the result what pads it is act(addend).
 *
 * Where is_scaled is set x is what a batch norm and an activation would make of it,
 *
 *   min(max(x[n][c][h][w] * scale[c] + shift[c], source_lower), source_upper)
 *
 * made a part at a time, which stays in the second cache until it is multiplied; so is what a
 * stride of 2 leaves of x. */
#ifndef TESSERA_KERNELS_CONV_POINTWISE_IMPL_H
#define TESSERA_KERNELS_CONV_POINTWISE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef struct pointwise {
    int stride; /* 1 or 2 */
    int64_t n_images, n_inputs, n_outputs;
    int64_t height, width; /* of x */
    const float *x, *weight;
    bool is_scaled;     /* at a stride of 1 only; else the next five do not count */
    const float *scale; /* [n_inputs], and zeros up to whole blocks */
    const float *shift; /* the same */
    bool is_source_clamped;
    float source_lower, source_upper;
    const float *bias;   /* [n_outputs], or NULL */
    const float *addend; /* as out lies; may be out; or NULL */
    bool is_clamped;     /* to lower and upper: relu is 0 and infinity */
    float lower, upper;
    /* What becomes of n elements that lie side by side when they are done; NULL: nothing. */
    void (*finish)(const void *user, float *values, int64_t n);
    const void *user;
    float *out; /* not x */
} pointwise_t;

/* On at most so many threads, by an instruction set that isa_has. scratch: 64-byte aligned bytes,
 * as pointwise_scratch says for these sizes and so many threads or more. */
void pointwise_run(const pointwise_t *pointwise, isa_t isa, int n_threads, void *scratch);
size_t pointwise_scratch(const pointwise_t *pointwise, isa_t isa, int n_threads);

/* ---- for the loops of an instruction set ---- */

#define POINTWISE_BLOCKS 2 /* of outputs, whose sums are made at once: a group */

/* Each image is cut in tiles of at most `n_rows` results, evenly. */
typedef struct pointwise_images {
    const pointwise_t *pointwise;
    int64_t plane; /* results of one image and channel */
    int64_t tiles_of_image;
} pointwise_images_t;

/* Tiles [first, last) of all images, by groups of outputs [first_group, last_group): all tiles by
 * one group after the other. */
typedef struct pointwise_part {
    int64_t first, last, first_group, last_group;
    float *made; /* [tile][C / lanes][n_rows][lanes]: room for what is made of x; or NULL */
} pointwise_part_t;

typedef struct pointwise_loops {
    int n_rows; /* results of a tile */
    void (*multiply)(const pointwise_images_t *images, const pointwise_part_t *part);
} pointwise_loops_t;

ISA_EXTERN(const pointwise_loops_t, pointwise);

#endif
