/* Elementwise functions of values that random numbers do not have: NaN, infinity, limits of integer
 * types, division by 0. Also dtypes that do not fit. Expected values are from PyTorch 2.13. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "ops/ops.h"

typedef status_t (*binary_t)(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out);
typedef status_t (*unary_t)(context_t *ctx, const tensor_t *x, tensor_t **out);

static tensor_t *make(context_t *ctx, dtype_t dtype, int64_t n, const void *elements)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, dtype, 1, &n, elements, &tensor));
    return tensor;
}

static void check_bools(context_t *ctx, tensor_t *tensor, const char *wanted)
{
    uint8_t read[16];
    assert_int_equal(tensor_dtype(tensor), DTYPE_BOOL);
    assert_int_equal(tensor_numel(tensor), strlen(wanted));
    CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
    for (size_t i = 0; i < strlen(wanted); i++) assert_int_equal(read[i], wanted[i] == '1');
    tensor_release(tensor);
}

static void comparisons_with_nan_are_false_but_for_ne(void **state)
{
    static const float a[] = {NAN, 1, INFINITY, -0.0F, 2}, b[] = {NAN, NAN, INFINITY, 0, 1};
    static const struct {
        binary_t op;
        const char *wanted;
    } cases[] = {{op_eq, "00110"}, {op_ne, "11001"}, {op_lt, "00000"},
                 {op_le, "00110"}, {op_gt, "00001"}, {op_ge, "00111"}};
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_F32, 5, a), *y = make(ctx, DTYPE_F32, 5, b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_t *out = NULL;
        CHECK_OK(ctx, cases[i].op(ctx, x, y, &out));
        check_bools(ctx, out, cases[i].wanted);
    }
    tensor_release(x);
    tensor_release(y);
}

static void nan_is_true_and_known_from_infinity(void **state)
{
    static const double x[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e308};
    static const struct {
        unary_t op;
        const char *wanted;
    } cases[] = {{op_isnan, "100000"}, {op_isinf, "011000"}, {op_logical_not, "000110"}};
    context_t *ctx = fixture_context(state);
    tensor_t *tensor = make(ctx, DTYPE_F64, 6, x);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_t *out = NULL;
        CHECK_OK(ctx, cases[i].op(ctx, tensor, &out));
        check_bools(ctx, out, cases[i].wanted);
    }
    tensor_release(tensor);
}

static void halves_round_to_even(void **state)
{
    static const float x[] = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 2.4999998F};
    static const float wanted[] = {0, 2, 2, -0.0F, -2, 2};
    context_t *ctx = fixture_context(state);
    tensor_t *tensor = make(ctx, DTYPE_F32, 6, x), *out = NULL;
    float read[6];
    CHECK_OK(ctx, op_round(ctx, tensor, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
    assert_memory_equal(read, wanted, sizeof read);
    tensor_release(out);
    tensor_release(tensor);
}

static void quotients_of_integers_hold_at_the_ends_of_their_types(void **state)
{
    static const int64_t a[] = {INT64_MIN, -7, 7, -7, 7}, b[] = {-1, 2, -2, -2, 2};
    static const struct {
        binary_t op;
        int64_t wanted[5];
    } cases[] = {{op_div_trunc, {INT64_MIN, -3, -3, 3, 3}},
                 {op_div_floor, {INT64_MIN, -4, -4, 3, 3}},
                 {op_fmod, {0, -1, 1, -1, 1}},
                 {op_remainder, {0, 1, -1, -1, 1}}};
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_S64, 5, a), *y = make(ctx, DTYPE_S64, 5, b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t read[5];
        tensor_t *out = NULL;
        CHECK_OK(ctx, cases[i].op(ctx, x, y, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
        assert_memory_equal(read, cases[i].wanted, sizeof read);
        tensor_release(out);
    }
    tensor_release(x);
    tensor_release(y);
}

static void floating_quotients_are_those_of_python(void **state)
{
    static const double a[] = {-7.5, 7.5, 1, -1, 0.3}, b[] = {2, -2, 0, 0, 0.1};
    static const double wanted[] = {-4, -4, INFINITY, -INFINITY, 2};
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_F64, 5, a), *y = make(ctx, DTYPE_F64, 5, b), *out = NULL;
    double read[5];
    CHECK_OK(ctx, op_div_floor(ctx, x, y, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
    assert_memory_equal(read, wanted, sizeof read);
    tensor_release(out);
    tensor_release(x);
    tensor_release(y);
}

static void an_integer_by_zero_is_refused(void **state)
{
    static const int32_t a[] = {1, 2, 3}, b[] = {1, 0, 2};
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_S32, 3, a), *y = make(ctx, DTYPE_S32, 3, b), *out = NULL;
    CHECK_FAILS(ctx, op_div_trunc(ctx, x, y, &out), STATUS_INVALID_ARGUMENT,
                "div_trunc: b is s32[3] with a 0, an integer has no quotient by it");
    CHECK_FAILS(ctx, op_remainder(ctx, x, y, &out), STATUS_INVALID_ARGUMENT, "remainder: b is");
    CHECK_OK(ctx, op_div(ctx, x, y, &out));
    assert_int_equal(tensor_dtype(out), DTYPE_F32);
    tensor_release(out);
    tensor_release(x);
    tensor_release(y);
}

static void large_u64_are_compared_and_divided_as_such(void **state)
{
    static const uint64_t a[] = {UINT64_MAX, 1, UINT64_C(1) << 63}, b[] = {3, UINT64_MAX, 5};
    static const uint64_t wanted[] = {UINT64_MAX / 3, 0, (UINT64_C(1) << 63) / 5};
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_U64, 3, a), *y = make(ctx, DTYPE_U64, 3, b), *out = NULL;
    uint64_t read[3];
    CHECK_OK(ctx, op_gt(ctx, x, y, &out));
    check_bools(ctx, out, "101");
    CHECK_OK(ctx, op_div_trunc(ctx, x, y, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
    assert_memory_equal(read, wanted, sizeof read);
    tensor_release(out);
    tensor_release(x);
    tensor_release(y);
}

static void large_u64_are_not_negative(void **state)
{
    context_t *ctx = fixture_context(state);
    static const uint64_t numbers[] = {UINT64_MAX - 2, (UINT64_C(1) << 63) + 5, 7};
    static const unary_t functions[] = {op_abs, op_relu};
    tensor_t *x = make(ctx, DTYPE_U64, 3, numbers), *out = NULL;
    uint64_t read[3];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, functions[i](ctx, x, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
        assert_memory_equal(read, numbers, sizeof read);
        tensor_release(out);
    }
    CHECK_OK(ctx, op_clamp(ctx, x, 9, INFINITY, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
    assert_true(read[0] == numbers[0] && read[1] == numbers[1] && read[2] == 9);
    tensor_release(out);
    CHECK_OK(ctx, op_clamp(ctx, x, -1, 0x1p63, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
    assert_true(read[0] == UINT64_C(1) << 63 && read[1] == UINT64_C(1) << 63 && read[2] == 7);
    tensor_release(out);
    tensor_release(x);
}

static void dtypes_that_do_not_fit_are_refused(void **state)
{
    static const uint32_t words[] = {1, 2};
    static const float floats[] = {1, 2};
    static const uint8_t bools[] = {1, 0};
    context_t *ctx = fixture_context(state);
    tensor_t *u = make(ctx, DTYPE_U32, 2, words), *s = make(ctx, DTYPE_S32, 2, words);
    tensor_t *f = make(ctx, DTYPE_F32, 2, floats), *b = make(ctx, DTYPE_BOOL, 2, bools);
    tensor_t *out = NULL;
    CHECK_FAILS(ctx, op_add(ctx, u, s, &out), STATUS_INVALID_ARGUMENT,
                "add: a is u32[2], b is s32[2], these dtypes meet in none");
    CHECK_FAILS(ctx, op_bitwise_and(ctx, f, s, &out), STATUS_INVALID_ARGUMENT,
                "bitwise_and: a is f32[2], b is s32[2], integers are needed");
    CHECK_FAILS(ctx, op_floor(ctx, b, &out), STATUS_INVALID_ARGUMENT,
                "floor: x is bool[2], numbers are needed");
    CHECK_FAILS(ctx, op_where(ctx, s, f, f, &out), STATUS_INVALID_ARGUMENT,
                "where: condition is s32[2], bool is needed");
    CHECK_FAILS(ctx, op_where(ctx, b, u, s, &out), STATUS_INVALID_ARGUMENT,
                "where: a is u32[2], b is s32[2], these dtypes meet in none");
    tensor_release(u);
    tensor_release(s);
    tensor_release(f);
    tensor_release(b);
}

/* PyTorch says: "Subtraction, the `-` operator, with a bool tensor is not supported." */
static void bools_are_not_subtracted(void **state)
{
    static const uint8_t bools[] = {1, 0};
    static const float floats[] = {1, 2};
    context_t *ctx = fixture_context(state);
    tensor_t *b = make(ctx, DTYPE_BOOL, 2, bools), *f = make(ctx, DTYPE_F32, 2, floats);
    tensor_t *u = make(ctx, DTYPE_U8, 2, bools), *out = NULL;
#define RULE ", a bool is no number; logical_xor and logical_not take it as truth"
    CHECK_FAILS(ctx, op_sub(ctx, b, b, &out), STATUS_INVALID_ARGUMENT,
                "sub: a is bool[2], b is bool[2]" RULE);
    CHECK_FAILS(ctx, op_sub(ctx, b, u, &out), STATUS_INVALID_ARGUMENT,
                "sub: a is bool[2], b is u8[2]" RULE);
    CHECK_FAILS(ctx, op_sub(ctx, f, b, &out), STATUS_INVALID_ARGUMENT,
                "sub: a is f32[2], b is bool[2]" RULE);
    CHECK_FAILS(ctx, op_sub_integer(ctx, b, 1, &out), STATUS_INVALID_ARGUMENT,
                "sub: a is bool[2], b is s64[]" RULE);
    CHECK_FAILS(ctx, op_sub_scalar(ctx, b, 0.5, &out), STATUS_INVALID_ARGUMENT,
                "sub: a is bool[2], b is f64[]" RULE);
    tensor_release(b);
    tensor_release(f);
    tensor_release(u);
}

