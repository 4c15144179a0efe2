#include "graph/program/plan.h"

#include "tests/support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

#include "freeze/freeze.h"
#include "graph/passes/pass.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tests/support/nets/nets.h"

typedef module_t *(*make_net_t)(context_t *ctx);

/* Runs the planned method on a batch and the interpreted graph on each of its images, and
 * compares. */
static void compare(context_t *ctx, module_t *interpreted, module_t *planned, int64_t batch)
{
    tensor_t *x = net_input(ctx, batch), *actual = NULL;
    CHECK_OK(ctx, module_forward(ctx, planned, x, &actual));
    assert_int_equal(tensor_layout(actual), LAYOUT_DENSE);
    net_compare(ctx, interpreted, x, actual);
    tensor_release(x);
    tensor_release(actual);
}

/* Returns a clone whose forward runs as plans (at most `capacity` are kept) and whose weights are
 * packed once. */
static module_t *plan_clone(context_t *ctx, module_t *net, int capacity)
{
    module_t *clone = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, module_clone(ctx, net, &clone));
    CHECK_OK(ctx, pass_run(ctx, graph_of(clone, "forward"), pass_pipeline_graph(), NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, clone, "forward", graph, capacity));
    graph_release(graph);
    CHECK_OK(ctx, module_mkldnn(ctx, clone, NULL));
    return clone;
}

static void check_net(context_t *ctx, make_net_t make)
{
    module_t *net = make(ctx), *planned = plan_clone(ctx, net, 0);
    compare(ctx, net, planned, 1);
    compare(ctx, net, planned, 1);
    compare(ctx, net, planned, 3);
    module_release(net);
    module_release(planned);
}

static void a_plan_gives_what_the_interpreter_gives_for_every_batch(void **state)
{
    check_net(fixture_context(state), net_grouped);
    check_net(fixture_context(state), net_residual);
}

static void weights_that_stay_attributes_are_packed_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *planned = plan_clone(ctx, net, 0);
    tensor_t *x = net_input(ctx, 1), *y = NULL;
    counters_t counters;
    CHECK_OK(ctx, module_forward(ctx, planned, x, &y));
    tensor_release(y);
    counters_reset(ctx);
    CHECK_OK(ctx, module_forward(ctx, planned, x, &y));
    counters_read(ctx, &counters);
    assert_int_equal(counters_weight_reorders(&counters), 0);
    assert_int_equal(counters.primitives_built, 0);
    tensor_release(x);
    tensor_release(y);
    module_release(net);
    module_release(planned);
}

static void a_changed_parameter_is_seen_by_the_next_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *planned = plan_clone(ctx, net, 0);
    compare(ctx, net, planned, 1);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "conv2"), 0.01));
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(planned, "conv2"), 0.01));
    compare(ctx, net, planned, 1);
    module_release(net);
    module_release(planned);
}

static void plans_beyond_the_capacity_are_made_again(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *planned = plan_clone(ctx, net, 1);
    for (int64_t batch = 1; batch <= 3; batch++) compare(ctx, net, planned, batch);
    compare(ctx, net, planned, 1);
    module_release(net);
    module_release(planned);
}

static void intermediate_results_share_the_arena(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *planned = plan_clone(ctx, net, 0);
    compare(ctx, net, planned, 1);
    const plan_t *plan = plan_of(planned, "forward");
    size_t one = 32 * 32 * 32 * sizeof(float);
    assert_true(plan_arena_bytes(plan) <= 3 * one);
    module_release(net);
    module_release(planned);
}

static void wrong_inputs_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *planned = plan_clone(ctx, net, 0);
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 4, 32, 32), &x));
    CHECK_FAILS(ctx, module_forward(ctx, planned, x, &y), STATUS_INVALID_ARGUMENT,
                "input x is f32[1,4,32,32], the graph was made for f32[N=1,3,32,32]");
    tensor_release(x);
    module_release(net);
    module_release(planned);
}

