/* Elementwise functions that are computed with vector instructions in single precision, compared
 * with the same functions in double. */
#include "dispatch/eltwise.h"

#include <float.h>
#include <math.h>

#include "tests/support/support.h"

enum { N = 48001 };

/* Fills x with numbers from -12 to 12, a tiny one, and two near the limits of float. */
static int fill(float *x)
{
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) / 2000.0f;
    x[0] = 1e-30f;
    x[1] = -3e38f;
    x[2] = 3e38f;
    return N;
}

static void vectors_are_near_double(void **state)
{
    static const eltwise_t functions[] = {ELTWISE_ERF, ELTWISE_GELU, ELTWISE_GELU_TANH,
                                          ELTWISE_SIGMOID, ELTWISE_SILU};
    static float x[N], y[N];
    (void)state;
    const int n = fill(x);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        const double cancels = eltwise_cancels(functions[f], 0.0);
        eltwise_apply(functions[f], 0.0, 0.0, n, x, y);
        for (int i = 0; i < n; i++) {
            const double wanted = eltwise_value(functions[f], x[i], 0.0, 0.0);
            const double size = fabs(wanted) + fmin(fabs((double)x[i]), cancels);
            if (!(fabs(y[i] - wanted) <= 3.0 * FLT_EPSILON * size + FLT_MIN))
                fail_msg("%s(%g) is %.9g, not %.9g", eltwise_name(functions[f]), x[i], y[i],
                         wanted);
        }
    }
}

/* Results of torch.nn.functional.gelu and torch.erf for 1 and -0.5. */
static void they_are_what_pytorch_gives(void **state)
{
    static const float x[] = {1.0f, -0.5f};
    static const double gelu[] = {0.8413447460685429, -0.15426876936299347};
    static const double erf_of[] = {0.8427007929497149, -0.5204998778130465};
    float y[2];
    (void)state;
    eltwise_apply(ELTWISE_GELU, 0.0, 0.0, 2, x, y);
    for (int i = 0; i < 2; i++) assert_true(fabs(y[i] - gelu[i]) <= 2e-7);
    eltwise_apply(ELTWISE_ERF, 0.0, 0.0, 2, x, y);
    for (int i = 0; i < 2; i++) assert_true(fabs(y[i] - erf_of[i]) <= 2e-7);
}

static void nan_stays(void **state)
{
    static const eltwise_t functions[] = {ELTWISE_ERF, ELTWISE_GELU, ELTWISE_GELU_TANH,
                                          ELTWISE_SIGMOID, ELTWISE_SILU};
    (void)state;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        float x[20], y[20];
        for (int i = 0; i < 20; i++) x[i] = i % 3 == 0 ? NAN : 1.0f;
        eltwise_apply(functions[f], 0.0, 0.0, 20, x, y);
        for (int i = 0; i < 20; i++) assert_true((i % 3 == 0) == (isnan(y[i]) != 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_near_double),
        cmocka_unit_test(they_are_what_pytorch_gives),
        cmocka_unit_test(nan_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
