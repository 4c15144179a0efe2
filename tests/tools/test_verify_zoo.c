/* Runs every frozen network of the zoo with --verify, which compares each operator with its
 * specification. Some batches run in slices. Networks are smaller with sanitizers and in debug
 * builds. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "dispatch/dispatch.h"
#include "module/zoo.h"
#include "tools/command/verify.h"

#ifdef NDEBUG
enum { DIVIDE = 1, SIZE = 224, CLASSES = 1000 };
#else
enum { DIVIDE = 4, SIZE = 64, CLASSES = 16 };
#endif

/* Slices depend on the cache size, so it is fixed. */
#define CACHE "4194304"

static status_t count_slices(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    *(int *)user += event->n_slices > 1;
    return STATUS_OK;
}

/* Verifies a network. Returns how many events were of slices. */
static int check(const char *name, int64_t batch)
{
    context_t *ctx = NULL;
    runner_t runner;
    verify_result_t result = {0};
    int n_slices = 0;
    observer_t counter = {.user = &n_slices, .op_end = count_slices, .ignores_inputs = true};
    const zoo_options_t options = {.n_classes = CLASSES, .divide = DIVIDE};
    model_t model = {.spec = name, .kind = MODEL_ZOO, .n_inputs = 1};
    setenv("TESSERA_CPU_CACHE", CACHE, 1);
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    unsetenv("TESSERA_CPU_CACHE");
    CHECK_OK(ctx, zoo_create(ctx, name, &options, &model.module, NULL));
    context_seed(ctx, 7);
    CHECK_OK(ctx,
             tensor_randn(ctx, DTYPE_F32, SHAPE(batch, 3, SIZE, SIZE), &model.inputs[0].tensor));
    model.inputs[0].info = *tensor_info(model.inputs[0].tensor);
    CHECK_OK(ctx, mode_prepare(ctx, &model, MODE_FROZEN, &runner));
    CHECK_OK(ctx, mode_run_once(&runner));
    CHECK_OK(ctx, dispatch_add_observer(ctx, &counter));
    CHECK_OK(ctx, verify_run(&runner, 2, 7, &result));
    dispatch_remove_observer(ctx, &counter);
    if (result.n_failed + result.n_overwritten > 0)
        fail_msg("tessera run zoo:%s --batch %d --mode frozen --verify 2: %d wrong, %d overwritten",
                 name, (int)batch, result.n_failed, result.n_overwritten);
    assert_true(result.n_operators > 5 && result.n_values > 5);
    mode_clear(&runner);
    model_clear(&model);
    context_destroy(ctx);
    return n_slices;
}

static void networks_are_what_their_operators_specify(void **state)
{
    (void)state;
    int n_slices = 0;
    for (const char *const *name = zoo_names(); *name != NULL; name++) {
        static const int64_t batches[] = {1, 2, 5};
        for (int b = 0; b < 3; b++) n_slices += check(*name, batches[b]);
    }
    assert_true(n_slices > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_are_what_their_operators_specify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