static void a_graph_that_is_no_straight_line_runs_and_leaves_no_failure(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    graph_t *graph = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph forward(%self : module, %x : f32[4]) {\n"
                              "  %t = getattr(%self) name=\"training\" : bool\n"
                              "  %1 = if(%t) {\n"
                              "    yield %x\n"
                              "  } else {\n"
                              "    %2 = neg(%x)\n"
                              "    yield %2\n"
                              "  } : f32[4]\n"
                              "  return %1\n}\n",
                              NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, net, "forward", graph, 0));
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    CHECK_OK(ctx, scope_end(ctx));
    graph_release(graph);
    module_release(net);
}

/* ---- threads ---- */

/* Arguments and findings of a thread. It runs in its own context, which counts allocations; most
 * runs write to one tensor, the last ones to new tensors. */
typedef struct runner {
    module_t *net;
    const tensor_t *x;
    const tensor_t *expected;
    int n_wrong;
    long n_allocations; /* in runs that write to one tensor, except the first ten */
} runner_t;

enum { RUNS = IS_SANITIZED ? 500 : 10000, FORWARDS = 50 };

static bool gives(context_t *ctx, const runner_t *runner, const void *expected)
{
    tensor_t *y = NULL;
    const void *bytes = NULL;
    bool is_right = module_forward(ctx, runner->net, runner->x, &y) == STATUS_OK &&
                    tensor_data(ctx, y, &bytes) == STATUS_OK &&
                    memcmp(bytes, expected, info_bytes(tensor_info(runner->expected))) == 0;
    tensor_release(y);
    return is_right;
}

static void *run_many(void *argument)
{
    runner_t *runner = argument;
    counting_t memory;
    context_t *ctx = NULL;
    tensor_t *y = NULL;
    const void *bytes = NULL, *expected = NULL;
    const tensor_info_t *info = tensor_info(runner->expected);
    counting_begin(&memory);
    runner->n_wrong = RUNS;
    context_options_t options = {.allocator = &memory.allocator, .n_threads = 1};
    if (context_create(&options, &ctx) != STATUS_OK) return NULL;
    if (tensor_empty(ctx, DTYPE_F32, info->rank, info->sizes, &y) == STATUS_OK &&
        tensor_data(ctx, y, &bytes) == STATUS_OK &&
        tensor_data(ctx, runner->expected, &expected) == STATUS_OK) {
        runner->n_wrong = 0;
        for (int i = 0; i < RUNS; i++) {
            if (i == 10) counting_fail(&memory, 0, false);
            bool is_right = module_forward_into(ctx, runner->net, runner->x, y) == STATUS_OK &&
                            memcmp(bytes, expected, info_bytes(info)) == 0;
            runner->n_wrong += !is_right;
        }
        runner->n_allocations = atomic_load(&memory.requests);
        for (int i = 0; i < FORWARDS; i++) runner->n_wrong += !gives(ctx, runner, expected);
    }
    tensor_release(y);
    context_destroy(ctx);
    return NULL;
}

