/* Weighted sums of rows with each instruction set of the machine, compared with sums in double. */
#include "tests/support/support.h"

#include <math.h>

#include "kernels/shape/row_sum_impl.h"

enum { OUTER = 3, FROM = 7, TO = 5, MOST_INNER = 70, MOST_TAPS = 4 };

static const int64_t starts[TO + 1] = {0, 4, 4, 5, 8, 10}; /* row 1 has no taps */

static void check_near(double given, double wanted, double tolerance)
{
    if (!(fabs(given - wanted) <= tolerance))
        fail_msg("%.9g, wanted %.9g, within %g", given, wanted, tolerance);
}

static void check(isa_t isa, bool is_wide, bool has_starts, int64_t inner, int n_threads)
{
    static float x[OUTER * FROM * MOST_INNER], given[OUTER * TO * MOST_INNER + 1];
    static double wide[OUTER * FROM * MOST_INNER], wide_given[OUTER * TO * MOST_INNER + 1];
    row_sum_tap_t taps[TO * MOST_TAPS];
    const int64_t n = OUTER * FROM * inner, n_out = OUTER * TO * inner;
    for (int64_t i = 0; i < n; i++) wide[i] = x[i] = (float)(i * 37 % 101) / 7.0f - 6.0f;
    for (int64_t t = 0; t < TO * MOST_TAPS; t++)
        taps[t] = (row_sum_tap_t){t * 5 % FROM, (double)(t * 3 % 8) / 5.0 - 0.3};
    given[n_out] = 42.0f;
    wide_given[n_out] = 42.0;
    const row_sum_t sum = {.outer = OUTER,
                           .n_from = FROM,
                           .n_to = TO,
                           .inner = inner,
                           .starts = has_starts ? starts : NULL,
                           .n_taps = 3,
                           .taps = taps,
                           .is_wide = is_wide,
                           .from = is_wide ? (void *)wide : x,
                           .to = is_wide ? (void *)wide_given : given};
    row_sum_run(&sum, isa, n_threads);
    assert_true(given[n_out] == 42.0f && wide_given[n_out] == 42.0);
    for (int64_t i = 0; i < n_out; i++) {
        const int64_t row = i / inner % TO, outer = i / inner / TO;
        const int64_t begin = has_starts ? starts[row] : 3 * row;
        const int64_t end = has_starts ? starts[row + 1] : begin + 3;
        double wanted = 0.0;
        for (int64_t t = begin; t < end; t++)
            wanted += taps[t].weight * wide[(outer * FROM + taps[t].index) * inner + i % inner];
        check_near(is_wide ? wide_given[i] : (double)given[i], wanted, is_wide ? 1e-13 : 1e-5);
    }
}

static void rows_are_weighted_sums(void **state)
{
    static const int64_t inners[] = {1, 2, 7, 8, 16, 31, 33, 70};
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (size_t i = 0; isa_has((isa_t)isa) && i < sizeof inners / sizeof *inners; i++)
            for (int k = 0; k < 8; k++)
                check((isa_t)isa, k % 2 == 1, k / 2 % 2 == 1, inners[i], 1 + k / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(rows_are_weighted_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
