/* Multiplies the weight of a convolution or linear layer by the factors of the norm after it. */
#ifndef TESSERA_KERNELS_CONV_FOLD_IMPL_H
#define TESSERA_KERNELS_CONV_FOLD_IMPL_H

#include <stdint.h>

#include "tensor/dtype.h"

/* n_rows rows of n elements, of a floating dtype. The first factor of row i is number
 * i / rows_of_group * factors_of_group; the next factor follows after each `step` elements.
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
