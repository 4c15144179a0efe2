/* The arena of a frozen network (one allocation for all intermediate results) is at most 5 % larger
 * than the largest sum of bytes in use during one step. */
#include "freeze/freeze.h"

#include <string.h>

#include "graph/program/plan_impl.h"
#include "module/layers/flow_impl.h"
#include "module/layers/layers.h"
#include "module/layers/spatial.h"
#include "module/layers/transformer.h"
#include "module/zoo.h"
#include "tests/support/support.h"

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Returns the largest sum of bytes in use during one step. No arena can be smaller. */
static size_t lower_bound(const plan_t *plan, int block)
{
    size_t most = 0;
    for (int s = 0; s < plan->n_steps; s++) {
        size_t bytes = 0;
        for (int r = 0; r < plan->n_roots; r++) {
            const plan_root_t *root = &plan->roots[r];
            const plan_root_t *twin = root->twin > 0 ? &plan->roots[root->twin - 1] : NULL;
            const bool has_grown = twin != NULL && root->last_step == s && twin->first_step == s;
            if (root->kind == ROOT_ARENA && root->block == block && root->first_step <= s &&
                s <= root->last_step && !has_grown)
                bytes += round_up(root->bytes);
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

static bool lie_in_common(const plan_root_t *a, const plan_root_t *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* True if two buffers overlap in memory while both are in use. Buffers of different blocks (bodies
 * of loops) overlap if the outer buffers with the blocks' copies do. */
static bool overlap(const plan_t *plan, const plan_root_t *a, const plan_root_t *b)
{
    if (a->kind != ROOT_ARENA || b->kind != ROOT_ARENA || a->first_step > b->last_step ||
        b->first_step > a->last_step)
        return false;
    if (a->block == b->block) return lie_in_common(a, b);
    const plan_root_t *outer_a = a->block > 0 ? &plan->roots[a->block - 1] : a;
    const plan_root_t *outer_b = b->block > 0 ? &plan->roots[b->block - 1] : b;
    return outer_a != outer_b && lie_in_common(outer_a, outer_b);
}

/* buffers that check_blocks found in blocks */
static int n_in_blocks;

/* Checks that a block's copies contain all its buffers, nearly as compactly as possible. */
static void check_blocks(const plan_t *plan)
{
    for (int r = 0; r < plan->n_roots; r++) {
        const plan_root_t *root = &plan->roots[r];
        if (root->block == 0) {
            assert_int_equal(root->copy_bytes, 0);
            continue;
        }
        const plan_root_t *block = &plan->roots[root->block - 1];
        n_in_blocks++;
        const size_t bound = lower_bound(plan, root->block);
        assert_true(block->n_copies > 1 && block->block == 0);
        assert_true(root->offset >= block->offset);
        assert_true(root->offset - block->offset + root->bytes <= root->copy_bytes);
        assert_int_equal(block->bytes, root->copy_bytes * (size_t)block->n_copies);
        assert_true(root->copy_bytes <= bound + bound / 20 + 4096);
    }
}

/* True if the plan stores two buffers at one offset on purpose: one ends where the other begins. */
static bool are_twins(const plan_t *plan, int a, int b)
{
    const plan_root_t *first = &plan->roots[a], *second = &plan->roots[b];
    return first->twin == b + 1 && second->twin == a + 1 && first->offset == second->offset &&
           (first->last_step == second->first_step || second->last_step == first->first_step);
}

/* Checks the arena of the frozen network. Releases the network. */
static void check_take(context_t *ctx, const char *name, module_t *net, const tensor_t *x)
{
    module_t *frozen = NULL;
    tensor_t *wanted = NULL, *y = NULL;
    double difference = 1.0;
    const int64_t batch = tensor_sizes(x)[0];
    CHECK_OK(ctx, module_forward(ctx, net, x, &wanted));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){x}));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, wanted, &difference));
    assert_true(difference < 1e-3);
    const plan_t *plan = plan_of(frozen, "forward");
    const size_t bound = lower_bound(plan, 0), bytes = plan_arena_bytes(plan);
    if (bytes > bound + bound / 20)
        fail_msg("%s, batch %d: the arena has %zu bytes, %zu live at once", name, (int)batch, bytes,
                 bound);
    check_blocks(plan);
    for (int a = 0; a < plan->n_roots; a++)
        for (int b = 0; b < a; b++)
            assert_true(are_twins(plan, a, b) || !overlap(plan, &plan->roots[a], &plan->roots[b]));
    tensor_release(wanted);
    tensor_release(y);
    module_release(frozen);
    module_release(net);
}

