/* Loops of norms and their gradients with each instruction set of the machine, compared with sums
 * in double. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "kernels/norm/batch_norm_impl.h"
#include "kernels/norm/group_gradient_impl.h"
#include "kernels/norm/layer_gradient_impl.h"
#include "kernels/norm/lrn_impl.h"
#include "kernels/norm/moments_impl.h"

enum { MOST = 9000 };

static const int64_t sizes[] = {1, 3, 15, 16, 17, 31, 32, 33, 70, 300, 8300};
static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16};
#define N_SIZES ((int)(sizeof sizes / sizeof *sizes))
#define N_DTYPES ((int)(sizeof dtypes / sizeof *dtypes))

static double get(dtype_t dtype, const void *elements, int64_t i)
{
    return dtype_load(dtype, (const char *)elements + i * (int64_t)dtype_size(dtype));
}

/* Fills with numbers from -6 to 8, rounded to the dtype, followed by 42, which must not change. */
static void fill(dtype_t dtype, int64_t n, int64_t seed, void *to)
{
    for (int64_t i = 0; i < n; i++)
        dtype_store(dtype, (char *)to + i * (int64_t)dtype_size(dtype),
                    (double)((i + seed) * 37 % 101) / 7.0 - 6.0);
    dtype_store(dtype, (char *)to + n * (int64_t)dtype_size(dtype), 42.0);
}

/* Returns the tolerance of a sum. `scale` is the size of its terms. */
static double tolerance_of(dtype_t dtype, double scale)
{
    return (dtype == DTYPE_F64 ? 1e-12 : dtype == DTYPE_F32 ? 3e-6 : 1e-2) * (scale + 1.0);
}

static void check_near(double given, double wanted, double tolerance)
{
    if (!(fabs(given - wanted) <= tolerance))
        fail_msg("%.9g, wanted %.9g, within %g", given, wanted, tolerance);
}

/* ---- moments ---- */

static void check_line(isa_t isa, dtype_t dtype, int64_t n)
{
    double x[MOST], sum = 0.0, squares = 0.0;
    fill(dtype, n, 0, x);
    for (int64_t i = 0; i < n; i++) {
        sum += get(dtype, x, i);
        squares += (get(dtype, x, i) - 0.5) * (get(dtype, x, i) - 0.5);
    }
    const double given = moments_line(isa, dtype, n, x, MOMENT_SUM, 0.0);
    check_near(given, sum, tolerance_of(DTYPE_F32, fabs(sum)));
    const double given_squares = moments_line(isa, dtype, n, x, MOMENT_SQUARES, 0.5);
    check_near(given_squares, squares, tolerance_of(DTYPE_F32, squares));
}

static void check_columns(isa_t isa, dtype_t dtype, int64_t rows, int64_t width)
{
    double x[MOST], means[71], sums[71], squares[71];
    fill(dtype, rows * width, 0, x);
    for (int64_t c = 0; c < width; c++) means[c] = 0.25 * (double)(c % 5);
    moments_columns(isa, dtype, rows, width, x, MOMENT_SUM, means, sums);
    moments_columns(isa, dtype, rows, width, x, MOMENT_SQUARES, means, squares);
    for (int64_t c = 0; c < width; c++) {
        double sum = 0.0, square = 0.0;
        for (int64_t row = 0; row < rows; row++) {
            const double difference = get(dtype, x, row * width + c) - means[c];
            sum += difference;
            square += difference * difference;
        }
        check_near(sums[c], sum, tolerance_of(DTYPE_F32, square));
        check_near(squares[c], square, tolerance_of(DTYPE_F32, square));
    }
}

