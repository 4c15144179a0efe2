/* How close to optimal freezing chooses formats and kernels, and how long the choice takes: for
 * every network of the zoo, with one image and with sixteen. Widths are divided by 4 to save time.
 * `tessera explain zoo:NAME --certificate --batch N` reports on networks of full width. */
#include <stdio.h>
#include <time.h>

#include "freeze/freeze.h"
#include "graph/passes/pass.h"
#include "graph/program/plan.h"
#include "module/zoo.h"
#include "tensor/text/text.h"
#include "tests/support/support.h"

/* Limits are higher for sanitizers and emulators, which are slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define MOST_SECONDS 10.0
#else
#define MOST_SECONDS 0.5
#endif
#define LARGEST_GAP 0.03

/* Returns the CPU time of this thread, since others may run at the same time. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check_batch(context_t *ctx, const char *name, module_t *frozen, int64_t batch,
                        int64_t size)
{
    tensor_t *x = NULL;
    layout_certificate_t found;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(batch, 3, size, size), &x));
    const double begin = cpu_seconds();
    CHECK_OK(ctx, graph_certificate(ctx, frozen, "forward", 1, (const tensor_t *[]){x}, &found));
    const double seconds = cpu_seconds() - begin;
    const double gap = (found.cost - found.lower_bound) / found.cost;
    print_message("%-18s %2lld: %8.1f us, uniform %8.1f us, gap %.2f %%, chosen in %.3f s\n", name,
                  (long long)batch, found.cost / 1e3, found.best_uniform / 1e3, 100.0 * gap,
                  seconds);
    assert_true(found.cost > 0.0);
    assert_true(found.cost <= found.best_uniform);
    assert_true(found.lower_bound <= found.cost);
    assert_true(gap <= LARGEST_GAP);
    assert_true(seconds <= MOST_SECONDS);
    tensor_release(x);
}

static void every_network_of_the_zoo_is_near_its_bound(void **state)
{
    context_t *ctx = fixture_context(state);
    for (const char *const *name = zoo_names(); *name != NULL; name++) {
        module_t *net = NULL, *frozen = NULL;
        tensor_t *x = NULL;
        int64_t size = 0;
        CHECK_OK(ctx, zoo_create(ctx, *name, &(zoo_options_t){.divide = 4}, &net, &size));
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3, size, size), &x));
        CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
        CHECK_OK(ctx, freeze_take(ctx, &net, NULL, &frozen));
        check_batch(ctx, *name, frozen, 1, size);
        check_batch(ctx, *name, frozen, 16, size);
        tensor_release(x);
        module_release(frozen);
    }
}

/* ---- long networks ---- */

/* Makes a chain of poolings, which can run in blocked formats, and operators that overwrite their
 * input. */
static module_t *make_chain(context_t *ctx, int64_t batch, int n_nodes)
{
    module_t *net = NULL;
    text_t text = text_begin(ctx);
    text_append(&text, "graph forward(%%self : module, %%0 : f32[%d,8,8,8]) {\n", (int)batch);
    for (int i = 0; i < n_nodes; i += 2) {
        text_append(&text, "%%%d = max_pool2d(%%%d) kernel=[3,3] padding=[1,1] stride=[1,1]\n",
                    i + 1, i);
        text_append(&text, "%%%d = sigmoid(%%%d)\n", i + 2, i + 1);
    }
    text_append(&text, "return %%%d\n}\n", n_nodes);
    CHECK_OK(ctx, text_status(&text));
    CHECK_OK(ctx, module_create(ctx, "Chain", &net));
    CHECK_OK(ctx, graph_define(ctx, net, text_string(&text)));
    text_clear(&text);
    return net;
}

/* The limit is a hundredth of what a search in quadratic time would need. */
static void a_chain_of_thousands_is_frozen_in_seconds(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int64_t batch = 1; batch <= 4; batch += 3) {
        module_t *net = make_chain(ctx, batch, 4000), *frozen = NULL;
        const double begin = cpu_seconds();
        CHECK_OK(ctx, freeze_take(ctx, &net, NULL, &frozen));
        const double seconds = cpu_seconds() - begin;
        print_message("4000 nodes, batch %d: frozen in %.3f s\n", (int)batch, seconds);
        assert_non_null(plan_of(frozen, "forward"));
        assert_true(seconds <= 10.0 * MOST_SECONDS);
        module_release(frozen);
    }
}

static int count_formats(const module_t *frozen)
{
    const graph_t *graph = plan_graph(plan_of(frozen, "forward"));
    int n = 0;
    for (int v = 0; v < graph_n_values(graph); v++) {
        const graph_type_t *type = graph_value_type(graph, v);
        n += type->kind == TYPE_TENSOR && type->has_info && type->info.layout == LAYOUT_MKLDNN;
    }
    return n;
}

static void plans_leave_out_what_freezing_leaves_out(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const skip[] = {"layout", NULL};
    const freeze_options_t options = {.skip = skip};
    module_t *net = make_chain(ctx, 1, 8), *frozen = NULL, *without = NULL, *copy = NULL;
    tensor_t *x = NULL, *y = NULL, *z = NULL;
    graph_t *graph = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 8, 8, 8), &x));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, freeze(ctx, net, &options, &without));
    CHECK_OK(ctx, module_clone(ctx, without, &copy));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, module_forward(ctx, without, x, &z));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, z, y, &difference));
    assert_true(difference <= 1e-6);
    tensor_release(z);
    CHECK_OK(ctx, module_forward(ctx, copy, x, &z));
    assert_true(count_formats(frozen) > 0);
    assert_int_equal(count_formats(without), 0);
    assert_int_equal(count_formats(copy), 0);
    CHECK_OK(ctx, graph_for(ctx, without, "forward", 1, (const tensor_t *[]){x}, &graph));
    assert_string_equal(graph_name(graph), "forward");
    graph_release(graph);
    tensor_release(x);
    tensor_release(y);
    tensor_release(z);
    module_release(copy);
    module_release(without);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_network_of_the_zoo_is_near_its_bound),
        TEST(a_chain_of_thousands_is_frozen_in_seconds),
        TEST(plans_leave_out_what_freezing_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