static void two_threads_on_one_plan_allocate_nothing_and_agree_to_the_bit(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *frozen = NULL;
    tensor_t *x = net_input(ctx, 1), *y = NULL;
    pthread_t threads[2];
    runner_t runners[2];
    CHECK_OK(ctx, context_set_threads(ctx, 1));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    for (int i = 0; i < 2; i++) {
        runners[i] = (runner_t){frozen, x, y, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &runners[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(runners[i].n_wrong, 0);
        assert_int_equal(runners[i].n_allocations, 0);
    }
    tensor_release(x);
    tensor_release(y);
    module_release(frozen);
    module_release(net);
}

/* ---- allocators ---- */

static module_t *frozen_conv(context_t *ctx)
{
    module_t *net = net_residual(ctx), *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    module_release(net);
    return frozen;
}

/* The other context allocates from its own allocator, and gives back all of it. */
static void a_method_may_be_run_by_a_context_with_another_allocator(void **state)
{
    context_t *ctx = fixture_context(state), *other = NULL;
    counting_t memory;
    counting_begin(&memory);
    CHECK_OK(ctx, context_create(&(context_options_t){.allocator = &memory.allocator}, &other));
    module_t *frozen = frozen_conv(ctx);
    tensor_t *x = net_input(ctx, 3), *y = NULL;
    CHECK_OK(other, module_forward(other, frozen, x, &y));
    tensor_release(y);
    tensor_release(x);
    module_release(frozen);
    context_destroy(other);
    assert_int_equal(atomic_load(&memory.live), 0);
}

/* An allocator that delays one request, so that the test can call plan_of meanwhile. */
typedef struct slow {
    allocator_t allocator, inner;
    atomic_bool is_armed, is_inside, was_answered, was_answered_inside;
} slow_t;

static void *get_slowly(void *user, size_t bytes)
{
    slow_t *slow = user;
    if (atomic_exchange(&slow->is_armed, false)) {
        atomic_store(&slow->is_inside, true);
        (void)thrd_sleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        atomic_store(&slow->was_answered_inside, atomic_load(&slow->was_answered));
    }
    return slow->inner.get(slow->inner.user, bytes);
}

static void put_plainly(void *user, void *block)
{
    slow_t *slow = user;
    slow->inner.put(slow->inner.user, block);
}

static void *run_once(void *argument)
{
    const runner_t *runner = argument;
    context_t *ctx = NULL;
    tensor_t *y = NULL;
    if (context_create(&(context_options_t){.n_threads = 1}, &ctx) != STATUS_OK) return NULL;
    (void)module_forward(ctx, runner->net, runner->x, &y);
    tensor_release(y);
    context_destroy(ctx);
    return NULL;
}

/* A run that makes a plan holds the method's lock while it allocates. plan_of must wait for it. */
static void plan_of_waits_for_a_run_that_makes_a_plan(void **state)
{
    fixture_t *fixture = *state;
    slow_t slow = {.allocator = {&slow, get_slowly, put_plainly},
                   .inner = fixture->memory.allocator};
    context_t *ctx = NULL;
    pthread_t thread;
    CHECK_OK(
        fixture->ctx,
        context_create(&(context_options_t){.allocator = &slow.allocator, .n_threads = 1}, &ctx));
    module_t *frozen = frozen_conv(ctx);
    tensor_t *x = net_input(ctx, 3), *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    tensor_t *more = net_input(ctx, 2);
    runner_t runner = {.net = frozen, .x = more};
    atomic_store(&slow.is_armed, true);
    assert_int_equal(pthread_create(&thread, NULL, run_once, &runner), 0);
    while (!atomic_load(&slow.is_inside)) thrd_yield();
    assert_non_null(plan_of(frozen, "forward"));
    atomic_store(&slow.was_answered, true);
    pthread_join(thread, NULL);
    assert_false(atomic_load(&slow.was_answered_inside));
    tensor_release(x);
    tensor_release(more);
    tensor_release(y);
    module_release(frozen);
    context_destroy(ctx);
}

static status_t scenario(context_t *ctx)
{
    static const char text[] = "graph forward(%self : module, %x : f32[1,16,8,8]) {\n"
                               "  %w = getattr(%self) name=\"w\" : f32[16,16,3,3]\n"
                               "  %1 = conv2d(%x, %w, none)\n"
                               "  %2 = relu(%1)\n"
                               "  return %2\n}\n";
    module_t *net = NULL;
    graph_t *graph = NULL;
    tensor_t *w = NULL, *x = NULL, *y = NULL;
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(16, 16, 3, 3), &w);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 8, 8), &x);
    if (status == STATUS_OK) status = module_set_parameter(ctx, net, "w", w);
    if (status == STATUS_OK) status = graph_parse(ctx, text, NULL, &graph);
    if (status == STATUS_OK) status = plan_set_method(ctx, net, "forward", graph, 0);
    if (status == STATUS_OK) status = module_forward(ctx, net, x, &y);
    tensor_release(y);
    tensor_release(x);
    tensor_release(w);
    graph_release(graph);
    module_release(net);
    return status;
}

