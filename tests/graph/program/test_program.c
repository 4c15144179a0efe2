/* Graphs with control flow run as regions: sequences of operators that become plans. Tests which
 * operators form regions, in which formats tensors pass between them, and which nodes run one by
 * one. */
#include "graph/method/method_impl.h"

#include <string.h>

#include "graph/program/plan_impl.h"
#include "graph/program/run_impl.h"
#include "module/module_impl.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/mini.h"
#include "tests/support/nets/subject.h"
#include "tests/support/support.h"

static tensor_t *run_frozen(const subject_t *s)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n = METHOD_MAX_OUTPUTS;
    CHECK_OK(s->ctx, module_call_tensors(s->ctx, s->frozen, "forward", s->n_in,
                                         (const tensor_t *const *)s->in, &n, out));
    for (int i = 1; i < n; i++) tensor_release(out[i]);
    return out[0];
}

static double last_float(context_t *ctx, const tensor_t *tensor)
{
    float values[4096];
    CHECK_OK(ctx, tensor_read(ctx, tensor, values, sizeof values));
    return (double)values[tensor_numel(tensor) - 1];
}

/* Counts the program's regions, and checks that each is listed for its block. */
static int count_regions(const subject_t *s)
{
    program_t *program = program_of(s->frozen, "forward");
    assert_non_null(program);
    assert_null(program->plan);
    int n = program->n_regions;
    for (int i = 0; i < n; i++) {
        const row_t row = program->rows[program->regions[i].block->index];
        assert_in_range(i, row.first, row.first + row.n - 1);
    }
    program_release(program);
    return n;
}

static int count_planned_runs(const subject_t *s)
{
    program_t *program = program_of(s->frozen, "forward");
    int n = 0;
    for (int i = 0; i < program->n_regions; i++) n += program->regions[i].plan->idle != NULL;
    program_release(program);
    return n;
}

/* Checks that running regions gives the same bits as running node by node. */
static void check_as_interpreted(const subject_t *s)
{
    program_t *program = program_of(s->frozen, "forward");
    datum_t *in[SUBJECT_MAX_INPUTS], *whole[METHOD_MAX_OUTPUTS], *single[METHOD_MAX_OUTPUTS];
    int n_whole = METHOD_MAX_OUTPUTS, n_single = METHOD_MAX_OUTPUTS;
    for (int i = 0; i < s->n_in; i++) CHECK_OK(s->ctx, datum_tensor(s->ctx, s->in[i], &in[i]));
    CHECK_OK(s->ctx, program_run(s->ctx, program, s->frozen, s->n_in, in, &n_whole, whole));
    CHECK_OK(s->ctx, graph_run(s->ctx, program->graph, s->frozen, s->n_in, in, &n_single, single));
    assert_int_equal(n_whole, n_single);
    for (int i = 0; i < n_whole; i++) {
        double difference = 1;
        CHECK_OK(s->ctx, tensor_max_rel_diff(s->ctx, datum_as_tensor(whole[i]),
                                             datum_as_tensor(single[i]), &difference));
        assert_true(difference == 0);
        datum_release(whole[i]);
        datum_release(single[i]);
    }
    for (int i = 0; i < s->n_in; i++) datum_release(in[i]);
    program_release(program);
}

static void the_operators_of_a_loops_body_are_one_region(void **state)
{
    subject_t s = subject_begin(fixture_context(state), "w=16,16 b=16",
                                "%x : f32[2,16], %n : s64[]",
                                "%y = loop(%n, true, %x) do (%i, %h) {\n"
                                "  %a = linear(%h, %w, %b)\n"
                                "  %t = tanh(%a)\n"
                                "  yield true, %t\n"
                                "}\n"
                                "return %y\n");
    CHECK_OK(s.ctx, tensor_fill(s.ctx, s.in[1], 7));
    tensor_release(run_frozen(&s));
    /* The regions are a conversion before the loop, the loop's body, and a conversion after it. */
    assert_int_equal(count_regions(&s), 3);
    assert_int_equal(count_planned_runs(&s), 3);
    check_as_interpreted(&s);
    subject_end(&s);
}

