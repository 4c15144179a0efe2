/* Workers: threads that each run slices of a batch. Tests results, counters, events and failures,
 * with fewer and more threads than the plan was made for and with several callers, and that the
 * host's threads get their state back. */
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "dispatch/prepared_impl.h"
#include "freeze/freeze.h"
#include "graph/program/plan.h"
#include "ops/ops.h"
#include "tensor/status_impl.h"
#include "tests/support/nets/nets.h"
#include "tests/support/nets/subject.h"

/* Cache size: holds slices of all threads, but not the entire batch. */
#define CACHE "4194304"

enum { BATCH = 9, CHANNELS = 96, SIZE = 32 };

static context_t *create(int n_threads, bool flush_denormals)
{
    context_t *ctx = NULL;
    const context_options_t options = {.n_threads = n_threads, .flush_denormals = flush_denormals};
    setenv("TESSERA_CPU_CACHE", CACHE, 1);
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    unsetenv("TESSERA_CPU_CACHE");
    return ctx;
}

/* Makes a net and its input. Its steps are a depthwise convolution, a 1x1 convolution with stride
 * 2, which needs scratch memory, and a pooling. */
static module_t *make_net(context_t *ctx, int64_t batch, tensor_t **out_x)
{
    char input[64];
    snprintf(input, sizeof input, "%%x : f32[%d,96,32,32]", (int)batch);
    context_seed(ctx, 5);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, CHANNELS, SIZE, SIZE), out_x));
    return subject_net(ctx, "d=96,1,3,3 p=96,96,1,1", input,
                       "  %1 = conv2d(%x, %d, none) padding=[1,1] groups=96\n"
                       "  %2 = conv2d(%1, %p, none) stride=[2,2]\n"
                       "  %3 = max_pool2d(%2) kernel=[2,2] stride=[2,2]\n"
                       "  return %3\n");
}

static const float *elements_of(context_t *ctx, const tensor_t *dense)
{
    const void *elements = NULL;
    CHECK_OK(ctx, tensor_data(ctx, dense, &elements));
    return elements;
}

static plan_t *find_plan(const module_t *frozen)
{
    plan_t *plan = plan_retain((plan_t *)(uintptr_t)plan_of(frozen, "forward"));
    assert_non_null(plan);
    return plan;
}

/* A frozen net whose plan has workers, and its result for x computed without slices. */
typedef struct cut_net {
    module_t *net, *frozen;
    tensor_t *x, *wanted;
    plan_t *plan;
} cut_net_t;

static tensor_t *run_whole(int64_t batch)
{
    context_t *ctx = NULL;
    module_t *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    setenv("TESSERA_CPU_CACHE", "0", 1);
    assert_int_equal(context_create(&(context_options_t){.n_threads = 2}, &ctx), STATUS_OK);
    unsetenv("TESSERA_CPU_CACHE");
    module_t *net = make_net(ctx, batch, &x);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    assert_int_equal(plan_step(plan_of(frozen, "forward"), 0)->n_slices, 1);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
    context_destroy(ctx);
    return y;
}

static cut_net_t make_cut_net(context_t *ctx, int64_t batch)
{
    cut_net_t s = {.wanted = run_whole(batch)};
    tensor_t *y = NULL;
    int n = 0;
    s.net = make_net(ctx, batch, &s.x);
    CHECK_OK(ctx, freeze(ctx, s.net, NULL, &s.frozen));
    CHECK_OK(ctx, module_forward(ctx, s.frozen, s.x, &y));
    tensor_release(y);
    s.plan = find_plan(s.frozen);
    for (int i = 0; i < plan_n_steps(s.plan); i++) n += plan_step(s.plan, i)->n_workers > 1;
    assert_true(n >= 2);
    return s;
}

static void end_cut_net(cut_net_t *s)
{
    plan_release(s->plan);
    tensor_release(s->x);
    tensor_release(s->wanted);
    module_release(s->frozen);
    module_release(s->net);
}