/* Runs the text's forward as a plan and interpreted, and compares. `scale` is a parameter. */
static void check_planned(context_t *ctx, const char *text, tensor_t *scale, tensor_t *x)
{
    module_t *net = NULL, *planned = NULL;
    tensor_t *wanted = NULL, *got = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "scale", scale));
    CHECK_OK(ctx, graph_define(ctx, net, text));
    planned = plan_clone(ctx, net, 0);
    CHECK_OK(ctx, module_forward(ctx, net, x, &wanted));
    CHECK_OK(ctx, module_forward(ctx, planned, x, &got));
    assert_non_null(plan_of(planned, "forward"));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, got, wanted, &difference));
    assert_true(difference <= 1e-6);
    tensor_release(wanted);
    tensor_release(got);
    tensor_release(scale);
    tensor_release(x);
    module_release(net);
    module_release(planned);
}

static void an_activation_may_be_a_parameter(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *scale = NULL, *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(16, 1, 1), &scale));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 8, 8), &x));
    check_planned(ctx,
                  "graph forward(%self : module, %x : f32[1,16,8,8]) {\n"
                  "  %1 = max_pool2d(%x) kernel=[3,3] stride=[1,1] padding=[1,1]\n"
                  "  %2 = getattr(%self) name=\"scale\" : f32[16,1,1]\n"
                  "  %3 = mul(%1, %2)\n"
                  "  return %3\n"
                  "}\n",
                  scale, x);
}

static void dtypes_that_onednn_lacks_stay_dense(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t a[] = {1, 5, -3}, b[] = {2, 4, -7};
    tensor_t *scale = NULL, *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(3), a, &scale));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(3), b, &x));
    check_planned(ctx,
                  "graph forward(%self : module, %x : s64[3]) {\n"
                  "  %1 = getattr(%self) name=\"scale\" : s64[3]\n"
                  "  %2 = maximum(%x, %1)\n"
                  "  return %2\n"
                  "}\n",
                  scale, x);
}

/* ---- constants ---- */

static datum_t *pool_of(context_t *ctx, tensor_t *tensor)
{
    datum_t *pool = NULL, *item = NULL;
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &pool));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &item));
    CHECK_OK(ctx, datum_append(ctx, pool, item));
    datum_release(item);
    return pool;
}

/* Runs a graph with one result as a plan, and compares. The constant $0 of the graph is
 * `constant`. */
static void check_constant(context_t *ctx, const char *text, tensor_t *constant, tensor_t *x)
{
    datum_t *pool = pool_of(ctx, constant), *in = NULL, *wanted[METHOD_MAX_OUTPUTS];
    graph_t *graph = NULL;
    plan_t *plan = NULL;
    tensor_t *got = NULL;
    int n_wanted = METHOD_MAX_OUTPUTS, n_got = 1;
    double difference = 1.0;
    CHECK_OK(ctx, graph_parse(ctx, text, pool, &graph));
    CHECK_OK(ctx, datum_tensor(ctx, x, &in));
    CHECK_OK(ctx, graph_run(ctx, graph, NULL, 1, &in, &n_wanted, wanted));
    CHECK_OK(ctx, plan_create(ctx, graph, NULL, &plan));
    CHECK_OK(ctx, plan_run(ctx, plan, 1, (const tensor_t *const *)&x, &n_got, &got));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, got, datum_as_tensor(wanted[0]), &difference));
    assert_true(difference <= 1e-5);
    datum_release(wanted[0]);
    datum_release(in);
    datum_release(pool);
    tensor_release(got);
    plan_release(plan);
    graph_release(graph);
}

static void a_plan_names_inputs_that_it_was_not_made_for(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL;
    plan_t *plan = NULL;
    tensor_t *x = NULL, *y = NULL;
    int n = 1;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(3), 1.0, &x));
    CHECK_OK(ctx, graph_parse(ctx, "graph f(%x : f32[2]) {\n  %y = relu(%x)\n  return %y\n}\n",
                              NULL, &graph));
    CHECK_OK(ctx, plan_create(ctx, graph, NULL, &plan));
    CHECK_FAILS(ctx, plan_run(ctx, plan, 0, NULL, &n, &y), STATUS_INVALID_ARGUMENT,
                "plan: 0 inputs, must be 1");
    assert_int_equal(n, 0);
    CHECK_FAILS(ctx, plan_run(ctx, plan, 1, (const tensor_t *const *)&x, &n, &y),
                STATUS_INVALID_ARGUMENT, "plan: input 0 is f32[3], the plan is for f32[2]");
    tensor_release(x);
    plan_release(plan);
    graph_release(graph);
}

