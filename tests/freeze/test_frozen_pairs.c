/* Frozen modules join a 1x1 convolution and a depthwise one into one step, a pair. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/ir/graph.h"
#include "graph/program/plan.h"
#include "kernels/isa_impl.h"
#include "module/zoo.h"
#include "tests/support/nets/subject.h"

static const char parameters[] = "a=96,16,1,1 b=96 c=96,1,3,3 d=24,96,1,1 e=144,24,1,1 f=144 "
                                 "g=144,1,5,5 h=24,144,1,1";
static const char input[] = "%x : f32[1,16,30,23]";
static const char body[] = "  %1 = conv2d(%x, %a, %b)\n  %2 = relu6(%1)\n"
                           "  %3 = conv2d(%2, %c, %b) padding=[1,1] stride=[2,2] groups=96\n"
                           "  %4 = relu6(%3)\n  %5 = conv2d(%4, %d, none)\n"
                           "  %6 = conv2d(%5, %e, %f)\n  %7 = silu(%6)\n"
                           "  %8 = conv2d(%7, %g, none) padding=[2,2] groups=144\n"
                           "  %9 = silu(%8)\n  %10 = conv2d(%9, %h, none)\n"
                           "  %11 = add(%5, %10)\n  return %11\n";

/* Counts steps of this operator that run as pairs with our kernel. */
static int count_pairs(const module_t *frozen)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++)
        n += strcmp(plan_step(plan, i)->name, "expand_depthwise") == 0 &&
             strcmp(prepared_implementation(plan_step(plan, i)->prepared), "expand_depthwise") == 0;
    return n;
}

static void check_same_bits(context_t *ctx, const tensor_t *a, const tensor_t *b)
{
    const size_t n = (size_t)tensor_numel(a) * sizeof(float);
    char *first = test_malloc(n), *second = test_malloc(n);
    CHECK_OK(ctx, tensor_read(ctx, a, first, n));
    CHECK_OK(ctx, tensor_read(ctx, b, second, n));
    assert_memory_equal(first, second, n);
    test_free(first);
    test_free(second);
}

/* Checks that a loaded file runs the same pairs, without repacking weights. */
static void check_file(context_t *ctx, module_t *frozen, const tensor_t *x, const tensor_t *y)
{
    char path[] = "/tmp/tessera-pairs-XXXXXX";
    const int file = mkstemp(path);
    module_t *loaded = NULL;
    tensor_t *again = NULL;
    counters_t counters;
    assert_true(file >= 0);
    close(file);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    counters_reset(ctx);
    CHECK_OK(ctx, module_forward(ctx, loaded, x, &again));
    counters_read(ctx, &counters);
    assert_true(counters_weight_reorders(&counters) == 0);
    assert_int_equal(count_pairs(loaded), count_pairs(frozen));
    check_same_bits(ctx, y, again);
    tensor_release(again);
    module_release(loaded);
    remove(path);
}

static void pairs_give_what_the_two_give(void **state)
{
    context_t *ctx = fixture_context(state);
    subject_t s = subject_begin(ctx, parameters, input, body);
    tensor_t *y = NULL;
    subject_check_values(&s);
    subject_check_borders(&s, 1);
    CHECK_OK(ctx, module_forward(ctx, s.frozen, s.in[0], &y));
    assert_int_equal(count_pairs(s.frozen), isa_best() != ISA_PORTABLE ? 2 : 0);
    check_file(ctx, s.frozen, s.in[0], y);
    tensor_release(y);
    subject_end(&s);
}

/* All blocks of MobileNet but the first begin with a 1x1 convolution. Small images in a batch may
 * run without pairs. */
static void mobilenet_runs_its_blocks_as_pairs(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL, *wanted = NULL;
    double difference = 1.0;
    int64_t size = 0;
    CHECK_OK(ctx, zoo_create(ctx, "mobilenet_v2", NULL, &net, &size));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, size, size), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &wanted));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, wanted, &difference));
    assert_true(difference < 1e-4);
    if (isa_best() != ISA_PORTABLE) assert_true(count_pairs(frozen) >= 6);
    check_file(ctx, frozen, x, y);
    tensor_release(x);
    tensor_release(y);
    tensor_release(wanted);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pairs_give_what_the_two_give),
        TEST(mobilenet_runs_its_blocks_as_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
