/* Operators write their results directly into the result of a concat. Compares frozen nets, run
 * twice, with the modules, and checks how many parts of a concat need no copy. */
#include "freeze/freeze.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/zoo.h"
#include "tensor/tensor_impl.h"
#include "tests/support/support.h"

/* the context and modules of the running test */
static context_t *ctx;
static module_t *net, *frozen;
static const plan_t *plan;
static int64_t side; /* height and width of images */

/* Batches run as a whole; test_slices tests batches that run in parts. */
static int setup(void **state)
{
    setenv("TESSERA_CPU_CACHE", "0", 1);
    int failed = fixture_setup(state);
    side = 6;
    unsetenv("TESSERA_CPU_CACHE");
    ctx = failed ? NULL : fixture_context(state);
    return failed;
}

/* Weights are small, so that a convolution keeps the magnitude of its input. Larger values would
 * have larger rounding errors, which a tanh after them shows. */
static void add_parameter(const char *name, int64_t out, int64_t in, int64_t kernel)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(out, in, kernel, kernel), &tensor));
    void *data = NULL;
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &data));
    float *values = data;
    float scale = 1.0F / sqrtf((float)(in * kernel * kernel));
    for (int64_t i = 0; i < out * in * kernel * kernel; i++) values[i] *= scale;
    CHECK_OK(ctx, module_set_parameter(ctx, net, name, tensor));
    tensor_release(tensor);
}

/* Makes a module from statements, with %w, a 3x3 kernel of `channels` to `channels`, %v, one of
 * `channels` to 16, and %k, a tensor as large as the input. Fusion is skipped, so that each
 * operator is a step of its own. */
static void freeze_statements(int64_t batch, int64_t channels, const char *statements)
{
    static const char *const skip[] = {"fuse_post_ops", "merge_shared_inputs", NULL};
    const long long c = (long long)channels, n = (long long)batch, m = (long long)side;
    char text[2048];
    snprintf(text, sizeof text,
             "graph forward(%%self : module, %%x : f32[%lld,%lld,%lld,%lld]) {\n"
             "  %%w = getattr(%%self) name=\"square\" : f32[%lld,%lld,3,3]\n"
             "  %%v = getattr(%%self) name=\"sixteen\" : f32[16,%lld,3,3]\n"
             "  %%k = getattr(%%self) name=\"constant\" : f32[1,%lld,%lld,%lld]\n%s}\n",
             n, c, m, m, c, c, c, c, m, m, statements);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    add_parameter("square", channels, channels, 3);
    add_parameter("sixteen", 16, channels, 3);
    add_parameter("constant", 1, channels, side);
    CHECK_OK(ctx, graph_define(ctx, net, text));
    CHECK_OK(ctx,
             freeze(ctx, net, &(freeze_options_t){.skip = skip, .keep_numerics = true}, &frozen));
}

/* Runs the module once and the frozen one twice on an input of these sizes. */
static void check_same(int64_t batch, int64_t channels)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, channels, side, side), &x));
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
            if (!(difference < 1e-5)) fail_msg("output %d differs by %g", i, difference);
            datum_release(given[i]);
            datum_release(wanted[i]);
        }
        datum_release(in);
    }
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

static void done(void)
{
    module_release(frozen);
    module_release(net);
    frozen = net = NULL;
    plan = NULL;
}

/* Checks that the n-th concat needs no copy for `joined` parts. On some processors its format is
 * channels-last. Then parts are not contiguous and must be copied. */
static void check_concat(int n, int joined)
{
    const plan_step_t *concat = step("concat", n);
    const tensor_info_t *info = prepared_output(concat->prepared, 0);
    const format_t between = format_channels_last(info->rank);
    bool is_between = format_same(&info->format, &between, info->sizes);
    assert_int_equal(concat->n_joined, is_between ? 0 : joined);
}

/* Freezes and runs the statements and compares results. Concat n needs no copy of joined[n]
 * parts. */
