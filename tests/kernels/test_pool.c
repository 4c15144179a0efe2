/* Maxima of windows on every ISA of the machine, compared with plain loops: numbers, NaN,
 * infinities and signed zeros; few and many channels; f32 and bf16. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/pool/pool_impl.h"
#include "tensor/dtype.h"

enum { COLUMNS = 9, LINES = 3, PLANES = 2, MOST_CHANNELS = 70, WINDOWS = 6 };

static const pool_span_t columns[WINDOWS] = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {7, 1}, {0, 0}};
static const float specials[] = {NAN, INFINITY, -INFINITY, -INFINITY, -INFINITY, 0.0f, -0.0f, 1.5f};

/* More than half of the elements are special, but NaN is rare. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(maxima_are_those_of_plain_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
