/* Programs that change state, with in-place operators and setattr in regions. They must have the
 * same effect as running node by node, and tensors must share the same bytes. */
#include "graph/method/method_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "graph/program/plan_impl.h"
#include "graph/program/run_impl.h"
#include "ops/ops.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/mini.h"
#include "tests/support/support.h"

/* ---- modules ---- */

/* Adds a buffer f32[2,3] filled with one value. The result is borrowed. */
static tensor_t *add_buffer(context_t *ctx, module_t *net, const char *name, double value)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), value, &tensor));
    CHECK_OK(ctx, module_set_buffer(ctx, net, name, tensor));
    tensor_release(tensor);
    return tensor;
}

/* Makes a module with buffers `total` (ones) and `last` (zeros), f32[2,3], and a method that runs
 * as regions. */
static module_t *make_net(context_t *ctx, const char *inputs, const char *body)
{
    char text[4096];
    module_t *net = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    add_buffer(ctx, net, "total", 1);
    add_buffer(ctx, net, "last", 0);
    snprintf(text, sizeof text, "graph forward(%%self : module, %s) {\n%s}\n", inputs, body);
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, net, "forward", graph, 0));
    graph_release(graph);
    return net;
}

#define GET_TOTAL "%t = getattr(%self) name=\"total\" : f32[2,3]\n"
#define GET_LAST "%l = getattr(%self) name=\"last\" : f32[2,3]\n"

static status_t call(context_t *ctx, module_t *net, tensor_t *x, tensor_t **out)
{
    const tensor_t *in[] = {x};
    int n = METHOD_MAX_OUTPUTS;
    tensor_t *made[METHOD_MAX_OUTPUTS];
    TRY(module_call_tensors(ctx, net, "forward", 1, in, &n, made));
    for (int i = 1; i < n; i++) tensor_release(made[i]);
    if (n > 0) *out = made[0];
    return STATUS_OK;
}

static tensor_t *run(context_t *ctx, module_t *net, tensor_t *x)
{
    tensor_t *out = NULL;
    CHECK_OK(ctx, call(ctx, net, x, &out));
    return out;
}

static double element(context_t *ctx, const tensor_t *tensor, int64_t index)
{
    float values[128];
    tensor_t *dense = NULL;
    CHECK_OK(ctx, to_dense(ctx, tensor, &dense));
    CHECK_OK(ctx, tensor_read(ctx, dense, values, sizeof values));
    tensor_release(dense);
    return (double)values[index];
}

static double buffer_element(context_t *ctx, module_t *net, const char *name)
{
    return element(ctx, module_buffer(net, name), 5);
}

/* ---- execution paths ---- */

/* Checks that n_regions regions have run as plans, with n_steps steps in all. */
static void check_regions(module_t *net, int n_regions, int n_steps)
{
    program_t *program = program_of(net, "forward");
    assert_non_null(program);
    assert_null(program->plan);
    assert_int_equal(program->n_regions, n_regions);
    for (int i = 0; i < n_regions; i++) {
        assert_non_null(program->regions[i].plan->idle);
        n_steps -= plan_n_steps(program->regions[i].plan);
    }
    assert_int_equal(n_steps, 0);
    program_release(program);
}

/* Counts the nodes outside of regions, except getattr. */
static int count_control(module_t *net)
{
    program_t *program = program_of(net, "forward");
    int n = graph_body(program->graph)->n_nodes;
    const graph_block_t *body = graph_body(program->graph);
    for (int i = 0; i < body->n_nodes; i++) n -= body->nodes[i]->kind == NODE_GETATTR;
    for (int i = 0; i < program->n_regions; i++) {
        const region_t *region = &program->regions[i];
        for (int k = 0; k < region->n_nodes; k++)
            n -= region->block->nodes[region->first + k]->kind != NODE_GETATTR;
    }
    program_release(program);
    return n;
}

/* ---- writes in place ---- */

static void a_running_sum_is_one_step_in_the_modules_own_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             GET_TOTAL "%s = add_(%t, %x)\n"
                                       "%y = mul(%s, 2)\n"
                                       "return %y\n");
    tensor_t *x = NULL, *total = module_buffer(net, "total");
    const void *bytes = tensor_bytes(total);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 4, &x));
    for (int i = 1; i <= 3; i++) {
        uint64_t version = storage_version(total->storage);
        tensor_t *y = run(ctx, net, x);
        assert_true(element(ctx, y, 5) == 2.0 * (1 + 4 * i));
        assert_true(storage_version(total->storage) > version);
        tensor_release(y);
    }
    assert_true(buffer_element(ctx, net, "total") == 13.0);
    assert_ptr_equal(module_buffer(net, "total"), total);
    assert_ptr_equal(tensor_bytes(total), bytes);
    check_regions(net, 1, 2);
    assert_int_equal(count_control(net), 0);
    tensor_release(x);
    module_release(net);
}