static void a_weight_may_be_a_view_of_a_constant(void **state)
{
    static const struct {
        int64_t width;
        const char *text;
    } cases[] = {{64, "graph f(%x : f32[4,64]) {\n"
                      "  %w = constant() value=$0\n"
                      "  %t = transpose(%w) dim0=0 dim1=1\n"
                      "  %y = linear(%x, %t)\n"
                      "  return %y\n}\n"},
                 {32, "graph f(%x : f32[4,32]) {\n"
                      "  %w = constant() value=$0\n"
                      "  %t = slice(%w) dim=1 start=0 end=32\n"
                      "  %y = linear(%x, %t)\n"
                      "  return %y\n}\n"},
                 {32, "graph f(%x : f32[4,32]) {\n"
                      "  %w = constant() value=$0\n"
                      "  %t = slice(%w) dim=1 start=32 end=64\n"
                      "  %y = linear(%x, %t)\n"
                      "  return %y\n}\n"},
                 {16, "graph f(%x : f32[4,16]) {\n"
                      "  %w = constant() value=$0\n"
                      "  %t = reshape(%w) sizes=[256,16]\n"
                      "  %y = linear(%x, %t)\n"
                      "  return %y\n}\n"}};
    context_t *ctx = fixture_context(state);
    tensor_t *constant = NULL, *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(64, 64), &constant));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, cases[i].width), &x));
        check_constant(ctx, cases[i].text, constant, x);
        tensor_release(x);
    }
    tensor_release(constant);
}

static void check_filled(context_t *ctx, const tensor_t *tensor, float value)
{
    const void *data = NULL;
    CHECK_OK(ctx, tensor_data(ctx, tensor, &data));
    for (int64_t i = 0; i < tensor_numel(tensor); i++)
        assert_float_equal(((const float *)data)[i], value, 1e-6);
}

/* The plan must return f(0) and the constant, which are both 1, even after someone has written to
 * the constant's tensor. */
static void check_written(context_t *ctx, const char *text)
{
    tensor_t *constant = NULL, *x = NULL, *y[2];
    datum_t *pool = NULL;
    graph_t *graph = NULL;
    plan_t *plan = NULL;
    int n = 2;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 64), 1.0, &constant));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, 64), 0.0, &x));
    CHECK_OK(ctx, graph_parse(ctx, text, pool = pool_of(ctx, constant), &graph));
    CHECK_OK(ctx, plan_create(ctx, graph, NULL, &plan));
    for (int run = 0; run < 3; run++) {
        CHECK_OK(ctx, plan_run(ctx, plan, 1, (const tensor_t *const *)&x, &n, y));
        check_filled(ctx, y[0], 1.0f);
        check_filled(ctx, y[1], 1.0f);
        tensor_release(y[0]);
        tensor_release(y[1]);
        CHECK_OK(ctx, tensor_fill(ctx, constant, 100.0));
    }
    tensor_release(constant);
    tensor_release(x);
    datum_release(pool);
    plan_release(plan);
    graph_release(graph);
}

static void a_plan_keeps_its_constants_when_their_tensor_is_written(void **state)
{
    context_t *ctx = fixture_context(state);
    check_written(ctx, "graph f(%x : f32[1,64]) {\n"
                       "  %w = constant() value=$0\n"
                       "  %y = add(%x, %w)\n"
                       "  return %y, %w\n}\n");
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

static void a_parameter_has_no_format_that_no_tag_describes(void **state)
{
    static const char *const formats[] = {"opaque4x576x20603x1", "4:edcba(2,4,8,3,3)"};
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(8, 8, 3, 3), &x));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char text[512];
        graph_t *graph = NULL;
        module_t *module = NULL;
        tensor_t *y = NULL;
        snprintf(text, sizeof text,
                 "graph forward(%%self : module, %%x : f32[8,8,3,3]@%s) {\n  %%y = relu(%%x)\n"
                 "  return %%y\n}\n",
                 formats[i]);
        CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
        CHECK_OK(ctx, module_create(ctx, "M", &module));
        CHECK_OK(ctx, plan_set_method(ctx, module, "forward", graph, 0));
        CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_INVALID_ARGUMENT,
                    "must have a tag or strides");
        context_clear_error(ctx);
        graph_release(graph);
        module_release(module);
    }
    tensor_release(x);
}

