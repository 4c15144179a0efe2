/* Norms and softmax: errors, group norm of blocked channels without reorders, and gradients of
 * numbers far from 0. test_conformance.c and train/test_gradients.c check values. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/counters.h"

static void a_norm_before_a_convolution_fits_its_input(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *w = NULL, *half = NULL, *four = NULL, *three = NULL, *out = NULL;
    const status_t invalid = STATUS_INVALID_ARGUMENT;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 4, 5, 5), &x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 4, 1, 1), &w));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F16, SHAPE(1, 4, 5, 5), &half));
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(4), &four));
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, SHAPE(3), &three));
    CHECK_FAILS(ctx, op_batch_norm_conv2d(ctx, half, w, NULL, four, four, four, four, NULL, &out),
                invalid,
                "batch_norm_conv2d: x is f16[1,4,5,5], weight is f32[3,4,1,1], f32 is needed");
    CHECK_FAILS(ctx, op_batch_norm_conv2d(ctx, x, w, NULL, NULL, NULL, three, four, NULL, &out),
                invalid, "batch_norm_conv2d: running_mean is f32[3], f32[4] is needed");
    CHECK_FAILS(ctx, op_batch_norm_conv2d(ctx, x, w, four, NULL, NULL, four, four, NULL, &out),
                invalid, "batch_norm_conv2d: bias is f32[4], f32[3] is needed");
    CHECK_OK(ctx, op_batch_norm_conv2d(ctx, x, w, three, NULL, NULL, four, four, NULL, &out));
    tensor_t *all[] = {x, w, half, four, three, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void groups_that_do_not_divide_the_channels_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *line = NULL, *weight = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 6, 3), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(6), &line));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3), &weight));
    CHECK_FAILS(ctx, op_group_norm(ctx, x, 4, NULL, NULL, 1e-5, &out), STATUS_INVALID_ARGUMENT,
                "group_norm: num_groups=4, input f32[2,6,3] needs a divisor of 6");
    CHECK_FAILS(ctx, op_group_norm(ctx, x, 0, NULL, NULL, 1e-5, &out), STATUS_INVALID_ARGUMENT,
                "group_norm: num_groups=0, input f32[2,6,3] needs a divisor of 6");
    CHECK_FAILS(ctx, op_instance_norm(ctx, line, NULL, NULL, 1e-5, &out), STATUS_INVALID_ARGUMENT,
                "group_norm: x is f32[6], a floating type of rank 2 or more is needed");
    CHECK_FAILS(ctx, op_group_norm(ctx, x, 3, weight, NULL, 1e-5, &out), STATUS_INVALID_ARGUMENT,
                "group_norm: weight is f32[3], input f32[2,6,3] needs floating [6]");
    CHECK_FAILS(ctx, op_rms_norm(ctx, x, 1, line, 1e-5, &out), STATUS_INVALID_ARGUMENT,
                "rms_norm: weight is f32[6], the last 1 dimensions of f32[2,6,3] are needed");
    assert_null(out);
    tensor_release(x);
    tensor_release(line);
    tensor_release(weight);
}

static void group_norm_takes_blocks_of_channels_as_they_lie(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *blocked = NULL, *out = NULL;
    counters_t before, after;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 32, 5, 5), &x));
    CHECK_OK(ctx, op_reorder(ctx, x, "aBcd8b", &blocked));
    counters_read(ctx, &before);
    CHECK_OK(ctx, op_group_norm(ctx, blocked, 8, NULL, NULL, 1e-5, &out));
    counters_read(ctx, &after);
    char text[FORMAT_TEXT_MAX];
    assert_string_equal(format_text(&tensor_info(out)->format, text), "aBcd8b");
    assert_int_equal(counters_activation_reorders(&after), counters_activation_reorders(&before));
    assert_int_equal(counters_copies(&after), counters_copies(&before));
    tensor_release(x);
    tensor_release(blocked);
    tensor_release(out);
}

/* ---- gradients ---- */

static void gradients_of_other_sizes_or_weights_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *other = NULL, *line = NULL, *whole = NULL, *out[3] = {NULL};
    int n_out = 3;
    const struct {
        int64_t first;
        double epsilon;
    } one = {1, 1e-5}, three = {3, 1e-5}, five = {5, 1e-5};
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 6, 3), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 6, 4), &other));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4), &line));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(2, 6, 3), &whole));
#define REFUSED(op, attrs, x, weight, grad, message)                                               \
    CHECK_FAILS(ctx,                                                                               \
                dispatch_run(ctx, &op_def_##op, &attrs, 3, (const tensor_t *[]){x, weight, grad},  \
                             &n_out, out),                                                         \
                STATUS_INVALID_ARGUMENT, message)
    REFUSED(layer_norm_backward, one, x, NULL, other,
            "layer_norm_backward: grad is f32[2,6,4], x is f32[2,6,3], equal ones are needed");
    REFUSED(layer_norm_backward, one, x, line, x,
            "layer_norm_backward: weight is f32[4], the last 1 dimensions of f32[2,6,3]");
    REFUSED(rms_norm_backward, five, x, NULL, x,
            "rms_norm_backward: n_dims=5, input f32[2,6,3] needs 1 to 3");
    REFUSED(rms_norm_backward, one, whole, NULL, whole,
            "rms_norm_backward: x is s64[2,6,3], a floating type is needed");
    REFUSED(group_norm_backward, three, x, NULL, other,
            "group_norm_backward: grad is f32[2,6,4], x is f32[2,6,3], equal ones are needed");
    REFUSED(group_norm_backward, five, x, NULL, x,
            "group_norm_backward: num_groups=5, input f32[2,6,3] needs a divisor of 6");
