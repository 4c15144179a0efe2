#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "tensor/dtype.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

static uint16_t narrow(dtype_t dtype, double value)
{
    uint16_t bits;
    dtype_store(dtype, &bits, value);
    return bits;
}

static double widen(dtype_t dtype, uint16_t bits)
{
    return dtype_load(dtype, &bits);
}

/* Decodes bits by the definition of the float format. */
static double number_of(uint16_t bits, int fraction_bits, int bias)
{
    int fraction = bits & ((1 << fraction_bits) - 1), exponents = 1 << (15 - fraction_bits);
    int exponent = bits >> fraction_bits & (exponents - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == exponents - 1) return fraction != 0 ? (double)NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static const struct {
    dtype_t dtype;
    int fraction_bits, bias;
    uint16_t infinity;
} narrow_types[] = {{DTYPE_F16, 10, 15, 0x7c00}, {DTYPE_BF16, 7, 127, 0x7f80}};

static void every_type_has_a_name_and_a_size(void **state)
{
    (void)state;
    static const char *const names[] = {"none", "f32", "f64", "bf16", "f16", "s8",  "u8",
                                        "s16",  "u16", "s32", "u32",  "s64", "u64", "bool"};
    static const size_t sizes[] = {0, 4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1};
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        assert_string_equal(dtype_name((dtype_t)dtype), names[dtype]);
        assert_int_equal(dtype_parse(names[dtype]), dtype);
        assert_int_equal(dtype_size((dtype_t)dtype), sizes[dtype]);
    }
    assert_int_equal(dtype_parse("F32"), DTYPE_NONE);
    assert_int_equal(dtype_parse("f3"), DTYPE_NONE);
    assert_int_equal(dtype_parse(""), DTYPE_NONE);
    assert_int_equal(dtype_parse(NULL), DTYPE_NONE);
    assert_string_equal(dtype_name(DTYPE_COUNT), "unknown");
}

static void a_type_is_floating_or_integral_or_neither(void **state)
{
    (void)state;
    static const char kinds[DTYPE_COUNT] = "-ffffiuiuiuiu-";
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        assert_int_equal(dtype_is_floating((dtype_t)dtype), kinds[dtype] == 'f');
        assert_int_equal(dtype_is_integral((dtype_t)dtype),
                         kinds[dtype] == 'i' || kinds[dtype] == 'u');
        assert_int_equal(dtype_is_unsigned((dtype_t)dtype), kinds[dtype] == 'u');
    }
}

/* The expected types are those of torch.promote_types; "none": it refuses. */
static void types_promote_as_in_pytorch(void **state)
{
    (void)state;
    enum { N = 13 };
    static const dtype_t order[N] = {DTYPE_BOOL, DTYPE_U8,  DTYPE_S8,  DTYPE_S16, DTYPE_S32,
                                     DTYPE_S64,  DTYPE_U16, DTYPE_U32, DTYPE_U64, DTYPE_F16,
                                     DTYPE_BF16, DTYPE_F32, DTYPE_F64};
    static const char *const table[N][N] = {
        {"bool", "u8", "s8", "s16", "s32", "s64", "none", "none", "none", "f16", "bf16", "f32",
         "f64"},
        {"u8", "u8", "s16", "s16", "s32", "s64", "none", "none", "none", "f16", "bf16", "f32",
         "f64"},
        {"s8", "s16", "s8", "s16", "s32", "s64", "none", "none", "none", "f16", "bf16", "f32",
         "f64"},
        {"s16", "s16", "s16", "s16", "s32", "s64", "none", "none", "none", "f16", "bf16", "f32",
         "f64"},
        {"s32", "s32", "s32", "s32", "s32", "s64", "none", "none", "none", "f16", "bf16", "f32",
         "f64"},
        {"s64", "s64", "s64", "s64", "s64", "s64", "none", "none", "none", "f16", "bf16", "f32",
         "f64"},
        {"none", "none", "none", "none", "none", "none", "u16", "none", "none", "f16", "bf16",
         "f32", "f64"},
        {"none", "none", "none", "none", "none", "none", "none", "u32", "none", "f16", "bf16",
         "f32", "f64"},
        {"none", "none", "none", "none", "none", "none", "none", "none", "u64", "f16", "bf16",
         "f32", "f64"},
        {"f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64"},
        {"bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "f32", "bf16",
         "f32", "f64"},
        {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64"},
        {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
    };
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++)
            assert_string_equal(dtype_name(dtype_promote(order[a], order[b])), table[a][b]);
}

static void all_narrow_numbers_are_what_their_bits_say(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int bits = 0; bits < 65536; bits++) {
            double wanted = number_of((uint16_t)bits, narrow_types[t].fraction_bits,
                                      narrow_types[t].bias);
            double value = widen(narrow_types[t].dtype, (uint16_t)bits);
            if (isnan(wanted))
                assert_true(isnan(value));
            else
                assert_true(value == wanted && signbit(value) == signbit(wanted));
        }
    }
}

