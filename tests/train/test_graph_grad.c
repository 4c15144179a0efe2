/* graph_grad returns a graph that computes gradients, too. Its other results must not change, and
 * gradients must match finite differences. */
#include "tests/support/support.h"

#include <string.h>

#include "graph/program/plan.h"
#include "train/graph_grad.h"

static graph_t *parse(context_t *ctx, const char *text)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    return graph;
}

static value_t value_named(const graph_t *graph, const char *name)
{
    for (value_t v = 0; v < graph_n_values(graph); v++)
        if (strcmp(graph_value_name(graph, v), name) == 0) return v;
    fail_msg("no %s", name);
    return VALUE_NONE;
}

static tensor_t *number(context_t *ctx, float value)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, (int64_t[]){1}, &value, &x));
    return x;
}

/* Runs a graph of two numbers, as a plan or with the interpreter. Returns the number of results. */
static int run(context_t *ctx, const graph_t *graph, bool is_planned, float x, float y,
               double *results)
{
    tensor_t *in[] = {number(ctx, x), number(ctx, y)}, *out[METHOD_MAX_OUTPUTS];
    datum_t *given[2] = {NULL}, *made[METHOD_MAX_OUTPUTS];
    int n = 0;
    if (is_planned) {
        plan_t *plan = NULL;
        CHECK_OK(ctx, plan_create(ctx, graph, NULL, &plan));
        CHECK_OK(ctx, plan_run(ctx, plan, 2, (const tensor_t *const *)in, &n, out));
        plan_release(plan);
        for (int i = 0; i < n; i++) CHECK_OK(ctx, tensor_item(ctx, out[i], &results[i]));
        for (int i = 0; i < n; i++) tensor_release(out[i]);
    } else {
        for (int i = 0; i < 2; i++) CHECK_OK(ctx, datum_tensor(ctx, in[i], &given[i]));
        CHECK_OK(ctx, graph_run(ctx, graph, NULL, 2, given, &n, made));
        for (int i = 0; i < n; i++)
            CHECK_OK(ctx, tensor_item(ctx, datum_as_tensor(made[i]), &results[i]));
        for (int i = 0; i < n; i++) datum_release(made[i]);
    }
    for (int i = 0; i < 2; i++) {
        datum_release(given[i]);
        tensor_release(in[i]);
    }
    return n;
}

static void gradients_follow_the_results(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = parse(ctx, "graph f(%x : f32[1], %y : f32[1]) {\n"
                                "  %a = mul(%x, %y)\n"
                                "  %b = add(%a, %x)\n"
                                "  %c = div(%b, %y)\n" /* x + x / y */
                                "  %d = sub(%x, 1.5)\n"
                                "  return %d, %c\n"
                                "}\n");
    const value_t wrt[] = {value_named(graph, "y"), value_named(graph, "d"),
                           value_named(graph, "x")};
    int at[3];
    graph_t *grads = NULL;
    double results[8];
    CHECK_OK(ctx, graph_grad(ctx, graph, 1, 3, wrt, at, &grads));
    CHECK_OK(ctx, graph_verify(ctx, grads));
    assert_int_equal(at[0], 2);
    assert_int_equal(at[1], -1); /* the loss does not depend on %d */
    assert_int_equal(at[2], 3);
    for (int is_planned = 0; is_planned < 2; is_planned++) {
        assert_int_equal(run(ctx, grads, is_planned, 3, 2, results), 4);
        assert_float_equal(results[0], 1.5, 1e-6);
        assert_float_equal(results[1], 4.5, 1e-6);
        assert_float_equal(results[2], -0.75, 1e-6); /* -x / y^2 */
        assert_float_equal(results[3], 1.5, 1e-6);   /* 1 + 1 / y */
    }
    graph_release(grads);
    graph_release(graph);
}

static void a_loss_in_f64_has_gradients_in_f64(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *grads = NULL, *graph = parse(ctx, "graph f(%x : f64[3]) {\n"
                                               "  %m = mean(%x)\n"
                                               "  return %m\n"
                                               "}\n");
    int at = -1;
    CHECK_OK(ctx, graph_grad(ctx, graph, 0, 1, (const value_t[]){0}, &at, &grads));
    assert_int_equal(at, 1);
    const value_t result = graph_body(grads)->results[at];
    assert_int_equal(graph_value_type(grads, result)->info.dtype, DTYPE_F64);
    graph_release(grads);
    graph_release(graph);
}

