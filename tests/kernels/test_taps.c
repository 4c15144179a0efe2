/* Convolutions of few channels with each instruction set of the machine, compared with sums in
 * double. */
#include "kernels/conv/taps_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

#define AFTER 12345.0f /* after the result; must not change */

static float *make(int64_t n)
{
    float *values = malloc((size_t)(n + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++) values[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    values[n] = AFTER;
    return values;
}

static double window_sum(const taps_t *t, int64_t n, int64_t k, const int64_t *at, double *largest)
{
    const int64_t plane = t->in[0] * t->in[1] * t->in[2], group = k / t->group_outputs;
    const float *weight = t->weight +
                          k * t->group_channels * t->kernel[0] * t->kernel[1] * t->kernel[2];
    double sum = t->bias != NULL ? (double)t->bias[k] : 0.0;
    for (int64_t c = 0; c < t->group_channels; c++) {
        const float *x = t->x + ((n * t->groups + group) * t->group_channels + c) * plane;
        for (int64_t i = 0; i < t->kernel[0] * t->kernel[1] * t->kernel[2]; i++, weight++) {
            const int64_t tap[3] = {i / t->kernel[2] / t->kernel[1],
                                    i / t->kernel[2] % t->kernel[1], i % t->kernel[2]};
            int64_t from = 0;
            bool is_inside = true;
            for (int d = 0; d < 3; d++) {
                const int64_t p = at[d] * t->stride[d] + tap[d] * t->dilation[d] - t->padding[d];
                is_inside = is_inside && p >= 0 && p < t->in[d];
                from = from * t->in[d] + p;
            }
            if (!is_inside) continue;
            sum += (double)x[from] * (double)*weight;
            *largest += fabs((double)x[from] * (double)*weight);
        }
    }
    return sum;
}

static void double_all(const void *user, float *values, int64_t n)
{
    (void)user;
    for (int64_t i = 0; i < n; i++) values[i] *= 2.0f;
}

static void compare(const taps_t *t, const char *isa)
{
    const float *out = t->out_values;
    const double factor = t->finish != NULL ? 2.0 : 1.0;
    for (int64_t n = 0; n < t->n_images; n++)
        for (int64_t k = 0; k < t->groups * t->group_outputs; k++)
            for (int64_t i = 0; i < t->out[0] * t->out[1] * t->out[2]; i++, out++) {
                const int64_t at[3] = {i / t->out[2] / t->out[1], i / t->out[2] % t->out[1],
                                       i % t->out[2]};
                double largest = 1e-3;
                const double want = factor * window_sum(t, n, k, at, &largest);
                if (!(fabs((double)*out - want) <= 1e-5 * largest))
                    fail_msg("%s, image %lld output %lld [%lld,%lld,%lld]: %g, not %g", isa,
                             (long long)n, (long long)k, (long long)at[0], (long long)at[1],
                             (long long)at[2], (double)*out, want);
            }
    assert_true(*out == AFTER);
}

static void set_out(taps_t *t)
{
    for (int d = 0; d < 3; d++)
        t->out[d] = (t->in[d] + 2 * t->padding[d] - (t->kernel[d] - 1) * t->dilation[d] - 1) /
                        t->stride[d] +
                    1;
}

static void check(taps_t t)
{
    const int64_t channels = t.groups * t.group_channels, outputs = t.groups * t.group_outputs;
    int64_t in = 1, out = 1, window = 1;
    set_out(&t);
    for (int d = 0; d < 3; d++) {
        in *= t.in[d];
        out *= t.out[d];
        window *= t.kernel[d];
    }
    float *x = make(t.n_images * channels * in), *bias = make(outputs);
    float *weight = make(outputs * t.group_channels * window);
    float *values = make(t.n_images * outputs * out);
    t.x = x;
    t.weight = weight;
    t.out_values = values;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int n_threads = 1; n_threads <= 3 && isa_has((isa_t)isa); n_threads++) {
            void *scratch = aligned_alloc(64, (taps_scratch(&t, n_threads) + 63) & ~(size_t)63);
            assert_non_null(scratch);
            t.bias = n_threads > 1 ? bias : NULL;
            t.finish = n_threads > 2 ? double_all : NULL;
            taps_run(&t, (isa_t)isa, n_threads, scratch);
            compare(&t, isa_name((isa_t)isa));
            free(scratch);
        }
    free(x);
    free(weight);
    free(bias);
    free(values);
}

/* Writes the weight [K][C][window] as [K / lanes][window][C][lanes], padded with zeros. */
static float *block_weight(const taps_t *t, int64_t window, int64_t lanes)
{
    const int64_t n_blocks = (t->group_outputs + lanes - 1) / lanes, c = t->group_channels;
    float *blocked = make(n_blocks * lanes * c * window);
    memset(blocked, 0, (size_t)(n_blocks * lanes * c * window) * sizeof *blocked);
    for (int64_t k = 0; k < t->group_outputs; k++)
        for (int64_t i = 0; i < c * window; i++)
            blocked[((k / lanes * window + i % window) * c + i / window) * lanes + k % lanes] =
                t->weight[k * c * window + i];
    return blocked;
}

/* Writes a result in blocks as a plain one. Padded outputs must be zero. */
static void check_plain(const taps_t *t, int64_t plane, int64_t lanes, const float *blocked,
                        float *out)
{
    const int64_t n_padded = (t->group_outputs + lanes - 1) / lanes * lanes;
    for (int64_t n = 0; n < t->n_images; n++)
        for (int64_t k = 0; k < n_padded; k++)
            for (int64_t i = 0; i < plane; i++) {
                const float value = blocked[n * n_padded * plane + k / lanes * plane * lanes +
                                            i * lanes + k % lanes];
                if (k < t->group_outputs)
                    out[(n * t->group_outputs + k) * plane + i] = value;
                else
                    assert_true(value == 0.0f);
            }
}

static void check_blocks(taps_t t)
{
    set_out(&t);
    const int64_t window = t.kernel[0] * t.kernel[1] * t.kernel[2];
    const int64_t plane = t.out[0] * t.out[1] * t.out[2];
    const int64_t n_x = t.n_images * t.group_channels * t.in[0] * t.in[1] * t.in[2];
    float *x = make(n_x), *bias = make(t.group_outputs);
    float *weight = make(t.group_outputs * t.group_channels * window);
    float *values = make(t.n_images * t.group_outputs * plane);
    t.x = x;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int n_threads = 1; n_threads <= 3 && isa_has((isa_t)isa); n_threads++) {
            const int64_t lanes = isa_lanes((isa_t)isa);
            const int64_t n_padded = (t.group_outputs + lanes - 1) / lanes * lanes;
            taps_t run = t;
            run.is_blocked = true;
            run.bias = t.bias = n_threads > 1 ? bias : NULL;
            run.finish = t.finish = n_threads > 2 ? double_all : NULL;
            t.weight = weight;
            t.out_values = values;
            float *packed = block_weight(&t, window, lanes);
            float *made = make(t.n_images * n_padded * plane);
            void *scratch = aligned_alloc(64, (taps_scratch(&run, n_threads) + 63) & ~(size_t)63);
            assert_non_null(scratch);
            run.weight = packed;
            run.out_values = made;
            taps_run(&run, (isa_t)isa, n_threads, scratch);
            assert_true(made[t.n_images * n_padded * plane] == AFTER);
            check_plain(&t, plane, lanes, made, values);
            compare(&t, isa_name((isa_t)isa));
            run.is_clamped = true;
            run.lower = -0.1f;
            run.upper = 0.25f;
            run.finish = NULL;
            taps_run(&run, (isa_t)isa, n_threads, scratch);
            for (int64_t i = 0; i < t.n_images * n_padded * plane; i++)
                assert_true(made[i] >= -0.1f && made[i] <= 0.25f);
            free(scratch);
            free(packed);
            free(made);
        }
    free(x);
    free(bias);
    free(weight);
    free(values);
}

