/* Products of matrices in a plan whose operands are views: heads of attention are read where they
 * lie, by strides, and nothing is copied. */
#include "graph/passes/pass.h"
#include "graph/program/plan.h"

#include "tests/support/support.h"

#include <math.h>
#include <string.h>

enum { N = 2, T = 5, H = 3, D = 7 };

/* scores[n][h][t][u] = sum(d) q[n][t][h][d] k[n][u][h][d], of a projection of both side by side. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(heads_are_multiplied_where_they_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
