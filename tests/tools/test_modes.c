/* Runs the zoo in every mode: results must agree, reorders must be few, and no reference
 * implementation may run. Networks are smaller with sanitizers and in debug builds. */
#include "tools/support/mode.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "graph/program/plan.h"
#include "module/zoo.h"
#include "tensor/onednn/onednn.h"
#include "tests/support/nets/networks.h"

#ifdef NDEBUG
enum { DIVIDE = 1, SIZE = 224, CLASSES = 1000 };
#else
enum { DIVIDE = 4, SIZE = 64, CLASSES = 16 };
#endif

/* A network that was prepared in a mode, for one image. */
typedef struct trial {
    context_t *ctx;
    const char *name;
    run_mode_t mode;
    model_t model;
    runner_t runner;
} trial_t;

static trial_t begin(const char *name, run_mode_t mode)
{
    trial_t trial = {.name = name, .mode = mode};
    zoo_options_t options = {.n_classes = CLASSES, .divide = DIVIDE};
    assert_int_equal(context_create(NULL, &trial.ctx), STATUS_OK);
    context_t *ctx = trial.ctx;
    trial.model = (model_t){.spec = name, .kind = MODEL_ZOO, .n_inputs = 1};
    CHECK_OK(ctx, zoo_create(ctx, name, &options, &trial.model.module, NULL));
    context_seed(ctx, 7);
    tensor_t **x = &trial.model.inputs[0].tensor;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, SIZE, SIZE), x));
    trial.model.inputs[0].info = *tensor_info(*x);
    CHECK_OK(ctx, mode_prepare(ctx, &trial.model, mode, &trial.runner));
    return trial;
}

static void end(trial_t *trial)
{
    mode_clear(&trial->runner);
    model_clear(&trial->model);
    context_destroy(trial->ctx);
}

static tensor_t *run(trial_t *trial)
{
    tensor_t *out[METHOD_MAX_OUTPUTS];
    int n = 0;
    CHECK_OK(trial->ctx, mode_run(&trial->runner, &n, out));
    assert_int_equal(n, 1);
    return out[0];
}

static tensor_t *run_batch(trial_t *trial, int64_t batch)
{
    tensor_t *image = trial->runner.in[0], *x = NULL;
    context_seed(trial->ctx, 11);
    CHECK_OK(trial->ctx, tensor_randn(trial->ctx, DTYPE_F32, SHAPE(batch, 3, SIZE, SIZE), &x));
    trial->runner.in[0] = x;
    tensor_t *out = run(trial);
    trial->runner.in[0] = image;
    tensor_release(x);
    return out;
}

static void check_same(const trial_t *trial, const tensor_t *actual, const tensor_t *expected)
{
    double difference = 1.0;
    CHECK_OK(trial->ctx, tensor_max_rel_diff(trial->ctx, actual, expected, &difference));
    if (!(difference <= 1e-4))
        fail_msg("%s, mode %s: max_rel_diff %g", trial->name, mode_name(trial->mode), difference);
}

/* ---- reorders ---- */

/* Compares the numbers of reorders with perf/reorders, which was recorded on AVX-512 with 2
 * threads, for the full networks and this version of oneDNN. */
static void check_expectation(const trial_t *trial, const counters_t *counters)
{
#ifdef NDEBUG
    char path[512], line[256], wanted[128], actual[256];
    bool is_found = false;
    if (strncmp(onednn_isa_text(), "avx512", 6) != 0 || context_threads(trial->ctx) != 2) return;
    snprintf(path, sizeof path, "%s/perf/reorders/onednn-%.3s.txt", TESSERA_SOURCE_DIR,
             onednn_version_text());
    FILE *file = fopen(path, "r");
    if (file == NULL) return;
    snprintf(wanted, sizeof wanted, "zoo:%s 1 %s ", trial->name, mode_name(trial->mode));
    snprintf(actual, sizeof actual, "%s%d %d %d\n", wanted, (int)counters_weight_reorders(counters),
             (int)counters_activation_reorders(counters), (int)counters_copies(counters));
    while (!is_found && fgets(line, sizeof line, file) != NULL)
        is_found = strncmp(line, wanted, strlen(wanted)) == 0;
    fclose(file);
    assert_true(is_found);
    assert_string_equal(actual, line);
#else
    (void)trial, (void)counters;
#endif
}