static taps_t image(int64_t c, int64_t k, int64_t h, int64_t w, int64_t kh, int64_t kw)
{
    return (taps_t){.n_images = 1,
                    .groups = 1,
                    .group_channels = c,
                    .group_outputs = k,
                    .in = {1, h, w},
                    .kernel = {1, kh, kw},
                    .stride = {1, 1, 1},
                    .dilation = {1, 1, 1}};
}

static taps_t line(int64_t c, int64_t k, int64_t n, int64_t taps)
{
    return image(c, k, 1, n, 1, taps);
}

/* Sets the windows of the last two dimensions. */
static taps_t with(taps_t t, const int64_t *stride, const int64_t *dilation, const int64_t *padding)
{
    memcpy(t.stride + 1, stride, 2 * sizeof *stride);
    memcpy(t.dilation + 1, dilation, 2 * sizeof *dilation);
    memcpy(t.padding + 1, padding, 2 * sizeof *padding);
    return t;
}

#define PAIR(a, b) ((const int64_t[]){a, b})

static void channels_of_any_number_are_summed(void **state)
{
    static const int64_t numbers[] = {1, 3, 7, 17, 31};
    (void)state;
    for (size_t c = 0; c < sizeof numbers / sizeof *numbers; c++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            taps_t t = image(numbers[c], numbers[k], 9, 21 + numbers[c], 3, 5);
            t.padding[1] = 1;
            t.padding[2] = 2;
            check(t);
        }
}