static void check_apply(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, bool is_constant)
{
    const dtype_t compute = dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    double x[MOST], scale[71], shift[71], given[MOST];
    const int64_t n = rows * width;
    fill(dtype, n, 0, x);
    fill(dtype, n, 0, given);
    fill(compute, is_constant ? 1 : width, 3, scale);
    fill(compute, is_constant ? 1 : width, 5, shift);
    moments_apply(isa, dtype, rows, width, is_constant, scale, shift, given, given);
    assert_true(get(dtype, given, n) == 42.0);
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = is_constant ? 0 : i % width;
        const double wanted = get(dtype, x, i) * get(compute, scale, c) + get(compute, shift, c);
        check_near(get(dtype, given, i), wanted, tolerance_of(dtype, fabs(wanted) + 50.0));
    }
}

static void sums_and_scales_are_those_in_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; isa_has((isa_t)isa) && i < N_SIZES * N_DTYPES; i++) {
            const int64_t n = sizes[i / N_DTYPES], rows = n < 16 ? 550 : 4;
            const dtype_t dtype = dtypes[i % N_DTYPES];
            check_line((isa_t)isa, dtype, n);
            if (n >= 70) continue;
            check_columns((isa_t)isa, dtype, rows, n);
            check_apply((isa_t)isa, dtype, rows, n, false);
            check_apply((isa_t)isa, dtype, rows, n, true);
        }
}

/* Two rows: x, and x in double its size. */
static void check_rows(isa_t isa, int64_t n, const float *x, bool has_mean, const float *weight,
                       const float *bias)
{
    float src[2 * MOST] = {0}, y[2 * MOST + 1];
    double mean = 0.0, squares = 0.0;
    for (int64_t c = 0; c < n; c++) {
        src[c] = x[c];
        src[n + c] = 2.0f * x[c];
        mean += has_mean ? (double)x[c] / (double)n : 0.0;
    }
    for (int64_t c = 0; c < n; c++)
        squares += ((double)x[c] - mean) * ((double)x[c] - mean) / (double)n;
    y[2 * n] = 42.0f;
    moments_normalize(isa, 2, n, has_mean, 1e-3, src, weight, bias, y);
    assert_true(y[2 * n] == 42.0f);
    for (int64_t c = 0; c < 2 * n; c++) {
        const double factor = c < n ? 1.0 : 2.0, by = weight != NULL ? (double)weight[c % n] : 1.0;
        const double plus = bias != NULL ? (double)bias[c % n] : 0.0;
        const double scale = 1.0 / sqrt(factor * factor * squares + 1e-3);
        check_near((double)y[c], factor * ((double)x[c % n] - mean) * scale * by + plus, 1e-4);
    }
}

static void rows_and_factors_are_those_in_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; isa_has((isa_t)isa) && i < 4 * N_SIZES; i++) {
            float x[MOST], weight[MOST], bias[MOST], y[MOST], shift[MOST], var[MOST];
            const int64_t n = sizes[i / 4];
            const float *given_weight = i % 2 == 1 ? weight : NULL;
            const float *given_bias = i / 2 % 2 == 1 ? bias : NULL;
            fill(DTYPE_F32, n, 0, x);
            fill(DTYPE_F32, n, 3, weight);
            fill(DTYPE_F32, n, 5, bias);
            fill(DTYPE_F32, n, 0, y);
            fill(DTYPE_F32, n, 0, shift);
            for (int64_t c = 0; c < n; c++) var[c] = x[c] + 7.0f;
            check_rows((isa_t)isa, n, x, true, given_weight, given_bias);
            check_rows((isa_t)isa, n, x, false, given_weight, given_bias);
            moments_factors((isa_t)isa, n, 1e-3, given_weight, given_bias, x, var, y, shift);
            assert_true(y[n] == 42.0f && shift[n] == 42.0f);
            for (int64_t c = 0; c < n; c++) {
                const double by = (given_weight != NULL ? (double)weight[c] : 1.0) /
                                  sqrt((double)var[c] + 1e-3);
                const double plus = given_bias != NULL ? (double)bias[c] : 0.0;
                check_near((double)y[c], by, 1e-5);
                check_near((double)shift[c], plus - (double)x[c] * by, 1e-4);
            }
        }
}

