/* Convolutions that compute one element of an output at a time, their gradients, and folding of
 * norms, compared with sums over all products. The number of threads must not change the bits. */
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/conv/fold_impl.h"
#include "kernels/conv/planes_impl.h"

enum { N = 2, C = 6, K = 4, G = 2, H = 5, W = 7, R = 3, S = 2 };
enum { IMAGE = C * H * W };

static double draw(void)
{
    return (double)rand() / RAND_MAX - 0.5;
}

/* Describes a convolution of x [N][C][H][W] f64. Stride, dilation and padding differ for H and
 * W. */
static planes_t planes_of(void)
{
    planes_t p = {.dtype = DTYPE_F64,
                  .in = {1, H, W},
                  .kernel = {1, R, S},
                  .stride = {1, 2, 1},
                  .dilation = {1, 1, 2},
                  .padding = {0, 1, 2},
                  .channels = C,
                  .outputs = K,
                  .groups = G,
                  .in_plane = H * W,
                  .kernel_plane = R * S,
                  .group_channels = C / G,
                  .group_outputs = K / G};
    for (int i = 0; i < 3; i++)
        p.out[i] = (p.in[i] + 2 * p.padding[i] - p.dilation[i] * (p.kernel[i] - 1) - 1) /
                       p.stride[i] +
                   1;
    p.out_plane = p.out[0] * p.out[1] * p.out[2];
    return p;
}

/* Calls visit for each product of a convolution, with its indices in x, the weight and the
 * result. */
static void for_products(const planes_t *p, void (*visit)(int64_t x, int64_t weight, int64_t out))
{
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t c = 0; c < C / G; c++)
                for (int64_t r = 0; r < R; r++)
                    for (int64_t s = 0; s < S; s++)
                        for (int64_t q = 0; q < p->out_plane; q++) {
                            const int64_t h = q / p->out[2] * p->stride[1] + r - p->padding[1];
                            const int64_t w = q % p->out[2] + s * p->dilation[2] - p->padding[2];
                            const int64_t channel = k / (K / G) * (C / G) + c;
                            if (h < 0 || h >= H || w < 0 || w >= W) continue;
                            visit(((n * C + channel) * H + h) * W + w,
                                  ((k * (C / G) + c) * R + r) * S + s,
                                  (n * K + k) * p->out_plane + q);
                        }
}

static double x[N * IMAGE], weight[K * C / G * R * S], bias[K], grad[N * K * 64];
static double out[N * K * 64], of_x[N * IMAGE], of_weight[K * C / G * R * S];

static void add_all(int64_t i, int64_t j, int64_t k)
{
    out[k] += x[i] * weight[j];
    of_x[i] += grad[k] * weight[j];
    of_weight[j] += grad[k] * x[i];
}

static void check(int64_t n, const double *given, const double *wanted)
{
    for (int64_t i = 0; i < n; i++) assert_float_equal(given[i], wanted[i], 1e-12);
}

static void sums_are_those_of_all_products(void **state)
{
    const planes_t p = planes_of();
    planes_t back = p; /* the gradient of x is a transposed convolution from K to C channels */
    double given[2][N * IMAGE + N * K * 64];
    (void)state;
    for (int i = 0; i < N * IMAGE; i++) x[i] = draw();
    for (int i = 0; i < K * C / G * R * S; i++) weight[i] = draw();
    for (int k = 0; k < K; k++) bias[k] = draw();
    for (int i = 0; i < N * K * 64; i++) grad[i] = draw();
    for (int64_t i = 0; i < N * K * p.out_plane; i++) out[i] = bias[i / p.out_plane % K];
    for_products(&p, add_all);
    memcpy(back.in, p.out, sizeof back.in);
    memcpy(back.out, p.in, sizeof back.out);
    back.channels = K, back.outputs = C, back.in_plane = p.out_plane, back.out_plane = p.in_plane;
    back.group_channels = K / G, back.group_outputs = C / G;
    for (int i = 0; i < 2; i++)
        planes_windows(&p, planes_direct, N, x, weight, DTYPE_F64, bias, given[i], 1 + 2 * i);
    check(N * K * p.out_plane, given[0], out);
    assert_memory_equal(given[0], given[1], (size_t)(N * K * p.out_plane) * sizeof(double));
    for (int i = 0; i < 2; i++)
        planes_windows(&back, planes_transposed, N, grad, weight, DTYPE_F64, NULL, given[i],
                       1 + 2 * i);
    check(N * IMAGE, given[0], of_x);
    assert_memory_equal(given[0], given[1], N * IMAGE * sizeof(double));
    for (int i = 0; i < 2; i++) planes_weight_gradient(&p, N, x, grad, given[i], 1 + 2 * i);
    check(K * C / G * R * S, given[0], of_weight);
    assert_memory_equal(given[0], given[1], sizeof of_weight);
}

