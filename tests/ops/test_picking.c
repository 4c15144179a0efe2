/* Operators whose output sizes depend on elements: NaN, equal elements, many elements, errors.
 * test_conformance.c compares them with their specifications, and test_reference.c these with
 * PyTorch. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "ops/ops.h"

static tensor_t *floats(context_t *ctx, int rank, const int64_t *sizes, const float *values)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, values, &tensor));
    return tensor;
}

static void check_integers(context_t *ctx, tensor_t *tensor, int64_t n, const int64_t *wanted)
{
    const void *data = NULL;
    CHECK_OK(ctx, tensor_data(ctx, tensor, &data));
    assert_int_equal(tensor_dtype(tensor), DTYPE_S64);
    assert_int_equal(tensor_numel(tensor), n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(((const int64_t *)data)[i], wanted[i]);
    tensor_release(tensor);
}

static void nan_is_not_zero_and_minus_zero_is(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(5), (const float[]){0, -0.0f, NAN, 1, -INFINITY}), *out = NULL;
    CHECK_OK(ctx, op_nonzero(ctx, x, &out));
    check_integers(ctx, out, 3, (const int64_t[]){2, 3, 4});
    tensor_release(x);
}

/* As in torch.unique, NaN does not equal NaN, but 0 equals -0. */
static void every_nan_is_unique_and_the_zeros_are_one(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = floats(ctx, SHAPE(6), (const float[]){NAN, 0, NAN, -0.0f, -1, INFINITY});
    tensor_t *values = NULL, *places = NULL, *inverse = NULL, *counts = NULL;
    CHECK_OK(ctx, op_unique(ctx, x, NULL, true, &values, &places, &inverse, &counts));
    assert_int_equal(tensor_numel(values), 5);
    tensor_release(values);
    check_integers(ctx, places, 5, (const int64_t[]){4, 1, 5, 0, 2});
    check_integers(ctx, inverse, 6, (const int64_t[]){3, 1, 4, 1, 0, 2});
    check_integers(ctx, counts, 5, (const int64_t[]){1, 2, 1, 1, 1});
    CHECK_OK(ctx, op_unique(ctx, x, NULL, false, &values, NULL, NULL, &counts));
    tensor_release(values);
    check_integers(ctx, counts, 5, (const int64_t[]){1, 2, 1, 1, 1});
    tensor_release(x);
}

#define MANY 40000

/* There are more elements than one thread takes, and than fit in one of its chunks. */
static void many_elements_are_picked_by_several_threads(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *places = NULL, *values = NULL, *counts = NULL;
    void *data = NULL;
    const void *read = NULL;
    CHECK_OK(ctx, context_set_threads(ctx, 3));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_S32, SHAPE(200, MANY / 200), &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &data));
    for (int i = 0; i < MANY; i++) ((int32_t *)data)[i] = i * 7 % 13 - 6;
    CHECK_OK(ctx, op_nonzero(ctx, x, &places));
    CHECK_OK(ctx, tensor_data(ctx, places, &read));
    const int64_t *place = read;
    for (int i = 0; i < MANY; i++) {
        if (i * 7 % 13 == 6) continue;
        assert_int_equal(place[0], i / 200);
        assert_int_equal(place[1], i % 200);
        place += 2;
    }
    assert_int_equal(tensor_numel(places), place - (const int64_t *)read);
    CHECK_OK(ctx, op_unique(ctx, x, NULL, true, &values, NULL, NULL, &counts));
    CHECK_OK(ctx, tensor_data(ctx, values, &read));
    assert_int_equal(tensor_numel(values), 13);
    for (int i = 0; i < 13; i++) assert_int_equal(((const int32_t *)read)[i], i - 6);
    CHECK_OK(ctx, tensor_data(ctx, counts, &read));
    int64_t n = 0;
    for (int i = 0; i < 13; i++) n += ((const int64_t *)read)[i];
    assert_int_equal(n, MANY);
    tensor_release(x);
    tensor_release(places);
    tensor_release(values);
    tensor_release(counts);
}

