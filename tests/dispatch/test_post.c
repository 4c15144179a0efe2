#include "tests/support/support.h"

#include <stdalign.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "dispatch/select_impl.h"
#include "ops/ops.h"

/* Runs an operator on tensors of ones, with post=["sum"], which adds a tensor of fives. */
static status_t run_with_sum(context_t *ctx, const char *name, int rank, const int64_t *x_sizes,
                             const int64_t *weight_sizes, const int64_t *sum_sizes,
                             dtype_t sum_dtype, tensor_t **out)
{
    const opdef_t *op = ops_find(name);
    alignas(16) char attrs[ATTRS_MAX];
    const char *text = "post=[\"sum\"]";
    tensor_t *x = NULL, *weight = NULL, *sum = NULL;
    attrs_init(&op->attrs, attrs);
    CHECK_OK(ctx, attrs_parse(ctx, name, &op->attrs, &text, attrs));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, rank, x_sizes, 1, &x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, rank, weight_sizes, 1, &weight));
    CHECK_OK(ctx, tensor_full(ctx, sum_dtype, rank, sum_sizes, 5, &sum));
    const tensor_t *in[4] = {x, weight, NULL, sum};
    bool has_bias = op->n_operands == 3;
    if (!has_bias) in[2] = sum;
    status_t status = dispatch_run(ctx, op, attrs, has_bias ? 4 : 3, in, NULL, out);
    tensor_release(x);
    tensor_release(weight);
    tensor_release(sum);
    return status;
}

static void the_operand_of_a_sum_has_the_dtype_of_the_result(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        const char *op;
        int rank;
        int64_t x[4], weight[4], sum[4];
    } calls[] = {
        {"conv2d", 4, {1, 2, 3, 3}, {4, 2, 1, 1}, {1, 4, 3, 3}},
        {"conv_transpose2d", 4, {1, 2, 3, 3}, {2, 4, 1, 1}, {1, 4, 3, 3}},
        {"linear", 2, {3, 2}, {4, 2}, {3, 4}},
        {"matmul", 2, {3, 2}, {2, 4}, {3, 4}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        tensor_t *out = NULL;
        const dtype_t wrong[] = {DTYPE_BF16, DTYPE_F64, DTYPE_S8};
        for (int k = 0; k < 3; k++)
            CHECK_FAILS(ctx,
                        run_with_sum(ctx, calls[i].op, calls[i].rank, calls[i].x, calls[i].weight,
                                     calls[i].sum, wrong[k], &out),
                        STATUS_INVALID_ARGUMENT, "equal dtypes are needed");
        assert_null(out);
        float elements[36];
        CHECK_OK(ctx, run_with_sum(ctx, calls[i].op, calls[i].rank, calls[i].x, calls[i].weight,
                                   calls[i].sum, DTYPE_F32, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, elements, sizeof elements));
        for (int64_t k = 0; k < tensor_numel(out); k++) assert_true(elements[k] == 7);
        tensor_release(out);
    }
}

/* oneDNN's relu turns NaN into 0, so our own loops compute relu and all post-ops after it. */
static void post_ops_that_onednn_gets_right_are_fused_and_the_others_run_behind_it(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        const char *op, *post, *kernel;
        int n_left;
    } cases[] = {
        {"conv2d", "post=[\"elu(1)\"]", "onednn", 0},
        {"conv2d", "post=[\"relu\"]", "onednn_then_post", 1},
        {"conv2d", "post=[\"elu(1)\",\"clamp(0,6)\",\"abs\"]", "onednn_then_post", 2},
        {"conv2d", "post=[\"leaky_relu(0)\"]", "onednn_then_post", 1},
        {"conv2d", "post=[\"leaky_relu(0.1)\"]", "onednn", 0},
        {"conv_transpose2d", "post=[\"elu(1)\"]", "onednn_then_post", 1},
    };
    const tensor_info_t x = info_dense(DTYPE_F32, SHAPE(1, 64, 14, 14));
    const tensor_info_t weight = info_dense(DTYPE_F32, SHAPE(64, 64, 2, 2));
    const tensor_info_t none = {.dtype = DTYPE_NONE};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const opdef_t *op = ops_find(cases[i].op);
        alignas(16) char attrs[ATTRS_MAX];
        const char *text = cases[i].post;
        prepared_t *prepared = NULL;
        attrs_init(&op->attrs, attrs);
        CHECK_OK(ctx, attrs_parse(ctx, op->name, &op->attrs, &text, attrs));
        CHECK_OK(ctx, dispatch_select(ctx, op, attrs, 3,
                                      (const tensor_info_t *const[]){&x, &weight, &none},
                                      POLICY_AUTO, &prepared));
        /* our own kernels fuse all post-ops */
        if (strncmp(prepared_kernel(prepared), "onednn", 6) == 0) {
            assert_string_equal(prepared_kernel(prepared), cases[i].kernel);
            assert_int_equal(prepared->post_left, cases[i].n_left);
        }
        prepared_release(prepared);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_operand_of_a_sum_has_the_dtype_of_the_result),
        TEST(post_ops_that_onednn_gets_right_are_fused_and_the_others_run_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
