/* Loops that several norms use: sums over a row or over each channel, and x * scale + shift.
 *
 * This folder holds the loops of ops/norm. */
#ifndef TESSERA_KERNELS_NORM_MOMENTS_IMPL_H
#define TESSERA_KERNELS_NORM_MOMENTS_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "tensor/dtype.h"

/* Term of a sum: the element, or the squared difference from a mean. */
typedef enum moment { MOMENT_SUM, MOMENT_SQUARES } moment_t;

/* Sums n adjacent elements in double; f32 is first summed in f32, up to MOMENTS_ROUND elements. */
double moments_line(isa_t isa, dtype_t dtype, int64_t n, const void *src, moment_t moment,
                    double mean);

/* Sums each of `width` columns over `rows` contiguous rows; means and sums are [width]. */
void moments_columns(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, const void *src,
                     moment_t moment, const double *means, double *sums);

/* dst = src * scale + shift for contiguous rows. scale and shift are [width]; if is_constant, they
 * have one element. They are f32 for f32 and f64 for other dtypes. src and dst may be equal. */
void moments_apply(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, bool is_constant,
                   const void *scale, const void *shift, const void *src, void *dst);

/* Factors of batch_norm, y = x * scale[c] + shift[c]. weight and bias are [n] or NULL. */
void moments_factors(isa_t isa, int64_t n, double epsilon, const float *weight, const float *bias,
                     const float *mean, const float *var, float *scale, float *shift);

/* Normalises rows of n elements: dst = (src - mean) / sqrt(var + epsilon) * weight + bias, where
 * mean and var are those of the row; without has_mean the mean counts as 0. weight and bias are [n]
 * or NULL; src and dst may be equal. */
void moments_normalize(isa_t isa, int64_t rows, int64_t n, bool has_mean, double epsilon,
                       const float *src, const float *weight, const float *bias, float *dst);

/* Loops of one ISA. So that sums in f32 stay accurate, a call sums at most MOMENTS_ROUND elements,
 * or MOMENTS_CHUNK rows of MOMENTS_LANES columns. */
#define MOMENTS_ROUND 4096
#define MOMENTS_CHUNK 256
#define MOMENTS_LANES 32

typedef struct moments_loops {
    double (*line)(int64_t n, const float *src, bool squares, float mean);
    void (*columns)(int64_t rows, int64_t width, int64_t step, const float *src, bool squares,
                    const float *means, float *sums);
    void (*apply)(int64_t rows, int64_t width, bool is_constant, const float *scale,
                  const float *shift, const float *src, float *dst);
    void (*factors)(int64_t n, double epsilon, const float *weight, const float *bias,
                    const float *mean, const float *var, float *scale, float *shift);
    void (*normalize)(int64_t rows, int64_t n, bool has_mean, double epsilon, const float *src,
                      const float *weight, const float *bias, float *dst);
} moments_loops_t;
ISA_EXTERN(const moments_loops_t, moments);

#endif