/* Selects every third of 18,600 numbers, which are enough for several threads. */
static void three_threads_select_in_the_order_of_one(void **state)
{
    context_t *ctx = fixture_context(state);
    static bool sees[18600];
    static int32_t numbers[18600], read[6200];
    tensor_t *x = NULL, *mask = NULL, *out = NULL;
    for (int i = 0; i < 18600; i++) {
        numbers[i] = i;
        sees[i] = i % 3 == 1;
    }
    CHECK_OK(ctx, context_set_threads(ctx, 3));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, SHAPE(31, 600), numbers, &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(31, 600), sees, &mask));
    CHECK_OK(ctx, op_masked_select(ctx, x, mask, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, read, sizeof read));
    for (int i = 0; i < 6200; i++) assert_int_equal(read[i], 3 * i + 1);
    tensor_t *all[] = {x, mask, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void of_boxes_with_equal_scores_the_first_is_kept(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float corners[] = {0, 0, 1, 1, 1, 1, 0, 0, 5, 5, 6, 6, 5, 5, 6, 6};
    tensor_t *boxes = floats(ctx, SHAPE(1, 4, 4), corners), *out = NULL;
    tensor_t *scores = floats(ctx, SHAPE(1, 1, 4), (const float[]){2, 2, NAN, 1});
    CHECK_OK(ctx, op_nms(ctx, boxes, scores, -1, 0.5, -INFINITY, false, &out));
    check_integers(ctx, out, 6, (const int64_t[]){0, 0, 0, 0, 0, 3});
    CHECK_OK(ctx, op_nms(ctx, boxes, scores, -1, 1.0, 1.0, false, &out));
    check_integers(ctx, out, 6, (const int64_t[]){0, 0, 0, 0, 0, 1});
    tensor_release(boxes);
    tensor_release(scores);
}

static void invalid_picks_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *mask = NULL, *flags = NULL, *boxes = NULL, *out = NULL;
    const int64_t dim = 1, far = 2;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 4), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_BOOL, SHAPE(3), &mask));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_BOOL, SHAPE(5), &flags));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3, 5), &boxes));
    CHECK_FAILS(ctx, op_masked_select(ctx, x, x, &out), STATUS_INVALID_ARGUMENT,
                "masked_select: mask f32[3,4], bool is needed");
    CHECK_FAILS(ctx, op_masked_select(ctx, x, mask, &out), STATUS_INVALID_ARGUMENT,
                "masked_select: x f32[3,4] and mask bool[3] do not broadcast");
    CHECK_FAILS(ctx, op_compress(ctx, x, x, &dim, &out), STATUS_INVALID_ARGUMENT,
                "compress: condition f32[3,4], a bool of rank 1 is needed");
    CHECK_FAILS(ctx, op_compress(ctx, x, flags, &dim, &out), STATUS_INVALID_ARGUMENT,
                "compress: condition of 5, there are 4 slices");
    CHECK_FAILS(ctx, op_compress(ctx, x, flags, &far, &out), STATUS_INVALID_ARGUMENT,
                "compress: dim 2 of f32[3,4], out of range");
    CHECK_FAILS(ctx,
                dispatch_run(ctx, ops_find("compress"), &ATTRS_INTS(0, 1), 2,
                             (const tensor_t *const[]){x, mask}, NULL, &out),
                STATUS_INVALID_ARGUMENT, "compress: 2 dims, one or none is possible");
    CHECK_FAILS(ctx, op_unique(ctx, x, &far, true, &out, NULL, NULL, NULL), STATUS_INVALID_ARGUMENT,
                "unique: dim 2 of f32[3,4], out of range");
    CHECK_FAILS(ctx, op_nms(ctx, boxes, x, -1, 0, 0, false, &out), STATUS_INVALID_ARGUMENT,
                "nms: boxes f32[1,3,5], [images, boxes, 4] is needed");
    CHECK_FAILS(ctx, op_nms(ctx, x, mask, -1, 0, 0, false, &out), STATUS_INVALID_ARGUMENT,
                "nms: boxes f32[3,4] and scores bool[3], one floating dtype is needed");
    tensor_release(boxes);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3, 4), &boxes));
    CHECK_FAILS(ctx, op_nms(ctx, boxes, x, -1, 0, 0, false, &out), STATUS_INVALID_ARGUMENT,
                "nms: scores f32[3,4], [images, classes, boxes] of boxes f32[1,3,4] are needed");
    assert_null(out);
    tensor_release(x);
    tensor_release(mask);
    tensor_release(flags);
    tensor_release(boxes);
}

static void slices_without_elements_are_not_told_apart(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *out = NULL;
    const int64_t dim = 0;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 0), &x));
    CHECK_FAILS(ctx, op_unique(ctx, x, &dim, true, &out, NULL, NULL, NULL), STATUS_INVALID_ARGUMENT,
                "unique: x is f32[3,0], slices along dimension 0 have no elements");
    CHECK_OK(ctx, op_unique(ctx, x, NULL, true, &out, NULL, NULL, NULL));
    assert_int_equal(tensor_numel(out), 0);
    tensor_release(out);
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(three_threads_select_in_the_order_of_one),
        TEST(nan_is_not_zero_and_minus_zero_is),
        TEST(every_nan_is_unique_and_the_zeros_are_one),
        TEST(many_elements_are_picked_by_several_threads),
        TEST(of_boxes_with_equal_scores_the_first_is_kept),
        TEST(invalid_picks_are_refused),
        TEST(slices_without_elements_are_not_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
