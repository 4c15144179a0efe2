#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/attrs.h"

/* Values printed by eltwise_values.py. */
static const struct {
    eltwise_t eltwise;
    double alpha, beta;
    double x[3], value[3];
} known[] = {
    {ELTWISE_RELU, 0, 0, {-2.5, 0.5, 4.0}, {0.0, 0.5, 4.0}},
    {ELTWISE_LEAKY_RELU, 0.25, 0, {-2.5, 0.5, 4.0}, {-0.625, 0.5, 4.0}},
    {ELTWISE_ELU, 1.5, 0, {-2.5, 0.5, 4.0}, {-1.376872502064152, 0.5, 4.0}},
    {ELTWISE_SELU,
     0,
     0,
     {-2.5, 0.5, 4.0},
     {-1.6137857588732425, 0.5253504936777402, 4.202803949421922}},
    {ELTWISE_CLAMP, -1, 2, {-2.5, 0.5, 4.0}, {-1.0, 0.5, 2.0}},
    {ELTWISE_SIGMOID,
     0,
     0,
     {-6.0, 0.5, 4.0},
     {0.0024726231566347743, 0.6224593312018546, 0.9820137900379085}},
    {ELTWISE_TANH,
     0,
     0,
     {-2.5, 0.5, 4.0},
     {-0.9866142981514303, 0.46211715726000974, 0.999329299739067}},
    {ELTWISE_GELU,
     0,
     0,
     {-6.0, 0.5, 4.0},
     {-5.9195258702261885e-09, 0.34573123063700656, 3.9998733150326675}},
    {ELTWISE_GELU_TANH,
     0,
     0,
     {-6.0, 0.5, 4.0},
     {-8.439646700762297e-11, 0.34571400982514394, 3.9999297540518075}},
    {ELTWISE_SILU,
     0,
     0,
     {-6.0, 0.5, 4.0},
     {-0.014835738939808645, 0.3112296656009273, 3.928055160151634}},
    {ELTWISE_HARDSIGMOID, 0.25, 0.5, {-2.5, 0.5, 4.0}, {0.0, 0.625, 1.0}},
    {ELTWISE_HARDSWISH, 0, 0, {-2.5, 0.5, 4.0}, {-0.20833333333333334, 0.2916666666666667, 4.0}},
    {ELTWISE_SOFTPLUS,
     0,
     0,
     {-6.0, 0.5, 4.0},
     {0.0024756851377304495, 0.9740769841801067, 4.0181499279178094}},
    {ELTWISE_EXP,
     0,
     0,
     {-2.5, 0.5, 4.0},
     {0.0820849986238988, 1.6487212707001282, 54.598150033144236}},
    {ELTWISE_LOG,
     0,
     0,
     {0.25, 2.0, 9.0},
     {-1.3862943611198906, 0.6931471805599453, 2.1972245773362196}},
    {ELTWISE_SQRT, 0, 0, {0.25, 2.0, 9.0}, {0.5, 1.4142135623730951, 3.0}},
    {ELTWISE_ABS, 0, 0, {-2.5, 0.5, 4.0}, {2.5, 0.5, 4.0}},
    {ELTWISE_SQUARE, 0, 0, {-2.5, 0.5, 4.0}, {6.25, 0.25, 16.0}},
    {ELTWISE_ERF,
     0,
     0,
     {-2.5, 0.5, 4.0},
     {-0.999593047982555, 0.5204998778130465, 0.9999999845827421}},
    {ELTWISE_NEG, 0, 0, {-2.5, 0.5, 4.0}, {2.5, -0.5, -4.0}},
    {ELTWISE_RECIPROCAL, 0, 0, {-2.5, 0.5, 4.0}, {-0.4, 2.0, 0.25}},
    {ELTWISE_LINEAR, 3, -0.5, {-2.5, 0.5, 4.0}, {-8.0, 1.0, 11.5}},
    {ELTWISE_CELU, 0.5, 0, {-2.5, 0.5, 4.0}, {-0.49663102650045726, 0.5, 4.0}},
    {ELTWISE_MISH,
     0,
     0,
     {-6.0, 0.5, 4.0},
     {-0.014854080479424993, 0.37524521130489513, 3.9974128069762385}},
    {ELTWISE_SHRINK, 0.75, 0.25, {-2.5, 0.5, 4.0}, {-2.25, 0.0, 3.75}},
    {ELTWISE_THRESHOLD, 0.5, -1.5, {-2.5, 0.5, 4.0}, {-1.5, -1.5, 4.0}},
};

