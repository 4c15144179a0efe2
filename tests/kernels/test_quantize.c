/* Conversions to integers and back with each instruction set of the machine, compared with double.
 * The double result of two floats, rounded to float, is the float result, so the comparison is
 * exact. */
#include "kernels/quantized/quantize_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/support/support.h"

enum { N = 531, HALF = 2 }; /* every second number is a tie: x.5 */

static const quantize_loops_t *const tables[ISA_COUNT] = ISA_TABLE(quantize_loops);

static float x[N], multiplier[N], shift[N];
static int32_t integers[N], bias[N], zero[N];

static void fill(void)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e30f, -1e30f};
    for (int i = 0; i < N; i++) {
        const int number = i * 7919 % 2003 - 1001;
        x[i] = i % HALF == 0 ? (float)number * 0.5f : (float)number * 0.37f;
        multiplier[i] = i % HALF == 0 ? 1.0f : 0.1f + (float)(i % 17) * 0.013f;
        shift[i] = (float)(i % 11) * 0.7f - 3.3f;
        integers[i] = number * 1237;
        bias[i] = i % 13 * 1000003;
        zero[i] = i % 5 * 50 - 100;
    }
    memcpy(x, special, sizeof special);
    integers[3] = INT32_MAX;
    bias[3] = 2;
}

static double rounded(double number)
{
    return (double)(float)number;
}

static int32_t settled(double number, int32_t own_zero, int32_t low, int32_t high)
{
    const double value = nearbyint(number) + own_zero;
    return !(value > low) ? low : value < high ? (int32_t)value : high;
}

static void floats_become_integers(void **state)
{
    static const dtype_t dtypes[] = {DTYPE_S8, DTYPE_U8, DTYPE_S16, DTYPE_U16};
    (void)state;
    fill();
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (size_t d = 0; isa_has((isa_t)isa) && d < 2 * sizeof dtypes / sizeof *dtypes; d++) {
            const int64_t step = (int64_t)d % 2;
            const requantize_t how = {multiplier, shift, bias, zero, step, dtypes[d / 2], true};
            int32_t low, high, quotients[N], products[N];
            quantize_range(how.dtype, &low, &high);
            tables[isa]->divide(N, x, multiplier, zero, step, low, high, quotients);
            tables[isa]->multiply(N, integers, &how, low, high, products);
            for (int i = 0; i < N; i++) {
                const int64_t at = i * step;
                const double m = (double)multiplier[at];
                const double sum = (double)(int32_t)((uint32_t)integers[i] + (uint32_t)bias[at]);
                const double product = rounded(rounded(rounded(sum) * m) + (double)shift[at]);
                assert_int_equal(quotients[i],
                                 settled(rounded((double)x[i] / m), zero[at], low, high));
                assert_int_equal(products[i], settled(product, zero[at], low, high));
            }
            tables[isa]->keep_positive(N, zero, step, high, products);
            for (int i = 0; i < N; i++) assert_true(products[i] >= zero[i * step] || high < 100);
        }
}

static void integers_become_floats_and_bytes(void **state)
{
    (void)state;
    fill();
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        float out[N];
        uint8_t bytes[N];
        uint16_t words[N];
        if (!isa_has((isa_t)isa)) continue;
        for (int64_t step = 0; step < 2; step++) {
            tables[isa]->undo(N, integers, multiplier, zero, step, out);
            for (int i = 0; i < N; i++)
                assert_true((double)out[i] ==
                            rounded(rounded((double)integers[i] - zero[i * step]) *
                                    (double)multiplier[i * step]));
        }
        tables[isa]->store(N, integers, 1, bytes);
        tables[isa]->store(N, integers, 2, words);
        for (int i = 0; i < N; i++) {
            assert_int_equal(bytes[i], integers[i] & 0xff);
            assert_int_equal(words[i], integers[i] & 0xffff);
        }
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            tables[isa]->undo_bytes(N, is_signed != 0, bytes, 0.3f, 7, out);
            for (int i = 0; i < N; i++) {
                const int byte = is_signed && bytes[i] > 127 ? bytes[i] - 256 : bytes[i];
                assert_true((double)out[i] == rounded((byte - 7) * (double)0.3f));
            }
        }
    }
}

static void sums_are_rescaled(void **state)
{
    const float *const sums = x + 7; /* without the special numbers */
    enum { COUNT = N - 7 };
    (void)state;
    fill();
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int mode = 0; isa_has((isa_t)isa) && mode < 4; mode++) {
            float out[COUNT], scaled[COUNT];
            tables[isa]->rescale(COUNT, sums, multiplier, mode < 2 ? shift : NULL, 0.7f,
                                 mode % 2 == 0, out);
            tables[isa]->scale(COUNT, integers, multiplier, 0.3f, scaled);
            for (int i = 0; i < COUNT; i++) {
                double wanted = rounded((double)sums[i] * (double)multiplier[i]);
                const double addend = rounded((double)0.7f * (double)shift[i]);
                if (mode < 2) wanted = rounded(wanted + addend);
                if (mode % 2 == 0) wanted = fmax(wanted, 0.0);
                assert_true((double)out[i] == wanted);
                assert_true((double)scaled[i] ==
                            rounded(rounded((double)integers[i]) *
                                    rounded((double)multiplier[i] * (double)0.3f)));
            }
        }
}

static void a_range_contains_all_numbers_but_nan(void **state)
{
    (void)state;
    fill();
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int at = 3; isa_has((isa_t)isa) && at < N; at += 29) {
            const float before = x[at];
            float least = -600.0f, most = 600.0f;
            x[1] = x[2] = x[5] = x[6] = NAN;
            x[at] = at % 2 == 0 ? 601.0f : -601.0f;
            tables[isa]->widen(N, x, &least, &most);
            assert_true(least == (at % 2 == 0 ? -600.0f : -601.0f));
            assert_true(most == (at % 2 == 0 ? 601.0f : 600.0f));
            x[at] = before;
        }
}

static void rows_are_rounded_to_15_bits(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int64_t n = 1; isa_has((isa_t)isa) && n < N; n += 53) {
            float *row = x + 7, largest = 0.0f;
            int16_t out[N];
            fill();
            for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(row[i]));
            assert_true(tables[isa]->round(n, row, 32767.0f, out) == largest / 32767.0f);
            for (int64_t i = 0; i < n; i++)
                assert_int_equal(
                    out[i], (int)nearbyint(rounded((double)row[i] * (double)(32767.0f / largest))));
            row[n - 1] = n % 2 == 0 ? NAN : -INFINITY;
            assert_true(isnan(tables[isa]->round(n, row, 32767.0f, out)));
            memset(row, 0, (size_t)n * sizeof *row);
            assert_true(tables[isa]->round(n, row, 32767.0f, out) == 0.0f);
            assert_int_equal(out[n - 1], 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_become_integers),
        cmocka_unit_test(integers_become_floats_and_bytes),
        cmocka_unit_test(sums_are_rescaled),
        cmocka_unit_test(a_range_contains_all_numbers_but_nan),
        cmocka_unit_test(rows_are_rounded_to_15_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