static void check_numbers(context_t *ctx, tensor_t *tensor, int64_t n, const double *wanted)
{
    assert_int_equal(tensor_numel(tensor), n);
    tensor_t *wide = NULL;
    double read[8];
    CHECK_OK(ctx, tensor_cast(ctx, tensor, DTYPE_F64, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, read, sizeof read));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(read[i] - wanted[i]) <= 1e-6 * fmax(1.0, fabs(wanted[i]))))
            fail_msg("element %lld is %.9g, wanted %.9g", (long long)i, read[i], wanted[i]);
    tensor_release(wide);
    tensor_release(tensor);
}

static void each_call_computes_the_function_of_its_name(void **state)
{
    static const float x[] = {0.5F, -0.25F};
    static const struct {
        unary_t op;
        double wanted[2];
    } cases[] = {{op_floor, {0, -1}},
                 {op_ceil, {1, 0}},
                 {op_trunc, {0, 0}},
                 {op_sign, {1, -1}},
                 {op_sin, {0.4794255386, -0.2474039593}},
                 {op_cos, {0.8775825619, 0.9689124217}},
                 {op_tan, {0.5463024898, -0.2553419212}},
                 {op_asin, {0.5235987756, -0.2526802551}},
                 {op_acos, {1.0471975512, 1.8234765819}},
                 {op_atan, {0.4636476090, -0.2449786631}},
                 {op_sinh, {0.5210953055, -0.2526123168}},
                 {op_cosh, {1.1276259652, 1.0314130999}},
                 {op_asinh, {0.4812118251, -0.2474664615}},
                 {op_atanh, {0.5493061443, -0.2554128119}}};
    context_t *ctx = fixture_context(state);
    tensor_t *tensor = make(ctx, DTYPE_F32, 2, x), *two = NULL, *out = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(ctx, cases[i].op(ctx, tensor, &out));
        check_numbers(ctx, out, 2, cases[i].wanted);
    }
    CHECK_OK(ctx, tensor_number(ctx, 2.0, &two));
    CHECK_OK(ctx, op_acosh(ctx, two, &out));
    check_numbers(ctx, out, 1, (const double[]){1.3169578969});
    tensor_release(two);
    tensor_release(tensor);
}