/* ---- gradients of group norm ---- */

static void check_group(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, bool is_constant)
{
    const dtype_t compute = dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    double x[MOST], grad[MOST], means[71], sums[71], products[71], given[MOST];
    double factors[GROUP_FACTORS][71];
    const void *pointers[GROUP_FACTORS];
    const int64_t n = rows * width;
    fill(dtype, n, 0, x);
    fill(dtype, n, 29, grad);
    fill(dtype, n, 29, given);
    for (int64_t c = 0; c < width; c++) means[c] = 0.25 * (double)(c % 5);
    for (int k = 0; k < GROUP_FACTORS; k++) {
        pointers[k] = factors[k];
        fill(compute, is_constant ? 1 : width, 3 * k, factors[k]);
    }
    group_gradient_sums(isa, dtype, rows, width, x, grad, means, sums, products);
    for (int64_t c = 0; c < width; c++) {
        double sum = 0.0, product = 0.0;
        for (int64_t i = c; i < n; i += width) {
            sum += get(dtype, grad, i);
            product += get(dtype, grad, i) * (get(dtype, x, i) - means[c]);
        }
        check_near(sums[c], sum, tolerance_of(DTYPE_F32, 10.0 * (double)rows));
        check_near(products[c], product, tolerance_of(DTYPE_F32, 50.0 * (double)rows));
    }
    group_gradient_apply(isa, dtype, rows, width, is_constant, pointers, x, given, given);
    assert_true(get(dtype, given, n) == 42.0);
    for (int64_t i = 0; i < n; i++) {
        double f[GROUP_FACTORS];
        for (int k = 0; k < GROUP_FACTORS; k++)
            f[k] = get(compute, factors[k], is_constant ? 0 : i % width);
        const double wanted = f[GROUP_OF_GRAD] * get(dtype, grad, i) +
                              f[GROUP_OF_X] * (get(dtype, x, i) - f[GROUP_MEAN]) + f[GROUP_SHIFT];
        check_near(get(dtype, given, i), wanted, tolerance_of(dtype, fabs(wanted) + 100.0));
    }
}

static void gradients_of_group_norm_are_those_in_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; isa_has((isa_t)isa) && i < N_SIZES * N_DTYPES; i++) {
            const int64_t width = sizes[i / N_DTYPES], rows = width == 1 ? 8500 : 100;
            if (width > 70) continue;
            check_group((isa_t)isa, dtypes[i % N_DTYPES], rows, width, false);
            check_group((isa_t)isa, dtypes[i % N_DTYPES], rows, width, true);
        }
}

/* ---- gradients of layer norm ---- */

static void check_layer(isa_t isa, dtype_t dtype, int64_t n, bool has_mean)
{
    static double x[MOST], grad[MOST], weight[MOST], of_weight[MOST], of_bias[MOST], given[MOST];
    const layer_gradient_t layer = {dtype, has_mean, 1e-3, n, weight};
    double mean = 0.0, squares = 0.0, mean_v = 0.0, mean_vh = 0.0;
    fill(dtype, n, 0, x);
    fill(dtype, n, 29, grad);
    fill(dtype, n, 29, given);
    fill(dtype, n, 3, weight);
    fill(dtype, n, 5, of_weight);
    fill(dtype, n, 7, of_bias);
    layer_gradient_row(&layer, isa, x, given, given, of_weight, of_bias);
    assert_true(get(dtype, given, n) == 42.0 && get(dtype, of_weight, n) == 42.0);
    for (int64_t i = 0; has_mean && i < n; i++) mean += get(dtype, x, i) / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (get(dtype, x, i) - mean) * (get(dtype, x, i) - mean) / (double)n;
    const double scale = 1.0 / sqrt(squares + 1e-3);
    for (int64_t i = 0; i < n; i++) {
        const double v = get(dtype, grad, i) * get(dtype, weight, i) / (double)n;
        if (has_mean) mean_v += v;
        mean_vh += v * (get(dtype, x, i) - mean) * scale;
    }
    for (int64_t i = 0; i < n; i++) {
        const double g = get(dtype, grad, i), h = (get(dtype, x, i) - mean) * scale;
        const double of_x = (g * get(dtype, weight, i) - mean_v - h * mean_vh) * scale;
        double was[2];
        was[0] = (double)((i + 5) * 37 % 101) / 7.0 - 6.0;
        was[1] = (double)((i + 7) * 37 % 101) / 7.0 - 6.0;
        check_near(get(dtype, given, i), of_x, tolerance_of(dtype, 60.0 * scale));
        check_near(get(dtype, of_weight, i), was[0] + g * h, tolerance_of(dtype, 20.0));
        check_near(get(dtype, of_bias, i), was[1] + g, tolerance_of(dtype, 20.0));
    }
}

