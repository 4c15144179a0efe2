#include "kernels/norm/moments_impl.h"

#define CHUNK MOMENTS_CHUNK /* also: elements that are converted to double at a time */
#define LANES MOMENTS_LANES
#define ROUND MOMENTS_ROUND

static const moments_loops_t *const tables[ISA_COUNT] = ISA_TABLE(moments);

/* ---- sums ---- */

double moments_line(isa_t isa, dtype_t dtype, int64_t n, const void *src, moment_t moment,
                    double mean)
{
    const bool squares = moment == MOMENT_SQUARES;
    const int64_t size = (int64_t)dtype_size(dtype);
    double sum = 0.0, wide[CHUNK];
    if (dtype == DTYPE_F32) {
        for (int64_t first = 0; first < n; first += ROUND) {
            int64_t count = n - first < ROUND ? n - first : ROUND;
            sum += tables[isa]->line(count, (const float *)src + first, squares, (float)mean);
        }
        return sum;
    }
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t count = n - first < CHUNK ? n - first : CHUNK;
        dtype_cast(count, dtype, (const char *)src + first * size, 1, DTYPE_F64, wide, 1);
        for (int64_t i = 0; i < count; i++) {
            double x = wide[i] - mean;
            sum += squares ? x * x : x;
        }
    }
    return sum;
}

static void columns_f32(isa_t isa, int64_t rows, int64_t width, const float *src, bool squares,
                        const double *means, double *sums)
{
    for (int64_t first = 0; first < width; first += LANES) {
        int64_t count = width - first < LANES ? width - first : LANES;
        float mean[LANES] = {0.0f};
        for (int64_t i = 0; i < count; i++) mean[i] = (float)means[first + i];
        for (int64_t row = 0; row < rows; row += CHUNK) {
            float sum[LANES] = {0.0f};
            int64_t n = rows - row < CHUNK ? rows - row : CHUNK;
            tables[isa]->columns(n, count, width, src + row * width + first, squares, mean, sum);
            for (int64_t i = 0; i < count; i++) sums[first + i] += (double)sum[i];
        }
    }
}

void moments_columns(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, const void *src,
                     moment_t moment, const double *means, double *sums)
{
    const bool squares = moment == MOMENT_SQUARES;
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t i = 0; i < width; i++) sums[i] = 0.0;
    if (dtype == DTYPE_F32) {
        columns_f32(isa, rows, width, src, squares, means, sums);
        return;
    }
    double wide[CHUNK];
    for (int64_t row = 0; row < rows; row++)
        for (int64_t first = 0; first < width; first += CHUNK) {
            int64_t count = width - first < CHUNK ? width - first : CHUNK;
            dtype_cast(count, dtype, (const char *)src + (row * width + first) * size, 1, DTYPE_F64,
                       wide, 1);
            for (int64_t i = 0; i < count; i++) {
                double x = wide[i] - means[first + i];
                sums[first + i] += squares ? x * x : x;
            }
        }
}

/* ---- scale and shift ---- */

/* Does moments_apply for any dtype, in double. */
static void apply(dtype_t dtype, int64_t rows, int64_t width, bool is_constant, const double *scale,
                  const double *shift, const char *src, char *dst)
{
    double value[CHUNK];
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t first = 0; first < width; first += CHUNK) {
            int64_t at = (row * width + first) * size;
            int64_t n = width - first < CHUNK ? width - first : CHUNK;
            dtype_cast(n, dtype, src + at, 1, DTYPE_F64, value, 1);
            for (int64_t i = 0; i < n; i++) {
                int64_t c = is_constant ? 0 : first + i;
                value[i] = value[i] * scale[c] + shift[c];
            }
            dtype_cast(n, DTYPE_F64, value, 1, dtype, dst + at, 1);
        }
}

void moments_apply(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, bool is_constant,
                   const void *scale, const void *shift, const void *src, void *dst)
{
    if (dtype == DTYPE_F32)
        tables[isa]->apply(rows, width, is_constant, scale, shift, src, dst);
    else
        apply(dtype, rows, width, is_constant, scale, shift, src, dst);
}

void moments_factors(isa_t isa, int64_t n, double epsilon, const float *weight, const float *bias,
                     const float *mean, const float *var, float *scale, float *shift)
{
    tables[isa]->factors(n, epsilon, weight, bias, mean, var, scale, shift);
}

void moments_normalize(isa_t isa, int64_t rows, int64_t n, bool has_mean, double epsilon,
                       const float *src, const float *weight, const float *bias, float *dst)
{
    tables[isa]->normalize(rows, n, has_mean, epsilon, src, weight, bias, dst);
}