static void bits_and_logic_are_those_of_integers(void **state)
{
    static const int32_t a[] = {12, -5, 0}, b[] = {10, 1, 3};
    static const struct {
        binary_t op;
        double wanted[3];
    } cases[] = {{op_bitwise_or, {14, -5, 3}},
                 {op_bitwise_xor, {6, -6, 3}},
                 {op_bitwise_left_shift, {12288, -10, 0}},
                 {op_bitwise_right_shift, {0, -3, 0}},
                 {op_logical_and, {1, 1, 0}},
                 {op_logical_or, {1, 1, 1}},
                 {op_logical_xor, {0, 0, 1}}};
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_S32, 3, a), *y = make(ctx, DTYPE_S32, 3, b), *out = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(ctx, cases[i].op(ctx, x, y, &out));
        check_numbers(ctx, out, 3, cases[i].wanted);
    }
    CHECK_OK(ctx, op_bitwise_not(ctx, x, &out));
    check_numbers(ctx, out, 3, (const double[]){-13, 4, -1});
    tensor_release(x);
    tensor_release(y);
}

static void a_tensor_is_filled_with_one_value_of_any_dtype(void **state)
{
    static const float x[] = {1, 2};
    context_t *ctx = fixture_context(state);
    tensor_t *tensor = make(ctx, DTYPE_F32, 2, x), *out = NULL;
    CHECK_OK(ctx, op_full_like(ctx, tensor, -2.5, DTYPE_NONE, &out));
    check_numbers(ctx, out, 2, (const double[]){-2.5, -2.5});
    CHECK_OK(ctx, op_full_like(ctx, tensor, 3.0, DTYPE_U16, &out));
    assert_int_equal(tensor_dtype(out), DTYPE_U16);
    check_numbers(ctx, out, 2, (const double[]){3, 3});
    CHECK_FAILS(ctx, op_full_like(ctx, tensor, 1.0, DTYPE_COUNT, &out), STATUS_INVALID_ARGUMENT,
                "full_like: dtype is 14");
    tensor_release(tensor);
}

