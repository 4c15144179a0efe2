/* PyTorch's TestMKLDNNReinplacing (and inplace_removal of TestFrozenOptimizations), with the names
 * that they have there. A plan overwrites values that nobody reads again, and never others. */
#include "freeze/freeze.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/support.h"

/* the context and modules of the running test */
static context_t *ctx;
static module_t *net, *frozen;
static const plan_t *plan;

static int setup(void **state)
{
    int failed = fixture_setup(state);
    ctx = failed ? NULL : fixture_context(state);
    return failed;
}

static void add_parameter(const char *name, int rank, const int64_t *sizes)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &tensor));
    CHECK_OK(ctx, module_set_parameter(ctx, net, name, tensor));
    tensor_release(tensor);
}

/* Makes a module from statements, with a conv's weight and a tensor of the sizes of its output.
 * Folding and fusion are skipped, so that each operator is a step of its own. */
static void freeze_statements(const char *statements)
{
    static const char *const skip[] = {"fold_scale", "fuse_post_ops", NULL};
    char text[2048];
    snprintf(text, sizeof text,
             "graph forward(%%self : module, %%x : f32[1,16,6,6]) {\n"
             "  %%w = getattr(%%self) name=\"weight\" : f32[16,16,3,3]\n"
             "  %%k = getattr(%%self) name=\"constant\" : f32[1,16,6,6]\n%s}\n",
             statements);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    add_parameter("weight", 4, (int64_t[]){16, 16, 3, 3});
    add_parameter("constant", 4, (int64_t[]){1, 16, 6, 6});
    CHECK_OK(ctx, graph_define(ctx, net, text));
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.skip = skip}, &frozen));
}

/* Runs the module and the frozen one twice: the second run reveals what the first has
 * overwritten. */
static void check_same(void)
{
    tensor_t *x = NULL, *before = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, (int64_t[]){1, 16, 6, 6}, &x));
    CHECK_OK(ctx, tensor_clone(ctx, x, &before));
    for (int round = 0; round < 2; round++) {
        datum_t *in = NULL, *wanted[METHOD_MAX_OUTPUTS], *given[METHOD_MAX_OUTPUTS];
        int n_wanted = METHOD_MAX_OUTPUTS, n_given = METHOD_MAX_OUTPUTS;
        double difference = 1.0;
        CHECK_OK(ctx, datum_tensor(ctx, x, &in));
        CHECK_OK(ctx, module_call(ctx, net, "forward", 1, &in, &n_wanted, wanted));
        CHECK_OK(ctx, module_call(ctx, frozen, "forward", 1, &in, &n_given, given));
        assert_int_equal(n_given, n_wanted);
        for (int i = 0; i < n_given; i++) {
            CHECK_OK(ctx, tensor_max_rel_diff(ctx, datum_as_tensor(given[i]),
                                              datum_as_tensor(wanted[i]), &difference));
            assert_true(difference < 1e-5);
            datum_release(given[i]);
            datum_release(wanted[i]);
        }
        datum_release(in);
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, x, before, &difference));
        assert_true(difference == 0.0);
    }
    tensor_release(before);
    tensor_release(x);
    plan = plan_of(frozen, "forward");
    assert_non_null(plan);
}

/* Returns the n-th step of an operator. */
static const plan_step_t *step(const char *name, int n)
{
    for (int i = 0; i < plan_n_steps(plan); i++)
        if (strcmp(plan_step(plan, i)->name, name) == 0 && n-- == 0) return plan_step(plan, i);
    fail_msg("the plan has no %s left", name);
    return NULL;
}

/* Checks that step a overwrites its input `input`, the result of step b. */
static void check_over(const plan_step_t *a, int input, const plan_step_t *b)
{
    assert_int_equal(a->overwrites, input);
    assert_int_equal(a->arena_offset, b->arena_offset);
}

static void check_apart(const plan_step_t *a)
{
    assert_int_equal(a->overwrites, -1);
}

