/* The pass that moves reorders: how many reorders it saves, counted at run time. */
#include <stdio.h>

#include "graph/passes/pass.h"
#include "graph/program/plan.h"
#include "tests/support/support.h"

/* ---- running and counting ---- */

static datum_t *of_tensor(context_t *ctx, tensor_t *tensor)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    tensor_release(tensor);
    return datum;
}

static datum_t *make_input(context_t *ctx, const graph_type_t *type, int64_t number)
{
    datum_t *datum = NULL;
    tensor_t *tensor = NULL;
    if (type->kind == TYPE_INT) {
        CHECK_OK(ctx, datum_int(ctx, number, &datum));
        return datum;
    }
    if (type->kind == TYPE_BOOL) {
        CHECK_OK(ctx, datum_bool(ctx, number != 0, &datum));
        return datum;
    }
    CHECK_OK(ctx, tensor_randn(ctx, type->info.dtype, type->info.rank, type->info.sizes, &tensor));
    return of_tensor(ctx, tensor);
}

/* Counts the reorders of one run, by oneDNN or our loops, with any cause. Inputs that are integers
 * or bools have the value `number`. The caller releases the result. */
static int count_run(context_t *ctx, const graph_t *graph, int64_t number, datum_t **out_result)
{
    datum_t *in[METHOD_MAX_OUTPUTS], *out[METHOD_MAX_OUTPUTS];
    int n_out = METHOD_MAX_OUTPUTS, n = graph_body(graph)->n_params;
    counters_t counters;
    context_seed(ctx, 3);
    for (int i = 0; i < n; i++)
        in[i] = make_input(ctx, graph_value_type(graph, graph_body(graph)->params[i]), number);
    counters_reset(ctx);
    CHECK_OK(ctx, graph_run(ctx, graph, NULL, n, in, &n_out, out));
    counters_read(ctx, &counters);
    for (int i = 0; i < n; i++) datum_release(in[i]);
    assert_int_equal(n_out, 1);
    *out_result = out[0];
    return (int)(counters_weight_reorders(&counters) + counters_activation_reorders(&counters) +
                 counters_copies(&counters));
}

static void check_equal(context_t *ctx, datum_t *a, datum_t *b)
{
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, datum_as_tensor(a), datum_as_tensor(b), &difference));
    assert_true(difference < 1e-4);
    datum_release(a);
    datum_release(b);
}

/* Counts reorders of runs before and after the pass, with `number` as above. */
static void check_counts(context_t *ctx, const char *text, int64_t number, int before, int after)
{
    static const char *const names[] = {"move_reorders", NULL};
    graph_t *graph = NULL, *moved = NULL;
    datum_t *a = NULL, *b = NULL;
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, pass_run(ctx, graph, names, NULL, &moved));
    assert_int_equal(count_run(ctx, graph, number, &a), before);
    assert_int_equal(count_run(ctx, moved, number, &b), after);
    check_equal(ctx, a, b);
    graph_release(moved);
    graph_release(graph);
}

/* ---- one test for each kind of move ---- */

static void values_from_outside_a_loop_are_converted_once(void **state)
{
    static const char *const text =
        "graph f(%x : f32[1,16,4,4], %n : int) {\n"
        "  %y = loop(%n, true, %x) do (%i, %p : f32[1,16,4,4]) {\n"
        "    %a = reorder(%x) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "    %b = reorder(%p) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "    %c = add(%a, %b) : f32[1,16,4,4]@aBcd8b\n"
        "    %d = to_dense(%c) : f32[1,16,4,4]\n"
        "    %e = cumsum(%d) dim=1 : f32[1,16,4,4]\n"
        "    yield true, %e\n"
        "  } : f32[1,16,4,4]\n"
        "  return %y\n"
        "}\n";
    context_t *ctx = fixture_context(state);
    check_counts(ctx, text, 0, 0, 0);
    check_counts(ctx, text, 1, 3, 3);
    check_counts(ctx, text, 5, 15, 11);
}