static void check(context_t *ctx, const char *name, int64_t batch)
{
    module_t *net = NULL;
    tensor_t *x = NULL;
    const zoo_options_t options = {.divide = 4};
    CHECK_OK(ctx, zoo_create(ctx, name, &options, &net, NULL));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 3, 96, 96), &x));
    check_take(ctx, name, net, x);
    tensor_release(x);
}

static void arenas_are_nearly_as_small_as_can_be(void **state)
{
    context_t *ctx = fixture_context(state);
    for (const char *const *name = zoo_names(); *name != NULL; name++)
        for (int64_t batch = 1; batch <= 2; batch++) check(ctx, *name, batch);
    if (context_threads(ctx) == 2) assert_true(n_in_blocks > 0); /* buffers of both workers */
}

/* ---- a network that narrows, widens again and reads earlier results ---- */

static void add_take(context_t *ctx, module_t *net, const char *name, module_t *child)
{
    CHECK_OK(ctx, module_set_child(ctx, net, name, child));
    module_release(child);
}

static module_t *two_convolutions(context_t *ctx, int64_t in, int64_t out)
{
    module_t *both = NULL;
    const conv_attrs_t attrs = {.padding = {1, 1}};
    CHECK_OK(ctx, layer_sequential(ctx, &both));
    for (int i = 0; i < 2; i++) {
        module_t *conv = NULL, *relu = NULL;
        CHECK_OK(ctx, layer_conv2d(ctx, i == 0 ? in : out, out, 3, &attrs, true, &conv));
        CHECK_OK(ctx, layer_append_take(ctx, both, conv));
        CHECK_OK(ctx, layer_activation(ctx, ELTWISE_RELU, 0, 0, &relu));
        CHECK_OK(ctx, layer_append_take(ctx, both, relu));
    }
    return both;
}

static status_t forward_level(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "down");
    flow_t branches[] = {flow_branch(&flow), flow_branch(&flow)};
    flow_child(&branches[0], "pool");
    flow_child(&branches[0], "inner");
    flow_child(&branches[0], "up");
    flow_concat(&flow, 2, branches);
    flow_child(&flow, "join");
    return flow_end(&flow, out);
}

static module_t *level(context_t *ctx, int64_t in, int64_t width, int depth)
{
    module_t *net = NULL, *pool = NULL, *up = NULL;
    const pool_attrs_t halve = {.kernel = {2, 2}};
    const conv_transpose_attrs_t twice = {.stride = {2, 2}};
    if (depth == 0) return two_convolutions(ctx, in, width);
    CHECK_OK(ctx, module_create(ctx, "Level", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_level));
    CHECK_OK(ctx, layer_max_pool(ctx, 2, &halve, &pool));
    CHECK_OK(ctx, layer_conv_transpose(ctx, 2, 2 * width, width, (const int64_t[]){2, 2}, &twice,
                                       true, &up));
    add_take(ctx, net, "down", two_convolutions(ctx, in, width));
    add_take(ctx, net, "pool", pool);
    add_take(ctx, net, "inner", level(ctx, width, 2 * width, depth - 1));
    add_take(ctx, net, "up", up);
    add_take(ctx, net, "join", two_convolutions(ctx, 2 * width, width));
    return net;
}

static void so_are_those_of_networks_that_join_what_is_far_apart(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int64_t batch = 1; batch <= 5; batch += 2) {
        tensor_t *x = NULL;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 3, 48, 48), &x));
        check_take(ctx, "levels", level(ctx, 3, 16, 3), x);
        tensor_release(x);
    }
}

static void so_are_those_of_transformers(void **state)
{
    context_t *ctx = fixture_context(state);
    const transformer_attrs_t attrs = {
        .d_model = 64, .nhead = 4, .dim_feedforward = 256, .norm_first = true};
    for (int64_t batch = 1; batch <= 4; batch += 3) {
        module_t *net = NULL;
        tensor_t *x = NULL;
        CHECK_OK(ctx, layer_sequential(ctx, &net));
        for (int i = 0; i < 3; i++) {
            module_t *layer = NULL;
            CHECK_OK(ctx, layer_transformer_encoder_layer(ctx, &attrs, &layer));
            CHECK_OK(ctx, layer_append_take(ctx, net, layer));
        }
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 32, 64), &x));
        check_take(ctx, "encoder", net, x);
        tensor_release(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arenas_are_nearly_as_small_as_can_be, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(so_are_those_of_networks_that_join_what_is_far_apart,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(so_are_those_of_transformers, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