static void gradients_of_biases_are_sums_of_planes(void **state)
{
    const planes_t p = planes_of();
    double given[2][K], wanted[K] = {0.0};
    (void)state;
    for (int64_t i = 0; i < N * K * p.out_plane; i++) {
        grad[i] = draw();
        wanted[i / p.out_plane % K] += grad[i];
    }
    for (int i = 0; i < 2; i++) planes_bias_gradient(&p, N, grad, given[i], 1 + 2 * i);
    check(K, given[0], wanted);
    assert_memory_equal(given[0], given[1], sizeof given[0]);
}

/* Either [8][300] has a factor for each row, or [8 = 2 groups of 4][3][100] has 3 factors per
 * group. */
static void weights_are_multiplied_by_the_factors_of_their_outputs(void **state)
{
    enum { ROWS = 8, ELEMENTS = 300 };
    static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_F64};
    double factors[ROWS], from[ROWS * ELEMENTS], given[ROWS * ELEMENTS];
    float narrow[ROWS * ELEMENTS], narrow_given[ROWS * ELEMENTS];
    (void)state;
    for (int i = 0; i < ROWS; i++) factors[i] = draw();
    for (int i = 0; i < ROWS * ELEMENTS; i++) from[i] = narrow[i] = (float)draw();
    for (int i = 0; i < 8; i++) {
        const bool is_narrow = i % 2 == 0, is_transposed = i / 2 % 2 == 1;
        const fold_t fold = {.dtype = dtypes[i % 2],
                             .n_rows = ROWS,
                             .n = ELEMENTS,
                             .step = is_transposed ? ELEMENTS / 3 : ELEMENTS,
                             .rows_of_group = is_transposed ? 4 : 1,
                             .factors_of_group = is_transposed ? 3 : 1,
                             .factors = factors,
                             .weight = is_narrow ? (void *)narrow : from,
                             .out = is_narrow ? (void *)narrow_given : given};
        fold_run(&fold, 1 + i / 4 * 2);
        for (int at = 0; at < ROWS * ELEMENTS; at++) {
            const int row = at / ELEMENTS, column = at % ELEMENTS;
            const double factor = is_transposed ? factors[row / 4 * 3 + column / 100]
                                                : factors[row];
            if (is_narrow)
                assert_true(narrow_given[at] == (float)(from[at] * factor));
            else
                assert_true(given[at] == from[at] * factor);
        }
    }
}

static void normalized_planes_are_clamped(void **state)
{
    float in[2 * 3 * 5], given[2 * 3 * 5];
    static const float scale[] = {1.0f, -2.0f, 0.5f}, shift[] = {0.25f, 0.0f, -1.0f};
    (void)state;
    for (int i = 0; i < 2 * 3 * 5; i++) in[i] = (float)i - 15.0f;
    planes_norm(2, 3, 5, in, scale, shift, 0.0f, 6.0f, given, 2);
    for (int i = 0; i < 2 * 3 * 5; i++) {
        const float value = in[i] * scale[i / 5 % 3] + shift[i / 5 % 3];
        assert_true(given[i] == (value < 0.0f ? 0.0f : value > 6.0f ? 6.0f : value));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(sums_are_those_of_all_products),
                                       TEST(gradients_of_biases_are_sums_of_planes),
                                       TEST(weights_are_multiplied_by_the_factors_of_their_outputs),
                                       TEST(normalized_planes_are_clamped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