/* As with torch's clone, a copy in another layout keeps its elements when the original is
 * written. */
static void snapshots_keep_what_they_had(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]", GET_TOTAL "%s = add_(%t, %x)\nreturn %s\n");
    tensor_t *x = NULL, *snapshot = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 4, &x));
    CHECK_OK(ctx, to_mkldnn(ctx, module_buffer(net, "total"), &snapshot));
    tensor_release(run(ctx, net, x));
    assert_true(element(ctx, snapshot, 5) == 1.0);
    assert_true(buffer_element(ctx, net, "total") == 5.0);
    check_regions(net, 1, 1);
    tensor_release(snapshot);
    tensor_release(x);
    module_release(net);
}

/* The result is a view of the buffer, so it changes with the next run. */
static void a_result_that_is_the_state_follows_it(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             GET_TOTAL "%s = add_(%t, %x)\n"
                                       "%v = reshape(%s) sizes=[6]\n"
                                       "return %v\n");
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 4, &x));
    tensor_t *first = run(ctx, net, x);
    assert_true(element(ctx, first, 5) == 5.0);
    tensor_release(run(ctx, net, x));
    assert_true(element(ctx, first, 5) == 9.0);
    CHECK_OK(ctx, tensor_fill(ctx, first, 2));
    assert_true(buffer_element(ctx, net, "total") == 2.0);
    check_regions(net, 1, 1);
    tensor_release(first);
    tensor_release(x);
    module_release(net);
}

/* The input x is the buffer `total` itself, and `last` is a second name of it. Operands are read
 * before the target is written, and later reads see the sum. */
static void the_state_may_be_an_input_too(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             GET_TOTAL GET_LAST "%s = add_(%t, %x)\n"
                                                "%m = add_(%t, %l)\n"
                                                "%y = add(%x, %l)\n"
                                                "return %y\n");
    tensor_t *total = module_buffer(net, "total");
    CHECK_OK(ctx, module_set_buffer(ctx, net, "last", total));
    tensor_t *y = run(ctx, net, total);
    /* total becomes 1 + 1, then 2 + 2; y is 4 + 4. */
    assert_true(element(ctx, total, 5) == 4.0);
    assert_true(element(ctx, y, 5) == 8.0);
    /* The region did not run as a plan, because the input is a target. */
    program_t *program = program_of(net, "forward");
    assert_int_equal(program->n_regions, 1);
    assert_null(program->regions[0].plan->idle);
    program_release(program);
    tensor_release(y);
    module_release(net);
}

static void an_operand_that_lies_across_the_target_is_read_first(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float values[] = {1, 2, 3, 4, 5, 6};
    module_t *net = make_net(ctx, "%x : f32[1,3]",
                             GET_TOTAL "%a = slice(%t) dim=0 start=1 end=2\n"
                                       "%s = add_(%t, %a)\n"
                                       "%w = mul_(%a, %x)\n"
                                       "return %s\n");
    tensor_t *x = NULL, *total = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, (const int64_t[]){2, 3}, values, &total));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "total", total));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 3), 10, &x));
    tensor_t *y = run(ctx, net, x);
    /* Row 2 is added to both rows of [[1,2,3],[4,5,6]]; then row 2 is multiplied by 10. */
    static const double expected[] = {5, 7, 9, 80, 100, 120};
    for (int i = 0; i < 6; i++) assert_true(element(ctx, y, i) == expected[i]);
    for (int i = 0; i < 6; i++) assert_true(element(ctx, total, i) == expected[i]);
    check_regions(net, 1, 3);
    tensor_release(y);
    tensor_release(x);
    tensor_release(total);
    module_release(net);
}

/* Writes to a blocked buffer of 17 channels, without a dense copy. The sigmoid would set the 15
 * padding channels to 0.5, but they must stay 0. */
