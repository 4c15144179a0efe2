#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/attrs.h"
#include "tests/support/eltwise_values.h"

static double apply(eltwise_t eltwise, double x)
{
    return eltwise_value(eltwise, x, 0, 0);
}

/* eltwise_values checks that each function occurs once. */
static void values_agree_with_forty_digit_arithmetic(void **state)
{
    (void)state;
    const eltwise_values_t *rows = eltwise_values(TESSERA_SOURCE_DIR);
    for (int r = 0; r < ELTWISE_FUNCTIONS; r++)
        for (int i = 0; i < ELTWISE_POINTS; i++) {
            const double x = rows[r].x[i], want = rows[r].value[i];
            const double got = eltwise_value(rows[r].eltwise, x, rows[r].alpha, rows[r].beta);
            if (!(fabs(got - want) <= 1e-14 * fabs(want)))
                fail_msg("%s(%g) = %.17g, it is %.17g", rows[r].name, x, got, want);
        }
}

static void names_and_numbers_of_parameters_are_those_of_the_stored_table(void **state)
{
    (void)state;
    const eltwise_values_t *rows = eltwise_values(TESSERA_SOURCE_DIR);
    for (int r = 0; r < ELTWISE_FUNCTIONS; r++) {
        assert_string_equal(eltwise_name(rows[r].eltwise), rows[r].name);
        assert_int_equal(eltwise_parameters(rows[r].eltwise), rows[r].n_parameters);
    }
    assert_string_equal(eltwise_name(ELTWISE_NONE), "none");
    assert_int_equal(eltwise_parse("none"), ELTWISE_NONE);
    assert_int_equal(eltwise_parameters(ELTWISE_NONE), 0);
}

