/* The loops of moments_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/norm/moments_impl.h"

#include <math.h>

#include "kernels/vector_impl.h"

#define LANES MOMENTS_LANES
#define BLOCK 16 /* channels in the widest blocks */

/* Adds LANES numbers in double, several at a time. */
static double add_lanes(const float *lanes)
{
    double sums[8] = {0.0};
    for (int l = 0; l < LANES; l += 8)
        for (int i = 0; i < 8; i++) sums[i] += (double)lanes[l + i];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
           ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

static double add_line(int64_t n, const float *src, bool squares, float mean)
{
    float lanes[LANES] = {0.0f};
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float x = src[i + l] - mean;
            lanes[l] += squares ? x * x : x;
        }
    for (int64_t i = whole; i < n; i++) {
        float x = src[i] - mean;
        lanes[i - whole] += squares ? x * x : x;
    }
    return add_lanes(lanes);
}

/* Sums up to LANES columns. */
static void add_columns(int64_t rows, int64_t width, int64_t step, const float *src, bool squares,
                        const float *means, float *sums)
{
    for (int64_t row = 0; row < rows; row++, src += step)
        for (int64_t i = 0; i < width; i++) {
            float x = src[i] - means[i];
            sums[i] += squares ? x * x : x;
        }
}

/* Processes the rows of a block of channels; their factors stay in registers. */
static void apply_blocks(int64_t rows, const float *scale, const float *shift, const float *src,
                         float *dst)
{
    float by[BLOCK], plus[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        by[i] = scale[i];
        plus[i] = shift[i];
    }
    for (int64_t row = 0; row < rows; row++, src += BLOCK, dst += BLOCK)
#pragma omp simd
        for (int i = 0; i < BLOCK; i++) dst[i] = src[i] * by[i] + plus[i];
}

static void apply(int64_t rows, int64_t width, bool is_constant, const float *scale,
                  const float *shift, const float *src, float *dst)
{
    if (!is_constant && width == BLOCK) {
        apply_blocks(rows, scale, shift, src, dst);
        return;
    }
    for (int64_t row = 0; row < rows; row++, src += width, dst += width) {
        if (is_constant) {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) dst[i] = src[i] * scale[0] + shift[0];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) dst[i] = src[i] * scale[i] + shift[i];
        }
    }
}

static void make_factors(int64_t n, double epsilon, const float *weight, const float *bias,
                         const float *mean, const float *var, float *restrict scale,
                         float *restrict shift)
{
    for (int64_t c = 0; c < n; c++) {
        const double by = (weight != NULL ? (double)weight[c] : 1.0) / sqrt(var[c] + epsilon);
        scale[c] = (float)by;
        shift[c] = (float)((bias != NULL ? (double)bias[c] : 0.0) - mean[c] * by);
    }
}

static void normalize_row(int64_t n, const float *src, float mean, float scale, const float *weight,
                          const float *bias, float *dst)
{
    if (weight != NULL && bias != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = (src[i] - mean) * scale * weight[i] + bias[i];
    } else if (weight != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = (src[i] - mean) * scale * weight[i];
    } else if (bias != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = (src[i] - mean) * scale + bias[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = (src[i] - mean) * scale;
    }
}

/* Sums a row of any length in steps of MOMENTS_ROUND elements. */
static double sum_row(int64_t n, const float *src, bool squares, float mean)
{
    double sum = 0.0;
    for (int64_t first = 0; first < n; first += MOMENTS_ROUND) {
        const int64_t rest = n - first;
        sum += add_line(rest < MOMENTS_ROUND ? rest : MOMENTS_ROUND, src + first, squares, mean);
    }
    return sum;
}

#define GROUP 8           /* rows; their sums and roots are independent, so they overlap */
#define GROUP_LENGTH 1024 /* longer rows would not stay in the L1 cache as a group */

static void normalize_group(int rows, int64_t n, bool has_mean, double epsilon, const float *src,
                            const float *weight, const float *bias, float *dst)
{
    float means[GROUP] = {0.0f}, scales[GROUP];
    double squares[GROUP] = {0.0};
    for (int i = 0; i < rows && has_mean; i++)
        means[i] = (float)(sum_row(n, src + i * n, false, 0.0f) / (double)n);
    for (int i = 0; i < rows; i++) squares[i] = sum_row(n, src + i * n, true, means[i]);
    for (int i = 0; i < GROUP; i++)
        scales[i] = (float)(1.0 / sqrt(squares[i] / (double)n + epsilon));
    for (int i = 0; i < rows; i++)
        normalize_row(n, src + i * n, means[i], scales[i], weight, bias, dst + i * n);
}

static void normalize(int64_t rows, int64_t n, bool has_mean, double epsilon, const float *src,
                      const float *weight, const float *bias, float *dst)
{
    const int64_t group = n > GROUP_LENGTH ? 1 : GROUP;
    for (int64_t row = 0; row < rows; row += group) {
        const int64_t rest = rows - row;
        normalize_group((int)(rest < group ? rest : group), n, has_mean, epsilon, src + row * n,
                        weight, bias, dst + row * n);
    }
}

const moments_loops_t KERNEL_NAME(moments) = {.line = add_line,
                                              .columns = add_columns,
                                              .apply = apply,
                                              .factors = make_factors,
                                              .normalize = normalize};