static void check_blocked_state(context_t *ctx, const char *type)
{
    char body[512];
    snprintf(body, sizeof body,
             "%%b = getattr(%%self) name=\"total\" : %s\n"
             "%%s = sigmoid_(%%b)\n"
             "%%m = mul_(%%s, 4)\n"
             "return %%m\n",
             type);
    module_t *net = make_net(ctx, "%x : f32[1,17,2,2]", body);
    tensor_t *x = NULL, *blocked = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 17, 2, 2), &x));
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd16b", &blocked));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "total", blocked));
    tensor_release(run(ctx, net, x));
    counters_t counters;
    counters_reset(ctx);
    tensor_t *y = run(ctx, net, x);
    counters_read(ctx, &counters);
    assert_int_equal(counters_activation_reorders(&counters), 0);
    assert_ptr_equal(module_buffer(net, "total"), blocked);
    assert_int_equal(tensor_layout(y), LAYOUT_MKLDNN);
    assert_true(fabs(element(ctx, y, 67) - 4 / (1 + exp(-2.0))) < 1e-5);
    const float *lanes = tensor_bytes(blocked);
    for (int i = 0; i < 4; i++) /* in the second block only lane 0 is a channel, number 16 */
        for (int lane = 1; lane < 16; lane++) assert_true(lanes[64 + i * 16 + lane] == 0.0F);
    check_regions(net, 1, 2);
    tensor_release(y);
    tensor_release(blocked);
    tensor_release(x);
    module_release(net);
}

static void a_blocked_state_is_written_in_its_blocks(void **state)
{
    check_blocked_state(fixture_context(state), "f32[1,17,2,2]");
    check_blocked_state(fixture_context(state), "f32[1,17,2,2]@aBcd16b");
}

/* ---- setattr ---- */

/* The old tensor does not change. The result is the new tensor. */
static void setattr_replaces_the_tensor(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             GET_LAST "%y = add(%l, %x)\n"
                                      "setattr(%self, %y) name=\"last\"\n"
                                      "%z = relu_(%y)\n"
                                      "return %z\n");
    tensor_t *x = NULL, *old = tensor_retain(module_buffer(net, "last"));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 4, &x));
    tensor_t *first = run(ctx, net, x);
    assert_true(element(ctx, old, 5) == 0.0 && buffer_element(ctx, net, "last") == 4.0);
    CHECK_OK(ctx, tensor_fill(ctx, first, 1));
    assert_true(buffer_element(ctx, net, "last") == 1.0);
    tensor_t *second = run(ctx, net, x);
    assert_true(element(ctx, first, 5) == 1.0 && element(ctx, second, 5) == 5.0);
    check_regions(net, 1, 3);
    assert_int_equal(count_control(net), 0);
    tensor_release(second);
    tensor_release(first);
    tensor_release(old);
    tensor_release(x);
    module_release(net);
}

static void an_attribute_that_is_read_after_it_was_set_is_the_new_one(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             "setattr(%self, %x) name=\"last\"\n" GET_LAST "%y = add_(%l, 1)\n"
                             "%z = mul(%x, 3)\n"
                             "return %z\n");
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 4, &x));
    tensor_t *y = run(ctx, net, x);
    /* setattr stores the input itself, so the write changes it: (4 + 1) * 3. */
    assert_true(element(ctx, y, 5) == 15.0);
    assert_true(element(ctx, x, 5) == 5.0);
    assert_ptr_equal(module_buffer(net, "last")->storage, x->storage);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

static void a_state_of_another_form_runs_node_by_node(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]", GET_TOTAL "%s = add_(%t, %x)\nreturn %s\n");
    tensor_t *x = NULL, *base = NULL, *turned = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 4, &x));
    tensor_release(run(ctx, net, x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(3, 2), 7, &base));
    CHECK_OK(ctx, op_transpose(ctx, base, 0, 1, &turned));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "total", turned));
    tensor_t *y = run(ctx, net, x);
    assert_true(element(ctx, base, 5) == 11.0);
    assert_ptr_equal(y->storage, base->storage);
    tensor_release(y);
    tensor_release(turned);
    tensor_release(base);
    tensor_release(x);
    module_release(net);
}

/* ---- control ---- */

/* Each of three iterations adds 1 and doubles: 1, 4, 10, 22. Odd ones set `last`. */
static void loops_and_branches_write_in_order(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             GET_TOTAL "%y = loop(3, true, %x) do (%i, %h) {\n"
                                       "  %s = add_(%t, 1)\n"
                                       "  %d = mul_(%s, 2)\n"
                                       "  %odd = scalar_mod(%i, 2)\n"
                                       "  if(%odd) {\n"
                                       "    %c = add(%t, %h)\n"
                                       "    setattr(%self, %c) name=\"last\"\n"
                                       "    yield\n"
                                       "  } else {\n"
                                       "    yield\n"
                                       "  }\n"
                                       "  %g = add(%h, %t)\n"
                                       "  yield true, %g\n"
                                       "}\n"
                                       "return %y\n");
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 100, &x));
    tensor_t *y = run(ctx, net, x);
    assert_true(element(ctx, y, 5) == 100.0 + 4 + 10 + 22);
    assert_true(buffer_element(ctx, net, "total") == 22.0);
    assert_true(buffer_element(ctx, net, "last") == 100.0 + 4 + 10);
    check_regions(net, 3, 5);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

