/* 1x1 convolution without padding:
 *
 *   out[n][k][p][q] = act(bias[k] + addend[n][k][p][q]
 *                         + sum(c) x[n][c][p*stride][q*stride] * weight[k][c])
 *
 * Activations are in blocks of the ISA's lanes, [N][C / lanes][H][W][lanes]. The weight is
 * [K / lanes][C / lanes][lanes of c][lanes of k] (oneDNN: ABcd16b16a). Last blocks are padded with
 * zeros; padded channels of the result are act(addend).
 *
 * With is_scaled, x is normalized and clamped first:
 *
 *   min(max(x[n][c][h][w] * scale[c] + shift[c], source_lower), source_upper)
 *
 * This is done for a part of x at a time, which stays in the second-level cache until it is
 * multiplied. With stride 2, the elements of x that are read are gathered in the same way. */
#ifndef TESSERA_KERNELS_CONV_POINTWISE_IMPL_H
#define TESSERA_KERNELS_CONV_POINTWISE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "kernels/rows_impl.h"

typedef struct pointwise {
    int stride; /* 1 or 2 */
    int64_t n_images, n_inputs, n_outputs;
    int64_t height, width; /* size of x */
    image_rows_t rows;     /* those to compute, see rows_impl.h; only with stride 1 */
    const float *x, *weight;
    bool is_scaled;     /* only with stride 1; if false, the next five are ignored */
    const float *scale; /* [n_inputs], padded with zeros to whole blocks */
    const float *shift; /* the same */
    bool is_source_clamped;
    float source_lower, source_upper;
    const float *bias;   /* [n_outputs], or NULL */
    const float *addend; /* same layout as out; may be out; or NULL */
    bool is_clamped;     /* to [lower, upper]; relu: 0 and infinity */
    float lower, upper;
    /* Called for n adjacent finished elements; may change them. Or NULL. */
    void (*finish)(const void *user, float *values, int64_t n);
    const void *user;
    float *out; /* must not be x */
} pointwise_t;

/* Computes the result on at most n_threads threads. isa_has(isa) must be true. scratch has
 * pointwise_scratch bytes for these sizes and at least this many threads, 64-byte aligned. */
void pointwise_run(const pointwise_t *pointwise, isa_t isa, int n_threads, void *scratch);
size_t pointwise_scratch(const pointwise_t *pointwise, isa_t isa, int n_threads);

/* ---- loops for one ISA ---- */

#define POINTWISE_BLOCKS 2 /* blocks of outputs in a group, computed together */

/* Describes the tiles: each image is divided evenly into tiles of at most n_rows results. */
typedef struct pointwise_images {
    const pointwise_t *pointwise;
    int64_t plane;                   /* results of one image and channel */
    int64_t source_plane, out_plane; /* elements between planes of x, and of the results */
    int64_t tiles_of_image;
} pointwise_images_t;

/* A unit of work: tiles [first, last), numbered over all images, for groups of outputs
 * [first_group, last_group). All tiles of a group are computed before the next group. */
typedef struct pointwise_part {
    int64_t first, last, first_group, last_group;
    float *made; /* gathered or normalized x, [tile][C / lanes][n_rows][lanes], or NULL */
} pointwise_part_t;

typedef struct pointwise_loops {
    int n_rows; /* results in a tile */
    void (*multiply)(const pointwise_images_t *images, const pointwise_part_t *part);
} pointwise_loops_t;

ISA_EXTERN(const pointwise_loops_t, pointwise);

#endif