static void values_carried_by_a_loop_are_converted_before_and_after_it(void **state)
{
    static const char *const text =
        "graph f(%x : f32[1,16,4,4], %n : int) {\n"
        "  %y = loop(%n, true, %x) do (%i, %p : f32[1,16,4,4]) {\n"
        "    %a = reorder(%p) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "    %b = relu(%a) : f32[1,16,4,4]@aBcd8b\n"
        "    %c = to_dense(%b) : f32[1,16,4,4]\n"
        "    yield true, %c\n"
        "  } : f32[1,16,4,4]\n"
        "  return %y\n"
        "}\n";
    context_t *ctx = fixture_context(state);
    check_counts(ctx, text, 0, 0, 0);
    check_counts(ctx, text, 1, 2, 2);
    check_counts(ctx, text, 6, 12, 2);
}

static void nested_loops_convert_at_the_ends_of_the_outermost(void **state)
{
    static const char *const text =
        "graph f(%x : f32[1,16,4,4], %n : int) {\n"
        "  %y = loop(%n, true, %x) do (%i, %p : f32[1,16,4,4]) {\n"
        "    %z = loop(3, true, %p) do (%j, %q : f32[1,16,4,4]) {\n"
        "      %a = reorder(%q) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "      %b = relu(%a) : f32[1,16,4,4]@aBcd8b\n"
        "      %c = to_dense(%b) : f32[1,16,4,4]\n"
        "      yield true, %c\n"
        "    } : f32[1,16,4,4]\n"
        "    yield true, %z\n"
        "  } : f32[1,16,4,4]\n"
        "  return %y\n"
        "}\n";
    context_t *ctx = fixture_context(state);
    check_counts(ctx, text, 0, 0, 0);
    check_counts(ctx, text, 4, 24, 2);
}

/* %e needs a blocked form in either case, so one conversion before the branch replaces two. */
static void a_branch_and_what_follows_convert_once(void **state)
{
    static const char *const text =
        "graph f(%x : f32[1,16,4,4], %c : bool) {\n"
        "  %y = if(%c) {\n"
        "    %a = reorder(%x) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "    %b = relu(%a) : f32[1,16,4,4]@aBcd8b\n"
        "    %d = to_dense(%b) : f32[1,16,4,4]\n"
        "    yield %d\n"
        "  } else {\n"
        "    yield %x\n"
        "  } : f32[1,16,4,4]\n"
        "  %e = reorder(%x) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "  %g = exp(%e) : f32[1,16,4,4]@aBcd8b\n"
        "  %h = to_dense(%g) : f32[1,16,4,4]\n"
        "  %k = add(%y, %h) : f32[1,16,4,4]\n"
        "  return %k\n"
        "}\n";
    context_t *ctx = fixture_context(state);
    check_counts(ctx, text, 1, 4, 3);
    check_counts(ctx, text, 0, 2, 2);
}

static void a_join_takes_the_form_that_a_branch_has(void **state)
{
    static const char *const text =
        "graph f(%x : f32[1,16,4,4], %c : bool) {\n"
        "  %y = if(%c) {\n"
        "    %a = reorder(%x) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "    %b = relu(%a) : f32[1,16,4,4]@aBcd8b\n"
        "    %d = to_dense(%b) : f32[1,16,4,4]\n"
        "    yield %d\n"
        "  } else {\n"
        "    yield %x\n"
        "  } : f32[1,16,4,4]\n"
        "  %e = reorder(%y) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "  %g = exp(%e) : f32[1,16,4,4]@aBcd8b\n"
        "  %h = to_dense(%g) : f32[1,16,4,4]\n"
        "  return %h\n"
        "}\n";
    context_t *ctx = fixture_context(state);
    check_counts(ctx, text, 1, 4, 2);
    check_counts(ctx, text, 0, 2, 2);
}

/* ---- a network in a loop ---- */