/* Reading `gone` fails after the first write. As in PyTorch, that write remains and no other
 * happens. */
static void a_failure_midway_leaves_earlier_state(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             GET_TOTAL GET_LAST "%s = add_(%t, %x)\n"
                                                "%k = getattr(%self) name=\"gone\" : f32[2,3]\n"
                                                "%w = add_(%l, %k)\n"
                                                "return %s\n");
    tensor_t *x = NULL, *y = NULL;
    add_buffer(ctx, net, "gone", 1);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 4, &x));
    tensor_release(run(ctx, net, x));
    check_regions(net, 1, 2);
    CHECK_OK(ctx, module_remove(ctx, net, "gone"));
    assert_int_equal(call(ctx, net, x, &y), STATUS_INVALID_ARGUMENT);
    assert_string_equal(context_error(ctx), "getattr: Net has no member \"gone\"");
    assert_true(buffer_element(ctx, net, "total") == 9.0);
    assert_true(buffer_element(ctx, net, "last") == 1.0);
    tensor_release(x);
    module_release(net);
}

/* ---- threads, memory ---- */

typedef struct runner {
    module_t *net;
    pthread_t thread;
    status_t status;
} runner_t;

static void *run_often(void *user)
{
    runner_t *runner = user;
    context_t *ctx = NULL;
    tensor_t *x = NULL, *y = NULL;
    runner->status = context_create(&(context_options_t){.n_threads = 1}, &ctx);
    if (runner->status == STATUS_OK)
        runner->status = tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 1, &x);
    for (int i = 0; i < 200 && runner->status == STATUS_OK; i++) {
        runner->status = call(ctx, runner->net, x, &y);
        tensor_release(y);
        y = NULL;
    }
    tensor_release(x);
    context_destroy(ctx);
    return NULL;
}

/* Both threads add 1 twice in each run. No addition may be lost, and no odd sum may be visible. */
static void runs_of_two_threads_wait_for_each_other(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, "%x : f32[2,3]",
                             GET_TOTAL "%s = add_(%t, %x)\n"
                                       "%u = add_(%s, %x)\n"
                                       "%c = add(%u, 0)\n"
                                       "setattr(%self, %c) name=\"last\"\n"
                                       "return %c\n");
    runner_t runners[2] = {{.net = net}, {.net = net}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_often, &runners[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(runners[i].thread, NULL);
        assert_int_equal(runners[i].status, STATUS_OK);
    }
    assert_true(buffer_element(ctx, net, "total") == 1.0 + 2 * 400);
    assert_true(buffer_element(ctx, net, "last") == 1.0 + 2 * 400);
    module_release(net);
}

static status_t plan_and_run(context_t *ctx)
{
    static const char text[] = "graph forward(%self : module, %x : f32[2,3]) {\n"
                               "  %t = getattr(%self) name=\"total\" : f32[2,3]\n"
                               "  %v = transpose(%t) dim0=0 dim1=1\n"
                               "  %s = relu_(%v)\n"
                               "  %u = add_(%t, %x)\n"
                               "  setattr(%self, %x) name=\"last\"\n"
                               "  return %u\n"
                               "}\n";
    module_t *net = NULL;
    graph_t *graph = NULL;
    tensor_t *x = NULL, *total = NULL, *y = NULL;
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 1, &total);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, SHAPE(2, 3), 1, &x);
    if (status == STATUS_OK) status = module_set_buffer(ctx, net, "total", total);
    if (status == STATUS_OK) status = graph_parse(ctx, text, NULL, &graph);
    if (status == STATUS_OK) status = plan_set_method(ctx, net, "forward", graph, 0);
    if (status == STATUS_OK) status = module_forward(ctx, net, x, &y);
    tensor_release(y);
    tensor_release(x);
    tensor_release(total);
    graph_release(graph);
    module_release(net);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(plan_and_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_running_sum_is_one_step_in_the_modules_own_bytes),
        TEST(snapshots_keep_what_they_had),
        TEST(a_result_that_is_the_state_follows_it),
        TEST(the_state_may_be_an_input_too),
        TEST(an_operand_that_lies_across_the_target_is_read_first),
        TEST(a_blocked_state_is_written_in_its_blocks),
        TEST(setattr_replaces_the_tensor),
        TEST(an_attribute_that_is_read_after_it_was_set_is_the_new_one),
        TEST(a_state_of_another_form_runs_node_by_node),
        TEST(loops_and_branches_write_in_order),
        TEST(a_failure_midway_leaves_earlier_state),
        TEST(runs_of_two_threads_wait_for_each_other),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
