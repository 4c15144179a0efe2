/* Functions of floats with each instruction set of the machine, compared with double. */
#include "kernels/elementwise/functions_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/support/support.h"

enum { N = 40001 };

/* Parameters of functions that have parameters. Clamp needs A <= B. */
#define A 0.25f
#define B 0.75f

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double exact(function_t function, double x)
{
    const double a = (double)A, b = (double)B;
    switch (function) {
    case FUNCTION_SIGMOID: return sigmoid(x);
    case FUNCTION_SILU: return x * sigmoid(x);
    case FUNCTION_GELU: return 0.5 * x * erfc(-x / sqrt(2.0));
    case FUNCTION_GELU_TANH: return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x));
    case FUNCTION_RELU: return x < 0.0 ? 0.0 : x;
    case FUNCTION_CLAMP: return clamp(x, a, b);
    case FUNCTION_LEAKY_RELU: return x > 0.0 ? x : a * x;
    case FUNCTION_HARDSIGMOID: return clamp(a * x + b, 0.0, 1.0);
    case FUNCTION_HARDSWISH: return x * clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case FUNCTION_LINEAR: return a * x + b;
    case FUNCTION_ABS: return fabs(x);
    case FUNCTION_NEG: return -x;
    case FUNCTION_RECIPROCAL: return 1.0 / x;
    case FUNCTION_SQRT: return sqrt(x);
    case FUNCTION_EXP: return exp(x);
    case FUNCTION_LOG: return log(x);
    case FUNCTION_SOFTPLUS: return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
    default: return erf(x);
    }
}

/* Returns the error bound. gelu loses digits in 1 + erf if x is negative, and sums lose digits if
 * terms cancel. Other functions lose digits because an exponent is rounded. */
static double bound(function_t function, double x, double y)
{
    const double cubic = 1.5957691216057308 * (x + 0.044715 * x * x * x);
    const double exponent = fabs(function == FUNCTION_GELU_TANH ? cubic : x);
    if (function == FUNCTION_GELU) return FLT_EPSILON * (4.0 * fabs(y) + fabs(x)) + FLT_MIN;
    if (function == FUNCTION_HARDSIGMOID || function == FUNCTION_HARDSWISH ||
        function == FUNCTION_LINEAR)
        return FLT_EPSILON * (2.0 * fabs(y) + fabs(x) + 1.0);
    return FLT_EPSILON * (6.0 + 2.0 * fmin(exponent, 100.0)) * fabs(y) + 1e-35;
}

static void check(isa_t isa, function_t function, float x, float y)
{
    const double wanted = (double)(float)exact(function, (double)x);
    if (isnan(wanted) ? isnan(y) : (double)y == wanted) return;
    if (!(fabs((double)y - wanted) <= bound(function, (double)x, wanted)))
        fail_msg("%s: function %d of %.9g is %.9g, not %.9g", isa_name(isa), (int)function,
                 (double)x, (double)y, wanted);
}

static void every_instruction_set_gives_what_double_gives(void **state)
{
    static float x[N], y[N];
    (void)state;
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * (i % 3 == 0 ? 0.005f : 0.0003f);
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (int f = 0; f < FUNCTION_COUNT; f++) {
            functions_run((function_t)f, (isa_t)isa, A, B, N, x, y);
            for (int i = 0; i < N; i++) check((isa_t)isa, (function_t)f, x[i], y[i]);
        }
    }
}

static void the_ends_of_the_numbers_have_their_values(void **state)
{
    const float x[] = {0.0f, -FLT_MAX, FLT_MAX, -1e6f, 1e6f, -200.0f, 200.0f, INFINITY, NAN};
    enum { N_ENDS = sizeof x / sizeof *x };
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (int f = 0; f < FUNCTION_COUNT; f++) {
            float y[N_ENDS];
            functions_run((function_t)f, (isa_t)isa, A, B, N_ENDS, x, y);
            /* hardswish of +-FLT_MAX overflows before it divides */
            for (int i = 0; i < N_ENDS; i++)
                if (f != FUNCTION_HARDSWISH || fabsf(x[i]) < FLT_MAX)
                    check((isa_t)isa, (function_t)f, x[i], y[i]);
            assert_true(isnan(y[N_ENDS - 1]));
        }
    }
}

/* Elements from n on must not change. */
static void any_number_of_them_is_done_in_place(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (int n = 0; n < 40; n++) {
            float x[40], y[40];
            for (int i = 0; i < 40; i++) x[i] = y[i] = (float)i * 0.1f - 2.0f;
            functions_run(FUNCTION_SILU, (isa_t)isa, A, B, n, y, y);
            for (int i = 0; i < n; i++) check((isa_t)isa, FUNCTION_SILU, x[i], y[i]);
            assert_memory_equal(y + n, x + n, (size_t)(40 - n) * sizeof *x);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_gives_what_double_gives),
        cmocka_unit_test(the_ends_of_the_numbers_have_their_values),
        cmocka_unit_test(any_number_of_them_is_done_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