/* The method has only a parameter. Its plan has no inputs, constants or outputs before the first
 * step. */
static void a_method_without_inputs_runs_as_a_plan(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *weight = NULL, *y = NULL;
    float read[2] = {0};
    int n_out = 1;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx,
             tensor_from(ctx, DTYPE_F32, 1, (const int64_t[]){2}, (const float[]){-1, 3}, &weight));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "weight", weight));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module) {\n"
                               "  %w = getattr(%self) name=\"weight\"\n"
                               "  %y = relu(%w)\n"
                               "  return %y\n"
                               "}\n"));
    freeze_options_t options = {.preserved = (const char *const[]){"weight", NULL}};
    CHECK_OK(ctx, freeze(ctx, net, &options, &frozen));
    CHECK_OK(ctx, module_call_tensors(ctx, frozen, "forward", 0, NULL, &n_out, &y));
    assert_non_null(plan_of(frozen, "forward"));
    CHECK_OK(ctx, tensor_read(ctx, y, read, sizeof read));
    assert_float_equal(read[0], 0, 0);
    assert_float_equal(read[1], 3, 0);
    tensor_release(y);
    tensor_release(weight);
    module_release(frozen);
    module_release(net);
}

/* The plan has 40 operands at once, because the concat is the last reader of each. */
static void a_concat_of_many_operands_runs_as_a_plan(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    float read[80] = {0};
    text_t text = text_begin(ctx);
    text_append(&text, "graph forward(%%self : module, %%x : f32[1,2]) {\n");
    for (int i = 0; i < 40; i++) text_append(&text, "  %%a%d = add(%%x, %d.0)\n", i, i);
    text_append(&text, "  %%y = concat(");
    for (int i = 0; i < 40; i++) text_append(&text, "%s%%a%d", i > 0 ? ", " : "", i);
    text_append(&text, ") dim=0\n  return %%y\n}\n");
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, graph_define(ctx, net, text_string(&text)));
    text_clear(&text);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 2, (const int64_t[]){1, 2}, &x));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    assert_non_null(plan_of(frozen, "forward"));
    CHECK_OK(ctx, tensor_read(ctx, y, read, sizeof read));
    for (int i = 0; i < 80; i++) assert_float_equal(read[i], (i / 2), 0);
    tensor_release(x);
    tensor_release(y);
    module_release(frozen);
    module_release(net);
}

/* At most two plans are kept. The least recently used plan is removed, and made again when
 * needed. */
static void plans_are_counted_and_bounded_as_asked(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *frozen = NULL;
    counters_t counters;
    CHECK_FAILS(ctx, freeze(ctx, net, &(freeze_options_t){.plans = -1}, &frozen),
                STATUS_INVALID_ARGUMENT, "freeze: plans -1, must be at least 0");
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.plans = 2}, &frozen));
    counters_reset(ctx);
    static const int64_t batches[] = {1, 2, 1, 3, 1, 2};
    for (int i = 0; i < 6; i++) compare(ctx, net, frozen, batches[i]);
    counters_read(ctx, &counters);
    assert_int_equal(counters.plans_built, 3); /* freezing made the plan for batch 1 */
    assert_int_equal(counters.plans_evicted, 2);
    plan_set_capacity(frozen, "forward", 1);
    assert_int_equal(plan_capacity(frozen, "forward"), 1);
    assert_int_equal(plan_capacity(net, "forward"), 0);
    CHECK_FAILS(ctx, freeze_set_plans(ctx, net, 1), STATUS_INVALID_ARGUMENT,
                "freeze_set_plans: Residual is not frozen, freeze it first");
    CHECK_FAILS(ctx, freeze_set_plans(ctx, frozen, -1), STATUS_INVALID_ARGUMENT,
                "freeze_set_plans: plans -1, must be at least 0");
    CHECK_OK(ctx, freeze_set_plans(ctx, frozen, 0));
    assert_int_equal(plan_capacity(frozen, "forward"), PLAN_CAPACITY);
    counters_reset(ctx);
    for (int round = 0; round < 2; round++)
        for (int64_t batch = 1; batch <= 9; batch++) compare(ctx, net, frozen, batch);
    counters_read(ctx, &counters);
    assert_int_equal(counters.plans_built, 8);
    assert_int_equal(counters.plans_evicted, 0);
    module_release(net);
    module_release(frozen);
}

