/* Exact sums of products of small integers, for 8-bit convolutions and matrix products:
 *
 *   out[r][o] = sum(i) (x[r][i]) * (weight[o][i] - zero[o])
 *
 * The elements of x are differences of two bytes, stored as s16. Weights are s8 in memory and
 * become s16 in registers, because instructions that multiply bytes saturate their sums. Row r of x
 * is read in runs of adjacent pairs, from x + starts[r] + offsets[run] on, so that the windows of a
 * convolution need no copy. The weight's zero point is subtracted at the end: zero[o] * sums[r],
 * where sums[r] is the sum of row r. Sums wrap around. */
#ifndef TESSERA_KERNELS_QUANTIZED_INTEGER_IMPL_H
#define TESSERA_KERNELS_QUANTIZED_INTEGER_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define INTEGER_BLOCK 16 /* outputs of a block of the weight */

typedef struct integer {
    int64_t n_rows, n_outputs;
    int64_t n_runs, n_pairs; /* runs in a row, pairs in a run */
    const int16_t *x;
    const int64_t *starts;  /* [n_rows], in elements */
    const int32_t *offsets; /* [n_runs], in elements; NULL for one run at offset 0 */
    const int8_t *weight;   /* [n_outputs / 16][n_runs][n_pairs][16][2], the last block padded */
    const int32_t *zeros;   /* [n_outputs], readable up to a full block; or NULL */
    const int32_t *sums;    /* [n_rows]; read if zeros is not NULL */
    int32_t *out;           /* rows out_stride elements apart */
    int64_t out_stride;
} integer_t;

/* Computes the sums on n_threads threads; isa_has must be true for isa. */
void integer_run(const integer_t *integer, isa_t isa, int n_threads);

/* Computes rows [first, last) for the block of outputs from `output` on. */
typedef void integer_rows_t(const integer_t *integer, int64_t output, int64_t first, int64_t last);
ISA_EXTERN(integer_rows_t, integer);

#endif
