/* Depthwise convolution with kernels of 3x3, 5x5 or 7x7, and convolution in small groups of `group`
 * adjacent channels, with as many outputs as inputs:
 *
 *   out[n][c][p][q] = act(bias[c] + sum(j,r,s) x[n][c / group * group + j][p*stride+r-top]
 *                                               [q*stride+s-left] * weight[c][j][r][s])
 *
 * Activations are in blocks of the ISA's lanes, [N][C / lanes][H][W][lanes], or if is_last in
 * channels last, [N][H][W][C], where C is a multiple of the lanes. The weight is
 * [C / lanes][R][S][group][lanes]. The last block is padded with zeros; padded channels of the
 * result are act(0). */
#ifndef TESSERA_KERNELS_CONV_DEPTHWISE_IMPL_H
#define TESSERA_KERNELS_CONV_DEPTHWISE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "kernels/rows_impl.h"

typedef struct depthwise {
    int kernel;   /* 3, 5 or 7 */
    int stride;   /* 1 or 2 */
    int group;    /* 1; or for 3x3 also 2, 4, 8 and multiples of the lanes */
    bool is_last; /* channels last; only if group is 1 and finish is NULL */
    int64_t n_images, n_channels;
    int64_t height, width;         /* size of x */
    int64_t out_height, out_width; /* elements outside x are zero */
    int64_t top, left;
    image_rows_t rows; /* those to compute, see rows_impl.h */
    const float *x, *weight;
    const float *bias; /* [n_channels], or NULL */
    bool is_clamped;   /* to [lower, upper]; relu: 0 and infinity */
    float lower, upper;
    /* Called for each finished row of n elements; may change it. Or NULL. */
    void (*finish)(const void *user, float *row, int64_t n);
    const void *user;
    float *out; /* must not be x */
} depthwise_t;

/* Computes the result on at most n_threads threads. isa_has(isa) must be true. */
void depthwise_run(const depthwise_t *depthwise, isa_t isa, int n_threads);

/* A unit of work: rows [first, last) of the results of some blocks of channels of one image. */
typedef struct depthwise_part {
    int64_t image, first_block, last_block, first, last;
} depthwise_part_t;

/* The loops for one ISA. */
typedef void depthwise_rows_t(const depthwise_t *depthwise, const depthwise_part_t *part);

ISA_EXTERN(depthwise_rows_t, depthwise);

#endif
