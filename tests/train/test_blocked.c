/* If tensors are blocked, so are their gradients: the backward pass reorders and copies nothing. */
#include "tests/support/support.h"

#include <string.h>

#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/counters.h"
#include "train/tape.h"

static tensor_t *blocked(context_t *ctx, int64_t height, int64_t width)
{
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 17, height, width), &x));
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd16b", &y));
    tensor_release(x);
    return y;
}

static uint64_t count_moves(context_t *ctx)
{
    counters_t c;
    uint64_t n = 0;
    counters_read(ctx, &c);
    for (int i = 0; i < CAUSE_COUNT; i++) n += c.reorders[i] + c.copies[i];
    return n + c.to_dense + c.to_mkldnn;
}

static void check_blocked(const tensor_t *tensor)
{
    char text[FORMAT_TEXT_MAX];
    assert_non_null(tensor);
    assert_string_equal(format_text(&tensor_info(tensor)->format, text), "aBcd16b");
}

typedef status_t (*function_t)(context_t *ctx, const tensor_t *x, const tensor_t *gate,
                               tensor_t **out);

/* Checks the gradients of x, and of a gate with one element per channel. */
static void check(context_t *ctx, function_t forward, int64_t height, int64_t width)
{
    tensor_t *x = blocked(ctx, 6, 5), *gate = blocked(ctx, 1, 1), *y = NULL;
    tensor_t *grad = blocked(ctx, height, width);
    tape_t *tape = NULL;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, x));
    CHECK_OK(ctx, tape_watch(ctx, tape, gate));
    CHECK_OK(ctx, forward(ctx, x, gate, &y));
    const uint64_t before = count_moves(ctx);
    CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
    assert_int_equal(count_moves(ctx), before);
    check_blocked(tape_gradient(tape, x));
    check_blocked(tape_gradient(tape, gate));
    tape_destroy(tape);
    tensor_release(y);
    tensor_release(grad);
    tensor_release(gate);
    tensor_release(x);
}

/* Applies functions of one tensor, one after another. */
static status_t chain(context_t *ctx, int n,
                      status_t (*const *functions)(context_t *, const tensor_t *, tensor_t **),
                      const tensor_t *x, tensor_t **out)
{
    tensor_t *at = NULL;
    for (int i = 0; i < n; i++) {
        tensor_t *next = NULL;
        status_t status = functions[i](ctx, i == 0 ? x : at, &next);
        tensor_release(at);
        at = next;
        if (status != STATUS_OK) return status;
    }
    *out = at;
    return STATUS_OK;
}

static status_t gated_activations(context_t *ctx, const tensor_t *x, const tensor_t *gate,
                                  tensor_t **out)
{
    status_t (*const functions[])(context_t *, const tensor_t *, tensor_t **) = {
        op_relu, op_sigmoid, op_hardswish, op_silu, op_tanh, op_mish, op_square, op_softplus};
    tensor_t *scaled = NULL;
    TRY(op_mul(ctx, x, gate, &scaled));
    status_t status = chain(ctx, 8, functions, scaled, out);
    tensor_release(scaled);
    return status;
}

static void activations_and_gates_move_nothing(void **state)
{
    check(fixture_context(state), gated_activations, 6, 5);
}

static status_t doubled(context_t *ctx, const tensor_t *x, const tensor_t *gate, tensor_t **out)
{
    tensor_t *sum = NULL;
    TRY(op_add(ctx, x, gate, &sum));
    status_t status = op_resize(ctx, sum, 2, (int64_t[]){12, 15}, RESIZE_NEAREST, RESIZE_ASYMMETRIC,
                                out);
    tensor_release(sum);
    return status;
}

static void resized_images_stay_in_blocks_of_channels(void **state)
{
    check(fixture_context(state), doubled, 12, 15);
}

static status_t dropped(context_t *ctx, const tensor_t *x, const tensor_t *gate, tensor_t **out)
{
    tensor_t *largest = NULL, *kept = NULL;
    TRY(op_maximum(ctx, x, gate, &largest));
    status_t status = op_dropout_train(ctx, largest, 0.5, 2, &kept);
    if (status == STATUS_OK) status = op_slice(ctx, kept, 2, 1, 5, 1, out);
    tensor_release(kept);
    tensor_release(largest);
    return status;
}

static void dropped_channels_and_slices_stay_in_blocks(void **state)
{
    check(fixture_context(state), dropped, 4, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(activations_and_gates_move_nothing),
        TEST(resized_images_stay_in_blocks_of_channels),
        TEST(dropped_channels_and_slices_stay_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
