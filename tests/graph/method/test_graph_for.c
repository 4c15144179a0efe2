#include "graph/program/plan.h"

#include "tests/support/support.h"

#include <string.h>

#include "freeze/freeze.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "tensor/counters.h"
#include "tensor/scope.h"
#include "tests/support/nets/nets.h"

static char *print(context_t *ctx, const graph_t *graph, text_t *text)
{
    *text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, text));
    return text->bytes;
}

static graph_t *graph_of_batch(context_t *ctx, module_t *net, int64_t batch)
{
    graph_t *graph = NULL;
    tensor_t *x = net_input(ctx, batch);
    CHECK_OK(ctx, graph_for(ctx, net, "forward", 1, (const tensor_t *[]){x}, &graph));
    tensor_release(x);
    return graph;
}

static void a_graph_method_is_shown_for_the_shapes_given(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx);
    const graph_t *own = graph_of(net, "forward");
    int n_nodes = graph_n_nodes(own);
    graph_t *graph = graph_of_batch(ctx, net, 3);
    text_t text;
    const char *printed = print(ctx, graph, &text);
    assert_non_null(strstr(printed, "%x : f32[3,3,32,32]"));
    assert_non_null(strstr(printed, " : f32[3,64,16,16]@"));
    assert_non_null(strstr(printed, "= reorder(%w1) format="));
    assert_ptr_equal(graph_of(net, "forward"), own);
    assert_int_equal(graph_n_nodes(own), n_nodes);
    text_clear(&text);
    graph_release(graph);
    module_release(net);
}

static void a_plan_method_is_shown_as_its_plan_has_it(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    for (int64_t batch = 1; batch <= 2; batch++) {
        tensor_t *x = net_input(ctx, batch), *y = NULL;
        CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
        graph_t *graph = graph_of_batch(ctx, frozen, batch);
        text_t shown, planned;
        assert_string_equal(print(ctx, graph, &shown),
                            print(ctx, plan_graph(plan_of(frozen, "forward")), &planned));
        text_clear(&shown);
        text_clear(&planned);
        graph_release(graph);
        tensor_release(x);
        tensor_release(y);
    }
    module_release(net);
    module_release(frozen);
}

static void numbers_are_computed_once_for_all(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    graph_t *graph = NULL;
    tensor_t *x = NULL;
    text_t text;
    CHECK_OK(ctx, module_create(ctx, "Foo", &net));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph foo(%self : module, %x : f32[10]) {\n"
                               "  %a = scalar_add(1, 2)\n"
                               "  %b = scalar_add(%a, 7)\n"
                               "  %1 = add(%x, %b)\n"
                               "  return %1\n}\n"));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(10), &x));
    CHECK_OK(ctx, graph_for(ctx, net, "foo", 1, (const tensor_t *[]){x}, &graph));
    assert_int_equal(graph_n_nodes(graph), 2);
    assert_non_null(strstr(print(ctx, graph, &text), "add(%x, 10)"));
    text_clear(&text);
    graph_release(graph);
    tensor_release(x);
    module_release(net);
}

static void a_number_that_cannot_be_computed_is_no_failure_of_the_scope(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    graph_t *graph = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, module_create(ctx, "Foo", &net));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph foo(%self : module, %x : f32[10]) {\n"
                               "  %a = scalar_floordiv(1, 0)\n"
                               "  %1 = add(%x, %a)\n"
                               "  return %1\n}\n"));
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(10), &x));
    CHECK_OK(ctx, graph_for(ctx, net, "foo", 1, (const tensor_t *[]){x}, &graph));
    assert_int_equal(graph_n_nodes(graph), graph_n_nodes(graph_of(net, "foo")));
    CHECK_OK(ctx, scope_end(ctx));
    graph_release(graph);
    module_release(net);
}

static void the_shown_graph_runs(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *shown = NULL;
    tensor_t *x = net_input(ctx, 2), *y = NULL;
    graph_t *graph = graph_of_batch(ctx, net, 2);
    CHECK_OK(ctx, module_clone(ctx, net, &shown));
    CHECK_OK(ctx, graph_set_method(ctx, shown, "forward", graph));
    CHECK_OK(ctx, module_forward(ctx, shown, x, &y));
    net_compare(ctx, net, x, y);
    graph_release(graph);
    tensor_release(x);
    tensor_release(y);
    module_release(net);
    module_release(shown);
}