#undef REFUSED
    CHECK_FAILS(ctx,
                dispatch_run(ctx, &op_def_lrn_backward, NULL, 2, (const tensor_t *[]){x, other},
                             &n_out, out),
                STATUS_INVALID_ARGUMENT,
                "lrn_backward: grad is f32[2,6,4], x is f32[2,6,3], equal ones are needed");
    CHECK_FAILS(ctx,
                dispatch_run(ctx, &op_def_softmax_backward, NULL, 2, (const tensor_t *[]){x, other},
                             &n_out, out),
                STATUS_INVALID_ARGUMENT,
                "softmax_backward: grad is f32[2,6,4], y is f32[2,6,3], equal ones are needed");
    CHECK_FAILS(ctx,
                dispatch_run(ctx, &op_def_log_softmax_backward, NULL, 2,
                             (const tensor_t *[]){whole, whole}, &n_out, out),
                STATUS_INVALID_ARGUMENT,
                "log_softmax_backward: y is s64[2,6,3], a floating type is needed");
    tensor_release(x);
    tensor_release(other);
    tensor_release(line);
    tensor_release(whole);
}

/* Adding 1000 to x does not change the gradients, except for rounding: f32 keeps x to 3e-5 of its
 * standard deviation. Sums must not lose more. */
static void gradients_keep_their_digits_far_from_zero(void **state)
{
    enum { ROWS = 40, N = 500 };
    context_t *ctx = fixture_context(state);
    tensor_t *drawn = NULL, *x = NULL, *grad = NULL, *far = NULL;
    tensor_t *near_of[3] = {NULL}, *far_of[3] = {NULL};
    const struct {
        int64_t n_dims;
        double epsilon;
    } attrs = {1, 1e-5};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(ROWS, N), &drawn));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(ROWS, N), &grad));
    CHECK_OK(ctx, op_add_scalar(ctx, drawn, 1000, &far));
    CHECK_OK(ctx, op_sub_scalar(ctx, far, 1000, &x)); /* has as few digits as `far` */
    const opdef_t *const ops[] = {&op_def_layer_norm_backward, &op_def_group_norm_backward};
    for (int k = 0; k < 2; k++) {
        int n_out = 3;
        CHECK_OK(ctx, dispatch_run(ctx, ops[k], &attrs, 3, (const tensor_t *[]){x, NULL, grad},
                                   &n_out, near_of));
        CHECK_OK(ctx, dispatch_run(ctx, ops[k], &attrs, 3, (const tensor_t *[]){far, NULL, grad},
                                   &n_out, far_of));
        for (int i = 0; i < 3; i++) {
            float a[ROWS * N] = {0}, b[ROWS * N] = {0};
            CHECK_OK(ctx, tensor_read(ctx, near_of[i], a, sizeof a));
            CHECK_OK(ctx, tensor_read(ctx, far_of[i], b, sizeof b));
            for (int64_t at = 0; at < tensor_numel(near_of[i]); at++)
                assert_true(fabsf(a[at] - b[at]) <= 1e-4f * (1.0f + fabsf(a[at])));
            tensor_release(near_of[i]);
            tensor_release(far_of[i]);
        }
    }
    tensor_release(drawn);
    tensor_release(x);
    tensor_release(grad);
    tensor_release(far);
}

static void gradients_take_blocks_of_channels_as_they_lie(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *blocked = NULL, *out[3] = {NULL};
    const struct {
        int64_t num_groups;
        double epsilon;
    } attrs = {8, 1e-5};
    int n_out = 3, n_one = 1;
    counters_t before, after;
    char text[FORMAT_TEXT_MAX];
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 32, 5, 5), &x));
    CHECK_OK(ctx, op_reorder(ctx, x, "aBcd16b", &blocked));
    counters_read(ctx, &before);
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_group_norm_backward, &attrs, 3,
                               (const tensor_t *[]){blocked, NULL, blocked}, &n_out, out));
    assert_string_equal(format_text(&tensor_info(out[0])->format, text), "aBcd16b");
    for (int i = 0; i < 3; i++) tensor_release(out[i]);
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_lrn_backward, NULL, 2,
                               (const tensor_t *[]){blocked, blocked}, &n_one, out));
    assert_string_equal(format_text(&tensor_info(out[0])->format, text), "aBcd16b");
    tensor_release(out[0]);
    counters_read(ctx, &after);
    assert_int_equal(counters_activation_reorders(&after), counters_activation_reorders(&before));
    assert_int_equal(counters_copies(&after), counters_copies(&before));
    tensor_release(x);
    tensor_release(blocked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_norm_before_a_convolution_fits_its_input),
        TEST(groups_that_do_not_divide_the_channels_are_refused),
        TEST(group_norm_takes_blocks_of_channels_as_they_lie),
        TEST(gradients_of_other_sizes_or_weights_are_refused),
        TEST(gradients_keep_their_digits_far_from_zero),
        TEST(gradients_take_blocks_of_channels_as_they_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