static const char *const network = "graph forward(%self : module, %x : f32[1,16,8,8]) {\n"
                                   "  %w = constant() value=$0 : f32[16,16,3,3]\n"
                                   "  %v = constant() value=$1 : f32[16,16,3,3]\n"
                                   "  %y = loop(5, true, %x) do (%i, %p) {\n"
                                   "    %a = conv2d(%p, %w, none) padding=[1,1]\n"
                                   "    %b = relu(%a)\n"
                                   "    %c = conv2d(%b, %v, none) padding=[1,1]\n"
                                   "    yield true, %c\n"
                                   "  }\n"
                                   "  return %y\n"
                                   "}\n";

static graph_t *make_network(context_t *ctx)
{
    datum_t *pool = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &pool));
    for (int i = 0; i < 2; i++) {
        tensor_t *weight = NULL;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(16, 16, 3, 3), 0.01, &weight));
        datum_t *datum = of_tensor(ctx, weight);
        CHECK_OK(ctx, datum_append(ctx, pool, datum));
        datum_release(datum);
    }
    CHECK_OK(ctx, graph_parse(ctx, network, pool, &graph));
    datum_release(pool);
    return graph;
}

static void convolutions_in_a_loop_are_entered_and_left_once(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = make_network(ctx);
    module_t *plain = NULL, *planned = NULL;
    tensor_t *x = NULL, *a = NULL, *b = NULL;
    CHECK_OK(ctx, module_create(ctx, "Root", &plain));
    CHECK_OK(ctx, module_create(ctx, "Root", &planned));
    CHECK_OK(ctx, graph_set_method(ctx, plain, "forward", graph));
    CHECK_OK(ctx, plan_set_method(ctx, planned, "forward", graph, 0));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 8, 8), &x));
    CHECK_OK(ctx, module_forward(ctx, plain, x, &a));
    for (int run = 0; run < 2; run++) {
        counters_t counters;
        double difference = 1.0;
        counters_reset(ctx);
        CHECK_OK(ctx, module_forward(ctx, planned, x, &b));
        counters_read(ctx, &counters);
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, b, a, &difference));
        assert_true(difference < 1e-4);
        assert_true(counters_activation_reorders(&counters) + counters_copies(&counters) <= 2);
        if (run == 1) assert_int_equal(counters_weight_reorders(&counters), 0);
        tensor_release(b);
    }
    tensor_release(a);
    tensor_release(x);
    module_release(planned);
    module_release(plain);
    graph_release(graph);
}

/* Returns true if some kernel produces the format in the type of the graph's result. */
static bool is_possible(context_t *ctx, const graph_t *graph)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const graph_block_t *body = graph_body(graph);
    const graph_node_t *conv = body->nodes[body->n_nodes - 1];
    const tensor_info_t *in[] = {&graph_value_type(graph, conv->inputs[0])->info,
                                 &graph_value_type(graph, conv->inputs[1])->info, &absent};
    prepared_t *prepared = NULL;
    status_t status = dispatch_select_fixed(ctx, conv->op, conv->attrs, 3, in, LAYOUT_MKLDNN,
                                            &graph_value_type(graph, conv->outputs[0])->info.format,
                                            &prepared);
    prepared_release(prepared);
    return status == STATUS_OK;
}

/* Whenever a kernel can make the format of a type, the interpreter must produce that format. */
static void the_interpreter_gives_the_format_that_a_type_says(void **state)
{
    static const char *const formats[] = {"aBcd16b", "aBcd8b", "acdb", "abcd"};
    context_t *ctx = fixture_context(state);
    int n_given = 0, n_possible = 0;
    for (int i = 0; i < 4; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph f(%%x : f32[1,3,8,8], %%w : f32[16,3,3,3]) {\n"
                 "  %%a = to_mkldnn(%%x) : f32[1,3,8,8]@abcd\n"
                 "  %%y = conv2d(%%a, %%w, none) padding=[1,1] : f32[1,16,8,8]@%s\n"
                 "  return %%y\n"
                 "}\n",
                 formats[i]);
        graph_t *graph = NULL;
        datum_t *y = NULL;
        CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
        (void)count_run(ctx, graph, 0, &y);
        n_possible += is_possible(ctx, graph);
        const graph_type_t *said = graph_value_type(graph, graph_body(graph)->results[0]);
        const tensor_info_t *made = tensor_info(datum_as_tensor(y));
        n_given += made->layout == LAYOUT_MKLDNN &&
                   format_same(&made->format, &said->info.format, made->sizes);
        datum_release(y);
        graph_release(graph);
    }
    assert_true(n_possible > 1);
    assert_true(n_given >= n_possible);
}