static void gradients_of_layer_norm_are_those_in_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; isa_has((isa_t)isa) && i < 4 * N_SIZES; i++)
            check_layer((isa_t)isa, dtypes[i % 2], sizes[i / 4], i / 2 % 2 == 1);
}

/* ---- batch norm in training ---- */

#define HIGH 6.01

static double clamp(double v)
{
    return v < 0.0 ? 0.0 : v > HIGH ? HIGH : v;
}

static double pass(bool is_activated, double grad, double v)
{
    return is_activated && (v <= 0.0 || v >= HIGH) ? 0.0 : grad;
}

static void check_batch(isa_t isa, dtype_t dtype, const lines_t *lines, bool is_activated)
{
    double x[MOST], grad[MOST], y[MOST], of_x[MOST], factors[BATCH_FACTORS * STRIP_LANES + 1];
    double means[STRIP_LANES], squares[STRIP_LANES], sums[STRIP_LANES], dots[STRIP_LANES];
    const batch_loops_t *loops = batch_loops(isa, dtype == DTYPE_F64);
    const int64_t n = lines->offset + lines->n * lines->step;
    fill(dtype, n, 0, x);
    fill(dtype, n, 29, grad);
    fill(dtype, n, 0, y);
    fill(dtype, n, 29, of_x);
    fill(dtype, BATCH_FACTORS * STRIP_LANES, 11, factors);
    for (int64_t l = 0; l < STRIP_LANES; l++) { /* keeps operands off the activation's bounds */
        const int64_t size = (int64_t)dtype_size(dtype);
        const int64_t at = BATCH_SHIFT * STRIP_LANES + l;
        dtype_store(dtype, (char *)factors + at * size, get(dtype, factors, at) + 0.003);
        dtype_store(dtype, (char *)factors + (BATCH_HIGH * STRIP_LANES + l) * size, HIGH);
    }
    loops->moments(lines, x, means, squares);
    loops->dots(lines, is_activated, x, grad, factors, sums, dots);
    loops->scale(lines, is_activated, y, factors, y);
    loops->combine(lines, is_activated, x, of_x, factors, of_x);
    assert_true(get(dtype, y, n) == 42.0 && get(dtype, of_x, n) == 42.0);
    for (int64_t l = 0; l < lines->lanes; l++) {
        double f[BATCH_FACTORS], mean = 0.0, square = 0.0, sum = 0.0, dot = 0.0;
        for (int k = 0; k < BATCH_FACTORS; k++) f[k] = get(dtype, factors, k * STRIP_LANES + l);
        for (int64_t i = lines->offset + l; i < n; i += lines->step) {
            const double way = get(dtype, x, i) - f[BATCH_CENTER], given = get(dtype, grad, i);
            const double v = way * f[BATCH_A] + f[BATCH_B];
            const double g = pass(is_activated, given, way * f[BATCH_A] + f[BATCH_SHIFT]);
            check_near(get(dtype, y, i), is_activated ? clamp(v) : v, tolerance_of(dtype, 100.0));
            check_near(get(dtype, of_x, i), g * f[BATCH_A] + way * f[BATCH_B] + f[BATCH_C],
                       tolerance_of(dtype, 150.0));
            mean += get(dtype, x, i) / (double)lines->n;
            sum += g;
            dot += g * way;
        }
        for (int64_t i = lines->offset + l; i < n; i += lines->step)
            square += (get(dtype, x, i) - mean) * (get(dtype, x, i) - mean);
        check_near(means[l], mean, tolerance_of(dtype, 1.0));
        check_near(squares[l], square, tolerance_of(dtype, 20.0 * (double)lines->n));
        check_near(sums[l], sum, tolerance_of(dtype, 10.0 * (double)lines->n));
        check_near(dots[l], dot, tolerance_of(dtype, 100.0 * (double)lines->n));
    }
}