static void done(void)
{
    module_release(frozen);
    module_release(net);
    frozen = net = NULL;
    plan = NULL;
}

static void successful(void **state)
{
    (void)state;
    freeze_statements("  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                      "  %b = hardswish(%a)\n"
                      "  %c = relu(%b)\n"
                      "  %d = softmax(%c) dim=1\n"
                      "  return %d\n");
    check_same();
    check_over(step("hardswish", 0), 0, step("conv2d", 0));
    check_over(step("relu", 0), 0, step("conv2d", 0));
    done();
}

static void merge_liveness(void **state)
{
    (void)state;
    freeze_statements("  %a = sigmoid(%x)\n"
                      "  %b = mul(%a, 4.0)\n"
                      "  %v = reshape(%b) sizes=[1,16,36]\n"
                      "  %c = add(%b, %x)\n"
                      "  %d = softmax(%c) dim=1\n"
                      "  %e = erf(%v)\n"
                      "  return %b, %d, %e\n");
    check_same();
    assert_int_equal(step("mul", 0)->overwrites, 0);
    check_apart(step("add", 0));
    check_apart(step("erf", 0));
    done();
}

static void always_alive_values(void **state)
{
    (void)state;
    freeze_statements("  %a = sigmoid(%x)\n"
                      "  %b = add(%a, %x)\n"
                      "  %c = mul(%x, %k)\n"
                      "  %d = relu(%a)\n"
                      "  %e = tanh(%x)\n"
                      "  return %a, %b, %c, %d, %e\n");
    check_same();
    check_apart(step("add", 0));
    check_apart(step("mul", 0));
    check_apart(step("relu", 0));
    check_apart(step("tanh", 0));
    done();
}

static void switch_inputs_to_inplace(void **state)
{
    (void)state;
    freeze_statements("  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                      "  %b = add(%k, %a)\n"
                      "  %c = sub(%k, %b)\n"
                      "  %d = softmax(%c) dim=1\n"
                      "  return %d\n");
    check_same();
    check_over(step("add", 0), 1, step("conv2d", 0));
    done();
}

static void the_operand_that_is_read_again_stays(void **state)
{
    (void)state;
    freeze_statements("  %a = sigmoid(%x)\n"
                      "  %b = tanh(%x)\n"
                      "  %c = maximum(%a, %b)\n"
                      "  %d = minimum(%c, %a)\n"
                      "  %e = mul(%d, %d)\n"
                      "  %f = softmax(%e) dim=1\n"
                      "  return %f\n");
    check_same();
    check_over(step("maximum", 0), 1, step("tanh", 0));
    assert_true(step("minimum", 0)->overwrites >= 0);
    check_apart(step("mul", 0));
    done();
}

static void inplace_removal(void **state)
{
    (void)state;
    freeze_statements("  %a = sigmoid(%x)\n"
                      "  %b = add_(%a, %x)\n"
                      "  %c = div_(%b, %k)\n"
                      "  %d = add(%c, %x)\n"
                      "  %e = softmax(%d) dim=1\n"
                      "  return %e\n");
    check_same();
    const graph_t *graph = plan_graph(plan);
    for (int i = 0; i < graph_body(graph)->n_nodes; i++)
        assert_false(graph_body(graph)->nodes[i]->is_in_place);
    check_over(step("add", 0), 0, step("sigmoid", 0));
    check_over(step("div", 0), 0, step("sigmoid", 0));
    check_over(step("add", 1), 0, step("sigmoid", 0));
    done();
}

#define PLAN_TEST(function) cmocka_unit_test_setup_teardown(function, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST(successful),
        PLAN_TEST(merge_liveness),
        PLAN_TEST(always_alive_values),
        PLAN_TEST(switch_inputs_to_inplace),
        PLAN_TEST(the_operand_that_is_read_again_stays),
        PLAN_TEST(inplace_removal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
