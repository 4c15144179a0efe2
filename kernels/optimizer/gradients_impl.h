/* Loops over gradients. */
#ifndef TESSERA_KERNELS_OPTIMIZER_GRADIENTS_IMPL_H
#define TESSERA_KERNELS_OPTIMIZER_GRADIENTS_IMPL_H

#include <stdint.h>

#include "kernels/isa_impl.h"

/* The sum of x[i]^2 in double. The order of additions depends only on n. */
double gradients_sum_squares(int64_t n, const float *x);

/* to[i] = from[i] * factor; `to` may be `from`. */
void gradients_scale(int64_t n, float factor, const float *from, float *to);

/* Loops of one ISA. */
typedef struct gradients_loops {
    double (*sum_squares)(int64_t n, const float *x);
    void (*scale)(int64_t n, float factor, const float *from, float *to);
} gradients_loops_t;
ISA_EXTERN(const gradients_loops_t, gradients_loops);

#endif