static void check_steady_state(trial_t *trial)
{
    counters_t counters;
    counters_reset(trial->ctx);
    tensor_release(run(trial));
    counters_read(trial->ctx, &counters);
    uint64_t weights = counters_weight_reorders(&counters);
    uint64_t moves = counters_activation_reorders(&counters) + counters_copies(&counters);
    bool is_blocked = trial->mode == MODE_MKLDNN || trial->mode == MODE_FROZEN;
    if ((trial->mode == MODE_DENSE) != (weights > 0))
        fail_msg("%s, mode %s: %d weight reorders", trial->name, mode_name(trial->mode),
                 (int)weights);
    if (is_blocked && strcmp(trial->name, "resnet50") == 0)
        assert_true(moves <= (trial->mode == MODE_FROZEN ? 1 : 2));
    assert_int_equal(counters.primitives_built, 0);
    check_expectation(trial, &counters);
}

/* ---- implementations ---- */

static status_t check_event(context_t *ctx, void *user, const op_event_t *event)
{
    const trial_t *trial = user;
    const char *implementation = prepared_implementation(event->prepared);
    if (trial->mode != MODE_DENSE && onednn_is_reference(implementation))
        return context_fail(ctx, STATUS_UNSUPPORTED, "%s, mode %s: %s runs %s", trial->name,
                            mode_name(trial->mode), event->op->name, implementation);
    return STATUS_OK;
}

static void check_plan(const trial_t *trial)
{
    const plan_t *plan = plan_of(trial->runner.module, "forward");
    assert_non_null(plan);
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const plan_step_t *step = plan_step(plan, i);
        if (step->prepared != NULL && onednn_is_reference(prepared_implementation(step->prepared)))
            fail_msg("%s, mode %s: %s at %s runs %s", trial->name, mode_name(trial->mode),
                     step->name, step->path == NULL ? "?" : step->path,
                     prepared_implementation(step->prepared));
    }
}

/* ---- all checks of one network ---- */

static void check_network(const char *name)
{
    tensor_t *one = NULL, *three = NULL;
    for (int mode = MODE_DENSE; mode < MODE_COUNT; mode++) {
        trial_t trial = begin(name, (run_mode_t)mode);
        observer_t observer = {.user = &trial, .op_end = check_event};
        CHECK_OK(trial.ctx, dispatch_add_observer(trial.ctx, &observer));
        tensor_t *image = run(&trial);
        if (mode == MODE_GRAPH || mode == MODE_FROZEN) check_plan(&trial);
        check_steady_state(&trial);
        tensor_t *batch = run_batch(&trial, 3);
        if (mode == MODE_DENSE) {
            one = tensor_retain(image);
            three = tensor_retain(batch);
        }
        check_same(&trial, image, one);
        check_same(&trial, batch, three);
        tensor_release(image);
        tensor_release(batch);
        dispatch_remove_observer(trial.ctx, &observer);
        end(&trial);
    }
    tensor_release(one);
    tensor_release(three);
}

#define NETWORK(name)                                                                              \
    static void name##_agrees_in_all_modes_without_references(void **state)                        \
    {                                                                                              \
        (void)state;                                                                               \
        check_network(#name);                                                                      \
    }

#define NETWORK_TEST(name) cmocka_unit_test(name##_agrees_in_all_modes_without_references),

NETWORKS(NETWORK)

int main(void)
{
    const struct CMUnitTest tests[] = {NETWORKS(NETWORK_TEST)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
