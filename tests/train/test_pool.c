/* Gradients of pooling: which of several equal elements gets the gradient of the maximum; layouts;
 * errors. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/pool/pool_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "train/tape.h"

/* Values from pool_values.py. */
static const struct {
    float x[9], grad[9];
} rows[] = {
    {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 2, 0, 4, 8, 0, 0, 0, 0}},
    {{0, 2, 2, 2, 0, 2, 2, 2, 0}, {0, 3, 0, 4, 0, 8, 0, 0, 0}},
    {{1, NAN, 3, 2, NAN, 1, 0, 5, 4}, {0, 0, 0, 0, 15, 0, 0, 0, 0}},
    {{-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
      -INFINITY},
     {1, 2, 0, 4, 8, 0, 0, 0, 0}},
};

static const pool_attrs_t small = {.kernel = {2, 2}, .stride = {1, 1}};

static void the_gradient_of_a_maximum_goes_where_pytorch_sends_it(void **state)
{
    context_t *ctx = fixture_context(state);
    const float of_y[] = {1, 2, 4, 8};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        tensor_t *x = NULL, *y = NULL, *grad = NULL;
        tape_t *tape = NULL;
        float got[9];
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 1, 3, 3), rows[r].x, &x));
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 1, 2, 2), of_y, &grad));
        CHECK_OK(ctx, tape_create(ctx, &tape));
        CHECK_OK(ctx, tape_watch(ctx, tape, x));
        CHECK_OK(ctx, op_max_pool2d(ctx, x, &small, &y));
        CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
        CHECK_OK(ctx, tensor_read(ctx, tape_gradient(tape, x), got, sizeof got));
        assert_memory_equal(got, rows[r].grad, sizeof got);
        tape_destroy(tape);
        tensor_release(grad);
        tensor_release(y);
        tensor_release(x);
    }
}

static void blocked_tensors_stay_blocked(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *blocked = NULL, *y = NULL, *out[2] = {NULL};
    counters_t before, after;
    char text[FORMAT_TEXT_MAX];
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 17, 5, 5), &x));
    CHECK_OK(ctx, op_reorder(ctx, x, "aBcd16b", &blocked));
    CHECK_OK(ctx, op_max_pool2d(ctx, blocked, &small, &y));
    counters_read(ctx, &before);
    const pool_backward_attrs_t attrs = {small, {2, {5, 5}}};
    const tensor_t *const in[] = {blocked, y};
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_max_pool2d_backward, &attrs, 2, in, NULL, &out[0]));
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_avg_pool2d_backward, &attrs, 1, &in[1], NULL, &out[1]));
    counters_read(ctx, &after);
    assert_int_equal(counters_activation_reorders(&after), counters_activation_reorders(&before));
    for (int i = 0; i < 2; i++) {
        assert_string_equal(format_text(&tensor_info(out[i])->format, text), "aBcd16b");
        tensor_release(out[i]);
    }
    tensor_release(y);
    tensor_release(blocked);
    tensor_release(x);
}

static void gradients_of_other_sizes_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *line = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 5, 5), &x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 5), &line));
    const pool_backward_attrs_t attrs = {small, {2, {5, 5}}}, other = {small, {1, {5}}};
    const tensor_t *const both[] = {x, x}, *const low[] = {x, line};
    CHECK_FAILS(ctx, dispatch_run(ctx, &op_def_max_pool2d_backward, &attrs, 2, both, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "max_pool2d_backward: grad is f32[1,3,5,5], the pooled input is f32[1,3,4,4]");
    CHECK_FAILS(ctx, dispatch_run(ctx, &op_def_max_pool2d_backward, &attrs, 2, low, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "max_pool2d_backward: grad is f32[3,5], another rank is needed");
    CHECK_FAILS(ctx, dispatch_run(ctx, &op_def_avg_pool2d_backward, &other, 1, both, NULL, &out),
                STATUS_INVALID_ARGUMENT,
                "avg_pool2d_backward: input_size has 1 numbers, grad f32[1,3,5,5] needs 2");
    assert_null(out);
    tensor_release(line);
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_gradient_of_a_maximum_goes_where_pytorch_sends_it),
        TEST(blocked_tensors_stay_blocked),
        TEST(gradients_of_other_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
