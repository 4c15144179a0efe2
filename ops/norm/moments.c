#include "ops/norm/moments_impl.h"

#include "tensor/simd_impl.h"

#define CHUNK 256  /* elements that are widened at a time */
#define LANES 32   /* lanes of one sum */
#define BLOCK 16   /* channels in the widest blocks */
#define ROUND 4096 /* elements or rows that are summed in float */

/* ---- sums ---- */

FOR_EACH_ISA static double add_line(int64_t n, const float *src, bool squares, float mean)
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

double moments_line(dtype_t dtype, int64_t n, const void *src, moment_t moment, double mean)
{
    const bool squares = moment == MOMENT_SQUARES;
    const int64_t size = (int64_t)dtype_size(dtype);
    double sum = 0.0, wide[CHUNK];
    if (dtype == DTYPE_F32) {
        for (int64_t first = 0; first < n; first += ROUND) {
            int64_t count = n - first < ROUND ? n - first : ROUND;
            sum += add_line(count, (const float *)src + first, squares, (float)mean);
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

/* Sums up to LANES columns. */
FOR_EACH_ISA static void add_columns(int64_t rows, int64_t width, int64_t step, const float *src,
                                     bool squares, const float *means, float *sums)
{
    for (int64_t row = 0; row < rows; row++, src += step)
        for (int64_t i = 0; i < width; i++) {
            float x = src[i] - means[i];
            sums[i] += squares ? x * x : x;
        }
}

static void columns_f32(int64_t rows, int64_t width, const float *src, bool squares,
                        const double *means, double *sums)
{
    for (int64_t first = 0; first < width; first += LANES) {
        int64_t count = width - first < LANES ? width - first : LANES;
        float mean[LANES] = {0.0f};
        for (int64_t i = 0; i < count; i++) mean[i] = (float)means[first + i];
        for (int64_t row = 0; row < rows; row += CHUNK) {
            float sum[LANES] = {0.0f};
            int64_t n = rows - row < CHUNK ? rows - row : CHUNK;
            add_columns(n, count, width, src + row * width + first, squares, mean, sum);
            for (int64_t i = 0; i < count; i++) sums[first + i] += (double)sum[i];
        }
    }
}

void moments_columns(dtype_t dtype, int64_t rows, int64_t width, const void *src, moment_t moment,
                     const double *means, double *sums)
{
    const bool squares = moment == MOMENT_SQUARES;
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t i = 0; i < width; i++) sums[i] = 0.0;
    if (dtype == DTYPE_F32) {
        columns_f32(rows, width, src, squares, means, sums);
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

/* Processes the rows of a block of channels; their factors stay in registers. */
FOR_EACH_ISA static void apply_blocks(int64_t rows, const float *scale, const float *shift,
                                      const float *src, float *dst)
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

FOR_EACH_ISA static void apply_f32(const walk_piece_t *piece, bool is_constant, const float *scale,
                                   const float *shift, const float *src, float *dst)
{
    if (!is_constant && piece->width == BLOCK) {
        apply_blocks(piece->rows, scale, shift, src, dst);
        return;
    }
    for (int64_t row = 0; row < piece->rows; row++, src += piece->width, dst += piece->width) {
        const int64_t n = piece->width;
        if (is_constant) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) dst[i] = src[i] * scale[0] + shift[0];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) dst[i] = src[i] * scale[i] + shift[i];
        }
    }
}

static void apply(const walk_piece_t *piece, bool is_constant, dtype_t dtype, const double *scale,
                  const double *shift, const char *src, char *dst)
{
    double value[CHUNK];
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t row = 0; row < piece->rows; row++)
        for (int64_t first = 0; first < piece->width; first += CHUNK) {
            int64_t at = (row * piece->width + first) * size;
            int64_t n = piece->width - first < CHUNK ? piece->width - first : CHUNK;
            dtype_cast(n, dtype, src + at, 1, DTYPE_F64, value, 1);
            for (int64_t i = 0; i < n; i++) {
                int64_t c = is_constant ? 0 : first + i;
                value[i] = value[i] * scale[c] + shift[c];
            }
            dtype_cast(n, DTYPE_F64, value, 1, dtype, dst + at, 1);
        }
}

void moments_apply(const walk_piece_t *piece, bool is_constant, dtype_t dtype, const void *scale,
                   const void *shift, const void *src, void *dst)
{
    if (dtype == DTYPE_F32)
        apply_f32(piece, is_constant, scale, shift, src, dst);
    else
        apply(piece, is_constant, dtype, scale, shift, src, dst);
}
