/* Tensors made from numbers, compared with PyTorch, and errors. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops.h"

static void check(context_t *ctx, tensor_t *tensor, dtype_t dtype, int64_t n, const double *wanted)
{
    tensor_t *wide = NULL;
    double elements[16];
    assert_int_equal(tensor_dtype(tensor), dtype);
    assert_int_equal(tensor_numel(tensor), n);
    CHECK_OK(ctx, op_cast(ctx, tensor, DTYPE_F64, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, elements, sizeof elements));
    for (int64_t i = 0; i < n; i++) assert_true(fabs(elements[i] - wanted[i]) < 1e-7);
    tensor_release(wide);
    tensor_release(tensor);
}

#define VALUES(...)                                                                                \
    (const double[])                                                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Compares with torch.arange of (0, 1, 0.1), (1, -2, -0.7), (5, 5, 1), (0, 2.0000001, 0.5) and (1,
 * 10, 3). */
static void ranges_end_before_the_end(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *out = NULL;
    CHECK_OK(ctx, op_arange(ctx, 0, 1, 0.1, DTYPE_NONE, &out));
    check(ctx, out, DTYPE_F32, 10, VALUES(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9));
    CHECK_OK(ctx, op_arange(ctx, 1, -2, -0.7, DTYPE_F64, &out));
    check(ctx, out, DTYPE_F64, 5, VALUES(1, 0.3, -0.4, -1.1, -1.8));
    CHECK_OK(ctx, op_arange(ctx, 5, 5, 1, DTYPE_S32, &out));
    check(ctx, out, DTYPE_S32, 0, VALUES(0));
    CHECK_OK(ctx, op_arange(ctx, 0, 2.0000001, 0.5, DTYPE_F32, &out));
    check(ctx, out, DTYPE_F32, 5, VALUES(0, 0.5, 1, 1.5, 2));
    CHECK_OK(ctx, op_arange(ctx, 1, 10, 3, DTYPE_S64, &out));
    check(ctx, out, DTYPE_S64, 3, VALUES(1, 4, 7));
}

/* Compares with torch.linspace of (-1, 1, 5), (0, 1, 4), (3, 10, 1), (0, 10, 4, dtype=torch.int32)
 * and (10, 0, 5, dtype=torch.int64). */
static void spaces_have_both_ends(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *out = NULL;
    CHECK_OK(ctx, op_linspace(ctx, -1, 1, 5, DTYPE_NONE, &out));
    check(ctx, out, DTYPE_F32, 5, VALUES(-1, -0.5, 0, 0.5, 1));
    CHECK_OK(ctx, op_linspace(ctx, 0, 1, 4, DTYPE_F64, &out));
    check(ctx, out, DTYPE_F64, 4, VALUES(0, 1.0 / 3, 2.0 / 3, 1));
    CHECK_OK(ctx, op_linspace(ctx, 3, 10, 1, DTYPE_F32, &out));
    check(ctx, out, DTYPE_F32, 1, VALUES(3));
    CHECK_OK(ctx, op_linspace(ctx, 3, 10, 0, DTYPE_F32, &out));
    check(ctx, out, DTYPE_F32, 0, VALUES(0));
    CHECK_OK(ctx, op_linspace(ctx, 0, 10, 4, DTYPE_S32, &out));
    check(ctx, out, DTYPE_S32, 4, VALUES(0, 3, 6, 10));
    CHECK_OK(ctx, op_linspace(ctx, 10, 0, 5, DTYPE_S64, &out));
    check(ctx, out, DTYPE_S64, 5, VALUES(10, 7, 5, 2, 0));
}

static void an_eye_has_ones_on_its_diagonal(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *out = NULL;
    CHECK_OK(ctx, op_eye(ctx, 2, 3, DTYPE_NONE, &out));
    check(ctx, out, DTYPE_F32, 6, VALUES(1, 0, 0, 0, 1, 0));
    CHECK_OK(ctx, op_eye(ctx, 2, 2, DTYPE_BOOL, &out));
    check(ctx, out, DTYPE_BOOL, 4, VALUES(1, 0, 0, 1));
}

static void invalid_ranges_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *out = NULL;
    CHECK_FAILS(ctx, op_arange(ctx, 0, 1, 0, DTYPE_F32, &out), STATUS_INVALID_ARGUMENT,
                "arange: from 0 to 1 by 0, finite numbers and a step that is not 0");
    CHECK_FAILS(ctx, op_arange(ctx, 0, INFINITY, 1, DTYPE_F32, &out), STATUS_INVALID_ARGUMENT,
                "finite numbers and a step");
    CHECK_FAILS(ctx, op_arange(ctx, 0, 1, -1, DTYPE_F32, &out), STATUS_INVALID_ARGUMENT,
                "arange: from 0 to 1 by -1, the step leads away");
    CHECK_FAILS(ctx, op_arange(ctx, 0, 1, 0.5, DTYPE_S64, &out), STATUS_INVALID_ARGUMENT,
                "arange: from 0 by 0.5 in s64, whole numbers are needed");
    CHECK_FAILS(ctx, op_arange(ctx, 0, 1e30, 1, DTYPE_F32, &out), STATUS_INVALID_ARGUMENT,
                "too many elements");
    CHECK_FAILS(ctx, op_linspace(ctx, 0, 1, -1, DTYPE_F32, &out), STATUS_INVALID_ARGUMENT,
                "linspace: -1 elements, 0 or more");
    CHECK_FAILS(ctx, op_eye(ctx, -1, 2, DTYPE_F32, &out), STATUS_INVALID_ARGUMENT, "eye: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_end_before_the_end),
        TEST(spaces_have_both_ends),
        TEST(an_eye_has_ones_on_its_diagonal),
        TEST(invalid_ranges_are_refused),
    };
    return cmocka_run_group_tests_name("test_making", tests, NULL, NULL);
}
