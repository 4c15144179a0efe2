/* Attributes that are out of range, or that overflow when they are used, must fail with a
 * message. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops.h"
#include "ops/reduce/reduce_impl.h"

static void sizes_that_overflow_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *weight = NULL, *out = NULL;
    const int64_t most = INT64_MAX;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 4, 5, 5), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4, 4, 3, 3), &weight));
    const conv_attrs_t groups = {.groups = most}, padding = {.padding = {most, 0}},
                       both = {.padding = {1, 1}, .extra_padding = {most, 0}};
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &groups, &out), STATUS_INVALID_ARGUMENT,
                "do not divide by 9223372036854775807 groups");
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &padding, &out), STATUS_INVALID_ARGUMENT,
                "padding 9223372036854775807");
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &both, &out), STATUS_INVALID_ARGUMENT,
                "conv2d: extra_padding 9223372036854775807 after padding 1");
    const conv_transpose_attrs_t stride = {.stride = {most, 1}, .output_padding = {most - 1, 0}},
                                 outputs = {.groups = most};
    tensor_t *column = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 4, 1, 5), &column));
    CHECK_FAILS(ctx, op_conv_transpose2d(ctx, column, weight, NULL, &stride, &out),
                STATUS_INVALID_ARGUMENT, "conv_transpose2d: dimension 2");
    CHECK_FAILS(ctx, op_conv_transpose2d(ctx, x, weight, NULL, &outputs, &out),
                STATUS_INVALID_ARGUMENT, "groups");
    const pool_attrs_t pool = {.kernel = {3, 3}, .padding = {1, 1}, .extra_padding = {most, 0}};
    CHECK_FAILS(ctx, op_max_pool2d(ctx, x, &pool, &out), STATUS_INVALID_ARGUMENT,
                "max_pool2d: padding 1 before and 9223372036854775807 behind");
    assert_null(out);
    tensor_release(x);
    tensor_release(column);
    tensor_release(weight);
}

/* The channels of all groups, 4 times INT64_MAX, overflow. The 0 outputs are divisible by any
 * number of groups. */
static void groups_that_overflow_the_channels_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *weight = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 4, 5, 5), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(0, 4, 3, 3), &weight));
    const conv_attrs_t groups = {.groups = INT64_MAX};
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &groups, &out), STATUS_INVALID_ARGUMENT,
                "with 9223372036854775807 groups overflows");
    tensor_release(x);
    tensor_release(weight);
}

static void negative_padding_in_total_is_named_by_both_its_parts(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *weight = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 4, 5, 5), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4, 4, 3, 3), &weight));
    const conv_attrs_t attrs = {.padding = {1, 1}, .extra_padding = {0, -2}};
    CHECK_FAILS(ctx, op_conv2d(ctx, x, weight, NULL, &attrs, &out), STATUS_INVALID_ARGUMENT,
                "conv2d: extra_padding -2 after padding 1, a sum of at least 0 is needed");
    tensor_release(x);
    tensor_release(weight);
}

static void reductions_of_what_they_are_not_made_for_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *whole = NULL, *empty = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S32, SHAPE(2, 3), &whole));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(0, 3), &empty));
    const int64_t first = 0, twice[] = {1, -1};
    CHECK_FAILS(ctx, op_var(ctx, whole, 0, NULL, 1, false, &out), STATUS_INVALID_ARGUMENT,
                "var: x is s32[2,3], a floating dtype is needed");
    CHECK_FAILS(ctx, op_norm(ctx, whole, 2, 0, NULL, false, &out), STATUS_INVALID_ARGUMENT,
                "norm: x is s32[2,3], a floating dtype is needed");
    CHECK_FAILS(ctx, op_norm(ctx, empty, NAN, 0, NULL, false, &out), STATUS_INVALID_ARGUMENT,
                "norm: p is NaN, a number is needed");
    CHECK_FAILS(ctx, op_amax(ctx, whole, 2, twice, false, &out), STATUS_INVALID_ARGUMENT,
                "amax: dims [1,-1] of s32[2,3], out of range or twice");
    CHECK_FAILS(ctx, op_amin(ctx, empty, 1, &first, false, &out), STATUS_INVALID_ARGUMENT,
                "amin: dimension 0 of f32[0,3] has no elements, needs 1");
    CHECK_FAILS(ctx, op_norm(ctx, empty, -1, 1, &first, false, &out), STATUS_INVALID_ARGUMENT,
                "norm: dimension 0 of f32[0,3] has no elements");
    CHECK_FAILS(ctx, op_any(ctx, whole, 99, twice, false, &out), STATUS_INVALID_ARGUMENT,
                "any: 99 dims, 0 to");
    assert_null(out);
    tensor_release(whole);
    tensor_release(empty);
}