static void unknown_names_and_functions_are_none(void **state)
{
    (void)state;
    const char *const wrong[] = {"", "Relu", "RELU", "rel", "relu ", "relu6", "clamp(0,6)"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(eltwise_parse(wrong[i]), ELTWISE_NONE);
    assert_string_equal(eltwise_name(ELTWISE_COUNT), "none");
    assert_int_equal(eltwise_parameters((eltwise_t)-1), 0);
    assert_true(eltwise_value(ELTWISE_COUNT, 3, 0, 0) == 3);
}

static void functions_without_parameters_do_not_look_at_them(void **state)
{
    (void)state;
    for (int e = ELTWISE_NONE; e < ELTWISE_COUNT; e++)
        if (eltwise_parameters((eltwise_t)e) == 0)
            assert_true(eltwise_value((eltwise_t)e, 0.75, 7, -9) == apply((eltwise_t)e, 0.75));
}

static void nan_stays_nan(void **state)
{
    (void)state;
    for (int e = ELTWISE_NONE; e < ELTWISE_COUNT; e++)
        if (!isnan(eltwise_value((eltwise_t)e, NAN, 0.5, 2)))
            fail_msg("%s loses NaN", eltwise_name((eltwise_t)e));
}

static void large_arguments_reach_the_limits(void **state)
{
    (void)state;
    assert_true(apply(ELTWISE_SIGMOID, 1000) == 1);
    assert_true(apply(ELTWISE_SIGMOID, -1000) == 0);
    assert_true(apply(ELTWISE_SILU, -1000) == 0);
    assert_true(apply(ELTWISE_SOFTPLUS, 1000) == 1000);
    assert_true(apply(ELTWISE_SOFTPLUS, -1000) == 0);
    assert_true(apply(ELTWISE_GELU, 100) == 100);
    assert_true(apply(ELTWISE_GELU, -100) == 0);
    assert_true(apply(ELTWISE_GELU_TANH, 1000) == 1000);
    assert_true(apply(ELTWISE_GELU_TANH, -1000) == 0);
    assert_true(apply(ELTWISE_HARDSWISH, -1000) == 0);
    assert_true(apply(ELTWISE_RECIPROCAL, 0) == INFINITY);
    assert_true(apply(ELTWISE_LOG, 0) == -INFINITY);
}

static void clamp_with_crossed_bounds_is_the_upper_bound(void **state)
{
    (void)state;
    for (int x = -5; x <= 5; x++) assert_true(eltwise_value(ELTWISE_CLAMP, x, 2, -1) == -1);
}

static void zero_is_kept_as_the_parameters_say(void **state)
{
    (void)state;
    const eltwise_t movers[] = {ELTWISE_SIGMOID, ELTWISE_SOFTPLUS, ELTWISE_EXP, ELTWISE_LOG,
                                ELTWISE_RECIPROCAL};
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        assert_false(eltwise_keeps_zero(movers[i], 0, 0));
    assert_true(eltwise_keeps_zero(ELTWISE_MISH, 0, 0));
    assert_true(eltwise_keeps_zero(ELTWISE_LEAKY_RELU, 0.01, 0));
    assert_true(eltwise_keeps_zero(ELTWISE_LEAKY_RELU, -1, 5));
    assert_true(eltwise_keeps_zero(ELTWISE_ELU, 1, 0));
    assert_true(eltwise_keeps_zero(ELTWISE_CLAMP, 0, 6));
    assert_true(eltwise_keeps_zero(ELTWISE_CLAMP, -INFINITY, INFINITY));
    assert_false(eltwise_keeps_zero(ELTWISE_CLAMP, 1, 6));
    assert_false(eltwise_keeps_zero(ELTWISE_CLAMP, -6, -1));
    assert_false(eltwise_keeps_zero(ELTWISE_HARDSIGMOID, 0.2, 0.5));
    assert_true(eltwise_keeps_zero(ELTWISE_HARDSIGMOID, 0.2, -0.5));
    assert_true(eltwise_keeps_zero(ELTWISE_LINEAR, 3, 0));
    assert_false(eltwise_keeps_zero(ELTWISE_LINEAR, 3, 1e-300));
    assert_false(eltwise_keeps_zero(ELTWISE_LINEAR, INFINITY, 0));
}

static void zero_is_kept_exactly_where_the_value_at_zero_is_zero(void **state)
{
    (void)state;
    const double parameters[] = {-INFINITY, -1.5, -0.0, 0, 0.25, 1, INFINITY};
    const int n = (int)(sizeof parameters / sizeof *parameters);
    for (int e = ELTWISE_NONE; e < ELTWISE_COUNT; e++)
        for (int i = 0; i < n * n; i++) {
            double alpha = parameters[i / n], beta = parameters[i % n];
            bool is_zero = eltwise_value((eltwise_t)e, 0, alpha, beta) == 0;
            if (eltwise_keeps_zero((eltwise_t)e, alpha, beta) != is_zero)
                fail_msg("%s with %g, %g", eltwise_name((eltwise_t)e), alpha, beta);
        }
}

/* gelu(-5) is -1.4e-6, the difference of terms near 5. Such cancellation must be reported. */
static void functions_that_subtract_say_how_large_their_terms_are(void **state)
{
    (void)state;
    assert_true(eltwise_cancels(ELTWISE_GELU, 0) >= 5);
    assert_true(eltwise_cancels(ELTWISE_GELU_TANH, 0) >= 5);
    assert_true(eltwise_cancels(ELTWISE_ELU, -3) == 3);
    assert_true(eltwise_cancels(ELTWISE_RELU, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_agree_with_forty_digit_arithmetic),
        cmocka_unit_test(names_and_numbers_of_parameters_are_those_of_the_stored_table),
        cmocka_unit_test(unknown_names_and_functions_are_none),
        cmocka_unit_test(functions_without_parameters_do_not_look_at_them),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(large_arguments_reach_the_limits),
        cmocka_unit_test(clamp_with_crossed_bounds_is_the_upper_bound),
        cmocka_unit_test(zero_is_kept_as_the_parameters_say),
        cmocka_unit_test(functions_that_subtract_say_how_large_their_terms_are),
        cmocka_unit_test(zero_is_kept_exactly_where_the_value_at_zero_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
