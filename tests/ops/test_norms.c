/* Norms: what they refuse, and that group norm takes channels in blocks as they lie. */
#include "tests/support/support.h"

#include "ops/ops.h"
#include "tensor/convert.h"
#include "tensor/counters.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(groups_that_do_not_divide_the_channels_are_refused),
        TEST(group_norm_takes_blocks_of_channels_as_they_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
