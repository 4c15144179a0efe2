/* Small models in every mode and from a frozen file, compared with ONNX Runtime. stored.py writes
 * the folder `stored` and describes its format. Each model is imported at the sizes of each run,
 * and then runs at the sizes of all runs. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/onnx/onnx_data.h"
#include "tests/support/onnx/onnx_runs.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/stored"
#define SAVED "test_onnx_stored.tessera"

static void check_runs(context_t *ctx, const onnx_runs_t *stored, const model_t *model, int base,
                       runner_t *runner, const char *form)
{
    for (int run = 0; run < stored->n_runs; run++)
        if (!onnx_runs_check(ctx, stored, run, model, runner, 1e-4, 1e-5, form))
            fail_msg("%s, imported for run %d, fails in run %d", stored->name, base, run);
}

/* Saves the runner's frozen module, loads it, and checks it. */
static void check_file(context_t *ctx, const onnx_runs_t *stored, const model_t *model, int base,
                       runner_t *runner)
{
    module_t *loaded = NULL;
    CHECK_OK(ctx, freeze_save(ctx, runner->module, SAVED));
    CHECK_OK(ctx, freeze_load(ctx, SAVED, &loaded));
    module_release(runner->module);
    runner->module = loaded;
    check_runs(ctx, stored, model, base, runner, "loaded");
    remove(SAVED);
}

static void check_model(context_t *ctx, const char *name)
{
    onnx_runs_t stored;
    onnx_runs_open(ctx, FOLDER, name, &stored);
    for (int base = 0; base < stored.n_runs; base++) {
        for (int i = 0; i < MODE_COUNT; i++) {
            model_t model;
            runner_t runner;
            const run_mode_t mode = onnx_data_modes[i];
            CHECK_OK(ctx, onnx_runs_load(ctx, &stored, name, base, &model));
            CHECK_OK(ctx, mode_prepare(ctx, &model, mode, &runner));
            check_runs(ctx, &stored, &model, base, &runner, mode_name(mode));
            if (mode == MODE_FROZEN) check_file(ctx, &stored, &model, base, &runner);
            mode_clear(&runner);
            model_clear(&model);
        }
    }
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    onnx_runs_close(&stored);
}

static void models_give_what_onnx_runtime_gives(void **state)
{
    context_t *ctx = fixture_context(state);
    struct dirent **entries = NULL;
    int n_models = 0, n = scandir(FOLDER, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char *dot = strstr(entries[i]->d_name, ".onnx");
        if (dot != NULL) {
            *dot = '\0';
            print_message("%s\n", entries[i]->d_name);
            check_model(ctx, entries[i]->d_name);
            n_models++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_true(n_models >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_give_what_onnx_runtime_gives),
    };
    return cmocka_run_group_tests_name("onnx_stored", tests, NULL, NULL);
}