static void all_narrow_numbers_survive_a_round_trip(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        dtype_t dtype = narrow_types[t].dtype;
        for (int bits = 0; bits < 65536; bits++) {
            double value = widen(dtype, (uint16_t)bits);
            uint16_t back = narrow(dtype, value);
            if (isnan(value)) {
                assert_true(isnan(widen(dtype, back)));
                assert_int_equal(back & 0x8000, bits & 0x8000);
            } else {
                assert_int_equal(back, bits);
            }
        }
    }
}

/* For each pair of neighbours, rounds the midpoint, which is an f32, and the f32 numbers next to
 * it. */
static void narrow_numbers_round_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        dtype_t dtype = narrow_types[t].dtype;
        int fraction_bits = narrow_types[t].fraction_bits, bias = narrow_types[t].bias;
        for (uint16_t low = 0; low < narrow_types[t].infinity; low++) {
            uint16_t high = (uint16_t)(low + 1);
            double from = number_of(low, fraction_bits, bias);
            double to = high < narrow_types[t].infinity
                            ? number_of(high, fraction_bits, bias)
                            : 2 * from - number_of((uint16_t)(low - 1), fraction_bits, bias);
            float middle = (float)((from + to) / 2);
            assert_true(middle == (from + to) / 2);
            uint16_t even = low % 2 == 0 ? low : high;
            for (int sign = 0; sign < 2; sign++) {
                float s = sign == 0 ? 1.0f : -1.0f;
                uint16_t bit = sign == 0 ? 0 : 0x8000;
                assert_int_equal(narrow(dtype, (double)(s * middle)), even | bit);
                assert_int_equal(narrow(dtype, (double)(s * nextafterf(middle, 0))), low | bit);
                assert_int_equal(narrow(dtype, (double)(s * nextafterf(middle, INFINITY))),
                                 high | bit);
                /* f64 numbers between these f32 numbers */
                assert_int_equal(narrow(dtype, (double)s * nextafter((double)middle, 0)),
                                 low | bit);
                assert_int_equal(narrow(dtype, (double)s * nextafter((double)middle, INFINITY)),
                                 high | bit);
            }
        }
    }
}

/* Rounds the midpoint of two bf16 or f16 numbers, and numbers next to it that are no f32 numbers.
 * Rounding to f32 first would be wrong. */
static void casts_of_wide_numbers_round_once(void **state)
{
    (void)state;
    static const int64_t middles[] = {(1 << 25) + (1 << 17), (1LL << 40) + (1LL << 32),
                                      (1LL << 62) + (1LL << 54)};
    for (size_t i = 0; i < 3; i++)
        for (int64_t apart = -1; apart <= 1; apart++) {
            const int64_t number = middles[i] + apart, low = middles[i] / 257 * 256;
            const int64_t high = middles[i] / 257 * 258, negative = -number;
            const uint64_t large = (uint64_t)number;
            const double wanted = apart > 0 ? (double)high : (double)low;
            uint16_t bits[4];
            dtype_cast(1, DTYPE_S64, &number, 1, DTYPE_BF16, &bits[0], 1);
            dtype_cast(1, DTYPE_U64, &large, 1, DTYPE_BF16, &bits[1], 1);
            dtype_store_integer(DTYPE_BF16, &bits[2], number);
            dtype_cast(1, DTYPE_S64, &negative, 1, DTYPE_BF16, &bits[3], 1);
            for (int k = 0; k < 3; k++) assert_true(widen(DTYPE_BF16, bits[k]) == wanted);
            assert_true(widen(DTYPE_BF16, bits[3]) == -wanted);
        }
    const double doubles[] = {2049.0 + 1e-9, 2049.0, 2049.0 - 1e-9, -2051.0 - 1e-9};
    const double halves[] = {2050, 2048, 2048, -2052};
    uint16_t cast[4];
    dtype_cast(4, DTYPE_F64, doubles, 1, DTYPE_F16, cast, 1);
    for (int i = 0; i < 4; i++) assert_true(widen(DTYPE_F16, cast[i]) == halves[i]);
}