static void sums_leave_the_element_out_and_run_from_the_end(void **state)
{
    static const float x[] = {1, 2, 3};
    context_t *ctx = fixture_context(state);
    tensor_t *tensor = make(ctx, DTYPE_F32, 3, x), *out = NULL;
    cumsum_attrs_t attrs = {.dim = 0, .exclusive = true, .reverse = true};
    CHECK_OK(ctx, op_cumsum_attrs(ctx, tensor, &attrs, &out));
    check_numbers(ctx, out, 3, (const double[]){5, 3, 0});
    tensor_release(tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(comparisons_with_nan_are_false_but_for_ne),
        TEST(nan_is_true_and_known_from_infinity),
        TEST(halves_round_to_even),
        TEST(quotients_of_integers_hold_at_the_ends_of_their_types),
        TEST(floating_quotients_are_those_of_python),
        TEST(an_integer_by_zero_is_refused),
        TEST(large_u64_are_compared_and_divided_as_such),
        TEST(large_u64_are_not_negative),
        TEST(dtypes_that_do_not_fit_are_refused),
        TEST(bools_are_not_subtracted),
        TEST(each_call_computes_the_function_of_its_name),
        TEST(bits_and_logic_are_those_of_integers),
        TEST(a_tensor_is_filled_with_one_value_of_any_dtype),
        TEST(sums_leave_the_element_out_and_run_from_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
