#include "dispatch/profile/profile.h"

#include <string.h>
#include <time.h>

#include "module/layers/layers.h"
#include "module/module.h"
#include "module/zoo.h"
#include "ops/ops.h"
#include "tests/support/support.h"

/* Operands of run(): convolution, relu and, if is_twice, another convolution. With policy per_op
 * each convolution reorders its input, weight and result. */
typedef struct operands {
    tensor_t *x, *w;
} operands_t;

static void make_operands(context_t *ctx, operands_t *out)
{
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_PER_OP));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 9, 9), &out->x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(16, 16, 3, 3), &out->w));
}

static void clear_operands(operands_t *operands)
{
    tensor_release(operands->x);
    tensor_release(operands->w);
}

static void run(context_t *ctx, const operands_t *operands, bool is_twice)
{
    tensor_t *y = NULL, *z = NULL, *out = NULL;
    const conv_attrs_t attrs = {.padding = {1, 1}};
    dispatch_enter_module(ctx, "stem");
    dispatch_enter_module(ctx, "conv");
    CHECK_OK(ctx, op_conv2d(ctx, operands->x, operands->w, NULL, &attrs, &y));
    dispatch_leave_module(ctx, "conv");
    CHECK_OK(ctx, op_relu(ctx, y, &z));
    dispatch_leave_module(ctx, "stem");
    if (is_twice) CHECK_OK(ctx, op_conv2d(ctx, z, operands->w, NULL, &attrs, &out));
    tensor_release(out);
    tensor_release(z);
    tensor_release(y);
}

static void nodes_have_their_time_reorders_and_producers(void **state)
{
    context_t *ctx = fixture_context(state);
    profile_t *profile = NULL;
    operands_t operands;
    counters_t counters;
    make_operands(ctx, &operands);
    CHECK_OK(ctx, profile_create(ctx, &profile));
    run(ctx, &operands, true); /* before profile_begin_run: not recorded */
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, profile_begin_run(profile));
        counters_reset(ctx);
        run(ctx, &operands, true);
        counters_read(ctx, &counters);
        CHECK_OK(ctx, profile_end_run(profile));
    }
    CHECK_OK(ctx, profile_finish(profile));
    assert_int_equal(profile_n_runs(profile), 3);
    assert_int_equal(profile_n_left_out(profile), 0);
    assert_int_equal(profile_n_nodes(profile), 3);
    uint64_t n_reorders = 0;
    double shown = 0;
    for (int i = 0; i < 3; i++) {
        const profile_node_t *node = profile_node(profile, i);
        double inside = 0;
        n_reorders += (uint64_t)node->n_reorders;
        for (int k = 0; k < node->n_reorders; k++) inside += node->reorders[k].shown_ns;
        assert_true(node->ns > 0 && inside <= node->shown_ns);
        assert_true(node->begin_ns >= shown);
        shown = node->begin_ns + node->shown_ns;
    }
    assert_true(shown <= profile_shown_ns(profile));
    assert_true(profile_run_ns(profile) > 0);
    assert_int_equal(n_reorders, counters_weight_reorders(&counters) +
                                     counters_activation_reorders(&counters) +
                                     counters_copies(&counters));
    assert_true(n_reorders >= 6);
    const profile_node_t *conv = profile_node(profile, 0), *relu = profile_node(profile, 1);
    assert_string_equal(conv->op->name, "conv2d");
    assert_string_equal(conv->path, "stem.conv");
    assert_string_equal(relu->path, "stem");
    assert_string_equal(profile_node(profile, 2)->path, "");
    assert_true(conv->n_reorders >= 3 && relu->n_reorders == 0);
    assert_int_equal(conv->reorders[0].cause, CAUSE_INPUT);
    assert_int_equal(conv->reorders[1].cause, CAUSE_WEIGHT);
    assert_int_equal(conv->in[0].layout, LAYOUT_MKLDNN);
    assert_int_equal(conv->out[0].layout, LAYOUT_DENSE);
    assert_int_equal(conv->producers[0], -1);
    assert_int_equal(relu->producers[0], 0);
    assert_int_equal(profile_node(profile, 2)->producers[0], 1);
    assert_int_equal(profile_node(profile, 2)->producers[1], -1);
    assert_true(conv->flops == 2.0 * 16 * 9 * 9 * 16 * 9);
    assert_true(relu->flops == 16.0 * 9 * 9);
    assert_int_equal(relu->bytes, 2 * 16 * 9 * 9 * 4);
    assert_null(profile_node(profile, 3));
    assert_null(profile_node(profile, -1));
    profile_destroy(profile);
    clear_operands(&operands);
}

