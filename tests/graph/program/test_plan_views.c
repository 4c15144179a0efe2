/* Matrix products in plans, with views as operands. Kernels read the heads of attention through
 * strides, without copies, and views of weights are packed once. */
#include "dispatch/dispatch.h"
#include "graph/passes/pass.h"
#include "graph/program/plan.h"
#include "module/mkldnn.h"
#include "tensor/tensor_impl.h"

#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 2, T = 5, H = 3, D = 7 };

/* Computes scores[n][h][t][u] = sum(d) q[n][t][h][d] k[n][u][h][d]. q and k are views of one
 * result. */
static const char *const attention = "graph forward(%self : module, %x : f32[2,5,6,7]) {\n"
                                     "  %q = slice(%x) dim=2 start=0 end=3\n"
                                     "  %k = slice(%x) dim=2 start=3 end=6\n"
                                     "  %1 = permute(%q) dims=[0,2,1,3]\n"
                                     "  %2 = permute(%k) dims=[0,2,3,1]\n"
                                     "  %3 = matmul(%1, %2)\n"
                                     "  return %3\n}\n";

static double score(const float *x, int n, int h, int t, int u)
{
    const float *q = x + ((n * T + t) * 2 * H + h) * D, *k = x + ((n * T + u) * 2 * H + H + h) * D;
    double sum = 0;
    for (int d = 0; d < D; d++) sum += (double)q[d] * (double)k[d];
    return sum;
}

static module_t *planned(context_t *ctx, const char *text)
{
    module_t *net = NULL;
    graph_t *graph = NULL;
    CHECK_OK(ctx, module_create(ctx, "Attention", &net));
    CHECK_OK(ctx, graph_define(ctx, net, text));
    CHECK_OK(ctx, pass_run(ctx, graph_of(net, "forward"), pass_pipeline_graph(), NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, net, "forward", graph, 0));
    graph_release(graph);
    return net;
}

static int count_steps(const plan_t *plan, const char *kernel)
{
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const prepared_t *prepared = plan_step(plan, i)->prepared;
        n += prepared != NULL && strcmp(prepared_kernel(prepared), kernel) == 0;
    }
    return n;
}

static void heads_are_multiplied_where_they_lie(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = planned(ctx, attention);
    tensor_t *x = NULL, *y = NULL;
    const void *in = NULL, *out = NULL;
    counters_t counters;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(N, T, 2 * H, D), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    tensor_release(y);
    counters_reset(ctx);
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    counters_read(ctx, &counters);
    assert_int_equal(count_steps(plan_of(net, "forward"), "strided"), 1);
    assert_int_equal(counters_activation_reorders(&counters) + counters_copies(&counters), 0);
    CHECK_OK(ctx, tensor_data(ctx, x, &in));
    CHECK_OK(ctx, tensor_data(ctx, y, &out));
    for (int i = 0; i < N * H * T * T; i++) {
        const double expected = score(in, i / (H * T * T), i / (T * T) % H, i / T % T, i % T);
        const double error = fabs((double)((const float *)out)[i] - expected);
        if (!(error <= 1e-5 * (1 + fabs(expected)))) fail_msg("element %d differs", i);
    }
    tensor_release(x);
    tensor_release(y);
    module_release(net);
}

/* ---- views of attributes ---- */

enum { ROWS = 97 * 4, IN = 128, OUT = 64, WIDE = 256 };

/* All nets read x[4,8,97,16] as rows of 128 elements, permuted. They differ in the weight, which is
 * a view. */
static const struct {
    const char *weight; /* an expression of parameter %w, as %v : f32[OUT,IN] */
    int rows, columns;  /* sizes of %w */
    int first, step_out, step_in;
} views[] = {
    {"  %v = slice(%w) dim=0 start=64 end=128\n", WIDE, IN, 64 * IN, IN, 1},
    {"  %v = expand(%w) sizes=[64,128]\n", 1, IN, 0, 0, 1},
    {"  %t = permute(%w) dims=[1,0]\n  %v = slice(%t) dim=0 start=3 end=67\n", IN, WIDE, 3, 1,
     WIDE},
    {"  %r = reshape(%w) sizes=[256,128]\n  %v = slice(%r) dim=0 start=192 end=256\n", 64, 512,
     192 * IN, IN, 1},
};