static void large_and_special_numbers_stay_special(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        dtype_t dtype = narrow_types[t].dtype;
        uint16_t infinity = narrow_types[t].infinity;
        assert_int_equal(narrow(dtype, INFINITY), infinity);
        assert_int_equal(narrow(dtype, -INFINITY), infinity | 0x8000);
        assert_int_equal(narrow(dtype, 3.4028234e38), infinity);
        assert_int_equal(narrow(dtype, -1e300), infinity | 0x8000);
        assert_int_equal(narrow(dtype, -0.0), 0x8000);
        assert_int_equal(narrow(dtype, 1e-300), 0);
        for (uint32_t payload = 1; payload < 0x800000; payload += payload < 70000 ? 1 : 4093) {
            uint32_t bits = 0x7f800000 | payload;
            uint16_t result;
            dtype_cast(1, DTYPE_F32, &bits, 1, dtype, &result, 1);
            assert_true((result & 0x7fff) > infinity && (result & 0x8000) == 0);
        }
    }
}

#if defined(__SSE__)
static void denormal_f16_survive_where_f32_flushes_its_own(void **state)
{
    (void)state;
    unsigned mode = _mm_getcsr();
    int n_wrong = 0;
    _mm_setcsr(mode | 0x8040);
    for (uint16_t bits = 0; bits < 0x0400; bits++) {
        float wide;
        uint16_t back;
        dtype_cast(1, DTYPE_F16, &bits, 1, DTYPE_F32, &wide, 1);
        dtype_cast(1, DTYPE_F32, &wide, 1, DTYPE_F16, &back, 1);
        if (back != bits || (double)wide != ldexp(bits, -24)) n_wrong++;
    }
    _mm_setcsr(mode);
    assert_int_equal(n_wrong, 0);
}
#endif

static int64_t cast_integer(dtype_t dtype, double value)
{
    int64_t element = 0;
    dtype_store(dtype, &element, value);
    return dtype_load_integer(dtype, &element);
}

static void floating_to_integral_truncates(void **state)
{
    (void)state;
    static const dtype_t integral[] = {DTYPE_S8, DTYPE_S32, DTYPE_S64};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cast_integer(integral[i], 2.9), 2);
        assert_int_equal(cast_integer(integral[i], -2.9), -2);
        assert_int_equal(cast_integer(integral[i], -0.9), 0);
    }
    assert_int_equal(cast_integer(DTYPE_U8, 255.9), 255);
    assert_int_equal(cast_integer(DTYPE_U8, -1.0), 255);
    assert_int_equal(cast_integer(DTYPE_S8, 300.0), 44);
    assert_int_equal(cast_integer(DTYPE_S16, 40000.0), -25536);
    assert_int_equal(cast_integer(DTYPE_U16, -1.0), 65535);
    assert_int_equal(cast_integer(DTYPE_U16, 70000.0), 4464);
    assert_int_equal(cast_integer(DTYPE_U32, 4294967295.0), UINT32_MAX);
    assert_int_equal(cast_integer(DTYPE_U32, -1.0), UINT32_MAX);
    assert_true((uint64_t)cast_integer(DTYPE_U64, 0x1.8p63) == UINT64_C(3) << 62);
    assert_int_equal(cast_integer(DTYPE_U64, -1.0), -1);
    assert_int_equal(cast_integer(DTYPE_S32, 2147483647.9), INT32_MAX);
    assert_int_equal(cast_integer(DTYPE_S32, -2147483648.9), INT32_MIN);
    assert_int_equal(cast_integer(DTYPE_S32, 2147483648.0), INT32_MIN);
    assert_int_equal(cast_integer(DTYPE_S32, NAN), INT32_MIN);
    assert_int_equal(cast_integer(DTYPE_S64, 9223372036854774784.0), INT64_C(9223372036854774784));
    assert_int_equal(cast_integer(DTYPE_S64, 1e30), INT64_MIN);
    assert_int_equal(cast_integer(DTYPE_S64, -INFINITY), INT64_MIN);
}