static void check_same(context_t *ctx, const cut_net_t *s, tensor_t *y)
{
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, s->wanted, &difference));
    if (!(difference <= 1e-6)) fail_msg("results differ by %g", difference);
    tensor_release(y);
}

/* ---- counters and events ---- */

static void runs_of_workers_are_counted(void **state)
{
    (void)state;
    context_t *ctx = create(2, false);
    cut_net_t s = make_cut_net(ctx, BATCH - 1);
    tensor_t *y = NULL;
    counters_t counters;
    uint64_t n_runs = 0;
    counters_reset(ctx);
    CHECK_OK(ctx, module_forward(ctx, s.frozen, s.x, &y));
    check_same(ctx, &s, y);
    counters_read(ctx, &counters);
    for (int i = 0; i < plan_n_steps(s.plan); i++)
        if (plan_step(s.plan, i)->prepared != NULL)
            n_runs += (uint64_t)plan_step(s.plan, i)->n_slices;
    assert_int_equal(counters.operators, n_runs);
    end_cut_net(&s);
    context_destroy(ctx);
}

typedef struct order {
    const float *wanted; /* for the entire batch */
    int64_t at;
    int n_told;
    int fails_at; /* the slice for which the observer fails; -1: none */
} order_t;

static status_t compare_slice(context_t *ctx, void *user, const op_event_t *event)
{
    order_t *order = user;
    tensor_t *dense = NULL;
    if (strcmp(event->op->name, "max_pool2d") != 0) return STATUS_OK;
    assert_int_equal(event->slice, order->n_told++);
    if (event->slice == order->fails_at) return STATUS_IO;
    CHECK_OK(ctx, to_dense(ctx, event->out[0], &dense));
    const float *made = elements_of(ctx, dense);
    for (int64_t i = 0; i < tensor_numel(dense); i++)
        if (fabsf(made[i] - order->wanted[order->at + i]) > 1e-4f)
            fail_msg("slice %d: element %d is %g, not %g", event->slice, (int)i, (double)made[i],
                     (double)order->wanted[order->at + i]);
    order->at += tensor_numel(dense);
    tensor_release(dense);
    return STATUS_OK;
}

/* Observers see the slices in order, even if only one of two workers has work in the last
 * iteration. */
static void they_are_told_of_in_the_order_of_the_batch(void **state)
{
    (void)state;
    for (int64_t batch = BATCH - 1; batch <= BATCH; batch++) {
        context_t *ctx = create(batch == BATCH ? 3 : 2, false);
        cut_net_t s = make_cut_net(ctx, batch);
        tensor_t *y = NULL, *dense = NULL;
        CHECK_OK(ctx, to_dense(ctx, s.wanted, &dense));
        order_t order = {.wanted = elements_of(ctx, dense), .fails_at = -1};
        observer_t observer = {.user = &order, .op_end = compare_slice};
        CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
        CHECK_OK(ctx, module_forward(ctx, s.frozen, s.x, &y));
        check_same(ctx, &s, y);
        assert_int_equal(order.at, tensor_numel(dense));
        order = (order_t){.wanted = order.wanted, .fails_at = 1};
        y = NULL;
        assert_int_equal(module_forward(ctx, s.frozen, s.x, &y), STATUS_IO);
        assert_null(y);
        dispatch_remove_observer(ctx, &observer);
        context_clear_error(ctx);
        CHECK_OK(ctx, module_forward(ctx, s.frozen, s.x, &y));
        check_same(ctx, &s, y);
        tensor_release(dense);
        end_cut_net(&s);
        context_destroy(ctx);
    }
}

static status_t verify_all(context_t *ctx, void *user, const op_event_t *event)
{
    const tensor_t *out[OP_MAX_OUTPUTS];
    double error = 0.0;
    for (int i = 0; i < event->n_out; i++) out[i] = event->out[i];
    TRY(dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in, event->n_out, out, 50,
                        &error));
    if (!(error <= 1.0)) fail_msg("%s: %g times what it may be", event->op->name, error);
    ++*(int *)user;
    return STATUS_OK;
}

