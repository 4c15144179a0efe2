/* Direct convolutions of few channels:
 *
 *   out[n][k][d][p][q] = finish(bias[k] + sum(tap) x[n][..] * weight[k][tap]),  tap = c, t, r, s
 *
 * A tap is one element of the kernel for one input channel. For a few rows of the result at a time,
 * each thread copies the rows of x that these need, with padding. In the copy, elements that are
 * one stride apart are adjacent. So each tap is one offset in the copy, and the inner loop is the
 * same for all strides, dilations, groups and ranks.
 *
 * With few outputs, vectors are adjacent elements of the last dimension of the result, because
 * vectors of channels would leave most lanes unused. With few inputs but many outputs, as in the
 * first layer of a network, vectors are blocks of outputs. */
#ifndef TESSERA_KERNELS_CONV_TAPS_IMPL_H
#define TESSERA_KERNELS_CONV_TAPS_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "kernels/rows_impl.h"

/* Called for n finished elements; may change them. */
typedef void (*taps_finish_t)(const void *user, float *values, int64_t n);

typedef struct taps {
    int64_t n_images, groups, group_channels, group_outputs;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], padding[3]; /* D, H, W */
    image_rows_t rows;   /* those to compute, see rows_impl.h; images in blocks only */
    bool is_blocked;     /* the result is in blocks of the ISA's lanes; one group only */
    const float *x;      /* [N][G * C][D][H][W] */
    const float *weight; /* [G * K][C][T][R][S]; blocked: [K / lanes][T][R][S][C][lanes] */
    const float *bias;   /* [G * K], or NULL */
    float *out_values;   /* [N][G * K][D][P][Q]; blocked: [N][K / lanes][D][P][Q][lanes] */
    bool is_clamped;     /* to [lower, upper]; blocked only */
    float lower, upper;
    taps_finish_t finish; /* or NULL */
    const void *user;
} taps_t;

/* A thread's copy of x: [C][T][rows][phases][width] floats, for `strip` rows of the result. Phase i
 * has the elements whose column (with padding) is i modulo the number of phases, which is the
 * stride. Loops for blocks read single elements of x, so they can step over the others: with small
 * strides there is one phase, and `step` is the stride. */
#define TAPS_MOST_STEP 2
typedef struct taps_shape {
    int64_t strip, rows, phases, step, width;
    int64_t n_taps, n_strips;
    size_t bytes, offset_bytes; /* bytes of a copy, bytes of all offsets */
} taps_shape_t;

/* Returns false if sizes overflow, or if a row of the result needs more than TAPS_MOST_BYTES. */
#define TAPS_MOST_BYTES ((size_t)1 << 20)
bool taps_describe(const taps_t *taps, taps_shape_t *out_shape);

/* Computes the result on n_threads threads. isa_has(isa) must be true. scratch has taps_scratch
 * bytes and is 64-byte aligned. */
void taps_run(const taps_t *taps, isa_t isa, int n_threads, void *scratch);
size_t taps_scratch(const taps_t *taps, int n_threads);

/* One row of the result for outputs, or blocks of outputs, [first, last); x points to the first tap
 * in the copy. */
typedef struct taps_row {
    const taps_t *taps;
    const int32_t *offsets; /* offset of each tap from x */
    int64_t n_taps, first, last;
    const float *x;
    int64_t step;     /* from x of a result to x of the next */
    float *out;       /* row of output or block `first` */
    int64_t out_step; /* stride of outputs or blocks */
} taps_row_t;

/* The loops for one ISA. */
typedef void taps_row_loop_t(const taps_row_t *row);
ISA_EXTERN(taps_row_loop_t, taps);
ISA_EXTERN(taps_row_loop_t, taps_blocks);

#endif