static void batch_norm_is_that_in_double(void **state)
{
    static const lines_t lines[] = {{7, 64, 64, 4, 0}, {30, 16, 20, 1, 3},  {5, 1, 1, 1, 2},
                                    {9, 3, 3, 1, 0},   {100, 64, 70, 1, 5}, {1, 17, 17, 1, 1}};
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; isa_has((isa_t)isa) && i < 24; i++)
            check_batch((isa_t)isa, dtypes[i % 2], &lines[i / 4], i / 2 % 2 == 1);
}

/* ---- gradient of local response normalisation ---- */

static void check_lrn(isa_t isa, dtype_t dtype, const lrn_t *lrn, int64_t n_channels)
{
    double x[MOST], grad[MOST], given[MOST], buffers[2][MOST], base[40];
    const int64_t n = n_channels * LRN_POSITIONS;
    int64_t first = 0, end = 0;
    fill(dtype, n, 0, x);
    fill(dtype, n, 29, grad);
    fill(dtype, n, 0, given);
    lrn_gradient(isa, dtype, lrn, n_channels, given, grad, buffers[0], buffers[1]);
    assert_true(get(dtype, given, n) == 42.0);
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = i / LRN_POSITIONS, position = i % LRN_POSITIONS;
        double sum = 0.0;
        for (int64_t j = 0; j < n_channels; j++) {
            base[j] = lrn->k;
            for (lrn_window(lrn, j, n_channels, &first, &end); first < end; first++)
                base[j] += lrn->alpha / (double)lrn->size *
                           pow(get(dtype, x, first * LRN_POSITIONS + position), 2.0);
            lrn_window(lrn, j, n_channels, &first, &end);
            const int64_t at = j * LRN_POSITIONS + position;
            if (first <= c && c < end)
                sum += get(dtype, grad, at) * get(dtype, x, at) * pow(base[j], -lrn->beta - 1.0);
        }
        const double wanted = get(dtype, grad, i) * pow(base[c], -lrn->beta) -
                              2.0 * lrn->alpha * lrn->beta / (double)lrn->size * get(dtype, x, i) *
                                  sum;
        check_near(get(dtype, given, i), wanted, tolerance_of(dtype, 20.0));
    }
}

static void gradients_of_lrn_are_those_in_double(void **state)
{
    static const lrn_t lrns[] = {{5, 0.5, 0.75, 1.0}, {4, 0.1, 0.5, 2.0}, {9, 0.3, 1.0, 1.0}};
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; isa_has((isa_t)isa) && i < 18; i++)
            check_lrn((isa_t)isa, dtypes[i % 2], &lrns[i / 6], i / 2 % 3 * 15 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(sums_and_scales_are_those_in_double),
                                       TEST(rows_and_factors_are_those_in_double),
                                       TEST(gradients_of_group_norm_are_those_in_double),
                                       TEST(gradients_of_layer_norm_are_those_in_double),
                                       TEST(batch_norm_is_that_in_double),
                                       TEST(gradients_of_lrn_are_those_in_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