static void check_joins(int64_t batch, int64_t channels, const char *statements, int n_concats,
                        const int *joined)
{
    freeze_statements(batch, channels, statements);
    check_same(batch, channels);
    for (int i = 0; i < n_concats; i++) check_concat(i, joined[i]);
    done();
}

static void parts_are_written_at_their_place(void **state)
{
    (void)state;
    freeze_statements(1, 16,
                      "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                      "  %b = conv2d(%x, %v, none) padding=[1,1]\n"
                      "  %c = concat(%a, %b) dim=1\n"
                      "  %d = softmax(%c) dim=1\n"
                      "  return %d\n");
    check_same(1, 16);
    check_concat(0, 2);
    const plan_step_t *concat = step("concat", 0);
    if (concat->n_joined > 0) {
        assert_int_equal(step("conv2d", 0)->arena_offset, concat->arena_offset);
        assert_int_equal(step("conv2d", 1)->arena_offset,
                         concat->arena_offset + sizeof(float) * 16 * 6 * 6);
    }
    done();
}

static void channels_that_fill_no_block_lie_beside_each_other_when_plain(void **state)
{
    (void)state;
    static const int64_t odd[] = {1, 3, 7, 17, 31};
    for (int i = 0; i < 5; i++) {
        freeze_statements(1, odd[i],
                          "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                          "  %b = conv2d(%a, %v, none) padding=[1,1]\n"
                          "  %c = concat(%a, %b, %x) dim=1\n"
                          "  %d = relu(%c)\n"
                          "  return %d\n");
        check_same(1, odd[i]);
        done();
    }
}

static void joins_that_grow_are_one_buffer(void **state)
{
    (void)state;
    check_joins(1, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %b = conv2d(%a, %v, none) padding=[1,1]\n"
                "  %c1 = concat(%a, %b) dim=1\n"
                "  %n1 = tanh(%c1)\n"
                "  %e1, %f1 = split(%n1) sizes=[16,16] dim=1\n"
                "  %d = conv2d(%e1, %v, none) padding=[1,1]\n"
                "  %c2 = concat(%a, %b, %d) dim=1\n"
                "  %n2 = tanh(%c2)\n"
                "  %e2, %f2, %g2 = split(%n2) sizes=[16,16,16] dim=1\n"
                "  %h = conv2d(%f2, %v, none) padding=[1,1]\n"
                "  %c3 = concat(%a, %b, %d, %h) dim=1\n"
                "  %y = softmax(%c3) dim=1\n"
                "  return %y, %f1\n",
                3, (int[]){2, 3, 4});
    check_joins(1, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %b = conv2d(%a, %v, none) padding=[1,1]\n"
                "  %c1 = concat(%a, %b) dim=1\n"
                "  %n1 = tanh(%c1)\n"
                "  %e1, %f1 = split(%n1) sizes=[16,16] dim=1\n"
                "  %d = conv2d(%e1, %v, none) padding=[1,1]\n"
                "  %c2 = concat(%c1, %d) dim=1\n"
                "  %y = softmax(%c2) dim=1\n"
                "  return %y\n",
                2, (int[]){2, 2});
}

static void a_batch_of_several_is_copied(void **state)
{
    (void)state;
    check_joins(2, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %b = conv2d(%x, %v, none) padding=[1,1]\n"
                "  %c = concat(%a, %b) dim=1\n"
                "  %d = softmax(%c) dim=1\n"
                "  return %d\n",
                1, (int[]){0});
}

static void only_one_place_is_written_of_what_is_joined_twice(void **state)
{
    (void)state;
    check_joins(1, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %c = concat(%a, %a) dim=1\n"
                "  %d = softmax(%c) dim=1\n"
                "  return %d\n",
                1, (int[]){1});
    check_joins(1, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %b = conv2d(%x, %v, none) padding=[1,1]\n"
                "  %c = concat(%a, %b) dim=1\n"
                "  %d = concat(%b, %a) dim=1\n"
                "  %e = sub(%c, %d)\n"
                "  %f = softmax(%e) dim=1\n"
                "  return %f\n",
                2, (int[]){0, 2});
}

