/* Networks exported by PyTorch, in every mode and from a frozen file, compared with PyTorch.
 * exported.py writes the folder `exported` and describes its format. Each model is imported at the
 * sizes of its first run, and runs at the sizes of all runs. Then it is imported with the second
 * run's sizes as fixed ones. An argument selects models by the beginning of their names. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/onnx/onnx.h"
#include "module/signature.h"
#include "tests/support/onnx/onnx_data.h"
#include "tests/support/onnx/onnx_runs.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/exported"
#define SAVED "test_onnx_exported.tessera"

/* Relative to an output's largest element. */
#define TOLERANCE 2e-4

static const char *only = "";

/* A model: its file is NAME.EXPORTER.onnx, e.g. vit.script.onnx. */
typedef struct exported {
    context_t *ctx;
    onnx_runs_t runs;
    char name[64], file[128];
    const char *exporter;
    int n_failures;
} exported_t;

/* Returns true if the model is valid at the sizes of this run. An exporter may have fixed some
 * sizes. */
static bool holds(exported_t *exported, int run)
{
    char key[64];
    snprintf(key, sizeof key, "refused %s", exported->exporter);
    tensor_t *refused = onnx_runs_find(exported->ctx, &exported->runs, run, key);
    tensor_release(refused);
    return refused == NULL;
}

static void count_failure(exported_t *exported)
{
    print_error("    by: test_onnx_exported %s\n", exported->file);
    exported->n_failures++;
}

/* ---- running ---- */

static void check_refused(exported_t *exported, int run, const model_t *model, runner_t *runner,
                          const char *form)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    context_t *ctx = exported->ctx;
    for (int i = 0; i < runner->n_in; i++) tensor_release(runner->in[i]);
    onnx_runs_inputs(ctx, &exported->runs, run, model, runner->in);
    if (mode_run(runner, &n_out, out) != STATUS_OK) return;
    print_error("%s, run %d, %s: not refused\n", exported->file, run, form);
    mode_release_outputs(n_out, out);
    count_failure(exported);
}

static void check_run(exported_t *exported, int run, const model_t *model, runner_t *runner,
                      const char *form)
{
    if (!holds(exported, run))
        check_refused(exported, run, model, runner, form);
    else if (!onnx_runs_check(exported->ctx, &exported->runs, run, model, runner, 0.0, TOLERANCE,
                              form))
        count_failure(exported);
}

/* Checks the results of runs `first` to `last`. */
static void check_runs(exported_t *exported, int first, int last, const model_t *model,
                       runner_t *runner, const char *form)
{
    for (int run = first; run <= last; run++) check_run(exported, run, model, runner, form);
}

static void check_file(exported_t *exported, int first, int last, const model_t *model,
                       runner_t *runner)
{
    context_t *ctx = exported->ctx;
    module_t *loaded = NULL;
    if (freeze_save(ctx, runner->module, SAVED) != STATUS_OK ||
        freeze_load(ctx, SAVED, &loaded) != STATUS_OK) {
        print_error("%s, saved and loaded: %s\n", exported->file, context_error(ctx));
        count_failure(exported);
        return;
    }
    module_release(runner->module);
    runner->module = loaded;
    check_runs(exported, first, last, model, runner, "loaded");
    remove(SAVED);
}

/* Checks runs in every mode. All modes use one import. */
static void check_modes(exported_t *exported, int first, int last, model_t *model)
{
    for (int i = 0; i < MODE_COUNT; i++) {
        const run_mode_t mode = onnx_data_modes[i];
        runner_t runner;
        if (mode_prepare(exported->ctx, model, mode, &runner) != STATUS_OK) {
            print_error("%s, %s: %s\n", exported->file, mode_name(mode),
                        context_error(exported->ctx));
            count_failure(exported);
            continue;
        }
        check_runs(exported, first, last, model, &runner, mode_name(mode));
        if (mode == MODE_FROZEN) check_file(exported, first, last, model, &runner);
        mode_clear(&runner);
    }
}

/* ---- importing ---- */

static void fix_sizes(Onnx__ValueInfoProto *input, const tensor_info_t *info)
{
    Onnx__TensorShapeProto *shape = input->type->tensor_type->shape;
    assert_int_equal(shape->n_dim, info->rank);
    for (int i = 0; i < info->rank; i++) {
        Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
            free(dim->dim_param);
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim->dim_value = info->sizes[i];
    }
}

