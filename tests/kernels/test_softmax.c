/* Softmax, its logarithm and their gradients with each instruction set of the machine, compared
 * with double. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "kernels/reduce/softmax_impl.h"

enum { OUTER = 2, MOST = 2 * 130 * 130 };

static double at(dtype_t dtype, const void *elements, int64_t i)
{
    return dtype_load(dtype, (const char *)elements + i * (int64_t)dtype_size(dtype));
}

static void check_near(double given, double wanted, double tolerance)
{
    if (!(fabs(given - wanted) <= tolerance))
        fail_msg("%.9g, wanted %.9g, within %g", given, wanted, tolerance);
}

/* Fills [outer][n][inner] with values of the dtype from -6 to 8. */
static void fill(const softmax_t *s, int64_t seed, void *x)
{
    for (int64_t i = 0; i < s->outer * s->n * s->inner; i++)
        dtype_store(s->dtype, (char *)x + i * (int64_t)dtype_size(s->dtype),
                    (double)((i + seed) * 37 % 101) / 7.0 - 6.0);
}

static void check(isa_t isa, const softmax_t *s, int n_threads)
{
    static double x[MOST], grad[MOST], y[MOST], back[MOST];
    const double tolerance = s->dtype == DTYPE_F64 ? 1e-12 : s->dtype == DTYPE_F32 ? 2e-5 : 8e-2;
    fill(s, 0, x);
    fill(s, 29, grad);
    softmax_forward(s, isa, n_threads, x, y);
    softmax_backward(s, isa, n_threads, y, grad, back);
    for (int64_t column = 0; column < s->outer * s->inner; column++) {
        const int64_t first = column / s->inner * s->n * s->inner + column % s->inner;
        double largest = -INFINITY, sum = 0.0, dot = 0.0;
        for (int64_t a = 0; a < s->n; a++)
            largest = fmax(largest, at(s->dtype, x, first + a * s->inner));
        for (int64_t a = 0; a < s->n; a++)
            sum += exp(at(s->dtype, x, first + a * s->inner) - largest);
        for (int64_t a = 0; a < s->n; a++)
            dot += at(s->dtype, grad, first + a * s->inner) *
                   (s->is_logarithm ? 1.0 : at(s->dtype, y, first + a * s->inner));
        for (int64_t i = first; i < first + s->n * s->inner; i += s->inner) {
            const double log_wanted = at(s->dtype, x, i) - largest - log(sum);
            const double of_y = at(s->dtype, y, i), of_grad = at(s->dtype, grad, i);
            const double wanted = s->is_logarithm ? log_wanted : exp(log_wanted);
            const double of_x = s->is_logarithm ? of_grad - exp(of_y) * dot
                                                : of_y * (of_grad - dot);
            check_near(of_y, wanted, tolerance);
            check_near(at(s->dtype, back, i), of_x, tolerance * (1.0 + fabs(dot)));
        }
    }
}

static void results_are_those_in_double(void **state)
{
    static const int64_t sizes[] = {1, 3, 31, 32, 33, 70, 130};
    static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F64};
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; isa_has((isa_t)isa) && i < 49; i++)
            for (int k = 0; k < 6; k++) {
                const softmax_t s = {k % 2 == 1, dtypes[k / 2], OUTER, sizes[i % 7], sizes[i / 7]};
                check((isa_t)isa, &s, 1 + i % 2);
            }
}

static void exponentials_are_added_in_the_row_itself(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int64_t n = 0; isa_has((isa_t)isa) && n <= 100; n++) {
            float row[101], largest = 0.0f;
            double sum = 0.0;
            for (int64_t i = 0; i < n; i++) {
                row[i] = (float)(i * 37 % 11) - 5.0f;
                sum += exp((double)row[i] - (n == 1 ? -5.0 : 5.0));
            }
            if (n > 1 && n < 11) continue; /* 5 is not among these sizes */
            row[n] = 42.0f;
            const float given = softmax_exponentials((isa_t)isa, n, row, row, &largest);
            assert_true(row[n] == 42.0f);
            assert_true(largest == (n == 0 ? -INFINITY : n == 1 ? -5.0f : 5.0f));
            if (n > 0) check_near((double)given, sum, 1e-5 * sum);
        }
}

/* A NaN makes its own row NaN. Other rows must not change. */
static void nan_spreads_over_its_row(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int64_t n = 1; isa_has((isa_t)isa) && n <= 40; n++)
            for (int k = 0; k < 2; k++) {
                const softmax_t s = {false, k == 0 ? DTYPE_F32 : DTYPE_BF16, 3, n, 1};
                const int64_t size = (int64_t)dtype_size(s.dtype);
                float x[120], before[120];
                fill(&s, 0, x);
                dtype_store(s.dtype, (char *)x + (2 * n - 1) * size, NAN);
                memcpy(before, x, sizeof x);
                softmax_spread_nan(&s, (isa_t)isa, 1, x);
                assert_memory_equal(x, before, (size_t)(n * size));
                assert_memory_equal((char *)x + 2 * n * size, (char *)before + 2 * n * size,
                                    (size_t)(n * size));
                for (int64_t i = n; i < 2 * n; i++) assert_true(isnan(at(s.dtype, x, i)));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(results_are_those_in_double),
                                       TEST(exponentials_are_added_in_the_row_itself),
                                       TEST(nan_spreads_over_its_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
