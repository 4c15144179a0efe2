/* Loops of gradients_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/optimizer/gradients_impl.h"
#include "kernels/vector_impl.h"

#define LANES 16

/* Contraction to FMA changes nothing here, because the square of a float is exact in double. */
static double sum_squares(int64_t n, const float *x)
{
    double lanes[LANES] = {0.0}, sum = 0.0;
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int64_t i = whole; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

static void scale(int64_t n, float factor, const float *from, float *to)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = from[i] * factor;
}

const gradients_loops_t KERNEL_NAME(gradients_loops) = {sum_squares, scale};