/* 2 becomes 2 * 3 + 1, and so on, five times. */
static void a_loop_computes_what_its_text_says(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "", "%x : f32[1,3]",
                                "%y = loop(5, true, %x) do (%i, %h) {\n"
                                "  %a = mul(%h, 3)\n"
                                "  %t = add(%a, 1)\n"
                                "  yield true, %t\n"
                                "}\n"
                                "return %y\n");
    CHECK_OK(ctx, tensor_fill(ctx, s.in[0], 2.0));
    tensor_t *y = run_frozen(&s);
    assert_true(last_float(ctx, y) == 607.0);
    tensor_release(y);
    subject_end(&s);
}

static void tensors_pass_between_branches_and_stages_in_blocks(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "w=16,16,3,3 v=16,16,3,3", "%x : f32[1,16,9,9], %c : bool[]",
                                "%a = conv2d(%x, %w, none) padding=[1,1]\n"
                                "%d = if(%c) {\n"
                                "  %p = relu(%a)\n"
                                "  yield %p\n"
                                "} else {\n"
                                "  %q = sigmoid(%a)\n"
                                "  yield %q\n"
                                "}\n"
                                "%e = conv2d(%d, %v, none) padding=[1,1]\n"
                                "return %e\n");
    tensor_release(run_frozen(&s));
    assert_int_equal(count_regions(&s), 4);
    assert_in_range(count_planned_runs(&s), 3, 4);
    counters_reset(ctx);
    tensor_release(run_frozen(&s));
    counters_t counters;
    counters_read(ctx, &counters);
    assert_int_equal(counters_weight_reorders(&counters), 0);
    assert_in_range(counters_activation_reorders(&counters), 0, 2);
    check_as_interpreted(&s);
    subject_end(&s);
}

/* The view that the branch writes may belong to other values, so the write is outside of
 * regions. */
static void a_write_in_place_is_control(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "", "%x : f32[1,4], %c : bool[]",
                                "%a = mul(%x, 2)\n"
                                "%v = reshape(%a) sizes=[4]\n"
                                "%d = if(%c) {\n"
                                "  %w = add_(%v, 1)\n"
                                "  yield %w\n"
                                "} else {\n"
                                "  yield %v\n"
                                "}\n"
                                "%e = mul(%a, 10)\n"
                                "return %e\n");
    CHECK_OK(ctx, tensor_fill(ctx, s.in[0], 3.0));
    CHECK_OK(ctx, tensor_fill(ctx, s.in[1], 1.0));
    tensor_t *y = run_frozen(&s);
    assert_true(last_float(ctx, y) == 70.0);
    tensor_release(y);
    check_as_interpreted(&s);
    subject_end(&s);
}

/* The first region makes 40 tensors that are read later, but a plan returns at most 32. */
static void a_stretch_with_many_results_is_cut(void **state)
{
    context_t *ctx = fixture_context(state);
    text_t body = text_begin(ctx);
    for (int i = 0; i < 40; i++) text_append(&body, "%%a%d = add(%%x, %d)\n", i, i);
    text_append(&body, "%%d = if(%%c) {\n");
    for (int i = 0; i < 40; i++)
        text_append(&body, "  %%s%d = add(%s%d, %%a%d)\n", i, i == 0 ? "%a" : "%s",
                    i == 0 ? 0 : i - 1, i);
    text_append(&body, "  yield %%s39\n} else {\n  yield %%x\n}\nreturn %%d\n");
    subject_t s = subject_begin(ctx, "", "%x : f32[1,4], %c : bool[]", text_string(&body));
    text_clear(&body);
    CHECK_OK(ctx, tensor_fill(ctx, s.in[0], 1.0));
    CHECK_OK(ctx, tensor_fill(ctx, s.in[1], 1.0));
    tensor_t *y = run_frozen(&s);
    /* The sum of all %a (1 + i for i < 40) is 820; a0 = 1 is added once more. */
    assert_true(last_float(ctx, y) == 1.0 + 820.0);
    tensor_release(y);
    assert_in_range(count_regions(&s), 3, 4);
    subject_end(&s);
}

/* ---- work done before a run ---- */

/* If the layout pass leaves a conversion to a plan, the plan creates its primitive when it is
 * built. */
