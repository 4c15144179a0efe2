/* Transposed convolution whose kernel size equals its stride: windows neither overlap nor leave
 * gaps, so each element of x (with all its channels) produces one tile of the result. Tensors are
 * channels last:
 *
 *   out[n][d*T+t][p*R+r][q*S+s][k] = finish(bias[k] + sum(c) x[n][d][p][q][c]
 *                                                        * weight[c][k][t][r][s])
 *
 * This is a product of a matrix, whose rows are the C channels of an element of x, with a weight of
 * T * R * S * K outputs. In the result, only S * K of these outputs are adjacent, so each row of
 * the product is stored in T * R pieces. */
#ifndef TESSERA_KERNELS_CONV_TILING_IMPL_H
#define TESSERA_KERNELS_CONV_TILING_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define TILING_BLOCK 16 /* outputs in a block of the weight */

/* Called for n adjacent finished values; may change them. */
typedef void (*tiling_finish_t)(const void *user, float *values, int64_t n);

typedef struct tiling {
    int64_t n_images, n_inputs, n_outputs; /* N, C, K */
    int64_t in[3], tile[3];                /* D, H, W of x; T, R, S */
    const float *x;
    const float *weight; /* packed by tiling_pack */
    const float *bias;   /* made by tiling_spread */
    float *out;
    tiling_finish_t finish; /* or NULL */
    const void *user;
} tiling_t;

/* Sizes, in floats, of a packed weight, [T * R * S * K / block][C][block], with the last block
 * padded with zeros; and of a bias that is repeated for each of the n_places = T * R * S elements
 * of a tile. The bias passed to tiling_spread may be NULL. */
int64_t tiling_weight_size(int64_t n_inputs, int64_t n_outputs, int64_t n_places);
int64_t tiling_bias_size(int64_t n_outputs, int64_t n_places);
void tiling_pack(int64_t n_inputs, int64_t n_outputs, int64_t n_places, const float *weight,
                 float *to);
void tiling_spread(int64_t n_outputs, int64_t n_places, const float *bias, float *to);

/* Computes the result on n_threads threads. isa_has(isa) must be true. */
void tiling_run(const tiling_t *tiling, isa_t isa, int n_threads);

/* The loops for one ISA. Lines of x are numbered over all images and depths. */
typedef void tiling_line_t(const tiling_t *tiling, int64_t line);
ISA_EXTERN(tiling_line_t, tiling);

#endif