static void bool_tests_against_zero(void **state)
{
    (void)state;
    assert_int_equal(cast_integer(DTYPE_BOOL, 0.5), 1);
    assert_int_equal(cast_integer(DTYPE_BOOL, NAN), 1);
    assert_int_equal(cast_integer(DTYPE_BOOL, -0.0), 0);
    uint8_t any = 7, result = 9;
    assert_int_equal(dtype_load_integer(DTYPE_BOOL, &any), 1);
    dtype_store_integer(DTYPE_BOOL, &result, INT64_C(1) << 40);
    assert_int_equal(result, 1);
    float tiny = 0x1p-149f;
    dtype_cast(1, DTYPE_F32, &tiny, 1, DTYPE_BOOL, &result, 1);
    assert_int_equal(result, 1);
}

static void integers_keep_their_bits_in_the_integer_form(void **state)
{
    (void)state;
    int64_t large = (INT64_C(1) << 53) + 1, back = 0;
    dtype_store_integer(DTYPE_S64, &back, large);
    assert_int_equal(dtype_load_integer(DTYPE_S64, &back), large);
    int32_t low = 0;
    dtype_cast(1, DTYPE_S64, &large, 1, DTYPE_S32, &low, 1);
    assert_int_equal(low, 1);
    float rounded = 0;
    int64_t tie = (INT64_C(1) << 62) + (INT64_C(1) << 38) + 1; /* a tie once it is an f64 */
    dtype_cast(1, DTYPE_S64, &tie, 1, DTYPE_F32, &rounded, 1);
    assert_true(rounded == 0x1.000002p62f);
    dtype_store_integer(DTYPE_F32, &rounded, tie);
    assert_true(rounded == 0x1.000002p62f);
}

static void large_u64_are_positive_as_floating_numbers(void **state)
{
    (void)state;
    uint64_t large = UINT64_MAX;
    float f32 = 0;
    double f64 = 0;
    uint16_t bf16 = 0;
    assert_true(dtype_load(DTYPE_U64, &large) == 0x1p64);
    dtype_cast(1, DTYPE_U64, &large, 1, DTYPE_F32, &f32, 1);
    dtype_cast(1, DTYPE_U64, &large, 1, DTYPE_F64, &f64, 1);
    dtype_cast(1, DTYPE_U64, &large, 1, DTYPE_BF16, &bf16, 1);
    assert_true(f32 == 0x1p64f && f64 == 0x1p64 && widen(DTYPE_BF16, bf16) == 0x1p64);
}

static const double samples[] = {
    0.0,        -0.0,      1.0,   -1.0,     2.5,        -2.5,     127.0,
    128.0,      255.0,     1e-6,  6e-8,     2147483647, 3e9,      -3e9,
    1e19,       1e30,      1e-40, 0.1,      200,        65519,    65520,
    -1e30,      1e300,     NAN,   INFINITY, -INFINITY,  16777217, 9007199254740993.0,
    1.00390625, 1.01171875};
#define N_SAMPLES ((int)(sizeof samples / sizeof *samples))

/* Converts one element with the functions dtype_load and dtype_store. */
static void cast_one(dtype_t from, const void *src, dtype_t to, void *dst)
{
    if (from == to)
        memcpy(dst, src, dtype_size(from));
    else if (dtype_is_floating(from) || (from == DTYPE_U64 && dtype_is_floating(to)))
        dtype_store(to, dst, dtype_load(from, src));
    else
        dtype_store_integer(to, dst, dtype_load_integer(from, src));
}

