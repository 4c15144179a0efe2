/* Multiplies the weight of a convolution or linear layer by the factors of the norm after it. */
#ifndef TESSERA_KERNELS_CONV_FOLD_IMPL_H
#define TESSERA_KERNELS_CONV_FOLD_IMPL_H

#include <stdint.h>

#include "tensor/dtype.h"

/* A weight of n_rows rows of n elements, of a floating dtype. Row i begins with factor number i /
 * rows_of_group * factors_of_group; after each `step` elements, the next factor is used.
 *
 *   weight [K][..]           step n, rows_of_group 1, factors_of_group 1
 *   weight [C][K/G][..] of a transposed convolution
 *                            step n / (K/G), rows_of_group C/G, factors_of_group K/G */
typedef struct fold {
    dtype_t dtype;
    int64_t n_rows, n, step, rows_of_group, factors_of_group;
    const double *factors;
    const void *weight;
    void *out;
} fold_t;

void fold_run(const fold_t *fold, int n_threads);

#endif
