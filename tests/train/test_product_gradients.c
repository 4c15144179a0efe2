/* Counts reorders and copies in the gradients of matrix products and linear layers. */
#include "tests/support/support.h"

#include "ops/ops.h"
#include "train/tape.h"

/* Runs the backward pass, and returns the number of its reorders and copies. */
static uint64_t pass_back(context_t *ctx, tape_t *tape, const tensor_t *out)
{
    tensor_t *grad = NULL;
    counters_t counters;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, tensor_rank(out), tensor_sizes(out), &grad));
    counters_reset(ctx);
    CHECK_OK(ctx, tape_backward(ctx, tape, out, grad));
    counters_read(ctx, &counters);
    tensor_release(grad);
    return counters_weight_reorders(&counters) + counters_activation_reorders(&counters) +
           counters_copies(&counters);
}

static void check_product(context_t *ctx, int rank_a, const int64_t *sizes_a, int rank_b,
                          const int64_t *sizes_b, uint64_t n_moved)
{
    tape_t *tape = NULL;
    tensor_t *a = NULL, *b = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank_a, sizes_a, &a));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank_b, sizes_b, &b));
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, a));
    CHECK_OK(ctx, tape_watch(ctx, tape, b));
    CHECK_OK(ctx, op_matmul(ctx, a, b, &out));
    assert_int_equal(pass_back(ctx, tape, out), n_moved);
    assert_int_equal(tensor_numel(tape_gradient(tape, a)), tensor_numel(a));
    assert_int_equal(tensor_numel(tape_gradient(tape, b)), tensor_numel(b));
    tape_destroy(tape);
    tensor_release(a);
    tensor_release(b);
    tensor_release(out);
}

static void operands_of_products_are_read_transposed_where_they_lie(void **state)
{
    context_t *ctx = fixture_context(state);
    check_product(ctx, SHAPE(33, 64), SHAPE(64, 17), 0);
    check_product(ctx, SHAPE(2, 3, 33, 64), SHAPE(2, 3, 64, 17), 0);
    check_product(ctx, SHAPE(4, 33, 64), SHAPE(64, 17), 0);
    check_product(ctx, SHAPE(64), SHAPE(64, 17), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operands_of_products_are_read_transposed_where_they_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