static void conversions_have_their_primitive_when_the_plan_is_built(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, "", "%x : f32[1,16,9,9], %c : bool[]",
                                "%a = reorder(%x) format=\"aBcd8b\"\n"
                                "%p = relu(%a)\n"
                                "%d = if(%c) {\n"
                                "  yield %p\n"
                                "} else {\n"
                                "  yield %a\n"
                                "}\n"
                                "return %d\n");
    tensor_release(run_frozen(&s));
    program_t *program = program_of(s.frozen, "forward");
    int n_conversions = 0;
    for (int i = 0; i < program->n_regions; i++) {
        const plan_t *plan = program->regions[i].plan;
        for (int k = 0; k < plan->n_steps; k++) {
            if (plan->steps[k].prepared != NULL) continue;
            assert_non_null(plan->steps[k].reorder);
            n_conversions++;
        }
    }
    assert_true(n_conversions > 0);
    program_release(program);
    subject_end(&s);
}

static module_t *scaling_net(context_t *ctx, module_t **out_child)
{
    static const char text[] = "graph forward(%self : module, %x : f32[1,4]) {\n"
                               "  %w = getattr(%self) name=\"inner.w\" : f32[1,4]\n"
                               "  %y = mul(%x, %w)\n"
                               "  return %y\n"
                               "}\n";
    module_t *net = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    *out_child = mini_child(ctx, net, "inner", "Inner");
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, net, "forward", graph, 0));
    graph_release(graph);
    return net;
}

static void set_scale(context_t *ctx, module_t *inner, int64_t n, double value)
{
    tensor_t *w = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, n), value, &w));
    CHECK_OK(ctx, module_set_parameter(ctx, inner, "w", w));
    tensor_release(w);
}

static double scaled(context_t *ctx, module_t *net, const tensor_t *x)
{
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    double value = last_float(ctx, y);
    tensor_release(y);
    return value;
}

/* A program caches the modules that it found by their paths, until some module changes. */
static void a_parameter_that_is_replaced_below_is_seen_by_the_next_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *inner = NULL, *net = scaling_net(ctx, &inner);
    tensor_t *x = NULL, *y = NULL;
    set_scale(ctx, inner, 4, 2);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 4), 3, &x));
    assert_true(scaled(ctx, net, x) == 6.0);
    const plan_frame_t *frame = plan_of(net, "forward")->idle;
    assert_true(frame->changes == module_changes());
    assert_ptr_equal(frame->parameters[0], module_parameter(inner, "w"));
    set_scale(ctx, inner, 4, 5);
    assert_true(frame->changes != module_changes());
    assert_true(scaled(ctx, net, x) == 15.0);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(inner, "w"), 7));
    assert_true(scaled(ctx, net, x) == 21.0);
    set_scale(ctx, inner, 2, 5);
    assert_int_equal(module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT);
    assert_string_equal(context_error(ctx), "plan: inner.w is not the f32[1,4] it was planned for");
    CHECK_OK(ctx, module_remove(ctx, inner, "w"));
    assert_int_equal(module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT);
    set_scale(ctx, inner, 4, 1);
    assert_true(scaled(ctx, net, x) == 3.0);
    tensor_release(x);
    module_release(net);
}

static status_t freeze_and_run(context_t *ctx)
{
    static const char text[] = "graph forward(%self : module, %x : f32[1,4]) {\n"
                               "  %y = loop(3, true, %x) do (%i, %h) {\n"
                               "    %a = mul(%h, %h)\n"
                               "    %odd = scalar_mod(%i, 2)\n"
                               "    %b = if(%odd) {\n"
                               "      %c = relu(%a)\n"
                               "      yield %c\n"
                               "    } else {\n"
                               "      yield %a\n"
                               "    }\n"
                               "    yield true, %b\n"
                               "  }\n"
                               "  return %y\n"
                               "}\n";
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = graph_define(ctx, net, text);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, SHAPE(1, 4), 1.0, &x);
    if (status == STATUS_OK) status = freeze(ctx, net, NULL, &frozen);
    if (status == STATUS_OK) status = module_forward(ctx, frozen, x, &y);
    tensor_release(y);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(freeze_and_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_operators_of_a_loops_body_are_one_region),
        TEST(a_loop_computes_what_its_text_says),
        TEST(tensors_pass_between_branches_and_stages_in_blocks),
        TEST(a_write_in_place_is_control),
        TEST(a_stretch_with_many_results_is_cut),
        TEST(conversions_have_their_primitive_when_the_plan_is_built),
        TEST(a_parameter_that_is_replaced_below_is_seen_by_the_next_run),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