static status_t sleep_after_a_call(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    (void)user;
    (void)event;
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    return STATUS_OK;
}

/* Time between the end of a call and its report, which a busy machine adds, changes no node. */
static void reports_may_come_late(void **state)
{
    context_t *ctx = fixture_context(state);
    profile_t *profile = NULL;
    operands_t operands;
    observer_t before = {.op_end = sleep_after_a_call};
    observer_t after = before;
    make_operands(ctx, &operands);
    CHECK_OK(ctx, profile_create(ctx, &profile));
    CHECK_OK(ctx, dispatch_add_observer(ctx, &before));
    CHECK_OK(ctx, profile_begin_run(profile));
    CHECK_OK(ctx, dispatch_add_observer(ctx, &after));
    run(ctx, &operands, true);
    CHECK_OK(ctx, profile_end_run(profile));
    CHECK_OK(ctx, profile_finish(profile));
    assert_int_equal(profile_n_nodes(profile), 3);
    assert_true(profile_node(profile, 0)->n_reorders >= 3);
    assert_true(profile_node(profile, 1)->begin_ns >= profile_node(profile, 0)->shown_ns);
    dispatch_remove_observer(ctx, &after);
    dispatch_remove_observer(ctx, &before);
    profile_destroy(profile);
    clear_operands(&operands);
}

static void a_run_of_other_nodes_is_left_out(void **state)
{
    context_t *ctx = fixture_context(state);
    profile_t *profile = NULL;
    operands_t operands;
    make_operands(ctx, &operands);
    CHECK_OK(ctx, profile_create(ctx, &profile));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(ctx, profile_begin_run(profile));
        run(ctx, &operands, i != 1);
        if (i == 2) run(ctx, &operands, false);
        CHECK_OK(ctx, profile_end_run(profile));
    }
    CHECK_OK(ctx, profile_finish(profile));
    assert_int_equal(profile_n_runs(profile), 2);
    assert_int_equal(profile_n_left_out(profile), 2);
    assert_int_equal(profile_n_nodes(profile), 3);
    profile_destroy(profile);
    clear_operands(&operands);
}

static void runs_begin_and_end_by_turns(void **state)
{
    context_t *ctx = fixture_context(state);
    profile_t *profile = NULL;
    CHECK_OK(ctx, profile_create(ctx, &profile));
    CHECK_FAILS(ctx, profile_end_run(profile), STATUS_INVALID_ARGUMENT,
                "no run has begun, call profile_begin_run first");
    CHECK_FAILS(ctx, profile_finish(profile), STATUS_INVALID_ARGUMENT,
                "the profile has 0 runs, needs 1 or more complete runs and finishes once");
    CHECK_OK(ctx, profile_begin_run(profile));
    CHECK_FAILS(ctx, profile_begin_run(profile), STATUS_INVALID_ARGUMENT,
                "the profile is in a run, no other run can begin");
    CHECK_FAILS(ctx, profile_finish(profile), STATUS_INVALID_ARGUMENT, "and an incomplete one");
    CHECK_OK(ctx, profile_end_run(profile));
    CHECK_OK(ctx, profile_finish(profile)); /* its only run has no operators */
    assert_int_equal(profile_n_nodes(profile), 0);
    CHECK_FAILS(ctx, profile_begin_run(profile), STATUS_INVALID_ARGUMENT, "is finished");
    profile_destroy(profile);
    profile_destroy(NULL);
    assert_int_equal(profile_n_nodes(NULL) + profile_n_runs(NULL) + profile_n_left_out(NULL), 0);
    assert_true(profile_run_ns(NULL) == 0 && profile_shown_ns(NULL) == 0);
}

/* Operators may run after a profile was destroyed between its begin_run and end_run. */
static void a_profile_may_be_destroyed_in_a_run(void **state)
{
    context_t *ctx = fixture_context(state);
    profile_t *profile = NULL;
    operands_t operands;
    make_operands(ctx, &operands);
    CHECK_OK(ctx, profile_create(ctx, &profile));
    CHECK_OK(ctx, profile_begin_run(profile));
    run(ctx, &operands, false);
    profile_destroy(profile);
    run(ctx, &operands, false);
    clear_operands(&operands);
}

