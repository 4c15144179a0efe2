/* The loops of group_gradient_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/norm/group_gradient_impl.h"
#include "kernels/vector_impl.h"

#define LANES MOMENTS_LANES

static void add_line(int64_t n, const float *x, const float *grad, float mean, double *sum,
                     double *product)
{
    float a[LANES] = {0.0f}, b[LANES] = {0.0f};
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) {
            a[l] += grad[i + l];
            b[l] += grad[i + l] * (x[i + l] - mean);
        }
    for (int64_t i = whole; i < n; i++) {
        a[i - whole] += grad[i];
        b[i - whole] += grad[i] * (x[i] - mean);
    }
    for (int l = 0; l < LANES; l++) {
        *sum += (double)a[l];
        *product += (double)b[l];
    }
}

static void add_columns(int64_t rows, int64_t width, int64_t step, const float *x,
                        const float *grad, const float *mean, float *sum, float *product)
{
    for (int64_t row = 0; row < rows; row++, x += step, grad += step)
        for (int64_t i = 0; i < width; i++) {
            sum[i] += grad[i];
            product[i] += grad[i] * (x[i] - mean[i]);
        }
}

KERNEL_INLINE void pass(int64_t n, int64_t step, const float *const *factors, const float *x,
                        const float *grad, float *dst)
{
    const float *a = factors[GROUP_OF_GRAD], *b = factors[GROUP_OF_X];
    const float *shift = factors[GROUP_SHIFT], *mean = factors[GROUP_MEAN];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i * step] * grad[i] + b[i * step] * (x[i] - mean[i * step]) + shift[i * step];
}

static void apply(int64_t rows, int64_t width, bool is_constant,
                  const float *const factors[GROUP_FACTORS], const float *x, const float *grad,
                  float *dst)
{
    for (int64_t row = 0; row < rows; row++, x += width, grad += width, dst += width)
        if (is_constant)
            pass(width, 0, factors, x, grad, dst);
        else
            pass(width, 1, factors, x, grad, dst);
}

const group_gradient_loops_t KERNEL_NAME(group_gradient) = {
    .line = add_line, .columns = add_columns, .apply = apply};