static module_t *net_with_view(context_t *ctx, int view, tensor_t **out_weight)
{
    char text[1024];
    module_t *net = NULL;
    graph_t *graph = NULL;
    snprintf(text, sizeof text,
             "graph forward(%%self : module, %%x : f32[4,8,97,16]) {\n"
             "  %%1 = permute(%%x) dims=[2,0,1,3]\n"
             "  %%2 = reshape(%%1) sizes=[388,128]\n"
             "  %%w = getattr(%%self) name=\"w\" : f32[%d,%d]\n%s"
             "  %%3 = linear(%%2, %%v, none)\n"
             "  %%4 = relu(%%3)\n"
             "  return %%4\n}\n",
             views[view].rows, views[view].columns, views[view].weight);
    CHECK_OK(ctx, module_create(ctx, "Views", &net));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(views[view].rows, views[view].columns),
                               out_weight));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "w", *out_weight));
    CHECK_OK(ctx, graph_define(ctx, net, text));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    CHECK_OK(ctx, pass_run(ctx, graph_of(net, "forward"), pass_pipeline_graph(), NULL, &graph));
    CHECK_OK(ctx, plan_set_method(ctx, net, "forward", graph, 0));
    graph_release(graph);
    return net;
}

static const float *elements_of(context_t *ctx, const tensor_t *tensor)
{
    const void *elements = NULL;
    CHECK_OK(ctx, tensor_data(ctx, tensor, &elements));
    return elements;
}

static void check_products(context_t *ctx, int view, const tensor_t *x, const tensor_t *weight,
                           const tensor_t *y)
{
    const float *in = elements_of(ctx, x), *w = elements_of(ctx, weight),
                *out = elements_of(ctx, y);
    for (int row = 0; row < ROWS; row++) {
        const int n = row / 4, b = row % 4;
        for (int o = 0; o < OUT; o++) {
            double sum = 0, size = 0;
            for (int i = 0; i < IN; i++) {
                const double product =
                    (double)in[((b * 8 + i / 16) * 97 + n) * 16 + i % 16] *
                    w[views[view].first + o * views[view].step_out + i * views[view].step_in];
                sum += product;
                size += fabs(product);
            }
            const double error = fabs(out[row * OUT + o] - (sum > 0 ? sum : 0));
            if (!(error <= 1e-5 * (1 + size))) fail_msg("%s row %d", views[view].weight, row);
        }
    }
}

/* Compares a step with the specification, which reads the same view. */
static status_t check_operator(context_t *ctx, void *user, const op_event_t *event)
{
    double error = 0;
    TRY(dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in, event->n_out,
                        (const tensor_t *const *)event->out, 50, &error));
    assert_true(error <= 1.0);
    ++*(int *)user;
    return STATUS_OK;
}

static void views_of_attributes_are_packed_once_and_follow_what_is_written(void **state)
{
    context_t *ctx = fixture_context(state);
    for (size_t view = 0; view < sizeof views / sizeof *views; view++) {
        tensor_t *x = NULL, *y = NULL, *weight = NULL, *other = NULL;
        counters_t counters;
        int n_operators = 0;
        module_t *net = net_with_view(ctx, (int)view, &weight);
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 8, 97, 16), &x));
        CHECK_OK(ctx, module_forward(ctx, net, x, &y));
        assert_non_null(plan_of(net, "forward"));
        tensor_release(y);
        counters_reset(ctx);
        CHECK_OK(ctx, module_forward(ctx, net, x, &y));
        counters_read(ctx, &counters);
        assert_int_equal(counters_weight_reorders(&counters), 0);
        assert_int_equal(counters.weights_packed, 0);
        check_products(ctx, (int)view, x, weight, y);
        tensor_release(y);

        observer_t observer = {.user = &n_operators, .op_end = check_operator};
        CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(views[view].rows, views[view].columns),
                                   &other));
        CHECK_OK(ctx, tensor_copy(ctx, weight, other));
        CHECK_OK(ctx, module_forward(ctx, net, x, &y));
        dispatch_remove_observer(ctx, &observer);
        assert_true(n_operators > 0);
        check_products(ctx, (int)view, x, other, y);
        tensor_release(x);
        tensor_release(y);
        tensor_release(weight);
        tensor_release(other);
        module_release(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(heads_are_multiplied_where_they_lie),
        TEST(views_of_attributes_are_packed_once_and_follow_what_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