static status_t profile_a_call(context_t *ctx)
{
    profile_t *profile = NULL;
    tensor_t *x = NULL, *w = NULL, *y = NULL;
    status_t status = dispatch_set_policy(ctx, POLICY_PER_OP);
    if (status == STATUS_OK) status = tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 8, 4, 4), &x);
    if (status == STATUS_OK) status = tensor_zeros(ctx, DTYPE_F32, SHAPE(8, 8, 3, 3), &w);
    if (status == STATUS_OK) status = profile_create(ctx, &profile);
    if (status == STATUS_OK) status = profile_begin_run(profile);
    if (status == STATUS_OK) status = op_conv2d(ctx, x, w, NULL, NULL, &y);
    if (status == STATUS_OK) status = profile_end_run(profile);
    if (status == STATUS_OK) status = profile_finish(profile);
    profile_destroy(profile);
    tensor_release(y);
    tensor_release(w);
    tensor_release(x);
    return status;
}

static void a_profile_survives_refused_memory(void **state)
{
    (void)state;
    check_every_allocation(profile_a_call);
}

static double flops_of(const char *op, const void *attrs, int n_in, const tensor_info_t *in,
                       const tensor_info_t *out)
{
    const tensor_info_t *infos[8];
    for (int i = 0; i < n_in; i++) infos[i] = &in[i];
    return dispatch_flops(ops_find(op), attrs, n_in, infos, 1, out);
}

#define INFO(rank, ...) info_dense(DTYPE_F32, rank, (int64_t[]){__VA_ARGS__})

static void flops_are_those_of_the_formula(void **state)
{
    (void)state;
    const tensor_info_t none = {.dtype = DTYPE_NONE};
    const tensor_info_t conv[] = {INFO(4, 2, 6, 5, 5), INFO(4, 9, 2, 3, 3)};
    const tensor_info_t transposed[] = {INFO(4, 2, 6, 5, 5), INFO(4, 6, 4, 2, 2)};
    const tensor_info_t linear[] = {INFO(3, 2, 3, 7), INFO(2, 11, 7)};
    const tensor_info_t matmul[] = {INFO(3, 4, 5, 6), INFO(2, 6, 7)};
    const tensor_info_t attention[] = {INFO(3, 2, 5, 8), INFO(3, 2, 7, 8), INFO(3, 2, 7, 4), none};
    const tensor_info_t lstm[] = {INFO(3, 10, 2, 3), INFO(2, 20, 3), INFO(2, 20, 5)};
    const tensor_info_t out[] = {INFO(4, 2, 9, 3, 3), INFO(4, 2, 4, 10, 10), INFO(3, 2, 3, 11),
                                 INFO(3, 4, 5, 7),    INFO(3, 2, 5, 4),      INFO(3, 10, 2, 5),
                                 INFO(4, 2, 6, 5, 5)};
    const recurrent_attrs_t recurrent = {.batch_first = false};
    assert_true(flops_of("conv2d", NULL, 2, conv, &out[0]) == 2.0 * (2 * 9 * 3 * 3) * (2 * 3 * 3));
    assert_true(flops_of("conv_transpose2d", NULL, 2, transposed, &out[1]) ==
                2.0 * (2 * 6 * 5 * 5) * (4 * 2 * 2));
    assert_true(flops_of("linear", NULL, 2, linear, &out[2]) == 2.0 * (2 * 3 * 11) * 7);
    assert_true(flops_of("matmul", NULL, 2, matmul, &out[3]) == 2.0 * (4 * 5 * 7) * 6);
    assert_true(flops_of("scaled_dot_product_attention", NULL, 4, attention, &out[4]) ==
                2.0 * 2 * 5 * 7 * (8 + 4));
    assert_true(flops_of("lstm", &recurrent, 3, lstm, &out[5]) == 2.0 * 10 * 2 * 20 * (3 + 5));
    assert_true(flops_of("relu", NULL, 1, conv, &out[6]) == 2 * 6 * 5 * 5);
    assert_true(flops_of("max_pool2d", NULL, 1, conv, &out[6]) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_have_their_time_reorders_and_producers),
        TEST(reports_may_come_late),
        TEST(a_run_of_other_nodes_is_left_out),
        TEST(runs_begin_and_end_by_turns),
        TEST(a_profile_may_be_destroyed_in_a_run),
        TEST(a_profile_survives_refused_memory),
        TEST(flops_are_those_of_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