static void order_of_what_has_none_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *truth = NULL, *empty = NULL, *out = NULL, *indices = NULL;
    const int64_t first = 0, second = 1;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_BOOL, SHAPE(2, 3), &truth));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(0, 3), &empty));
    CHECK_FAILS(ctx, op_argmax(ctx, truth, NULL, false, &out), STATUS_INVALID_ARGUMENT,
                "argmax: x is bool[2,3], numbers are needed");
    CHECK_FAILS(ctx, op_argmin(ctx, empty, &first, false, &out), STATUS_INVALID_ARGUMENT,
                "argmin: dimension 0 of f32[0,3] has no elements, needs 1");
    CHECK_OK(ctx, op_argmin(ctx, empty, &second, false, &out));
    tensor_release(out);
    CHECK_FAILS(ctx, op_topk(ctx, truth, 1, 1, true, &out, &indices), STATUS_INVALID_ARGUMENT,
                "topk: x is bool[2,3], numbers are needed");
    CHECK_FAILS(ctx, op_topk(ctx, empty, 4, 1, true, &out, &indices), STATUS_INVALID_ARGUMENT,
                "topk: k 4 of f32[0,3] in dimension 1, 0 to 3 are possible");
    CHECK_FAILS(ctx, op_sort(ctx, empty, 2, false, &out, &indices), STATUS_INVALID_ARGUMENT,
                "sort: dim 2 of f32[0,3], out of range");
    CHECK_FAILS(ctx,
                dispatch_run(ctx, ops_find("argmax"), &(reduce_attrs_t){.dims = ATTRS_INTS(0, 1)},
                             1, (const tensor_t *const *)&empty, NULL, &out),
                STATUS_INVALID_ARGUMENT, "argmax: 2 dims, one or none is possible");
    assert_null(out);
    assert_null(indices);
    tensor_release(truth);
    tensor_release(empty);
}

static void a_triangle_of_less_than_a_matrix_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3), &x));
    CHECK_FAILS(ctx, op_tril(ctx, x, 0, &out), STATUS_INVALID_ARGUMENT,
                "tril: x is f32[3], rank 2 or more is needed");
    CHECK_FAILS(ctx, op_triu(ctx, x, 0, &out), STATUS_INVALID_ARGUMENT,
                "triu: x is f32[3], rank 2 or more is needed");
    tensor_release(x);
}

static void a_celu_that_divides_by_zero_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3), &x));
    CHECK_FAILS(ctx, op_celu(ctx, x, 0.0, &out), STATUS_INVALID_ARGUMENT,
                "celu: alpha is 0, it divides by it");
    tensor_release(x);
}

static void boxes_that_fit_no_image_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const float corners[] = {0, 0, 2, 2, 1, 1, INFINITY, 3};
    tensor_t *x = NULL, *boxes = NULL, *wide = NULL, *images = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 2, 4, 5), &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(2, 4), corners, &boxes));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F64, SHAPE(2, 4), &wide));
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, 2, 0, &images));
#define ALIGN(a, b, c, ...) op_roi_align(ctx, a, b, c, &(roi_align_attrs_t){__VA_ARGS__}, &out)
    CHECK_FAILS(ctx, ALIGN(x, wide, images, .aligned = true), STATUS_INVALID_ARGUMENT,
                "roi_align: x f32[1,2,4,5] and boxes f64[2,4], one floating dtype is needed");
    CHECK_FAILS(ctx, ALIGN(boxes, boxes, images, .aligned = true), STATUS_INVALID_ARGUMENT,
                "roi_align: x is f32[2,4], images with pixels are needed");
    CHECK_FAILS(ctx, ALIGN(x, x, images, .aligned = true), STATUS_INVALID_ARGUMENT,
                "roi_align: boxes are f32[1,2,4,5], rows of 4 numbers are needed");
    CHECK_FAILS(ctx, ALIGN(x, boxes, boxes, .aligned = true), STATUS_INVALID_ARGUMENT,
                "roi_align: images are f32[2,4], s64 or s32 for each of the boxes f32[2,4] is "
                "needed");
    CHECK_FAILS(ctx, ALIGN(x, boxes, images, .output_size = {2, -1}), STATUS_INVALID_ARGUMENT,
                "roi_align: output_size 2 x -1, positive ones are needed");
    CHECK_FAILS(ctx, ALIGN(x, boxes, images, .sampling_ratio = -1), STATUS_INVALID_ARGUMENT,
                "roi_align: sampling_ratio -1, 0 to 65536 are possible");
    CHECK_FAILS(ctx, ALIGN(x, boxes, images, .aligned = true), STATUS_INVALID_ARGUMENT,
                "roi_align: box 1 is of image 1, x has 1");
    tensor_release(images);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(2), &images));
    CHECK_FAILS(ctx, ALIGN(x, boxes, images, .output_size = {1, 1}), STATUS_INVALID_ARGUMENT,
                "roi_align: box 1 begins at 1 with bins of inf, finite ones of at most 65536 are "
                "needed");