static void inputs_constants_and_results_are_copied(void **state)
{
    (void)state;
    check_joins(1, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %b = tanh(%a)\n"
                "  %c = concat(%x, %b, %k, %a) dim=1\n"
                "  %d = softmax(%c) dim=1\n"
                "  return %d, %a\n",
                1, (int[]){1});
}

static void a_part_that_is_read_and_overwritten_later_keeps_its_bytes(void **state)
{
    (void)state;
    check_joins(1, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %b = conv2d(%x, %v, none) padding=[1,1]\n"
                "  %c = concat(%a, %b) dim=1\n"
                "  %d = tanh(%a)\n"
                "  %e = concat(%d, %b) dim=1\n"
                "  %f = sub(%c, %e)\n"
                "  %g = softmax(%f) dim=1\n"
                "  return %g\n",
                2, (int[]){0, 2});
    check_joins(1, 16,
                "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                "  %b = conv2d(%x, %v, none) padding=[1,1]\n"
                "  %c = concat(%a, %b) dim=1\n"
                "  %d = tanh(%c)\n"
                "  %e, %f = split(%d) sizes=[16,16] dim=1\n"
                "  %g = add(%e, %a)\n"
                "  %h = add(%f, %b)\n"
                "  %i = softmax(%g) dim=1\n"
                "  %j = softmax(%h) dim=1\n"
                "  return %i, %j\n",
                1, (int[]){2});
}

static void a_sum_over_a_part_is_written_elsewhere_than_the_join(void **state)
{
    (void)state;
    static const char *const skip[] = {"merge_shared_inputs", NULL};
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    add_parameter("w", 16, 16, 3);
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module, %x : f32[1,16,6,6]) {\n"
                               "  %w = getattr(%self) name=\"w\" : f32[16,16,3,3]\n"
                               "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                               "  %b = conv2d(%a, %w, none) padding=[1,1]\n"
                               "  %c = concat(%b, %a) dim=1\n"
                               "  %t = tanh(%b)\n"
                               "  %d = conv2d(%t, %w, none) padding=[1,1]\n"
                               "  %s = add(%d, %a)\n"
                               "  %e = softmax(%s) dim=1\n"
                               "  %f = softmax(%c) dim=1\n"
                               "  return %e, %f\n}\n"));
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.skip = skip}, &frozen));
    check_same(1, 16);
    done();
}

/* Checks that each image of the concat's result begins with that image of the first part. */
static status_t compare_parts(context_t *context, void *user, const op_event_t *event)
{
    if (strcmp(event->op->name, "concat") != 0) return STATUS_OK;
    tensor_t *part = NULL, *all = NULL;
    CHECK_OK(context, to_dense(context, event->in[0], &part));
    CHECK_OK(context, to_dense(context, event->out[0], &all));
    const int64_t batch = tensor_sizes(part)[0];
    const int64_t n = tensor_numel(part) / batch, n_all = tensor_numel(all) / batch;
    for (int64_t i = 0; i < batch; i++)
        assert_memory_equal((const float *)tensor_bytes(all) + i * n_all,
                            (const float *)tensor_bytes(part) + i * n, (size_t)n * sizeof(float));
    tensor_release(part);
    tensor_release(all);
    ++*(int *)user;
    return STATUS_OK;
}

/* Freezes and runs the statements and compares results. Checks whether (grows) the concat's result
 * is stored at the address of its first part. Returns the arena's bytes, or 0 if the concat is not
 * blocked, as on some processors. */
