/* The loops of softmax_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/reduce/softmax_impl.h"
#include "kernels/scalar_functions_impl.h"
#include "kernels/vector_impl.h"

#define LANES 32 /* partial results of a row */

static inline float larger(float a, float b)
{
    return b > a || b != b ? b : a;
}

/* Finds the largest element, computes exp(src - largest), and returns the sum. The last n % LANES
 * elements are padded with -inf, whose exponential is 0. */
static float exponentials(int64_t n, const float *src, float *dst, float *out_largest)
{
    float lanes[LANES], tail[LANES];
    const int64_t whole = n / LANES * LANES, n_tail = n - whole;
    for (int l = 0; l < LANES; l++) tail[l] = -INFINITY;
    memcpy(tail, src + whole, (size_t)n_tail * sizeof *tail);
    memcpy(lanes, tail, sizeof lanes);
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = larger(lanes[l], src[i + l]);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] = larger(lanes[l], lanes[l + half]);
    const float largest = lanes[0];

#pragma omp simd
    for (int64_t i = 0; i < whole; i++) dst[i] = scalar_exp(src[i] - largest);
    for (int l = 0; l < LANES; l++) lanes[l] = 0.0f;
    if (n_tail > 0) {
        for (int l = 0; l < LANES; l++) lanes[l] = scalar_exp(tail[l] - largest);
        memcpy(dst + whole, lanes, (size_t)n_tail * sizeof *lanes);
    }
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += dst[i + l];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
    *out_largest = largest;
    return lanes[0];
}

static void run_row(bool is_logarithm, int64_t n, const float *restrict src, float *restrict dst)
{
    float largest = 0.0f;
    const float sum = exponentials(n, src, dst, &largest);
    const float logarithm = scalar_log(sum), factor = 1.0f / sum;
    if (is_logarithm)
        for (int64_t i = 0; i < n; i++) dst[i] = src[i] - largest - logarithm;
    else
        for (int64_t i = 0; i < n; i++) dst[i] *= factor;
}

static void run_columns(bool is_logarithm, int64_t n, int64_t inner, int64_t width,
                        const float *restrict src, float *restrict dst)
{
    float largest[SOFTMAX_COLUMNS], sum[SOFTMAX_COLUMNS];
    for (int64_t i = 0; i < width; i++) {
        largest[i] = -INFINITY;
        sum[i] = 0.0f;
    }
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) largest[i] = larger(largest[i], src[a * inner + i]);
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) {
            float difference = src[a * inner + i] - largest[i], power = scalar_exp(difference);
            sum[i] += power;
            dst[a * inner + i] = is_logarithm ? difference : power;
        }
    for (int64_t i = 0; i < width; i++) sum[i] = is_logarithm ? scalar_log(sum[i]) : 1.0f / sum[i];
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) {
            float value = dst[a * inner + i];
            dst[a * inner + i] = is_logarithm ? value - sum[i] : value * sum[i];
        }
}

/* Computes elements of a gradient from the sums of the gradient's formula: sums[0] for all if step
 * is 0 (a row), else sums[i] (columns). */
KERNEL_INLINE void finish(bool is_logarithm, int64_t n, const float *y, const float *grad,
                          const float *sums, int64_t step, float *dst)
{
    if (is_logarithm) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = grad[i] - scalar_exp(y[i]) * sums[i * step];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = y[i] * (grad[i] - sums[i * step]);
    }
}

static void pass_row(bool is_logarithm, int64_t n, const float *y, const float *grad, float *dst)
{
    float lanes[LANES] = {0.0f}, sum = 0.0f;
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += is_logarithm ? grad[i + l] : grad[i + l] * y[i + l];
    for (int64_t i = whole; i < n; i++) lanes[i - whole] += is_logarithm ? grad[i] : grad[i] * y[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    finish(is_logarithm, n, y, grad, &sum, 0, dst);
}

static void pass_columns(bool is_logarithm, int64_t n, int64_t inner, int64_t width, const float *y,
                         const float *grad, float *dst)
{
    float sum[SOFTMAX_COLUMNS] = {0.0f};
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++)
            sum[i] += is_logarithm ? grad[a * inner + i] : grad[a * inner + i] * y[a * inner + i];
    for (int64_t a = 0; a < n; a++)
        finish(is_logarithm, width, y + a * inner, grad + a * inner, sum, 1, dst + a * inner);
}

static void spread_nan_f32(int64_t n, float *row)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= row[i] != row[i];
    for (int64_t i = 0; found != 0 && i < n; i++) row[i] = NAN;
}

static void spread_nan_bf16(int64_t n, uint16_t *row)
{
    uint16_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t magnitude = row[i] & 0x7fff;
        largest = magnitude > largest ? magnitude : largest;
    }
    for (int64_t i = 0; largest > 0x7f80 && i < n; i++) row[i] = 0x7fc0;
}

const softmax_loops_t KERNEL_NAME(softmax) = {.exponentials = exponentials,
                                              .row = run_row,
                                              .columns = run_columns,
                                              .row_gradient = pass_row,
                                              .column_gradients = pass_columns,
                                              .spread_nan_f32 = spread_nan_f32,
                                              .spread_nan_bf16 = spread_nan_bf16};
