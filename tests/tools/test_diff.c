#include "tools/command/diff.h"

#include <math.h>
#include <string.h>

#include "tests/support/support.h"

/* Makes a model of two 1x1 convolutions with an activation between them, which runs operator by
 * operator. */
static runner_t make_runner(context_t *ctx, eltwise_t between, int64_t padding)
{
    runner_t runner = {.ctx = ctx, .mode = MODE_DENSE, .n_in = 1};
    module_t *layer = NULL;
    context_seed(ctx, 7);
    CHECK_OK(ctx, layer_sequential(ctx, &runner.module));
    CHECK_OK(ctx, layer_conv2d(ctx, 4, 4, 1, &(conv_attrs_t){.padding = {padding, padding}}, false,
                               &layer));
    CHECK_OK(ctx, layer_append_take(ctx, runner.module, layer));
    CHECK_OK(ctx, layer_activation(ctx, between, 0, 0, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, runner.module, layer));
    CHECK_OK(ctx, layer_conv2d(ctx, 4, 4, 1, NULL, false, &layer));
    CHECK_OK(ctx, layer_append_take(ctx, runner.module, layer));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 4, 5, 5), &runner.in[0]));
    return runner;
}

static void scale_weight(runner_t *runner, const char *path, double factor)
{
    context_t *ctx = runner->ctx;
    tensor_t *scaled = NULL;
    module_t *layer = module_child(runner->module, path);
    CHECK_OK(ctx, op_mul_scalar(ctx, module_parameter(layer, "weight"), factor, &scaled));
    CHECK_OK(ctx, module_set_parameter(ctx, layer, "weight", scaled));
    tensor_release(scaled);
}

static diff_result_t diff(runner_t *a, runner_t *b, double tolerance)
{
    diff_result_t result;
    CHECK_OK(a->ctx, diff_runs(a, b, tolerance, &result));
    mode_clear(a);
    mode_clear(b);
    return result;
}

static void check_near(double value, double wanted)
{
    assert_true(fabs(value - wanted) < 1e-6);
}

static void runs_that_are_alike_do_not_differ(void **state)
{
    context_t *ctx = fixture_context(state);
    runner_t a = make_runner(ctx, ELTWISE_RELU, 0), b = make_runner(ctx, ELTWISE_RELU, 0);
    diff_result_t result = diff(&a, &b, 0);
    assert_false(result.has_first);
    assert_int_equal(result.n_nodes, 3);
    assert_int_equal(result.n_alone, 0);
    check_near(result.largest.difference, 0);
}

/* b's last weight is 3/2 of a's, so each result differs by 1/3 of b's. */
static void the_first_node_that_differs_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    runner_t a = make_runner(ctx, ELTWISE_RELU, 0), b = make_runner(ctx, ELTWISE_RELU, 0);
    scale_weight(&b, "2", 1.5);
    diff_result_t result = diff(&a, &b, 0.1);
    assert_true(result.has_first);
    assert_string_equal(result.first.name, "conv2d");
    assert_string_equal(result.first.path, "2");
    check_near(result.first.difference, 1.0 / 3);
    assert_string_equal(result.largest.path, "2");
    assert_non_null(strstr(result.first.a, "f32[1,4,5,5]"));
    assert_non_null(strstr(result.first.b, "f32[1,4,5,5]"));
}

/* All results differ: those of the first two layers by the same ratio, those of the last by
 * more. */
static void nodes_before_the_largest_difference_come_first(void **state)
{
    context_t *ctx = fixture_context(state);
    runner_t a = make_runner(ctx, ELTWISE_RELU, 0), b = make_runner(ctx, ELTWISE_RELU, 0);
    scale_weight(&b, "0", 1.25);
    scale_weight(&b, "2", 2);
    diff_result_t result = diff(&a, &b, 0.1);
    assert_string_equal(result.first.path, "0");
    check_near(result.first.difference, 0.25 / 1.25);
    assert_string_equal(result.largest.path, "2");
    check_near(result.largest.difference, 1.5 / 2.5);
}

static void a_difference_within_the_tolerance_is_only_counted(void **state)
{
    context_t *ctx = fixture_context(state);
    runner_t a = make_runner(ctx, ELTWISE_RELU, 0), b = make_runner(ctx, ELTWISE_RELU, 0);
    scale_weight(&b, "2", 1.5);
    diff_result_t result = diff(&a, &b, 0.34);
    assert_false(result.has_first);
    check_near(result.largest.difference, 1.0 / 3);
}

static void not_a_number_and_other_sizes_differ_by_infinity(void **state)
{
    context_t *ctx = fixture_context(state);
    runner_t a = make_runner(ctx, ELTWISE_RELU, 0), b = make_runner(ctx, ELTWISE_RELU, 0);
    scale_weight(&a, "2", (double)NAN);
    diff_result_t result = diff(&a, &b, 1e9);
    assert_true(result.has_first);
    assert_string_equal(result.first.path, "2");
    assert_true(isinf(result.first.difference));
    a = make_runner(ctx, ELTWISE_RELU, 0);
    b = make_runner(ctx, ELTWISE_RELU, 1);
    result = diff(&a, &b, 1e9);
    assert_string_equal(result.first.path, "0");
    assert_true(isinf(result.first.difference));
    assert_int_equal(result.n_nodes, 3);
}

static void nodes_of_one_run_only_are_counted_and_passed_over(void **state)
{
    context_t *ctx = fixture_context(state);
    runner_t a = make_runner(ctx, ELTWISE_RELU, 0), b = make_runner(ctx, ELTWISE_TANH, 0);
    diff_result_t result = diff(&a, &b, 1e-6);
    assert_int_equal(result.n_nodes, 2);
    assert_int_equal(result.n_alone, 2);
    assert_string_equal(result.first.path, "2");
}

static void a_run_that_fails_is_told(void **state)
{
    context_t *ctx = fixture_context(state), *other = NULL;
    assert_int_equal(context_create(NULL, &other), STATUS_OK);
    runner_t a = make_runner(ctx, ELTWISE_RELU, 0), b = make_runner(other, ELTWISE_RELU, 0);
    diff_result_t result;
    tensor_release(b.in[0]);
    CHECK_OK(other, tensor_zeros(other, DTYPE_F32, SHAPE(1, 3, 5, 5), &b.in[0]));
    CHECK_FAILS(ctx, diff_runs(&a, &b, 0, &result), STATUS_INVALID_ARGUMENT,
                "needs 4 input channels");
    mode_clear(&a);
    mode_clear(&b);
    context_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(runs_that_are_alike_do_not_differ),
        TEST(the_first_node_that_differs_is_named),
        TEST(nodes_before_the_largest_difference_come_first),
        TEST(a_difference_within_the_tolerance_is_only_counted),
        TEST(not_a_number_and_other_sizes_differ_by_infinity),
        TEST(nodes_of_one_run_only_are_counted_and_passed_over),
        TEST(a_run_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