static const char *const names[ELTWISE_COUNT] = {
    "none",       "relu",   "leaky_relu", "elu",  "selu",        "clamp",     "sigmoid",
    "tanh",       "gelu",   "gelu_tanh",  "silu", "hardsigmoid", "hardswish", "softplus",
    "exp",        "log",    "sqrt",       "abs",  "square",      "erf",       "neg",
    "reciprocal", "linear", "celu",       "mish", "shrink",      "threshold"};

static double apply(eltwise_t eltwise, double x)
{
    return eltwise_value(eltwise, x, 0, 0);
}

static void every_function_has_known_values(void **state)
{
    (void)state;
    for (int e = ELTWISE_NONE + 1; e < ELTWISE_COUNT; e++) {
        int n_found = 0;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            n_found += known[k].eltwise == (eltwise_t)e;
        if (n_found != 1) fail_msg("%s stands %d times in the table", names[e], n_found);
    }
}

static void values_agree_with_forty_digit_arithmetic(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (int i = 0; i < 3; i++) {
            double x = known[k].x[i], want = known[k].value[i];
            double got = eltwise_value(known[k].eltwise, x, known[k].alpha, known[k].beta);
            if (!(fabs(got - want) <= 1e-14 * fabs(want)))
                fail_msg("%s(%g) = %.17g, it is %.17g", names[known[k].eltwise], x, got, want);
        }
}

static void names_are_those_of_the_enum_and_parse_back(void **state)
{
    (void)state;
    for (int e = ELTWISE_NONE; e < ELTWISE_COUNT; e++) {
        assert_string_equal(eltwise_name((eltwise_t)e), names[e]);
        assert_int_equal(eltwise_parse(names[e]), e);
    }
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

static void only_functions_with_alpha_and_beta_have_parameters(void **state)
{
    (void)state;
    for (int e = ELTWISE_NONE; e < ELTWISE_COUNT; e++) {
        bool has_one = e == ELTWISE_LEAKY_RELU || e == ELTWISE_ELU || e == ELTWISE_CELU;
        bool has_two = e == ELTWISE_CLAMP || e == ELTWISE_HARDSIGMOID || e == ELTWISE_LINEAR ||
                       e == ELTWISE_SHRINK || e == ELTWISE_THRESHOLD;
        int want = has_one ? 1 : has_two ? 2 : 0;
        if (eltwise_parameters((eltwise_t)e) != want) fail_msg("%s", names[e]);
    }
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
        if (!isnan(eltwise_value((eltwise_t)e, NAN, 0.5, 2))) fail_msg("%s loses NaN", names[e]);
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

/* `movers` lists all functions without parameters for which f(0) is not 0. */
static void zero_is_kept_by_the_functions_through_the_origin(void **state)
{
    (void)state;
    const eltwise_t movers[] = {ELTWISE_SIGMOID, ELTWISE_SOFTPLUS, ELTWISE_EXP, ELTWISE_LOG,
                                ELTWISE_RECIPROCAL};
    for (int e = ELTWISE_NONE; e < ELTWISE_COUNT; e++) {
        if (eltwise_parameters((eltwise_t)e) > 0) continue;
        bool want = true;
        for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
            want = want && movers[i] != (eltwise_t)e;
        if (eltwise_keeps_zero((eltwise_t)e, 0, 0) != want) fail_msg("%s", names[e]);
    }
}

static void zero_is_kept_as_the_parameters_say(void **state)
{
    (void)state;
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
                fail_msg("%s with %g, %g", names[e], alpha, beta);
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
        cmocka_unit_test(every_function_has_known_values),
        cmocka_unit_test(values_agree_with_forty_digit_arithmetic),
        cmocka_unit_test(names_are_those_of_the_enum_and_parse_back),
        cmocka_unit_test(unknown_names_and_functions_are_none),
        cmocka_unit_test(only_functions_with_alpha_and_beta_have_parameters),
        cmocka_unit_test(functions_without_parameters_do_not_look_at_them),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(large_arguments_reach_the_limits),
        cmocka_unit_test(clamp_with_crossed_bounds_is_the_upper_bound),
        cmocka_unit_test(zero_is_kept_by_the_functions_through_the_origin),
        cmocka_unit_test(zero_is_kept_as_the_parameters_say),
        cmocka_unit_test(functions_that_subtract_say_how_large_their_terms_are),
        cmocka_unit_test(zero_is_kept_exactly_where_the_value_at_zero_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
