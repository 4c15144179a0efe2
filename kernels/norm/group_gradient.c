#include "kernels/norm/group_gradient_impl.h"

#define LANES MOMENTS_LANES
#define ROUND MOMENTS_ROUND
#define CHUNK MOMENTS_CHUNK

static const group_gradient_loops_t *const tables[ISA_COUNT] = ISA_TABLE(group_gradient);

/* ---- sums ---- */

static void add_columns_f32(isa_t isa, int64_t rows, int64_t width, const float *x,
                            const float *grad, const double *means, double *sums, double *products)
{
    for (int64_t first = 0; first < width; first += LANES) {
        const int64_t count = width - first < LANES ? width - first : LANES;
        float mean[LANES] = {0.0f};
        for (int64_t i = 0; i < count; i++) mean[i] = (float)means[first + i];
        for (int64_t row = 0; row < rows; row += CHUNK) {
            float sum[LANES] = {0.0f}, product[LANES] = {0.0f};
            const int64_t n = rows - row < CHUNK ? rows - row : CHUNK, at = row * width + first;
            tables[isa]->columns(n, count, width, x + at, grad + at, mean, sum, product);
            for (int64_t i = 0; i < count; i++) {
                sums[first + i] += (double)sum[i];
                products[first + i] += (double)product[i];
            }
        }
    }
}

/* Adds n adjacent elements to sums and products: elements of one channel if is_line, else one of
 * each of n channels. */
static void add_any(int64_t n, bool is_line, dtype_t dtype, const char *x, const char *grad,
                    const double *means, double *sums, double *products)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    double wide_x[CHUNK], wide_grad[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t count = n - first < CHUNK ? n - first : CHUNK;
        dtype_cast(count, dtype, x + first * size, 1, DTYPE_F64, wide_x, 1);
        dtype_cast(count, dtype, grad + first * size, 1, DTYPE_F64, wide_grad, 1);
        for (int64_t i = 0; i < count; i++) {
            const int64_t c = is_line ? 0 : first + i;
            sums[c] += wide_grad[i];
            products[c] += wide_grad[i] * (wide_x[i] - means[c]);
        }
    }
}

void group_gradient_sums(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, const void *x,
                         const void *grad, const double *means, double *sums, double *products)
{
    const int64_t row = width * (int64_t)dtype_size(dtype);
    const float *x_f32 = x, *grad_f32 = grad;
    for (int64_t i = 0; i < width; i++) sums[i] = products[i] = 0.0;
    if (dtype != DTYPE_F32 && width == 1) {
        add_any(rows, true, dtype, x, grad, means, sums, products);
    } else if (dtype != DTYPE_F32) {
        for (int64_t s = 0; s < rows; s++)
            add_any(width, false, dtype, (const char *)x + s * row, (const char *)grad + s * row,
                    means, sums, products);
    } else if (width > 1) {
        add_columns_f32(isa, rows, width, x, grad, means, sums, products);
    } else {
        for (int64_t s = 0; s < rows; s += ROUND)
            tables[isa]->line(rows - s < ROUND ? rows - s : ROUND, x_f32 + s, grad_f32 + s,
                              (float)means[0], sums, products);
    }
}

/* ---- gradient of x ---- */

/* Computes dst for one row of any dtype, in double. step is 1, or 0 for one channel. */
static void pass_row(int64_t n, int64_t step, dtype_t dtype, const double *const *factors,
                     const char *x, const char *grad, char *dst)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    double wide_x[CHUNK], wide_grad[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t count = n - first < CHUNK ? n - first : CHUNK;
        dtype_cast(count, dtype, x + first * size, 1, DTYPE_F64, wide_x, 1);
        dtype_cast(count, dtype, grad + first * size, 1, DTYPE_F64, wide_grad, 1);
        for (int64_t i = 0; i < count; i++) {
            const int64_t c = (first + i) * step;
            wide_x[i] = factors[GROUP_OF_GRAD][c] * wide_grad[i] +
                        factors[GROUP_OF_X][c] * (wide_x[i] - factors[GROUP_MEAN][c]) +
                        factors[GROUP_SHIFT][c];
        }
        dtype_cast(count, DTYPE_F64, wide_x, 1, dtype, dst + first * size, 1);
    }
}

void group_gradient_apply(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, bool is_constant,
                          const void *const factors[GROUP_FACTORS], const void *x, const void *grad,
                          void *dst)
{
    const float *floats[GROUP_FACTORS];
    const double *doubles[GROUP_FACTORS];
    for (int i = 0; i < GROUP_FACTORS; i++) {
        floats[i] = factors[i];
        doubles[i] = factors[i];
    }
    if (dtype == DTYPE_F32) {
        tables[isa]->apply(rows, width, is_constant, floats, x, grad, dst);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = row * width * (int64_t)dtype_size(dtype);
        pass_row(width, is_constant ? 0 : 1, dtype, doubles, (const char *)x + at,
                 (const char *)grad + at, (char *)dst + at);
    }
}
