#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <string.h>

#include "tests/support/nets/nets.h"

static tensor_t *run(context_t *ctx, module_t *net, const tensor_t *x)
{
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    return y;
}

/* Compares b, on a whole batch, with a, which runs one image at a time. */
static void check_same(context_t *ctx, module_t *a, module_t *b, int64_t batch)
{
    tensor_t *x = net_input(ctx, batch), *actual = run(ctx, b, x);
    net_compare(ctx, a, x, actual);
    tensor_release(x);
    tensor_release(actual);
}

static char *plan_text(context_t *ctx, module_t *frozen, text_t *text)
{
    *text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, plan_graph(plan_of(frozen, "forward")), NULL, text));
    return text->bytes;
}

static void a_frozen_module_gives_what_the_module_gave(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *(*const nets[])(context_t *) = {net_grouped, net_residual};
    for (int i = 0; i < 2; i++) {
        module_t *net = nets[i](ctx), *frozen = NULL;
        CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
        assert_true(freeze_is_frozen(frozen));
        check_same(ctx, net, frozen, 1);
        check_same(ctx, net, frozen, 3);
        module_release(net);
        module_release(frozen);
    }
}

static void batch_norm_and_the_addition_are_folded_into_the_convolution(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *frozen = NULL;
    text_t text;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    const char *printed = plan_text(ctx, frozen, &text);
    assert_null(strstr(printed, "batch_norm"));
    assert_null(strstr(printed, "getattr"));
    assert_null(strstr(printed, " relu("));
    /* the convolution adds the operand, too */
    assert_non_null(strstr(printed, "post=[\"add\",\"relu\"]"));
    text_clear(&text);
    module_release(net);
    module_release(frozen);
}

static void without_numerics_batch_norm_stays(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *frozen = NULL;
    text_t text;
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.keep_numerics = true}, &frozen));
    assert_non_null(strstr(plan_text(ctx, frozen, &text), "batch_norm"));
    text_clear(&text);
    check_same(ctx, net, frozen, 1);
    module_release(net);
    module_release(frozen);
}

static void no_weight_is_reordered_when_a_frozen_module_runs(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *frozen = NULL;
    counters_t counters;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    counters_reset(ctx);
    tensor_t *x = net_input(ctx, 1), *y = run(ctx, frozen, x);
    counters_read(ctx, &counters);
    assert_int_equal(counters_weight_reorders(&counters), 0);
    assert_true(counters_activation_reorders(&counters) + counters_copies(&counters) <= 1);
    tensor_release(x);
    tensor_release(y);
    module_release(net);
    module_release(frozen);
}

static void edits_of_the_original_do_not_show(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    tensor_t *x = net_input(ctx, 1), *before = run(ctx, frozen, x);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "conv1"), 0.0));
    tensor_t *after = run(ctx, frozen, x);
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, after, before, &difference));
    assert_true(difference == 0.0);
    tensor_release(x);
    tensor_release(before);
    tensor_release(after);
    module_release(net);
    module_release(frozen);
}

static void preserved_attributes_stay_and_can_be_written(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *frozen = NULL;
    datum_t *one = NULL, *two = NULL;
    const char *const preserved[] = {"version", NULL}, *const unknown[] = {"versoin", NULL};
    CHECK_OK(ctx, datum_int(ctx, 1, &one));
    CHECK_OK(ctx, datum_int(ctx, 2, &two));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "version", one));
    CHECK_FAILS(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = unknown}, &frozen),
                STATUS_INVALID_ARGUMENT, "\"versoin\" is unknown");
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = preserved}, &frozen));
    assert_int_equal(datum_as_int(module_attribute(frozen, "version")), 1);
    CHECK_OK(ctx, module_set_attribute(ctx, frozen, "version", two));
    assert_int_equal(datum_as_int(module_attribute(frozen, "version")), 2);
    assert_null(module_parameter(frozen, "conv1"));
    datum_release(one);
    datum_release(two);
    module_release(net);
    module_release(frozen);
}

static void training_mode_and_missing_graphs_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *bare = NULL, *frozen = NULL;
    CHECK_OK(ctx, module_train(ctx, net, true));
    CHECK_FAILS(ctx, freeze(ctx, net, NULL, &frozen), STATUS_INVALID_ARGUMENT,
                "only evaluation mode can be frozen");
    CHECK_OK(ctx, module_create(ctx, "Bare", &bare));
    CHECK_FAILS(ctx, freeze(ctx, bare, NULL, &frozen), STATUS_INVALID_ARGUMENT,
                "has a graph, use graph_trace");
    module_release(net);
    module_release(bare);
}

static void freezing_twice_changes_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx), *once = NULL, *twice = NULL;
    CHECK_OK(ctx, freeze(ctx, net, NULL, &once));
    CHECK_OK(ctx, freeze(ctx, once, NULL, &twice));
    check_same(ctx, once, twice, 1);
    module_release(net);
    module_release(once);
    module_release(twice);
}

/* Freezes and runs five layers: conv, batch norm, relu, conv, add. */
static status_t scenario(context_t *ctx)
{
    static const char text[] = "graph forward(%self : module, %x : f32[1,8,6,6]) {\n"
                               "  %w = getattr(%self) name=\"w\" : f32[8,8,3,3]\n"
                               "  %v = getattr(%self) name=\"v\" : f32[8]\n"
                               "  %1 = conv2d(%x, %w, none) padding=[1,1]\n"
                               "  %2 = batch_norm(%1, %v, %v, %v, %v)\n"
                               "  %3 = relu(%2)\n"
                               "  %4 = conv2d(%3, %w, none) padding=[1,1]\n"
                               "  %5 = add(%4, %x)\n"
                               "  return %5\n}\n";
    module_t *net = NULL, *frozen = NULL;
    tensor_t *w = NULL, *v = NULL, *x = NULL, *y = NULL;
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(8, 8, 3, 3), &w);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, SHAPE(8), 0.5, &v);
    if (status == STATUS_OK) status = tensor_randn(ctx, DTYPE_F32, SHAPE(1, 8, 6, 6), &x);
    if (status == STATUS_OK) status = module_set_parameter(ctx, net, "w", w);
    if (status == STATUS_OK) status = module_set_parameter(ctx, net, "v", v);
    if (status == STATUS_OK) status = graph_define(ctx, net, text);
    if (status == STATUS_OK) status = freeze(ctx, net, NULL, &frozen);
    if (status == STATUS_OK) status = module_forward(ctx, frozen, x, &y);
    tensor_release(y);
    tensor_release(x);
    tensor_release(v);
    tensor_release(w);
    module_release(frozen);
    module_release(net);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_frozen_module_gives_what_the_module_gave),
        TEST(batch_norm_and_the_addition_are_folded_into_the_convolution),
        TEST(without_numerics_batch_norm_stays),
        TEST(no_weight_is_reordered_when_a_frozen_module_runs),
        TEST(edits_of_the_original_do_not_show),
        TEST(preserved_attributes_stay_and_can_be_written),
        TEST(training_mode_and_missing_graphs_are_refused),
        TEST(freezing_twice_changes_nothing),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
