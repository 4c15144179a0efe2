/* Operators that read or write elements at given indices. Tests negative and repeated indices, and
 * errors. Expected results are from PyTorch. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops.h"

static tensor_t *floats(context_t *ctx, int rank, const int64_t *sizes, const float *values)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, values, &tensor));
    return tensor;
}

static tensor_t *indices(context_t *ctx, int rank, const int64_t *sizes, const int64_t *values)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, rank, sizes, values, &tensor));
    return tensor;
}

static void check_floats(context_t *ctx, tensor_t *tensor, int64_t n, const float *wanted)
{
    const void *data = NULL;
    CHECK_OK(ctx, tensor_data(ctx, tensor, &data));
    assert_int_equal(tensor_numel(tensor), n);
    for (int64_t i = 0; i < n; i++) {
        float element = ((const float *)data)[i];
        if (isnan(wanted[i]))
            assert_true(isnan(element));
        else
            assert_true(element == wanted[i]);
    }
    tensor_release(tensor);
}

static const float six[] = {1, 2, 3, 4, 5, 6};

static void negative_indices_count_from_the_end(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(2, 3), six), *out = NULL;
    tensor_t *columns = indices(ctx, SHAPE(2, 2), (const int64_t[]){-1, -3, 1, -2});
    tensor_t *tuples = indices(ctx, SHAPE(2, 2), (const int64_t[]){-1, -3, 0, -1});
    tensor_t *two = floats(ctx, SHAPE(2), (const float[]){10, 20});
    tensor_t *four = floats(ctx, SHAPE(2, 2), (const float[]){10, 20, 30, 40});
    CHECK_OK(ctx, op_gather_elements(ctx, x, -1, columns, &out));
    check_floats(ctx, out, 4, (const float[]){3, 1, 5, 5});
    CHECK_OK(ctx, op_gather_nd(ctx, x, tuples, 0, &out));
    check_floats(ctx, out, 2, (const float[]){4, 3});
    CHECK_OK(ctx, op_scatter(ctx, x, 1, columns, four, SCATTER_NONE, &out));
    check_floats(ctx, out, 6, (const float[]){20, 2, 10, 4, 40, 6});
    CHECK_OK(ctx, op_scatter_nd(ctx, x, tuples, two, SCATTER_ADD, &out));
    check_floats(ctx, out, 6, (const float[]){1, 2, 23, 14, 5, 6});
    tensor_release(x);
    tensor_release(columns);
    tensor_release(tuples);
    tensor_release(two);
    tensor_release(four);
}

static void of_elements_that_meet_the_last_is_kept_or_all_are_reduced(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(3), (const float[]){2, 5, 7}), *out = NULL;
    tensor_t *index = indices(ctx, SHAPE(4), (const int64_t[]){1, -2, 0, 1});
    tensor_t *tuples = indices(ctx, SHAPE(4, 1), (const int64_t[]){1, -2, 0, 1});
    tensor_t *src = floats(ctx, SHAPE(4), (const float[]){3, 9, 4, 6});
    static const float wanted[][3] = {{4, 6, 7}, {6, 23, 7}, {8, 810, 7}, {4, 9, 7}, {2, 3, 7}};
    for (int i = 0; i < 5; i++) {
        CHECK_OK(ctx, op_scatter(ctx, x, 0, index, src, (scatter_reduction_t)i, &out));
        check_floats(ctx, out, 3, wanted[i]);
        CHECK_OK(ctx, op_scatter_nd(ctx, x, tuples, src, (scatter_reduction_t)i, &out));
        check_floats(ctx, out, 3, wanted[i]);
    }
    check_floats(ctx, x, 3, (const float[]){2, 5, 7});
    tensor_release(index);
    tensor_release(tuples);
    tensor_release(src);
}

static void a_number_is_put_at_every_index(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(2, 3), six), *out = NULL;
    tensor_t *index = indices(ctx, SHAPE(1, 2), (const int64_t[]){1, 0});
    CHECK_OK(ctx, op_scatter_value(ctx, x, 0, index, 0.5, SCATTER_NONE, &out));
    check_floats(ctx, out, 6, (const float[]){1, 0.5F, 3, 0.5F, 5, 6});
    CHECK_OK(ctx, op_scatter_value(ctx, x, 0, index, 0.5, SCATTER_ADD, &out));
    check_floats(ctx, out, 6, (const float[]){1, 2.5F, 3, 4.5F, 5, 6});
    tensor_release(x);
    tensor_release(index);
}

static void extremes_keep_nan(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(3), (const float[]){NAN, 1, 2}), *out = NULL;
    tensor_t *index = indices(ctx, SHAPE(2), (const int64_t[]){0, 1});
    tensor_t *src = floats(ctx, SHAPE(2), (const float[]){5, NAN});
    for (int i = SCATTER_MAX; i <= SCATTER_MIN; i++) {
        CHECK_OK(ctx, op_scatter(ctx, x, 0, index, src, (scatter_reduction_t)i, &out));
        check_floats(ctx, out, 3, (const float[]){NAN, NAN, 2});
    }
    tensor_release(x);
    tensor_release(index);
    tensor_release(src);
}

/* 256 + 1 is not a bf16 number. If each sum were rounded to bf16, adding ones would stop at 256. */
static void small_floats_are_summed_in_f32(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *index = NULL, *out = NULL, *wide = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BF16, SHAPE(1), 256, &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(8), &index));
    CHECK_OK(ctx, op_scatter_value(ctx, x, 0, index, 1, SCATTER_ADD, &out));
    CHECK_OK(ctx, op_cast(ctx, out, DTYPE_F32, &wide));
    check_floats(ctx, wide, 1, (const float[]){264});
    tensor_release(x);
    tensor_release(index);
    tensor_release(out);
}

