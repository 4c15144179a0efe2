/* A 1x1 convolution from few to many channels, then a 3x3 or 5x5 depthwise convolution, as at the
 * beginning of an inverted residual block:
 *
 *   e[n][k][h][w]   = act(expand_bias[k] + sum(c) x[n][c][h][w] * expand[k][c])
 *   out[n][k][p][q] = act(bias[k] + sum(r,s) e[n][k][p*stride+r-top][q*stride+s-left]
 *                                            * weight[k][r][s])
 *
 * e is computed for some channels at a time. Only the rows of e that one row of results needs are
 * stored, so they stay in the first-level cache. Activations are in blocks of the ISA's lanes,
 * [N][C / lanes][H][W][lanes]. `expand` is [K / lanes][C / lanes][lanes of c][lanes of k] (oneDNN:
 * ABcd16b16a), the other weight [K / lanes][R][S][lanes]. Last blocks are padded with zeros; padded
 * channels of the result are act(0). */
#ifndef TESSERA_KERNELS_CONV_EXPAND_DEPTHWISE_IMPL_H
#define TESSERA_KERNELS_CONV_EXPAND_DEPTHWISE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

/* Function that is applied to sums. */
typedef struct expand_depthwise_act {
    bool is_clamped; /* to [lower, upper]; relu: 0 and infinity */
    float lower, upper;
    /* Called for n adjacent finished elements; may change them. Or NULL. */
    void (*finish)(const void *user, float *values, int64_t n);
    const void *user;
} expand_depthwise_act_t;

typedef struct expand_depthwise {
    int kernel; /* 3 or 5 */
    int stride; /* 1 or 2, in the depthwise convolution */
    int64_t n_images, n_inputs, n_channels;
    int64_t height, width;         /* size of x and of e */
    int64_t out_height, out_width; /* elements outside e are zero */
    int64_t top, left;
    const float *x, *expand, *weight;
    const float *expand_bias, *bias; /* [n_channels], or NULL */
    expand_depthwise_act_t expand_act, act;
    float *out; /* must not be x */
} expand_depthwise_t;

/* Computes the result on at most n_threads threads. isa_has(isa) must be true. scratch has
 * expand_depthwise_scratch bytes for this many threads and is 64-byte aligned. */
void expand_depthwise_run(const expand_depthwise_t *pair, isa_t isa, int n_threads, void *scratch);
size_t expand_depthwise_scratch(const expand_depthwise_t *pair, isa_t isa, int n_threads);

/* ---- loops for one ISA ---- */

#define EXPAND_DEPTHWISE_BLOCKS 2 /* blocks of channels in a group, computed together */
#define EXPAND_DEPTHWISE_TILE 7   /* results of a row, computed together */

/* A unit of work: rows [first, last) of results of one image, for some groups of channels. */
typedef struct expand_depthwise_part {
    int64_t image, first_group, last_group, first, last;
    float *ring; /* the thread's own memory for rows of e */
} expand_depthwise_part_t;

typedef void expand_depthwise_rows_t(const expand_depthwise_t *pair,
                                     const expand_depthwise_part_t *part);

ISA_EXTERN(expand_depthwise_rows_t, expand_depthwise);

/* Columns of a row of e that results read, with zeros on both sides. */
static inline int64_t expand_depthwise_columns(const expand_depthwise_t *pair)
{
    const int64_t n_tiles = (pair->out_width + EXPAND_DEPTHWISE_TILE - 1) / EXPAND_DEPTHWISE_TILE;
    const int64_t read = (n_tiles * EXPAND_DEPTHWISE_TILE - 1) * pair->stride + pair->kernel;
    const int64_t made = pair->left + pair->width;
    return read > made ? read : made;
}

/* Number of rows of e to store: those that a row of results reads. If a row is shorter than
 * n_at_once, the number of elements that are computed together, also the rows computed together
 * with the last one. */
static inline int64_t expand_depthwise_kept(const expand_depthwise_t *pair, int64_t n_at_once)
{
    const int64_t n_rows = n_at_once / pair->width;
    return pair->kernel + (n_rows > 1 ? n_rows - 1 : 0);
}

#endif