/* A sum overwrites its operand. An observer must see the operand as it was before. */
static void observers_see_overwritten_operands_as_they_were(void **state)
{
    (void)state;
    context_t *ctx = create(2, false);
    module_t *net = net_sum(ctx, BATCH - 1), *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    int n_told = 0, n_sums = 0;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(BATCH - 1, CHANNELS, SIZE, SIZE), &x));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    tensor_release(y);
    const plan_t *plan = plan_of(frozen, "forward");
    for (int i = 0; i < plan_n_steps(plan); i++)
        n_sums += plan_step(plan, i)->overwrites >= 0 && plan_step(plan, i)->n_workers > 1;
    assert_true(n_sums > 0);
    observer_t observer = {.user = &n_told, .op_end = verify_all};
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    dispatch_remove_observer(ctx, &observer);
    assert_true(n_told > BATCH);
    tensor_release(y);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
    context_destroy(ctx);
}

/* ---- numbers of threads ---- */

/* A plan made for two threads must run in contexts with fewer and more threads, and inside the
 * caller's parallel region, which leaves one thread. */
static void contexts_of_all_sizes_run_a_plan(void **state)
{
    (void)state;
    context_t *ctx = create(2, false);
    cut_net_t s = make_cut_net(ctx, BATCH - 1);
    status_t status = STATUS_OK;
    tensor_t *y = NULL;
    for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
        context_t *other = create(n_threads, false);
        int n = 1;
        const int before = omp_get_max_threads();
        CHECK_OK(other, plan_run(other, s.plan, 1, (const tensor_t *const[]){s.x}, &n, &y));
        assert_int_equal(context_threads(other), n_threads);
        assert_int_equal(omp_get_max_threads(), before);
        check_same(other, &s, y);
        context_destroy(other);
    }
    y = NULL;
#pragma omp parallel num_threads(2)
#pragma omp single
    status = module_forward(ctx, s.frozen, s.x, &y);
    assert_int_equal(status, STATUS_OK);
    check_same(ctx, &s, y);
    end_cut_net(&s);
    context_destroy(ctx);
}

typedef struct caller {
    const cut_net_t *net;
    int n_right;
} caller_t;

static void *call_often(void *user)
{
    caller_t *caller = user;
    context_t *ctx = NULL;
    if (context_create(&(context_options_t){.n_threads = 2}, &ctx) != STATUS_OK) return NULL;
    for (int i = 0; i < 20; i++) {
        int n = 1;
        tensor_t *y = NULL;
        double difference = 1.0;
        const status_t status = plan_run(ctx, caller->net->plan, 1,
                                         (const tensor_t *const[]){caller->net->x}, &n, &y);
        if (status == STATUS_OK &&
            tensor_max_rel_diff(ctx, y, caller->net->wanted, &difference) == STATUS_OK &&
            difference <= 1e-6)
            caller->n_right++;
        tensor_release(y);
    }
    context_destroy(ctx);
    return NULL;
}

static void two_callers_run_a_plan_at_once(void **state)
{
    (void)state;
    context_t *ctx = create(2, false);
    cut_net_t s = make_cut_net(ctx, BATCH - 1);
    caller_t callers[2] = {{.net = &s}, {.net = &s}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(callers[i].n_right, 20);
    }
    end_cut_net(&s);
    context_destroy(ctx);
}

#ifdef __SSE__
static int count_flushing(int n_threads)
{
    int n = 0;
#pragma omp parallel num_threads(n_threads) reduction(+ : n)
    n += (_mm_getcsr() & 0x8040u) != 0;
    return n;
}

/* Workers set the mode of denormals. Threads must get their own mode back, in contexts with more
 * threads than the plan was made for, and after a failed run, too. */
