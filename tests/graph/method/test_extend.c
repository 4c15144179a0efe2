/* Plan methods that add graphs for inputs that their other graphs refuse. */
#include "graph/method/method_impl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "graph/program/plan.h"
#include "tensor/tensor_impl.h"
#include "tests/support/support.h"

enum { FIXED = 2, MOST = 40, N_THREADS = 4, N_ROUNDS = 60 };

static atomic_int n_made, n_asked;

/* Makes y = x * n for f32[n], up to MOST. */
static status_t make_graph(context_t *ctx, module_t *self, const char *method, int n_in,
                           const tensor_info_t *const *in, graph_t **out_graph)
{
    char text[256];
    const int n = (int)in[0]->sizes[0];
    (void)self, (void)n_in;
    n_asked++;
    if (n > MOST) FAIL(ctx, STATUS_UNSUPPORTED, "a size of %d", n);
    n_made++;
    snprintf(text, sizeof text,
             "graph %s(%%self : module, %%x : f32[%d]) {\n  %%n = constant() value=%d.0\n"
             "  %%y = mul(%%x, %%n)\n  return %%y\n}\n",
             method, n, n);
    return graph_parse(ctx, text, NULL, out_graph);
}

static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL;
    graph_t *graph = NULL;
    const tensor_info_t info = info_dense(DTYPE_F32, 1, (const int64_t[]){FIXED});
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx,
             make_graph(ctx, net, "forward", 1, (const tensor_info_t *const[]){&info}, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, net, "forward", graph, 0));
    graph_release(graph);
    assert_true(plan_extends(net, "forward") == NULL);
    plan_set_extend(net, "forward", make_graph);
    assert_true(plan_extends(net, "forward") != NULL);
    n_made = n_asked = 0;
    return net;
}

/* Returns the first element of the result for ones; -1 on failure. */
static float run(context_t *ctx, module_t *net, int64_t n)
{
    tensor_t *x = NULL, *y = NULL;
    float ones[MOST], numbers[MOST] = {-1};
    for (int i = 0; i < MOST; i++) ones[i] = 1;
    if (tensor_from(ctx, DTYPE_F32, 1, &n, ones, &x) != STATUS_OK) return -1;
    if (module_forward(ctx, net, x, &y) == STATUS_OK)
        (void)tensor_read(ctx, y, numbers, sizeof numbers);
    tensor_release(y);
    tensor_release(x);
    return numbers[0];
}

static void graphs_are_added_and_the_last_ones_are_kept(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx), *clone = NULL;
    for (int n = 1; n <= MOST; n++) assert_true(run(ctx, net, n) == (float)n);
    assert_int_equal(n_made, MOST - 1);
    for (int n = MOST; n > MOST - PLAN_MAX_ADDED; n--) assert_true(run(ctx, net, n) == (float)n);
    assert_true(run(ctx, net, FIXED) == FIXED);
    assert_int_equal(n_made, MOST - 1);
    assert_true(run(ctx, net, 3) == 3); /* was dropped */
    assert_int_equal(n_made, MOST);
    assert_int_equal(plan_n_graphs(net, "forward"), 1);
    assert_non_null(plan_of(net, "forward"));
    CHECK_OK(ctx, module_clone(ctx, net, &clone));
    assert_true(run(ctx, clone, 5) == 5);
    module_release(clone);
    module_release(net);
}

static void inputs_that_no_graph_can_take_are_refused_for_the_first_one_s_reason(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(MOST + 1), &x));
    CHECK_FAILS(ctx, module_forward(ctx, net, x, &y), STATUS_INVALID_ARGUMENT, "f32[2]");
    const tensor_info_t *const infos[] = {tensor_info(x)};
    CHECK_FAILS(ctx, module_check_inputs(ctx, net, "forward", 1, infos), STATUS_INVALID_ARGUMENT,
                "f32[2]");
    tensor_release(x);
    module_release(net);
}

static bool is_refused(context_t *ctx, module_t *net, int64_t n)
{
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 1, &n, &x));
    const status_t status = module_forward(ctx, net, x, &y);
    tensor_release(x);
    return status == STATUS_INVALID_ARGUMENT && y == NULL;
}

static void refusals_are_remembered(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    for (int i = 0; i < 3; i++) assert_true(is_refused(ctx, net, MOST + 1));
    assert_int_equal(n_asked, 1);
    for (int i = 0; i < PLAN_MAX_REFUSED; i++) assert_true(is_refused(ctx, net, MOST + 2 + i));
    assert_int_equal(n_asked, 1 + PLAN_MAX_REFUSED);
    assert_true(is_refused(ctx, net, MOST + 2)); /* still known */
    assert_int_equal(n_asked, 1 + PLAN_MAX_REFUSED);
    assert_true(is_refused(ctx, net, MOST + 1)); /* forgotten */
    assert_int_equal(n_asked, 2 + PLAN_MAX_REFUSED);
    assert_true(run(ctx, net, 3) == 3);
    module_release(net);
}

/* Runs a size that all threads add, and one that all are refused. */
static void *run_same(void *user)
{
    module_t *net = user;
    context_t *ctx = NULL;
    if (context_create(NULL, &ctx) != STATUS_OK) return NULL;
    const bool is_right = run(ctx, net, 7) == 7 && is_refused(ctx, net, MOST + 1);
    context_destroy(ctx);
    return is_right ? net : NULL;
}

static void threads_with_the_same_inputs_make_one_graph(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_same, net), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
    assert_int_equal(n_made, 1);
    assert_int_equal(n_asked, 2);
    module_release(net);
}

static void *run_sizes(void *user)
{
    module_t *net = user;
    context_t *ctx = NULL;
    int n_wrong = 0;
    if (context_create(NULL, &ctx) != STATUS_OK) return NULL;
    for (int i = 0; i < N_ROUNDS; i++) {
        const int64_t n = 1 + i * 7 % 13;
        n_wrong += run(ctx, net, n) != (float)n;
        (void)plan_n_graphs(net, "forward");
    }
    context_destroy(ctx);
    return n_wrong == 0 ? net : NULL;
}

static void threads_add_graphs_at_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_sizes, net), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(graphs_are_added_and_the_last_ones_are_kept),
        TEST(inputs_that_no_graph_can_take_are_refused_for_the_first_one_s_reason),
        TEST(refusals_are_remembered),
        TEST(threads_with_the_same_inputs_make_one_graph),
        TEST(threads_add_graphs_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