/* Runs the graph that graph_for returns twice, and counts reorders in the second run. */
static uint64_t reorders(context_t *ctx, module_t *net, const tensor_t *x)
{
    graph_t *graph = NULL;
    tensor_t *y = NULL;
    counters_t counters;
    CHECK_OK(ctx, graph_for(ctx, net, "forward", 1, &x, &graph));
    CHECK_OK(ctx, graph_set_method(ctx, net, "forward", graph));
    for (int i = 0; i < 2; i++) {
        counters_reset(ctx);
        CHECK_OK(ctx, module_forward(ctx, net, x, &y));
        tensor_release(y);
    }
    counters_read(ctx, &counters);
    graph_release(graph);
    return counters_weight_reorders(&counters) + counters_activation_reorders(&counters);
}

static void a_marked_weight_is_packed_once_by_the_transition_before_its_reader(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *marked = NULL;
    tensor_t *x = net_input(ctx, 1);
    CHECK_OK(ctx, module_clone(ctx, net, &marked));
    CHECK_OK(ctx, module_mkldnn(ctx, marked, NULL));
    assert_int_equal(reorders(ctx, net, x), reorders(ctx, marked, x) + 2);
    tensor_release(x);
    module_release(marked);
    module_release(net);
}

static void other_inputs_and_methods_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *layer = NULL;
    tensor_t *x = net_input(ctx, 1), *wide = NULL;
    const tensor_t *two[] = {x, x}, *none[] = {NULL};
    graph_t *graph = NULL;
    CHECK_FAILS(ctx, graph_for(ctx, net, "backward", 1, two, &graph), STATUS_INVALID_ARGUMENT,
                "graph_for: Grouped has no graph of method \"backward\"");
    CHECK_FAILS(ctx, graph_for(ctx, net, "forward", 2, two, &graph), STATUS_INVALID_ARGUMENT,
                "forward: 2 inputs are given, the graph takes 1");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, graph_for(ctx, net, "forward", 1, none, &graph), STATUS_INVALID_ARGUMENT,
                "an input");
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 4, 32, 32), &wide));
    CHECK_FAILS(ctx, graph_for(ctx, net, "forward", 1, (const tensor_t *[]){wide}, &graph),
                STATUS_INVALID_ARGUMENT,
                "input x is f32[1,4,32,32], the graph was made for f32[N=1,3,32,32]");
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph count(%self : module, %n : int) {\n"
                               "  %1 = scalar_add(%n, 1)\n"
                               "  return %1\n}\n"));
    CHECK_FAILS(ctx, graph_for(ctx, net, "count", 1, two, &graph), STATUS_INVALID_ARGUMENT,
                "graph_for: %n of count is not a tensor, only tensors are supported");
    CHECK_OK(ctx, layer_linear(ctx, 2, 2, true, &layer));
    CHECK_FAILS(ctx, graph_for(ctx, layer, "forward", 1, two, &graph), STATUS_INVALID_ARGUMENT,
                "Linear has no graph of method \"forward\"");
    assert_null(graph);
    tensor_release(x);
    tensor_release(wide);
    module_release(layer);
    module_release(net);
}

static status_t scenario(context_t *ctx)
{
    static const char text[] = "graph forward(%self : module, %x : f32[N=1,8,6,6]) {\n"
                               "  %w = getattr(%self) name=\"w\" : f32[8,8,3,3]\n"
                               "  %1 = conv2d(%x, %w, none) padding=[1,1]\n"
                               "  %2 = relu(%1)\n"
                               "  return %2\n}\n";
    module_t *net = NULL;
    graph_t *graph = NULL;
    tensor_t *w = NULL, *x = NULL;
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(8, 8, 3, 3), &w);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(2, 8, 6, 6), &x);
    if (status == STATUS_OK) status = module_set_parameter(ctx, net, "w", w);
    if (status == STATUS_OK) status = graph_define(ctx, net, text);
    if (status == STATUS_OK)
        status = graph_for(ctx, net, "forward", 1, (const tensor_t *[]){x}, &graph);
    graph_release(graph);
    tensor_release(x);
    tensor_release(w);
    module_release(net);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_graph_method_is_shown_for_the_shapes_given),
        TEST(a_plan_method_is_shown_as_its_plan_has_it),
        TEST(numbers_are_computed_once_for_all),
        TEST(a_number_that_cannot_be_computed_is_no_failure_of_the_scope),
        TEST(the_shown_graph_runs),
        TEST(a_marked_weight_is_packed_once_by_the_transition_before_its_reader),
        TEST(other_inputs_and_methods_are_named),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