static void check_cast(dtype_t from, dtype_t to, int64_t src_stride, int64_t dst_stride)
{
    _Alignas(64) char src[8 * 3 * N_SAMPLES], dst[8 * 3 * N_SAMPLES];
    size_t src_size = dtype_size(from), dst_size = dtype_size(to);
    memset(src, 0, sizeof src);
    memset(dst, 0x5a, sizeof dst);
    for (int i = 0; i < N_SAMPLES; i++)
        dtype_store(from, src + (size_t)(i * src_stride) * src_size, samples[i]);
    dtype_cast(N_SAMPLES, from, src, src_stride, to, dst, dst_stride);

    for (int64_t at = 0; at < 3 * N_SAMPLES; at++) {
        char wanted[8];
        memset(wanted, 0x5a, sizeof wanted);
        int64_t i = at / dst_stride;
        if (at % dst_stride == 0 && i < N_SAMPLES)
            cast_one(from, src + (size_t)(i * src_stride) * src_size, to, wanted);
        if (memcmp(dst + (size_t)at * dst_size, wanted, dst_size) == 0) continue;
        print_error("%s to %s, strides %d %d: %g went wrong\n", dtype_name(from), dtype_name(to),
                    (int)src_stride, (int)dst_stride, samples[i % N_SAMPLES]);
        fail();
    }
}

static void casts_of_many_elements_are_those_of_one_and_touch_no_gaps(void **state)
{
    (void)state;
    for (int from = DTYPE_F32; from < DTYPE_COUNT; from++)
        for (int to = DTYPE_F32; to < DTYPE_COUNT; to++)
            for (int64_t src_stride = 0; src_stride <= 3; src_stride++)
                for (int64_t dst_stride = 1; dst_stride <= 3; dst_stride++)
                    check_cast((dtype_t)from, (dtype_t)to, src_stride, dst_stride);
}

static void a_cast_of_nothing_does_nothing(void **state)
{
    (void)state;
    float x = 3.0f;
    dtype_cast(0, DTYPE_F64, NULL, 1, DTYPE_F32, &x, 1);
    dtype_cast(0, DTYPE_F32, NULL, 1, DTYPE_F32, &x, 1);
    assert_true(x == 3.0f);
}

static void epsilon_is_the_largest_rounding_error(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        dtype_t dtype = (dtype_t)i;
        double epsilon = dtype_epsilon(dtype), element = 0;
        assert_int_equal(epsilon > 0, dtype_is_floating(dtype));
        if (!dtype_is_floating(dtype)) continue;
        dtype_store(dtype, &element, 1 + epsilon);
        assert_true(dtype_load(dtype, &element) == 1.0);
        dtype_store(dtype, &element, 1 + 2 * epsilon);
        assert_true(dtype_load(dtype, &element) == 1 + 2 * epsilon);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_a_name_and_a_size),
        cmocka_unit_test(a_type_is_floating_or_integral_or_neither),
        cmocka_unit_test(types_promote_as_in_pytorch),
        cmocka_unit_test(all_narrow_numbers_are_what_their_bits_say),
        cmocka_unit_test(all_narrow_numbers_survive_a_round_trip),
        cmocka_unit_test(narrow_numbers_round_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(casts_of_wide_numbers_round_once),
        cmocka_unit_test(large_and_special_numbers_stay_special),
#if defined(__SSE__)
        cmocka_unit_test(denormal_f16_survive_where_f32_flushes_its_own),
#endif
        cmocka_unit_test(floating_to_integral_truncates),
        cmocka_unit_test(bool_tests_against_zero),
        cmocka_unit_test(integers_keep_their_bits_in_the_integer_form),
        cmocka_unit_test(large_u64_are_positive_as_floating_numbers),
        cmocka_unit_test(casts_of_many_elements_are_those_of_one_and_touch_no_gaps),
        cmocka_unit_test(a_cast_of_nothing_does_nothing),
        cmocka_unit_test(epsilon_is_the_largest_rounding_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
