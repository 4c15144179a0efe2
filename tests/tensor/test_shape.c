#include "tests/support/support.h"

#include <string.h>

#include "tensor/shape.h"

static void numel_is_the_product_unless_it_does_not_fit(void **state)
{
    (void)state;
    int64_t numel = -7;
    assert_true(shape_numel(0, NULL, &numel));
    assert_int_equal(numel, 1);
    assert_true(shape_numel(SHAPE(2, 3, 5), &numel));
    assert_int_equal(numel, 30);
    assert_true(shape_numel(SHAPE(INT64_MAX), &numel));
    assert_int_equal(numel, INT64_MAX);
    numel = -7;
    assert_false(shape_numel(SHAPE(INT64_MAX, 2), &numel));
    assert_false(shape_numel(SHAPE(2, -1), &numel));
    assert_false(shape_numel(SHAPE(0, -1), &numel));
    assert_int_equal(numel, -7);
}

static void an_empty_shape_has_no_elements_however_large_its_other_sizes(void **state)
{
    (void)state;
    int64_t numel = -7;
    assert_true(shape_numel(SHAPE(INT64_MAX, INT64_MAX, 0), &numel));
    assert_int_equal(numel, 0);
}

static void a_product_refuses_overflow_and_negatives(void **state)
{
    (void)state;
    int64_t product = 5;
    assert_false(shape_multiply(INT64_C(1) << 32, INT64_C(1) << 31, &product));
    assert_false(shape_multiply(-1, 2, &product));
    assert_false(shape_multiply(2, -1, &product));
    assert_true(shape_multiply(INT64_C(1) << 31, INT64_C(1) << 31, &product));
    assert_int_equal(product, INT64_C(1) << 62);
}

static void impossible_tensors_are_refused_with_the_rule(void **state)
{
    context_t *ctx = fixture_context(state);
    int64_t ones[TENSOR_MAX_RANK + 1];
    for (int d = 0; d <= TENSOR_MAX_RANK; d++) ones[d] = 1;
    CHECK_OK(ctx, shape_check(ctx, "zeros", DTYPE_F32, 0, NULL));
    CHECK_OK(ctx, shape_check(ctx, "zeros", DTYPE_F32, TENSOR_MAX_RANK, ones));
    CHECK_OK(ctx, shape_check(ctx, "zeros", DTYPE_F32, SHAPE(0, 3)));
    CHECK_OK(ctx, shape_check(ctx, "zeros", DTYPE_U8, SHAPE(INT64_MAX)));
    CHECK_FAILS(ctx, shape_check(ctx, "zeros", DTYPE_F32, TENSOR_MAX_RANK + 1, ones),
                STATUS_INVALID_ARGUMENT, "zeros: rank 13, must be 0 to 12");
    CHECK_FAILS(ctx, shape_check(ctx, "zeros", DTYPE_F32, -1, ones), STATUS_INVALID_ARGUMENT,
                "zeros: rank -1, must be 0 to 12");
    CHECK_FAILS(ctx, shape_check(ctx, "zeros", DTYPE_F32, SHAPE(2, -3)), STATUS_INVALID_ARGUMENT,
                "zeros: f32[2,-3], size 1 is negative");
    CHECK_FAILS(ctx, shape_check(ctx, "zeros", DTYPE_S64, SHAPE(INT64_C(1) << 60)),
                STATUS_INVALID_ARGUMENT, "zeros: s64[1152921504606846976], its bytes overflow");
    CHECK_FAILS(ctx, shape_check(ctx, "zeros", DTYPE_U8, SHAPE(INT64_MAX, 0, INT64_MAX)),
                STATUS_INVALID_ARGUMENT, "its bytes overflow");
}

static void sizes_that_are_missing_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_FAILS(ctx, shape_check(ctx, "zeros", DTYPE_F32, 2, NULL), STATUS_INVALID_ARGUMENT,
                "zeros: sizes is NULL");
}

static void strides_are_row_major_and_empty_sizes_count_as_one(void **state)
{
    (void)state;
    int64_t strides[3];
    shape_strides(SHAPE(2, 3, 5), strides);
    assert_memory_equal(strides, ((int64_t[]){15, 5, 1}), sizeof strides);
    shape_strides(SHAPE(2, 0, 5), strides);
    assert_memory_equal(strides, ((int64_t[]){5, 5, 1}), sizeof strides);
    shape_strides(SHAPE(0, 4, 0), strides);
    assert_memory_equal(strides, ((int64_t[]){4, 1, 1}), sizeof strides);
    shape_strides(0, NULL, strides);
}

static void shapes_are_equal_in_rank_and_sizes(void **state)
{
    (void)state;
    assert_true(shape_equal(0, NULL, 0, NULL));
    assert_true(shape_equal(SHAPE(2, 3), SHAPE(2, 3)));
    assert_false(shape_equal(SHAPE(2, 3), SHAPE(3, 2)));
    assert_false(shape_equal(SHAPE(2, 3), SHAPE(2, 3, 1)));
    assert_false(shape_equal(SHAPE(2), 0, NULL));
}