/* The graph's types are for a batch of 1, but it runs with 2, too. The loop doubles %q in each
 * iteration, so its size is unknown. */
static void loops_are_typed_for_the_shapes_they_get(void **state)
{
    static const char *const text = "graph forward(%self : module, %x : f32[N=1,4]) {\n"
                                    "  %y, %g = loop(3, true, %x, %x) do (%i, %p, %q) {\n"
                                    "    %a = relu(%p)\n"
                                    "    %b = concat(%q, %q) dim=0\n"
                                    "    yield true, %a, %b\n"
                                    "  }\n"
                                    "  %s = sum(%g) dims=[0] keepdim=true\n"
                                    "  %z = add(%y, %s)\n"
                                    "  return %z\n"
                                    "}\n";
    context_t *ctx = fixture_context(state);
    module_t *root = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, module_create(ctx, "Root", &root));
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, root, "forward", graph, 0));
    for (int64_t batch = 1; batch <= 2; batch++) {
        tensor_t *x = NULL, *y = NULL;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(batch, 4), 1.0, &x));
        CHECK_OK(ctx, module_forward(ctx, root, x, &y));
        assert_int_equal(tensor_sizes(y)[0], batch);
        float values[8];
        CHECK_OK(ctx, tensor_read(ctx, y, values, sizeof values));
        assert_float_equal(values[0], 1.0F + 8.0F * (float)batch, 1e-6F);
        tensor_release(x);
        tensor_release(y);
    }
    graph_release(graph);
    module_release(root);
}

/* ---- allocation ---- */

static status_t move_all(context_t *ctx)
{
    static const char *const text =
        "graph f(%x : f32[1,16,4,4], %n : int, %c : bool) {\n"
        "  %y = loop(%n, true, %x) do (%i, %p : f32[1,16,4,4]) {\n"
        "    %a = reorder(%p) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "    %d = if(%c) {\n"
        "      %b = relu(%a) : f32[1,16,4,4]@aBcd8b\n"
        "      %e = to_dense(%b) : f32[1,16,4,4]\n"
        "      yield %e\n"
        "    } else {\n"
        "      yield %p\n"
        "    } : f32[1,16,4,4]\n"
        "    %g = reorder(%d) format=\"aBcd8b\" : f32[1,16,4,4]@aBcd8b\n"
        "    %h = exp(%g) : f32[1,16,4,4]@aBcd8b\n"
        "    %j = to_dense(%h) : f32[1,16,4,4]\n"
        "    yield true, %j\n"
        "  } : f32[1,16,4,4]\n"
        "  return %y\n"
        "}\n";
    graph_t *graph = NULL, *result = NULL;
    TRY(dispatch_set_policy(ctx, POLICY_AUTO)); /* otherwise it hides a failed allocation */
    TRY(graph_parse(ctx, text, NULL, &graph));
    status_t status = pass_run(ctx, graph, pass_pipeline_plan(), NULL, &result);
    graph_release(result);
    graph_release(graph);
    return status;
}

static void every_allocation_of_moving_may_fail(void **state)
{
    (void)state;
    check_every_allocation(move_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_from_outside_a_loop_are_converted_once),
        TEST(values_carried_by_a_loop_are_converted_before_and_after_it),
        TEST(nested_loops_convert_at_the_ends_of_the_outermost),
        TEST(a_branch_and_what_follows_convert_once),
        TEST(a_join_takes_the_form_that_a_branch_has),
        TEST(convolutions_in_a_loop_are_entered_and_left_once),
        TEST(the_interpreter_gives_the_format_that_a_type_says),
        TEST(loops_are_typed_for_the_shapes_they_get),
        TEST(every_allocation_of_moving_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
