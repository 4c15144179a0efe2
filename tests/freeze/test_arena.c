/* The arena of a frozen network is at most 5 % larger than what lives at once in it. */
#include "freeze/freeze.h"

#include <string.h>

#include "graph/program/plan_impl.h"
#include "module/zoo.h"
#include "tests/support/support.h"

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* No placement needs less than the bytes that live during one step. */
static size_t lower_bound(const plan_t *plan)
{
    size_t most = 0;
    for (int s = 0; s < plan->n_steps; s++) {
        size_t bytes = 0;
        for (int r = 0; r < plan->n_roots; r++) {
            const plan_root_t *root = &plan->roots[r];
            if (root->kind == ROOT_ARENA && root->first_step <= s && s <= root->last_step)
                bytes += round_up(root->bytes);
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

static bool overlap(const plan_root_t *a, const plan_root_t *b)
{
    return a->kind == ROOT_ARENA && b->kind == ROOT_ARENA && a->first_step <= b->last_step &&
           b->first_step <= a->last_step && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void check(context_t *ctx, const char *name, int64_t batch)
{
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    const zoo_options_t options = {.divide = 4};
    CHECK_OK(ctx, zoo_create(ctx, name, &options, &net, NULL));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 3, 96, 96), &x));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *const[]){x}));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    const plan_t *plan = plan_of(frozen, "forward");
    const size_t bound = lower_bound(plan), bytes = plan_arena_bytes(plan);
    if (bytes > bound + bound / 20)
        fail_msg("%s, batch %d: the arena has %zu bytes, %zu live at once", name, (int)batch, bytes,
                 bound);
    for (int a = 0; a < plan->n_roots; a++)
        for (int b = 0; b < a; b++) assert_false(overlap(&plan->roots[a], &plan->roots[b]));
    tensor_release(x);
    tensor_release(y);
    module_release(frozen);
    module_release(net);
}

static void arenas_are_nearly_as_small_as_can_be(void **state)
{
    context_t *ctx = fixture_context(state);
    for (const char *const *name = zoo_names(); *name != NULL; name++)
        for (int64_t batch = 1; batch <= 2; batch++) check(ctx, *name, batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arenas_are_nearly_as_small_as_can_be, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
