/* The loop of exponentials_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/loss/exponentials_impl.h"
#include "kernels/scalar_functions_impl.h"
#include "kernels/vector_impl.h"

#define LANES 8

double KERNEL_NAME(exponentials)(int64_t n, double largest, const double *restrict x,
                                 float *restrict scratch, double *restrict out)
{
    double lanes[LANES] = {0.0}, sum = 0.0;
    for (int64_t c = 0; c < n; c++) scratch[c] = scalar_exp((float)(x[c] - largest));
    for (int64_t c = 0; c < n; c++) out[c] = (double)scratch[c];
    for (int64_t c = 0; c + LANES <= n; c += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += out[c + l];
    for (int64_t c = n / LANES * LANES; c < n; c++) sum += out[c];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}
