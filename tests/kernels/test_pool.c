/* Maxima of windows and gradients of pooling with each instruction set of the machine, compared
 * with simple loops. Operands have NaN, infinities and signed zeros, few and many channels, f32 and
 * bf16. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/pool/gradient_impl.h"
#include "kernels/pool/pool_impl.h"
#include "tensor/dtype.h"

enum { COLUMNS = 9, LINES = 3, PLANES = 2, MOST_CHANNELS = 70, WINDOWS = 6 };

static const pool_span_t columns[WINDOWS] = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {7, 1}, {0, 0}};
static const float specials[] = {NAN, INFINITY, -INFINITY, -INFINITY, -INFINITY, 0.0f, -0.0f, 1.5f};

/* Returns a random number. More than half of them are special, but few are NaN. */
static float draw(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    const unsigned kind = *seed >> 24;
    if (kind < 8) return NAN;
    if (kind < 160) return specials[1 + kind % 6];
    return (float)(int)(*seed >> 16 & 0xff) / 16.0f - 8.0f;
}

static float wanted_of(const pool_line_t *line, const float *x, int64_t q, int64_t c)
{
    float largest = -INFINITY;
    const pool_span_t span = line->columns[q];
    for (int64_t d = 0; d < line->n_planes; d++)
        for (int64_t h = 0; h < line->n_lines; h++)
            for (int64_t s = 0; s < span.count; s++) {
                const float value = x[d * line->plane_step + h * line->line_step +
                                      (span.first + s * line->column_step) * line->n_channels + c];
                if (isnan(value) || isnan(largest))
                    largest = NAN;
                else if (value > largest)
                    largest = value;
            }
    return largest;
}

static void check_line(isa_t isa, int64_t n_channels, bool is_bf16, int64_t column_step)
{
    static float x[PLANES * LINES * COLUMNS * MOST_CHANNELS], given[WINDOWS * MOST_CHANNELS + 1];
    static uint16_t narrow[PLANES * LINES * COLUMNS * MOST_CHANNELS],
        narrow_given[WINDOWS * MOST_CHANNELS + 1];
    const int64_t n = PLANES * LINES * COLUMNS * n_channels, n_out = WINDOWS * n_channels;
    unsigned seed = (unsigned)(n_channels * 4 + column_step * 2 + is_bf16);
    for (int64_t i = 0; i < n; i++) x[i] = draw(&seed);
    dtype_cast(n, DTYPE_F32, x, 1, DTYPE_BF16, narrow, 1);
    given[n_out] = 42.0f;
    narrow_given[n_out] = 42;
    const pool_line_t line = {.is_bf16 = is_bf16,
                              .src = is_bf16 ? (void *)narrow : x,
                              .dst = is_bf16 ? (void *)narrow_given : given,
                              .n_channels = n_channels,
                              .n_planes = PLANES,
                              .plane_step = LINES * COLUMNS * n_channels,
                              .n_lines = LINES,
                              .line_step = COLUMNS * n_channels,
                              .column_step = column_step,
                              .n_columns = column_step == 1 ? WINDOWS : WINDOWS - 2,
                              .columns = columns};
    pool_max_line(isa, &line);
    if (is_bf16) dtype_cast(n_out, DTYPE_BF16, narrow_given, 1, DTYPE_F32, given, 1);
    assert_true(given[n_out] == 42.0f && narrow_given[n_out] == 42);
    for (int64_t i = 0; i < line.n_columns * n_channels; i++) {
        const float wanted = wanted_of(&line, x, i / n_channels, i % n_channels);
        if (given[i] != wanted && !(isnan(given[i]) && isnan(wanted)))
            fail_msg("%s, %d channels, bf16 %d: element %d is %g, wanted %g", isa_name(isa),
                     (int)n_channels, is_bf16, (int)i, (double)given[i], (double)wanted);
    }
}

static void maxima_are_those_of_plain_loops(void **state)
{
    static const int64_t channels[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 70};
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (size_t c = 0; isa_has((isa_t)isa) && c < sizeof channels / sizeof *channels; c++)
            for (int i = 0; i < 4; i++) check_line((isa_t)isa, channels[c], i % 2 == 1, 1 + i / 2);
}

