/* The loops of moments_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/norm/moments_impl.h"

#include <math.h>

#include "kernels/vector_impl.h"

#define LANES MOMENTS_LANES
#define BLOCK 16 /* channels in the widest blocks */

static double add_line(int64_t n, const float *src, bool squares, float mean)
{
    float lanes[LANES] = {0.0f};
    double sum = 0.0;
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float x = src[i + l] - mean;
            lanes[l] += squares ? x * x : x;
        }
    for (int64_t i = whole; i < n; i++) {
        float x = src[i] - mean;
        sum += (double)(squares ? x * x : x);
    }
    for (int l = 0; l < LANES; l++) sum += (double)lanes[l];
    return sum;
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

static void normalize(int64_t n, const float *src, float mean, float scale, const float *weight,
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

const moments_loops_t KERNEL_NAME(moments) = {.line = add_line,
                                              .columns = add_columns,
                                              .apply = apply,
                                              .factors = make_factors,
                                              .normalize = normalize};