static void rows_of_any_width_are_summed(void **state)
{
    (void)state;
    for (int64_t width = 5; width < 150; width += 7)
        for (int64_t k = 1; k <= 4; k++) check(image(2, k, 4, width, 2, 3));
}

static void windows_have_strides_dilations_groups_and_padding(void **state)
{
    (void)state;
    check(with(image(8, 8, 6, 60, 3, 39), PAIR(1, 1), PAIR(1, 1), PAIR(1, 19)));
    check(line(1, 1, 2000, 256));
    check(with(line(1, 1, 2000, 256), PAIR(1, 2), PAIR(1, 1), PAIR(0, 0)));
    check(with(line(1, 3, 700, 256), PAIR(1, 300), PAIR(1, 1), PAIR(0, 0)));
    check(with(line(4, 4, 300, 9), PAIR(1, 1), PAIR(1, 7), PAIR(0, 28)));
    check(with(line(4, 4, 300, 9), PAIR(1, 6), PAIR(1, 4), PAIR(0, 3)));
    check(with(line(1, 1, 3, 3), PAIR(1, 1), PAIR(1, 1), PAIR(0, 40)));
    check(with(image(3, 5, 40, 33, 5, 5), PAIR(3, 2), PAIR(2, 3), PAIR(0, 0)));
    check((taps_t){.n_images = 2,
                   .groups = 3,
                   .group_channels = 2,
                   .group_outputs = 5,
                   .in = {6, 7, 20},
                   .kernel = {2, 3, 4},
                   .stride = {2, 1, 3},
                   .dilation = {3, 2, 1},
                   .padding = {1, 2, 3}});
    taps_t depthwise = with(image(1, 1, 9, 40, 3, 7), PAIR(1, 1), PAIR(2, 2), PAIR(2, 6));
    depthwise.groups = 31;
    depthwise.n_images = 3;
    check(depthwise);
}

static void outputs_are_summed_in_blocks(void **state)
{
    static const int64_t numbers[] = {1, 8, 16, 17, 33, 48};
    (void)state;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        for (int64_t stride = 1; stride <= 4; stride++)
            for (int64_t width = 3; width < 40; width += 9) {
                taps_t t = with(image(1 + width % 4, numbers[k], 11, width, 3, 3),
                                PAIR(stride, stride), PAIR(1, 1), PAIR(1, 1));
                t.n_images = 1 + stride % 2;
                check_blocks(t);
            }
    check_blocks(with(image(3, 32, 60, 229, 7, 7), PAIR(2, 2), PAIR(1, 1), PAIR(3, 3)));
    check_blocks(with(image(2, 20, 30, 33, 5, 4), PAIR(3, 2), PAIR(2, 3), PAIR(0, 1)));
}

/* One row of the window would be larger than the caches. */
static void windows_that_are_too_long_are_refused(void **state)
{
    taps_shape_t shape;
    (void)state;
    taps_t t = line(64, 1, 100000, 3);
    memcpy(t.out, (int64_t[]){1, 1, 99998}, sizeof t.out);
    assert_false(taps_describe(&t, &shape));
    t = line(1, 1, 100, 3);
    t.stride[2] = INT64_MAX / 2;
    memcpy(t.out, (int64_t[]){1, 1, 1}, sizeof t.out);
    assert_false(taps_describe(&t, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels_of_any_number_are_summed),
        cmocka_unit_test(rows_of_any_width_are_summed),
        cmocka_unit_test(windows_have_strides_dilations_groups_and_padding),
        cmocka_unit_test(outputs_are_summed_in_blocks),
        cmocka_unit_test(windows_that_are_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