/* Broadcasts a with b and b with a. rank -1: they must not broadcast. */
static void check_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int rank,
                            const int64_t *sizes)
{
    for (int swap = 0; swap < 2; swap++) {
        int out_rank = -7;
        int64_t out[TENSOR_MAX_RANK] = {-7};
        bool is_legal = swap == 0 ? shape_broadcast(rank_a, a, rank_b, b, &out_rank, out)
                                  : shape_broadcast(rank_b, b, rank_a, a, &out_rank, out);
        assert_int_equal(is_legal, rank >= 0);
        assert_int_equal(out_rank, is_legal ? rank : -7);
        if (!is_legal) assert_int_equal(out[0], -7);
        for (int d = 0; d < rank; d++) assert_int_equal(out[d], sizes[d]);
    }
}

static void shapes_broadcast_as_in_numpy(void **state)
{
    (void)state;
    check_broadcast(SHAPE(8, 1, 6, 1), SHAPE(7, 1, 5), SHAPE(8, 7, 6, 5));
    check_broadcast(SHAPE(5, 4), SHAPE(1), SHAPE(5, 4));
    check_broadcast(SHAPE(5, 4), 0, NULL, SHAPE(5, 4));
    check_broadcast(0, NULL, 0, NULL, 0, NULL);
    check_broadcast(SHAPE(1), SHAPE(0), SHAPE(0));
    check_broadcast(SHAPE(3, 1), SHAPE(0), SHAPE(3, 0));
    check_broadcast(SHAPE(3), SHAPE(4), -1, NULL);
    check_broadcast(SHAPE(2), SHAPE(0), -1, NULL);
    check_broadcast(SHAPE(2, 1), SHAPE(8, 4, 3), -1, NULL);
}

static void a_broadcast_may_overwrite_one_of_its_shapes(void **state)
{
    (void)state;
    int rank = 1;
    int64_t sizes[3] = {4};
    assert_true(shape_broadcast(rank, sizes, SHAPE(2, 3, 1), &rank, sizes));
    assert_true(shape_equal(rank, sizes, SHAPE(2, 3, 4)));
}

static void dimensions_count_from_the_end_when_negative(void **state)
{
    (void)state;
    int dim = -7;
    assert_true(shape_dim(3, -1, &dim));
    assert_int_equal(dim, 2);
    assert_true(shape_dim(3, -3, &dim));
    assert_int_equal(dim, 0);
    assert_true(shape_dim(3, 2, &dim));
    assert_int_equal(dim, 2);
    assert_true(shape_dim(0, 0, &dim));
    assert_int_equal(dim, 0);
    assert_true(shape_dim(0, -1, &dim));
    assert_int_equal(dim, 0);
    dim = -7;
    assert_false(shape_dim(3, 3, &dim));
    assert_false(shape_dim(3, -4, &dim));
    assert_false(shape_dim(0, 1, &dim));
    assert_false(shape_dim(3, INT64_MIN, &dim));
    assert_false(shape_dim(3, INT64_MAX, &dim));
    assert_int_equal(dim, -7);
}

static void stepping_visits_every_index_in_order(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 3, 4};
    int64_t index[3] = {0}, count = 0;
    do {
        assert_int_equal((index[0] * 3 + index[1]) * 4 + index[2], count);
        count++;
    } while (shape_next(3, sizes, index));
    assert_int_equal(count, 24);
    assert_false(shape_next(0, NULL, index));
}

static void text_is_cut_to_its_capacity(void **state)
{
    (void)state;
    char text[64];
    assert_string_equal(shape_text(0, NULL, text, sizeof text), "[]");
    assert_string_equal(shape_text(SHAPE(7), text, sizeof text), "[7]");
    assert_string_equal(shape_text(SHAPE(8, 64, 56, 56), text, sizeof text), "[8,64,56,56]");
    assert_string_equal(shape_text(SHAPE(-9223372036854775807), text, sizeof text),
                        "[-9223372036854775807]");
    for (size_t capacity = 1; capacity <= 13; capacity++) {
        memset(text, '#', sizeof text);
        shape_text(SHAPE(8, 64, 56, 56), text, capacity);
        assert_int_equal(strlen(text), capacity - 1);
        assert_memory_equal(text, "[8,64,56,56]", capacity - 1);
        assert_int_equal(text[capacity], '#');
    }
    text[0] = '#';
    shape_text(SHAPE(8), text, 0);
    assert_int_equal(text[0], '#');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numel_is_the_product_unless_it_does_not_fit),
        cmocka_unit_test(an_empty_shape_has_no_elements_however_large_its_other_sizes),
        cmocka_unit_test(a_product_refuses_overflow_and_negatives),
        TEST(impossible_tensors_are_refused_with_the_rule),
        TEST(sizes_that_are_missing_are_named),
        cmocka_unit_test(strides_are_row_major_and_empty_sizes_count_as_one),
        cmocka_unit_test(shapes_are_equal_in_rank_and_sizes),
        cmocka_unit_test(shapes_broadcast_as_in_numpy),
        cmocka_unit_test(a_broadcast_may_overwrite_one_of_its_shapes),
        cmocka_unit_test(dimensions_count_from_the_end_when_negative),
        cmocka_unit_test(stepping_visits_every_index_in_order),
        cmocka_unit_test(text_is_cut_to_its_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
