/* Small models in every mode, and from a frozen file, against what ONNX Runtime gives: stored.py
 * writes the folder `stored`, and says there what is in it. Each model is imported at the sizes of
 * every run, and does all of them. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include "tests/support/onnx_data.h"

#ifdef TESSERA_HAVE_ONNX

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/onnx.h"
#include "module/signature.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/stored"
#define SAVED "test_onnx_stored.tessera"

enum { MAX_RUNS = 16, MAX_PATH = 512 };

typedef struct stored {
    const char *name;
    int n_runs;
    Onnx__GraphProto *values;
} stored_t;

/* The tensor "RUN/NAME"; the caller releases. */
static tensor_t *read_value(context_t *ctx, const stored_t *stored, int run, const char *name)
{
    char key[128];
    tensor_t *tensor = NULL;
    snprintf(key, sizeof key, "%d/%s", run, name);
    for (size_t i = 0; i < stored->values->n_initializer && tensor == NULL; i++)
        if (strcmp(stored->values->initializer[i]->name, key) == 0)
            CHECK_OK(ctx, onnx_data_tensor(ctx, stored->values->initializer[i], &tensor));
    if (tensor == NULL) fail_msg("%s has no value %s", stored->name, key);
    return tensor;
}

static int count_runs(const stored_t *stored)
{
    int n = 0;
    for (size_t i = 0; i < stored->values->n_initializer; i++) {
        int run = 0;
        assert_int_equal(sscanf(stored->values->initializer[i]->name, "%d/", &run), 1);
        assert_in_range(run, 0, MAX_RUNS - 1);
        if (run >= n) n = run + 1;
    }
    return n;
}

/* ---- importing ---- */

/* Names of the model's inputs. */
static void read_inputs(stored_t *stored, const Onnx__GraphProto *graph, model_t *model)
{
    (void)stored;
    for (size_t i = 0; i < graph->n_input; i++)
        snprintf(model->inputs[model->n_inputs++].name, MODEL_NAME_MAX, "%s",
                 graph->input[i]->name);
}

/* The model, at the sizes of this run, with its inputs. */
static void load(context_t *ctx, stored_t *stored, int run, model_t *model)
{
    char path[MAX_PATH];
    onnx_shape_t shapes[MODEL_MAX_INPUTS];
    snprintf(path, sizeof path, FOLDER "/%s.onnx", stored->name);
    Onnx__ModelProto *proto = onnx_data_read(ctx, &onnx__model_proto__descriptor, path);
    assert_non_null(proto);
    *model = (model_t){.kind = MODEL_ONNX, .spec = stored->name};
    read_inputs(stored, proto->graph, model);
    for (int i = 0; i < model->n_inputs; i++) {
        model_input_t *input = &model->inputs[i];
        input->tensor = read_value(ctx, stored, run, input->name);
        input->info = *tensor_info(input->tensor);
        shapes[i] = (onnx_shape_t){input->name, input->info.rank, input->info.sizes};
    }
    onnx_options_t options = {.n_shapes = model->n_inputs, .shapes = shapes};
    CHECK_OK(ctx, onnx_load(ctx, path, &options, &model->module));
    onnx__model_proto__free_unpacked(proto, NULL);
}

/* ---- running ---- */

static void check_run(context_t *ctx, const stored_t *stored, const model_t *model, int base,
                      int run, runner_t *runner, const char *form)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    for (int i = 0; i < runner->n_in; i++) {
        tensor_release(runner->in[i]);
        runner->in[i] = read_value(ctx, stored, run, model->inputs[i].name);
    }
    CHECK_OK(ctx, mode_run(runner, &n_out, out));
    for (int i = 0; i < n_out; i++) {
        char name[MODEL_NAME_MAX];
        tensor_t *wanted = read_value(ctx, stored, run,
                                      model_output_name(runner->module, i, n_out, name));
        if (!onnx_data_is_same(ctx, out[i], wanted, 1e-4, 1e-5))
            fail_msg("%s, imported for run %d, run %d, %s: wrong output %s", stored->name, base,
                     run, form, name);
        tensor_release(wanted);
    }
    mode_release_outputs(n_out, out);
}

static void check_runs(context_t *ctx, const stored_t *stored, const model_t *model, int base,
                       runner_t *runner, const char *form)
{
    for (int run = 0; run < stored->n_runs; run++)
        check_run(ctx, stored, model, base, run, runner, form);
}

/* The frozen module of the runner, through a file. */
static void check_file(context_t *ctx, const stored_t *stored, const model_t *model, int base,
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

static void check_model(context_t *ctx, stored_t *stored)
{
    char path[MAX_PATH];
    snprintf(path, sizeof path, FOLDER "/%s.values", stored->name);
    stored->values = onnx_data_read(ctx, &onnx__graph_proto__descriptor, path);
    assert_non_null(stored->values);
    stored->n_runs = count_runs(stored);
    for (int base = 0; base < stored->n_runs; base++) {
        for (int i = 0; i < MODE_COUNT; i++) {
            model_t model;
            runner_t runner;
            const run_mode_t mode = onnx_data_modes[i];
            load(ctx, stored, base, &model);
            CHECK_OK(ctx, mode_prepare(ctx, &model, mode, &runner));
            check_runs(ctx, stored, &model, base, &runner, mode_name(mode));
            if (mode == MODE_FROZEN) check_file(ctx, stored, &model, base, &runner);
            mode_clear(&runner);
            model_clear(&model);
        }
    }
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    onnx__graph_proto__free_unpacked(stored->values, NULL);
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
            stored_t stored = {.name = entries[i]->d_name};
            print_message("%s\n", stored.name);
            check_model(ctx, &stored);
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

#else

int main(void)
{
    return 0;
}

#endif