/* Imports the model after its open sizes were replaced by those of this run. */
static status_t load_fixed(exported_t *exported, int run, model_t *model)
{
    context_t *ctx = exported->ctx;
    tensor_t *in[MODEL_MAX_INPUTS] = {NULL};
    Onnx__ModelProto *proto = onnx_runs_model(ctx, &exported->runs, exported->file);
    onnx_runs_inputs(ctx, &exported->runs, run, model, in);
    for (int i = 0; i < model->n_inputs; i++) {
        tensor_release(model->inputs[i].tensor);
        model->inputs[i].tensor = in[i];
        model->inputs[i].info = *tensor_info(in[i]);
        fix_sizes(proto->graph->input[i], tensor_info(in[i]));
    }
    const size_t n_bytes = onnx__model_proto__get_packed_size(proto);
    uint8_t *bytes = malloc(n_bytes);
    assert_non_null(bytes);
    onnx__model_proto__pack(proto, bytes);
    onnx__model_proto__free_unpacked(proto, NULL);
    module_release(model->module);
    model->module = NULL;
    const status_t status = onnx_load_bytes(ctx, bytes, n_bytes, NULL, &model->module);
    free(bytes);
    return status;
}

static void check_fixed(exported_t *exported, int run, model_t *model)
{
    if (!holds(exported, run)) return;
    if (load_fixed(exported, run, model) == STATUS_OK) {
        check_modes(exported, run, run, model);
        return;
    }
    print_error("%s, fixed: %s\n", exported->file, context_error(exported->ctx));
    count_failure(exported);
}

static int check_model(context_t *ctx, const char *file)
{
    exported_t exported = {.ctx = ctx};
    model_t model;
    snprintf(exported.file, sizeof exported.file, "%s", file);
    snprintf(exported.name, sizeof exported.name, "%.*s", (int)strcspn(file, "."), file);
    exported.exporter = strchr(exported.file, '.') + 1;
    onnx_runs_open(ctx, FOLDER, exported.name, &exported.runs);
    if (onnx_runs_load(ctx, &exported.runs, exported.file, 0, &model) == STATUS_OK) {
        check_modes(&exported, 0, exported.runs.n_runs - 1, &model);
        check_fixed(&exported, 1, &model);
    } else {
        print_error("%s: %s\n", file, context_error(ctx));
        count_failure(&exported);
    }
    model_clear(&model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    onnx_runs_close(&exported.runs);
    return exported.n_failures;
}

static void networks_give_what_pytorch_gives(void **state)
{
    context_t *ctx = fixture_context(state);
    struct dirent **entries = NULL;
    int n_models = 0, n_failures = 0, n = scandir(FOLDER, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char *name = entries[i]->d_name, *dot = strstr(name, ".onnx");
        if (dot != NULL && strncmp(name, only, strlen(only)) == 0) {
            *dot = '\0';
            print_message("%s\n", name);
            n_failures += check_model(ctx, name);
            n_models++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(n_failures, 0);
    assert_true(n_models >= (*only == '\0' ? 49 : 1));
}

/* The sizes of past_v and past_k have the same names but come from different runs. */
static void two_sizes_for_one_name_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    onnx_runs_t runs;
    model_t model;
    runner_t runner;
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    onnx_shape_t shapes[MODEL_MAX_INPUTS];
    module_t *other = NULL;
    int n_out = 0;
    onnx_runs_open(ctx, FOLDER, "llama_step", &runs);
    CHECK_OK(ctx, onnx_runs_load(ctx, &runs, "llama_step.dynamo", 0, &model));
    CHECK_OK(ctx, mode_prepare(ctx, &model, MODE_FROZEN, &runner));
    assert_string_equal(model.inputs[2].name, "past_v");
    tensor_release(runner.in[2]);
    runner.in[2] = onnx_runs_find(ctx, &runs, 1, "past_v");
    CHECK_FAILS(ctx, mode_run(&runner, &n_out, out), STATUS_INVALID_ARGUMENT, "past_v");
    for (int i = 0; i < runner.n_in; i++)
        shapes[i] = (onnx_shape_t){model.inputs[i].name, tensor_rank(runner.in[i]),
                                   tensor_sizes(runner.in[i])};
    const onnx_options_t options = {.n_shapes = runner.n_in, .shapes = shapes};
    CHECK_FAILS(ctx, onnx_load(ctx, FOLDER "/llama_step.dynamo.onnx", &options, &other),
                STATUS_INVALID_ARGUMENT, "one name is one size");
    mode_clear(&runner);
    model_clear(&model);
    onnx_runs_close(&runs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(networks_give_what_pytorch_gives),
        TEST(two_sizes_for_one_name_are_refused),
    };
    if (argc > 1) only = argv[1];
    return cmocka_run_group_tests_name("onnx_exported", tests, NULL, NULL);
}