static void operators_without_gradient_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *grads = NULL, *graph = NULL;
    int at[1];

    graph = parse(ctx, "graph f(%x : f32[1], %y : f32[1]) {\n"
                       "  %a = nonzero(%x)\n"
                       "  %b = mul(%x, %y)\n"
                       "  return %b, %a\n"
                       "}\n");
    const value_t x[] = {value_named(graph, "x")};
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 1, 1, x, at, &grads), STATUS_INVALID_ARGUMENT,
                "must be a floating tensor of one element");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 2, 1, x, at, &grads), STATUS_INVALID_ARGUMENT,
                "result 2");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 0, 1, (value_t[]){99}, at, &grads),
                STATUS_INVALID_ARGUMENT, "value 99");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 0, 1, (value_t[]){value_named(graph, "a")}, at, &grads),
                STATUS_INVALID_ARGUMENT, "must be a floating tensor with known sizes");
    graph_release(graph);

    graph = parse(ctx, "graph f(%x : f32[1], %y : f32[1]) {\n"
                       "  %a = mul(%x, %y)\n"
                       "  %b = add_(%x, 1.0)\n"
                       "  return %a\n"
                       "}\n");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 0, 1, (value_t[]){value_named(graph, "y")}, at, &grads),
                STATUS_UNSUPPORTED, "a value that is written in place");
    graph_release(graph);

    graph = parse(ctx, "graph f(%x : f32[1], %y : f32[1]) {\n"
                       "  %a = mul(%x, %y)\n"
                       "  %b = add_(%a, 1.0)\n"
                       "  return %b\n"
                       "}\n");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 0, 1, (value_t[]){value_named(graph, "y")}, at, &grads),
                STATUS_UNSUPPORTED, "add_ writes in place");
    graph_release(graph);

    graph = parse(ctx, "graph f(%x : f32[1], %c : bool) {\n"
                       "  %a = if(%c) {\n"
                       "    yield %x\n"
                       "  } else {\n"
                       "    yield %x\n"
                       "  } : f32[1]\n"
                       "  return %a\n"
                       "}\n");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 0, 1, (value_t[]){value_named(graph, "x")}, at, &grads),
                STATUS_UNSUPPORTED, "if or loop");
    graph_release(graph);
}

/* A gradient rule must not use sizes that are not known, and a value whose dtype is not known must
 * not be taken for a constant. */
static void unknown_values_have_no_gradient(void **state)
{
    context_t *ctx = fixture_context(state);
    int at = 7;
    graph_t *grads = NULL, *graph = parse(ctx, "graph f(%x : f32[?]) {\n"
                                               "  %m = mean(%x) : f32[]\n"
                                               "  return %m\n"
                                               "}\n");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 0, 1, (const value_t[]){0}, &at, &grads),
                STATUS_UNSUPPORTED,
                "a gradient reaches mean at the module itself, the dtype and sizes of %x must be "
                "known there");
    graph_release(graph);

    graph = parse(ctx, "graph f(%x : f32[1], %y : tensor) {\n"
                       "  %a = mul(%x, %y)\n"
                       "  %b = reshape(%a) sizes=[1] : f32[1]\n"
                       "  return %b\n"
                       "}\n");
    CHECK_FAILS(ctx, graph_grad(ctx, graph, 0, 1, (const value_t[]){0}, &at, &grads),
                STATUS_UNSUPPORTED, "a gradient reaches reshape at the module itself");
    graph_release(graph);

    /* here the loss does not depend on the value of unknown type */
    graph = parse(ctx, "graph f(%x : f32[1], %y : tensor) {\n"
                       "  %a = mul(%x, %y)\n"
                       "  %b = mul(%x, %x)\n"
                       "  return %b, %a\n"
                       "}\n");
    CHECK_OK(ctx, graph_grad(ctx, graph, 0, 1, (const value_t[]){0}, &at, &grads));
    assert_int_equal(at, 2);
    graph_release(grads);
    graph_release(graph);
}

static status_t differentiate(context_t *ctx)
{
    graph_t *graph = NULL, *grads = NULL;
    int at[2];
    status_t status = graph_parse(ctx,
                                  "graph f(%x : f32[1], %y : f32[1]) {\n"
                                  "  %a = mul(%x, %y)\n"
                                  "  %b = div(%a, %x)\n"
                                  "  return %b\n"
                                  "}\n",
                                  NULL, &graph);
    if (status == STATUS_OK)
        status = graph_grad(ctx, graph, 0, 2, (const value_t[]){0, 1}, at, &grads);
    graph_release(grads);
    graph_release(graph);
    return status;
}

static void nothing_leaks_when_allocations_fail(void **state)
{
    (void)state;
    check_every_allocation(differentiate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gradients_follow_the_results),
        TEST(a_loss_in_f64_has_gradients_in_f64),
        TEST(operators_without_gradient_are_named),
        TEST(unknown_values_have_no_gradient),
        cmocka_unit_test(nothing_leaks_when_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