#undef ALIGN
    assert_null(out);
    tensor_release(x);
    tensor_release(boxes);
    tensor_release(wide);
    tensor_release(images);
}

static void grids_that_fit_no_image_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *grid = NULL, *flat = NULL, *volume = NULL, *places = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 2, 0, 5), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3, 4, 2), &grid));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F64, SHAPE(1, 3, 2), &flat));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 2, 2, 3, 5), &volume));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 2, 2, 3, 3), &places));
#define SAMPLE(a, b, mode) op_grid_sample(ctx, a, b, mode, GRID_ZEROS, false, &out)
    CHECK_FAILS(ctx, SAMPLE(x, flat, GRID_LINEAR), STATUS_INVALID_ARGUMENT,
                "grid_sample: x f32[1,2,0,5] and grid f64[1,3,2], one floating dtype is needed");
    CHECK_FAILS(ctx, SAMPLE(flat, flat, GRID_LINEAR), STATUS_INVALID_ARGUMENT,
                "grid_sample: x is f64[1,3,2], images or volumes are needed");
    CHECK_FAILS(ctx, SAMPLE(x, grid, GRID_LINEAR), STATUS_INVALID_ARGUMENT,
                "grid_sample: x is f32[1,2,0,5], an image without pixels");
    CHECK_FAILS(ctx, SAMPLE(volume, grid, GRID_LINEAR), STATUS_INVALID_ARGUMENT,
                "grid_sample: grid f32[1,3,4,2], for x f32[1,2,2,3,5] places of 3 numbers are "
                "needed");
    CHECK_FAILS(ctx, SAMPLE(volume, places, GRID_CUBIC), STATUS_INVALID_ARGUMENT,
                "grid_sample: x is f32[1,2,2,3,5], cubic is for images");
#undef SAMPLE
    assert_null(out);
    tensor_release(x);
    tensor_release(grid);
    tensor_release(flat);
    tensor_release(volume);
    tensor_release(places);
}

/* A function that calls several operators reports errors under its own name. */
static void operators_of_operators_speak_of_themselves(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *index = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S64, SHAPE(2), 7, &index));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 4), &x));
    CHECK_FAILS(ctx, op_one_hot(ctx, index, 5, &out), STATUS_INVALID_ARGUMENT, "one_hot: ");
    CHECK_FAILS(ctx, op_embedding(ctx, index, x, &out), STATUS_INVALID_ARGUMENT, "embedding: ");
    CHECK_FAILS(ctx, op_addcmul(ctx, x, index, x, 1, &out), STATUS_INVALID_ARGUMENT, "addcmul: ");
    CHECK_FAILS(ctx, op_index_fill(ctx, x, 0, index, 1, &out), STATUS_INVALID_ARGUMENT,
                "index_fill: ");
    const tensor_t *many[65] = {x};
    CHECK_FAILS(ctx, dispatch_run(ctx, ops_find("relu"), NULL, 65, many, NULL, &out),
                STATUS_INVALID_ARGUMENT, "relu: 65 inputs, at most 64 are possible");
    tensor_t *filter = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 1, 3, 3), &filter));
    CHECK_FAILS(ctx,
                op_conv2d(ctx, filter, filter, NULL, &(conv_attrs_t){.padding = {-1, 0}}, &out),
                STATUS_INVALID_ARGUMENT, "padding -1, at least 1, 1 and 0 are needed");
    tensor_release(filter);
    tensor_release(index);
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sizes_that_overflow_are_refused),
        TEST(groups_that_overflow_the_channels_are_refused),
        TEST(negative_padding_in_total_is_named_by_both_its_parts),
        TEST(a_celu_that_divides_by_zero_is_refused),
        TEST(boxes_that_fit_no_image_are_refused),
        TEST(grids_that_fit_no_image_are_refused),
        TEST(a_triangle_of_less_than_a_matrix_is_refused),
        TEST(reductions_of_what_they_are_not_made_for_are_refused),
        TEST(order_of_what_has_none_is_refused),
        TEST(operators_of_operators_speak_of_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