static void an_index_out_of_range_is_named_with_its_place(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(2, 3), six), *out = NULL;
    tensor_t *index = indices(ctx, SHAPE(2, 2), (const int64_t[]){0, 1, -3, 5});
    tensor_t *src = floats(ctx, SHAPE(2, 2), six), *two = floats(ctx, SHAPE(2), six);
    const char *const place = "index -3 at [1,0] of s64[2,2], dimension 0 of f32[2,3] has size 2";
    CHECK_FAILS(ctx, op_gather_elements(ctx, x, 0, index, &out), STATUS_INVALID_ARGUMENT, place);
    CHECK_FAILS(
        ctx, op_gather_elements(ctx, x, 1, index, &out), STATUS_INVALID_ARGUMENT,
        "gather_elements: index 5 at [1,1] of s64[2,2], dimension 1 of f32[2,3] has size 3");
    CHECK_FAILS(ctx, op_gather_nd(ctx, x, index, 0, &out), STATUS_INVALID_ARGUMENT, place);
    CHECK_FAILS(ctx, op_scatter(ctx, x, 0, index, src, SCATTER_ADD, &out), STATUS_INVALID_ARGUMENT,
                place);
    CHECK_FAILS(ctx, op_scatter_nd(ctx, x, index, two, SCATTER_ADD, &out), STATUS_INVALID_ARGUMENT,
                place);
    assert_null(out);
    check_floats(ctx, x, 6, six);
    tensor_release(index);
    tensor_release(src);
    tensor_release(two);
}

