/* Steps of plans as events: observers and the trace see each step; a tracer refuses plans. */
#include "graph/program/plan.h"

#include "tests/support/support.h"

#include <string.h>

#include "freeze/freeze.h"
#include "graph/passes/pass.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/tensor_impl.h"
#include "tests/support/nets/nets.h"

typedef module_t *(*make_net_t)(context_t *ctx);

/* Returns a clone whose forward runs as plans, and whose weights are packed once. */
static module_t *plan_clone(context_t *ctx, module_t *net)
{
    module_t *clone = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, module_clone(ctx, net, &clone));
    CHECK_OK(ctx, pass_run(ctx, graph_of(clone, "forward"), pass_pipeline_graph(), NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, clone, "forward", graph, 0));
    graph_release(graph);
    CHECK_OK(ctx, module_mkldnn(ctx, clone, NULL));
    return clone;
}

typedef struct watch {
    int n_events, n_modules;
    double error; /* largest error compared with the specification, relative to its bound */
} watch_t;

static status_t watch_op(context_t *ctx, void *user, const op_event_t *event)
{
    watch_t *watch = user;
    const tensor_t *out[OP_MAX_OUTPUTS];
    double error = 0.0;
    assert_true(event->is_planned);
    for (int i = 0; i < event->n_out; i++) out[i] = event->out[i];
    TRY(dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in, event->n_out, out, 50,
                        &error));
    if (error > watch->error) watch->error = error;
    watch->n_events++;
    return STATUS_OK;
}

static void watch_module(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    (void)path;
    ((watch_t *)user)->n_modules++;
}

/* In one net a step overwrites its operand, which observers must still see. All results are
 * compared with the operator's specification. */
static void observers_see_the_steps_of_a_plan(void **state)
{
    context_t *ctx = fixture_context(state);
    static const make_net_t nets[] = {net_grouped, net_residual};
    for (int i = 0; i < 2; i++) {
        module_t *net = nets[i](ctx), *frozen = NULL, *planned = plan_clone(ctx, net);
        CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
        module_t *const runs[] = {frozen, planned};
        for (int r = 0; r < 2; r++) {
            watch_t watch = {0};
            observer_t observer = {
                .user = &watch, .op_end = watch_op, .module_enter = watch_module};
            tensor_t *x = net_input(ctx, 1), *y = NULL;
            CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
            CHECK_OK(ctx, module_forward(ctx, runs[r], x, &y));
            dispatch_remove_observer(ctx, &observer);
            const plan_t *plan = plan_of(runs[r], "forward");
            int n_operators = 0;
            for (int s = 0; s < plan_n_steps(plan); s++)
                n_operators += plan_step(plan, s)->prepared != NULL;
            assert_true(n_operators > 1);
            assert_int_equal(watch.n_events, n_operators);
            assert_true(watch.error <= 1.0);
            tensor_release(x);
            tensor_release(y);
        }
        module_release(planned);
        module_release(frozen);
        module_release(net);
    }
}

/* Counts inputs that share memory with their step's result. */
static status_t count_overwritten(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    for (int i = 0; i < event->n_in; i++)
        if (event->in[i] != NULL && tensor_bytes(event->in[i]) == tensor_bytes(event->out[0]))
            ++*(int *)user;
    return STATUS_OK;
}

static status_t read_nothing(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    (void)user;
    (void)event;
    return STATUS_OK;
}

static void operands_that_a_step_overwrites_are_copied_for_observers(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_sum(ctx, 1), *frozen = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 96, 32, 32), &x));
    for (int n_readers = 0; n_readers < 2; n_readers++) {
        int n = 0;
        observer_t counts = {.user = &n, .op_end = count_overwritten, .ignores_inputs = true};
        observer_t sees_modules = {.user = &(watch_t){0}, .module_enter = watch_module};
        observer_t reads = {.op_end = read_nothing};
        tensor_t *y = NULL;
        CHECK_OK(ctx, dispatch_add_observer(ctx, &counts));
        CHECK_OK(ctx, dispatch_add_observer(ctx, &sees_modules));
        if (n_readers > 0) CHECK_OK(ctx, dispatch_add_observer(ctx, &reads));
        CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
        if (n_readers > 0) dispatch_remove_observer(ctx, &reads);
        dispatch_remove_observer(ctx, &sees_modules);
        dispatch_remove_observer(ctx, &counts);
        tensor_release(y);
        assert_int_equal(n, n_readers == 0);
    }
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

static int n_told, n_evictions;

static void note_line(void *user, const char *line)
{
    (void)user;
    n_told += strncmp(line, "tessera,dispatch,conv2d,", 24) == 0;
    n_evictions += strncmp(line, "tessera,plan,evicted,forward,", 29) == 0;
}

static void the_trace_tells_steps_of_plans_and_evictions(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    n_told = n_evictions = 0;
    context_options_t options = {.trace = "dispatch,plan", .trace_sink = note_line};
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    module_t *net = net_residual(ctx), *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.plans = 1}, &frozen));
    for (int64_t batch = 1; batch <= 2; batch++) {
        tensor_t *x = net_input(ctx, batch), *y = NULL;
        int n_runs = 0; /* a step has one event for each slice of the batch */
        n_told = 0;
        CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
        const plan_t *plan = plan_of(frozen, "forward");
        for (int s = 0; s < plan_n_steps(plan); s++)
            if (strcmp(plan_step(plan, s)->name, "conv2d") == 0)
                n_runs += plan_step(plan, s)->n_slices;
        assert_true(n_runs >= 2);
        assert_int_equal(n_told, n_runs);
        tensor_release(x);
        tensor_release(y);
    }
    assert_int_equal(n_evictions, 1);
    module_release(net);
    module_release(frozen);
    context_destroy(ctx);
}

static status_t run_inner(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                          int *n_out, tensor_t **out)
{
    (void)n_in;
    *n_out = 1;
    return module_run_child(ctx, self, "inner", in[0], &out[0]);
}

static void a_plan_cannot_be_traced_and_says_so(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *frozen = NULL, *outer = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_create(ctx, "Outer", &outer));
    CHECK_OK(ctx, module_set_child(ctx, outer, "inner", frozen));
    CHECK_OK(ctx, module_set_forward(ctx, outer, "forward", run_inner));
    tensor_t *x = net_input(ctx, 1);
    CHECK_FAILS(ctx, graph_trace(ctx, outer, "forward", 1, (const tensor_t *const[]){x}),
                STATUS_UNSUPPORTED, "graph_trace: forward runs a plan, as frozen modules do");
    tensor_release(x);
    module_release(outer);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(observers_see_the_steps_of_a_plan),
        TEST(operands_that_a_step_overwrites_are_copied_for_observers),
        TEST(the_trace_tells_steps_of_plans_and_evictions),
        TEST(a_plan_cannot_be_traced_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
