/* Depthwise convolution, each channel with a kernel of its own of 3 by 3 or 5 by 5, and convolution
 * of small groups, of as many outputs as inputs: `group` channels side by side:
 *
 *   out[n][c][p][q] = act(bias[c] + sum(j,r,s) x[n][c / group * group + j][p*stride+r-top]
 *                                               [q*stride+s-left] * weight[c][j][r][s])
 *
 * Activations lie in blocks of the instruction set's lanes, [N][C / lanes][H][W][lanes], the weight
 * as [C / lanes][R][S][group][lanes]; the last block of either is padded by zeros. In the result
 * what pads it is act(0). */
#ifndef TESSERA_KERNELS_CONV_DEPTHWISE_IMPL_H
#define TESSERA_KERNELS_CONV_DEPTHWISE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef struct depthwise {
    int kernel; /* 3 or 5 */
    int stride; /* 1 or 2 */
    int group;  /* 1; with kernels of 3 as well 2, 4, 8 and multiples of the lanes */
    int64_t n_images, n_channels;
    int64_t height, width;         /* of x */
    int64_t out_height, out_width; /* what x does not cover, on either side, is zero */
    int64_t top, left;
    const float *x, *weight;
    const float *bias; /* [n_channels], or NULL */
    bool is_clamped;   /* to lower and upper: relu is 0 and infinity */
    float lower, upper;
    /* What becomes of each row of n elements when it is done; NULL: nothing. */
    void (*finish)(const void *user, float *row, int64_t n);
    const void *user;
    float *out; /* not x */
} depthwise_t;

/* On at most so many threads, by an instruction set that isa_has. */
void depthwise_run(const depthwise_t *depthwise, isa_t isa, int n_threads);

/* Rows of results: [first, last) of some blocks of channels of one image. */
typedef struct depthwise_part {
    int64_t image, first_block, last_block, first, last;
} depthwise_part_t;

/* The loops of one instruction set. */
typedef void depthwise_rows_t(const depthwise_t *depthwise, const depthwise_part_t *part);

ISA_EXTERN(depthwise_rows_t, depthwise);

#endif