static void indices_that_do_not_fit_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(2, 3), six), *out = NULL, *wide = NULL, *line = NULL;
    tensor_t *deep = NULL, *pairs = NULL, *none = NULL, *cube = NULL, *three = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(2, 4), &wide));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(3), &line));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(2, 0), &none));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(3, 1), &three));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 1, 1, 1, 1, 1, 1, 1), &deep));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(1, 1, 1, 1, 1, 1, 1), &cube));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(2, 2), &pairs));
    CHECK_FAILS(ctx, op_gather_elements(ctx, x, 2, wide, &out), STATUS_INVALID_ARGUMENT,
                "gather_elements: dim 2 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_scatter(ctx, x, 2, wide, x, SCATTER_NONE, &out), STATUS_INVALID_ARGUMENT,
                "scatter: dim 2 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_gather_elements(ctx, x, 0, x, &out), STATUS_INVALID_ARGUMENT,
                "gather_elements: index is f32[2,3], s32 or s64 is needed");
    CHECK_FAILS(ctx, op_gather_elements(ctx, x, 0, line, &out), STATUS_INVALID_ARGUMENT,
                "gather_elements: index s64[3] for f32[2,3], the same rank is needed");
    CHECK_FAILS(ctx, op_gather_elements(ctx, x, 0, wide, &out), STATUS_INVALID_ARGUMENT,
                "gather_elements: index s64[2,4] is longer than f32[2,3] in dimension 1, only "
                "dimension 0 may be");
    CHECK_FAILS(ctx, op_gather_nd(ctx, x, line, 1, &out), STATUS_INVALID_ARGUMENT,
                "gather_nd: batch_dims 1 of f32[2,3] by s64[3], both need more dimensions");
    CHECK_FAILS(ctx, op_gather_nd(ctx, x, three, 1, &out), STATUS_INVALID_ARGUMENT,
                "gather_nd: batch dimension 0 of f32[2,3] by s64[3,1], one size is needed");
    CHECK_FAILS(ctx, op_gather_nd(ctx, x, pairs, 1, &out), STATUS_INVALID_ARGUMENT,
                "gather_nd: index s64[2,2] has tuples of 2, f32[2,3] with batch_dims 1 has 1 to 1 "
                "dimensions to index");
    CHECK_FAILS(ctx, op_gather_nd(ctx, x, none, 0, &out), STATUS_INVALID_ARGUMENT, "tuples of 0");
    CHECK_FAILS(ctx, op_gather_nd(ctx, deep, cube, 0, &out), STATUS_INVALID_ARGUMENT,
                "would have rank 13, at most 12 is possible");
    CHECK_FAILS(
        ctx, op_scatter_nd(ctx, x, line, x, SCATTER_NONE, &out), STATUS_INVALID_ARGUMENT,
        "scatter_nd: index s64[3] has tuples of 3, f32[2,3] has 1 to 2 dimensions to index");
    tensor_t *const made[] = {x, wide, line, none, three, deep, cube, pairs};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) tensor_release(made[i]);
}

static void values_to_put_must_fit(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(2, 3), six), *out = NULL, *src = NULL, *bools = NULL;
    tensor_t *index = NULL, *wide = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(2, 1), &index));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3), &src));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F64, SHAPE(2, 3), &wide));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_BOOL, SHAPE(2, 3), &bools));
    CHECK_FAILS(ctx, op_scatter(ctx, x, 0, index, wide, SCATTER_NONE, &out),
                STATUS_INVALID_ARGUMENT,
                "scatter: src is f64[2,3], x is f32[2,3], one dtype is needed");
    CHECK_FAILS(ctx, op_scatter_nd(ctx, x, index, wide, SCATTER_NONE, &out),
                STATUS_INVALID_ARGUMENT,
                "scatter_nd: src is f64[2,3], x is f32[2,3], one dtype is needed");
    CHECK_FAILS(ctx, op_scatter(ctx, x, 0, index, src, SCATTER_NONE, &out), STATUS_INVALID_ARGUMENT,
                "scatter: src f32[1,3] is shorter than index s64[2,1], an element for each is "
                "needed");
    CHECK_FAILS(ctx, op_scatter_nd(ctx, x, index, src, SCATTER_NONE, &out), STATUS_INVALID_ARGUMENT,
                "scatter_nd: src is f32[1,3], a slice of f32[2,3] for each tuple of s64[2,1] is "
                "needed");
    CHECK_FAILS(ctx, op_scatter(ctx, bools, 0, index, bools, SCATTER_MAX, &out), STATUS_UNSUPPORTED,
                "native: reduction max of bool[2,3], bool has reduction none only");
    CHECK_FAILS(ctx, op_scatter(ctx, x, 0, index, x, (scatter_reduction_t)5, &out),
                STATUS_INVALID_ARGUMENT, "scatter: reduction is 5, must be 0 to 4 (none to min)");
    tensor_t *const made[] = {x, index, src, wide, bools};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) tensor_release(made[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(negative_indices_count_from_the_end),
        TEST(of_elements_that_meet_the_last_is_kept_or_all_are_reduced),
        TEST(a_number_is_put_at_every_index),
        TEST(extremes_keep_nan),
        TEST(small_floats_are_summed_in_f32),
        TEST(an_index_out_of_range_is_named_with_its_place),
        TEST(indices_that_do_not_fit_are_refused),
        TEST(values_to_put_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
