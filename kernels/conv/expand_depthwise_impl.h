/* A convolution of 1 by 1 that makes many channels of few, and behind it a depthwise one of 3 by 3
 * or 5 by 5, as at the beginning of an inverted residual:
 *
 *   e[n][k][h][w]   = act(expand_bias[k] + sum(c) x[n][c][h][w] * expand[k][c])
 *   out[n][k][p][q] = act(bias[k] + sum(r,s) e[n][k][p*stride+r-top][q*stride+s-left]
 *                                            * weight[k][r][s])
 *
 * Of e only the rows under one row of results are there at a time, for some channels, so that they
 * stay in a first cache. Activations lie in blocks of the instruction set's lanes,
 * [N][C / lanes][H][W][lanes], `expand` as [K / lanes][C / lanes][lanes of c][lanes of k], which
 * oneDNN calls ABcd16b16a, the other weight as [K / lanes][R][S][lanes]; last blocks are padded by
 * zeros. In the result what pads it is act(sum of act(0) by zeros). */
#ifndef TESSERA_KERNELS_CONV_EXPAND_DEPTHWISE_IMPL_H
#define TESSERA_KERNELS_CONV_EXPAND_DEPTHWISE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

/* What is done with sums. */
typedef struct expand_depthwise_act {
    bool is_clamped; /* to lower and upper: relu is 0 and infinity */
    float lower, upper;
    /* What becomes of n elements that lie side by side when they are done; NULL: nothing. */
    void (*finish)(const void *user, float *values, int64_t n);
    const void *user;
} expand_depthwise_act_t;

typedef struct expand_depthwise {
    int kernel; /* 3 or 5 */
    int stride; /* 1 or 2, of the depthwise one */
    int64_t n_images, n_inputs, n_channels;
    int64_t height, width;         /* of x and of e */
    int64_t out_height, out_width; /* what e does not cover, on either side, is zero */
    int64_t top, left;
    const float *x, *expand, *weight;
    const float *expand_bias, *bias; /* [n_channels], or NULL */
    expand_depthwise_act_t expand_act, act;
    float *out; /* not x */
} expand_depthwise_t;

/* On at most so many threads, by an instruction set that isa_has. scratch: 64-byte aligned bytes,
 * as expand_depthwise_scratch says for this many threads. */
void expand_depthwise_run(const expand_depthwise_t *pair, isa_t isa, int n_threads, void *scratch);
size_t expand_depthwise_scratch(const expand_depthwise_t *pair, isa_t isa, int n_threads);

/* ---- for the loops of an instruction set ---- */

#define EXPAND_DEPTHWISE_BLOCKS 2 /* of channels that are made at once: a group */
#define EXPAND_DEPTHWISE_TILE 7   /* results of a row that are made at once */

/* Rows [first, last) of results of one image, for groups [first_group, last_group). */
typedef struct expand_depthwise_part {
    int64_t image, first_group, last_group, first, last;
    float *ring; /* expand_depthwise_ring floats of the thread's own */
} expand_depthwise_part_t;

typedef void expand_depthwise_rows_t(const expand_depthwise_t *pair,
                                     const expand_depthwise_part_t *part);

ISA_EXTERN(expand_depthwise_rows_t, expand_depthwise);

/* Columns of a row of e with the zeros on either side, as many as the tiles of results read. */
static inline int64_t expand_depthwise_columns(const expand_depthwise_t *pair)
{
    const int64_t n_tiles = (pair->out_width + EXPAND_DEPTHWISE_TILE - 1) / EXPAND_DEPTHWISE_TILE;
    const int64_t read = (n_tiles * EXPAND_DEPTHWISE_TILE - 1) * pair->stride + pair->kernel;
    const int64_t made = pair->left + pair->width;
    return read > made ? read : made;
}

/* Rows of e that are kept: those that a row of results reads, and those that are made with the last
 * of them, where a row is shorter than `n_at_once` elements, which are made at once. */
static inline int64_t expand_depthwise_kept(const expand_depthwise_t *pair, int64_t n_at_once)
{
    const int64_t n_rows = n_at_once / pair->width;
    return pair->kernel + (n_rows > 1 ? n_rows - 1 : 0);
}

#endif