/* pool_raise raises each result to the maximum of itself and one element of its window. */
static void rows_keep_the_larger(void **state)
{
    static float x[4 * 40], given[41], wanted[40];
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int64_t n = 1; isa_has((isa_t)isa) && n <= 40; n++)
            for (int64_t step = 1; step <= 4; step++) {
                unsigned seed = (unsigned)(n * 8 + step);
                for (int64_t i = 0; i < 4 * 40; i++) x[i] = draw(&seed);
                for (int64_t q = 0; q < n; q++) {
                    const float before = draw(&seed), tap = x[q * step];
                    given[q] = before;
                    wanted[q] = isnan(tap) || isnan(before) ? NAN : tap > before ? tap : before;
                }
                given[n] = 42.0f;
                pool_raise((isa_t)isa, n, step, x, given);
                assert_true(given[n] == 42.0f);
                for (int64_t q = 0; q < n; q++)
                    if (given[q] != wanted[q] && !(isnan(given[q]) && isnan(wanted[q])))
                        fail_msg("%s, step %d: element %d of %d is %g, wanted %g",
                                 isa_name((isa_t)isa), (int)step, (int)q, (int)n, (double)given[q],
                                 (double)wanted[q]);
            }
}

/* ---- gradients ---- */

enum { SIDE = 9, N_OUTER = 2 };

/* Describes pooling of 3x3 windows with padding 1, and stride 2, or stride 3 and dilation 2. */
static pool_plan_t plan_of(bool is_average, int64_t block, bool is_dilated)
{
    const pool_axis_t one = {
        .in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1, .padded = 1};
    pool_axis_t side = {
        .in = SIDE, .kernel = 3, .stride = 2, .dilation = 1, .padding = 1, .padded = SIDE + 1};
    if (is_dilated) side.dilation = 2, side.stride = 3;
    side.out = (SIDE + 2 - 2 * side.dilation - 1) / side.stride + 1;
    return (pool_plan_t){.axes = {one, side, side},
                         .is_average = is_average,
                         .n_outer = N_OUTER,
                         .block = block,
                         .in_plane = SIDE * SIDE,
                         .out_plane = side.out * side.out};
}

/* Adds the gradients of all windows of one channel to `out`, in double. */
static void add_gradients(const pool_plan_t *plan, const float *x, const float *grad, double *out)
{
    const int64_t block = plan->block, n_columns = plan->axes[2].out;
    for (int64_t q = 0; q < plan->out_plane; q++) {
        int64_t best = -1, taps[9], n = 0;
        for (int64_t r = 0; r < 9; r++) {
            const pool_axis_t *a = &plan->axes[1];
            const int64_t h = q / n_columns * a->stride + r / 3 * a->dilation - a->padding;
            const int64_t w = q % n_columns * a->stride + r % 3 * a->dilation - a->padding;
            if (h >= 0 && h < SIDE && w >= 0 && w < SIDE) taps[n++] = h * SIDE + w;
        }
        for (int64_t i = 0; i < n; i++) {
            const float value = x[taps[i] * block];
            if (best < 0 || value > x[best * block] || isnan(value)) best = taps[i];
            if (plan->is_average) out[taps[i]] += (double)grad[q * block] / (double)n;
        }
        if (!plan->is_average) out[best] += (double)grad[q * block];
    }
}

static void check_gradient(isa_t isa, int n_threads, const pool_plan_t *plan)
{
    enum { MOST = N_OUTER * SIDE * SIDE * 150 };
    static float x[MOST], grad[MOST], given[MOST + 1];
    const int64_t block = plan->block, n = N_OUTER * SIDE * SIDE * block;
    unsigned seed = (unsigned)block;
    for (int64_t i = 0; i < n; i++) x[i] = draw(&seed);
    for (int64_t i = 0; i < N_OUTER * plan->out_plane * block; i++)
        grad[i] = (float)(int)(i * 37 % 101) - 50.0f;
    given[n] = 42.0f;
    const pool_gradient_t gradient = {plan, DTYPE_F32, plan->is_average ? NULL : x, grad, given};
    pool_gradient_run(&gradient, isa, n_threads, NULL);
    assert_true(given[n] == 42.0f);
    for (int64_t i = 0; i < N_OUTER * block; i++) {
        const int64_t outer = i / block, lane = i % block;
        double wanted[SIDE * SIDE] = {0.0};
        add_gradients(plan, x + outer * SIDE * SIDE * block + lane,
                      grad + outer * plan->out_plane * block + lane, wanted);
        for (int64_t at = 0; at < SIDE * SIDE; at++)
            assert_float_equal(given[(outer * SIDE * SIDE + at) * block + lane], wanted[at], 1e-4);
    }
}

static void gradients_are_those_in_double(void **state)
{
    static const int64_t blocks[] = {1, 3, 8, 15, 16, 24, 33, 64, 70, 150};
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (size_t b = 0; isa_has((isa_t)isa) && b < sizeof blocks / sizeof *blocks; b++)
            for (int i = 0; i < 8; i++) {
                const pool_plan_t plan = plan_of(i % 2 == 1, blocks[b], i / 2 % 2 == 1);
                check_gradient((isa_t)isa, 1 + i / 4, &plan);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(maxima_are_those_of_plain_loops),
                                       TEST(rows_keep_the_larger),
                                       TEST(gradients_are_those_in_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