static size_t check_growth(int64_t batch, int64_t channels, const char *statements, bool grows)
{
    int n_seen = 0;
    observer_t observer = {.user = &n_seen, .op_end = compare_parts};
    freeze_statements(batch, channels, statements);
    check_same(batch, channels);
    const plan_step_t *concat = step("concat", 0);
    const format_t last = format_channels_last(4);
    const tensor_info_t *info = prepared_output(concat->prepared, 0);
    const bool may = info->layout == LAYOUT_MKLDNN &&
                     !format_same(&info->format, &last, info->sizes);
    if (may) assert_int_equal(concat->overwrites, grows ? 0 : -1);
    const size_t bytes = may ? plan_arena_bytes(plan) : 0;
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    check_same(batch, channels);
    dispatch_remove_observer(ctx, &observer);
    assert_true(n_seen > 0);
    done();
    return bytes;
}

#define TWO_PARTS                                                                                  \
    "  %a = conv2d(%x, %w, none) padding=[1,1]\n"                                                  \
    "  %b = conv2d(%x, %v, none) padding=[1,1]\n"                                                  \
    "  %c = concat(%a, %b) dim=1\n"                                                                \
    "  %d = softmax(%c) dim=1\n"

static void a_part_that_ends_grows_into_the_join_of_a_batch(void **state)
{
    (void)state;
    side = 24; /* images larger than the kernels' scratch memory, which the arena contains, too */
    const size_t image = (size_t)(side * side) * 16 * sizeof(float);
    assert_true(check_growth(4, 16, TWO_PARTS "  return %d\n", true) <= 4 * 3 * image);
    assert_true(check_growth(5, 16,
                             "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                             "  %b = conv2d(%x, %v, none) padding=[1,1]\n"
                             "  %s = tanh(%a)\n"
                             "  %t = tanh(%b)\n"
                             "  %c = concat(%s, %t, %b) dim=1\n"
                             "  %d = softmax(%c) dim=1\n"
                             "  return %d\n",
                             true) <= 5 * 5 * image);
}

static void a_part_that_is_read_again_or_longer_than_the_rest_does_not_grow(void **state)
{
    (void)state;
    (void)check_growth(4, 16, TWO_PARTS "  %e = softmax(%a) dim=1\n  return %d, %e\n", false);
    (void)check_growth(3, 32, TWO_PARTS "  return %d\n", false);
    (void)check_growth(4, 16,
                       "  %a = conv2d(%x, %w, none) padding=[1,1]\n"
                       "  %c = concat(%a, %a) dim=1\n"
                       "  %d = tanh(%c)\n"
                       "  return %d\n",
                       false);
}

/* None of DenseNet's 58 concats copies a byte. Its relus are fused into the norms before them. */
static void densenet_copies_no_part(void **state)
{
    (void)state;
    int n_concats = 0, n_parts = 0, n_joined = 0;
    tensor_t *x = NULL, *y = NULL, *z = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, zoo_create(ctx, "densenet121", NULL, &net, NULL));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 64, 64), &x));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){x}));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &z));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, z, y, &difference));
    assert_true(difference < 1e-4);
    plan = plan_of(frozen, "forward");
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const plan_step_t *at = plan_step(plan, i);
        assert_string_not_equal(at->name, "relu");
        if (strcmp(at->name, "concat") != 0) continue;
        n_concats++;
        n_parts += at->n_in;
        n_joined += at->n_joined;
    }
    assert_int_equal(n_concats, 58);
    assert_int_equal(n_joined, n_parts);
    tensor_release(x);
    tensor_release(y);
    tensor_release(z);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_written_at_their_place, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(
            channels_that_fill_no_block_lie_beside_each_other_when_plain, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(joins_that_grow_are_one_buffer, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_batch_of_several_is_copied, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(only_one_place_is_written_of_what_is_joined_twice, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(inputs_constants_and_results_are_copied, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_part_that_is_read_and_overwritten_later_keeps_its_bytes,
                                        setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_sum_over_a_part_is_written_elsewhere_than_the_join, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_part_that_ends_grows_into_the_join_of_a_batch, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(
            a_part_that_is_read_again_or_longer_than_the_rest_does_not_grow, setup,
            fixture_teardown),
        cmocka_unit_test_setup_teardown(densenet_copies_no_part, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