static void calls_that_no_plan_can_run_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        const char *statement, *part;
    } cases[] = {
        {"%y = relu_(%x)", "plan: relu_ writes in place"},
        {"%y = if(%c) {\n yield %x\n} else {\n yield %x\n}", "plan: if is control flow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph_t *graph = NULL;
        plan_t *plan = NULL;
        text_t text = text_begin(ctx);
        text_append(&text, "graph f(%%x : f32[2], %%c : bool[]) {\n%s\nreturn %%y\n}\n",
                    cases[i].statement);
        CHECK_OK(ctx, graph_parse(ctx, text_string(&text), NULL, &graph));
        CHECK_FAILS(ctx, plan_create(ctx, graph, NULL, &plan), STATUS_UNSUPPORTED, cases[i].part);
        graph_release(graph);
        text_clear(&text);
    }
}

static void equal_results_of_a_plan_are_tensors_of_their_own(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y[2] = {NULL};
    float read[2] = {0};
    int n_out = 2;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module, %x : f32[2]) {\n"
                               "  %a = neg(%x)\n"
                               "  %b = neg(%x)\n"
                               "  return %a, %b\n"
                               "}\n"));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 1, (const int64_t[]){2}, 3.0, &x));
    CHECK_OK(ctx, module_call_tensors(ctx, frozen, "forward", 1, (const tensor_t *const[]){x},
                                      &n_out, y));
    assert_non_null(plan_of(frozen, "forward"));
    CHECK_OK(ctx, tensor_fill(ctx, y[0], 5.0));
    CHECK_OK(ctx, tensor_read(ctx, y[1], read, sizeof read));
    assert_float_equal(read[0], -3, 0);
    tensor_release(x);
    for (int i = 0; i < 2; i++) tensor_release(y[i]);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plan_gives_what_the_interpreter_gives_for_every_batch),
        TEST(weights_that_stay_attributes_are_packed_once),
        TEST(a_changed_parameter_is_seen_by_the_next_run),
        TEST(plans_beyond_the_capacity_are_made_again),
        TEST(intermediate_results_share_the_arena),
        TEST(wrong_inputs_are_named),
        TEST(a_graph_that_is_no_straight_line_runs_and_leaves_no_failure),
        TEST(an_activation_may_be_a_parameter),
        TEST(a_method_without_inputs_runs_as_a_plan),
        TEST(a_concat_of_many_operands_runs_as_a_plan),
        TEST(plans_are_counted_and_bounded_as_asked),
        TEST(calls_that_no_plan_can_run_are_named),
        TEST(equal_results_of_a_plan_are_tensors_of_their_own),
        TEST(dtypes_that_onednn_lacks_stay_dense),
        TEST(a_plan_names_inputs_that_it_was_not_made_for),
        TEST(a_weight_may_be_a_view_of_a_constant),
        TEST(a_plan_keeps_its_constants_when_their_tensor_is_written),
        TEST(two_threads_on_one_plan_allocate_nothing_and_agree_to_the_bit),
        TEST(a_method_may_be_run_by_a_context_with_another_allocator),
        TEST(plan_of_waits_for_a_run_that_makes_a_plan),
        cmocka_unit_test(every_failing_allocation_is_a_status),
        TEST(a_parameter_has_no_format_that_no_tag_describes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