static void threads_get_their_mode_of_denormals_back(void **state)
{
    (void)state;
    context_t *ctx = create(3, true), *wide = create(5, true);
    cut_net_t s = make_cut_net(ctx, BATCH);
    order_t order = {.wanted = NULL, .fails_at = 0};
    observer_t observer = {.user = &order, .op_end = compare_slice};
    tensor_t *y = NULL;
    int n = 1;
    CHECK_OK(ctx, module_forward(ctx, s.frozen, s.x, &y));
    check_same(ctx, &s, y);
    CHECK_OK(wide, plan_run(wide, s.plan, 1, (const tensor_t *const[]){s.x}, &n, &y));
    check_same(wide, &s, y);
    assert_int_equal(count_flushing(5), 0);
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    assert_int_equal(module_forward(ctx, s.frozen, s.x, &y), STATUS_IO);
    dispatch_remove_observer(ctx, &observer);
    context_clear_error(ctx);
    assert_int_equal(count_flushing(5), 0);
    end_cut_net(&s);
    context_destroy(wide);
    context_destroy(ctx);
}
#endif

/* ---- failing kernels ---- */

static int n_threads_seen;

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    out[0] = info_dense(call->in[0]->dtype, call->in[0]->rank, call->in[0]->sizes);
    return STATUS_OK;
}

/* Doubles each element. Fails if the first element of its operand is negative. */
static status_t twice(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                      void *scratch)
{
    const int64_t n = info_numel(prepared_output(prepared, 0));
    const float *x = in[0];
    float *y = out[0];
    (void)scratch;
    n_threads_seen = context_threads(ctx);
    if (x[0] < 0.0f)
        return context_fail(ctx, STATUS_INVALID_ARGUMENT, "twice: not of %g", (double)x[0]);
    for (int64_t i = 0; i < n; i++) y[i] = 2.0f * x[i];
    return STATUS_OK;
}

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
static const kernel_t kernel = {.name = "loop", .prepare = ops_prepare_dense, .run = twice};
static const kernel_t *const kernels[] = {&kernel, NULL};
static const opdef_t doubled = {.name = "doubled",
                                .preference = OP_DENSE,
                                .n_operands = 1,
                                .operands = operands,
                                .n_outputs = 1,
                                .traits = TRAIT_ELEMENTWISE,
                                .infer = infer,
                                .kernels = kernels};

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    tensor_t *once = NULL;
    (void)self, (void)n_in;
    *n_out = 1;
    TRY(dispatch_run(ctx, &doubled, NULL, 1, in, NULL, &once));
    status_t status = dispatch_run(ctx, &doubled, NULL, 1, (const tensor_t *const[]){once}, NULL,
                                   out);
    tensor_release(once);
    return status;
}

static void a_failure_of_one_is_the_callers(void **state)
{
    (void)state;
    context_t *ctx = create(2, false);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    const int64_t n = 1 << 16;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(8, n), 3.0, &x));
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    for (int round = 0; round < 2; round++) {
        float element = 0.0f;
        CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
        assert_int_equal(plan_step(plan_of(frozen, "forward"), 0)->n_workers, 2);
        assert_int_equal(n_threads_seen, 1);
        memcpy(&element, elements_of(ctx, y) + 8 * n - 1, sizeof element);
        assert_float_equal(element, 12.0f, 0);
        tensor_release(y);
        float *bytes = NULL;
        CHECK_OK(ctx, tensor_data_mutable(ctx, x, (void **)&bytes));
        bytes[7 * n] = -1.5f;
        y = NULL;
        CHECK_FAILS(ctx, module_forward(ctx, frozen, x, &y), STATUS_INVALID_ARGUMENT,
                    "twice: not of -1.5");
        assert_null(y);
        bytes[7 * n] = 3.0f;
    }
    tensor_release(x);
    module_release(frozen);
    module_release(net);
    context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_workers_are_counted),
        cmocka_unit_test(they_are_told_of_in_the_order_of_the_batch),
        cmocka_unit_test(observers_see_overwritten_operands_as_they_were),
        cmocka_unit_test(contexts_of_all_sizes_run_a_plan),
        cmocka_unit_test(two_callers_run_a_plan_at_once),
#ifdef __SSE__
        cmocka_unit_test(threads_get_their_mode_of_denormals_back),
#endif
        cmocka_unit_test(a_failure_of_one_is_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
