/* Popular ONNX models, which tools/models downloads, in every mode and from a frozen file, compared
 * with ONNX Runtime. models.py writes models.values and describes its format. Each model is
 * imported at the sizes of its first run, and runs at the sizes of all runs. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/onnx/onnx.h"
#include "tests/support/drawn.h"
#include "tests/support/onnx/onnx_data.h"

#define FOLDER TESSERA_SOURCE_DIR "/build/models"
#define VALUES TESSERA_SOURCE_DIR "/tests/io/models.values"
#define SAVED "test_onnx_models.tessera"

enum { N_SHOWN = 400, MAX_PATH = 512, N_MODELS = 12 };

/* Relative to an output's largest element. The largest measured error is 2e-5, of a network of
 * about forty layers that ends in a softmax over 6,625 characters. */
#define TOLERANCE 2e-4

static Onnx__GraphProto *values;

/* The parts of a stored tensor's name, "MODEL RUN KIND NAME", e.g. "rapidocr/det.onnx 0 in x". */
typedef struct entry {
    char model[128], kind[16], name[MODEL_NAME_MAX];
    int run;
} entry_t;

static entry_t read_entry(size_t at)
{
    entry_t entry;
    assert_int_equal(sscanf(values->initializer[at]->name, "%127s %d %15s %127s", entry.model,
                            &entry.run, entry.kind, entry.name),
                     4);
    return entry;
}

/* Finds a stored tensor, or returns NULL. The caller releases it. */
static tensor_t *find(context_t *ctx, const char *model, int run, const char *kind,
                      const char *name)
{
    for (size_t i = 0; i < values->n_initializer; i++) {
        const entry_t entry = read_entry(i);
        tensor_t *tensor = NULL;
        if (strcmp(entry.model, model) != 0 || entry.run != run || strcmp(entry.kind, kind) != 0 ||
            strcmp(entry.name, name) != 0)
            continue;
        CHECK_OK(ctx, onnx_data_tensor(ctx, values->initializer[i], &tensor));
        return tensor;
    }
    return NULL;
}

static int count_runs(const char *model)
{
    int n = 0;
    for (size_t i = 0; i < values->n_initializer; i++) {
        const entry_t entry = read_entry(i);
        if (strcmp(entry.model, model) == 0 && entry.run >= n) n = entry.run + 1;
    }
    return n;
}

/* ---- inputs ---- */

static tensor_t *draw(context_t *ctx, const char *name, const tensor_t *sizes)
{
    int64_t shape[TENSOR_MAX_RANK];
    tensor_t *tensor = NULL;
    void *elements = NULL;
    const int rank = (int)tensor_numel(sizes);
    CHECK_OK(ctx, tensor_read(ctx, sizes, shape, sizeof shape));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, rank, shape, &tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &elements));
    drawn_fill(name, 0.0, 1.0, tensor_numel(tensor), elements);
    return tensor;
}

/* Makes an image of three equal channels from gray bytes, scaled to -1..1. */
static tensor_t *paint(context_t *ctx, const tensor_t *picture)
{
    const int64_t *sizes = tensor_sizes(picture), plane = sizes[1] * sizes[2];
    const void *data = NULL;
    void *elements = NULL;
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(sizes[0], 3, sizes[1], sizes[2]), &tensor));
    CHECK_OK(ctx, tensor_data(ctx, picture, &data));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &elements));
    for (int64_t i = 0; i < tensor_numel(tensor); i++) {
        const uint8_t byte = ((const uint8_t *)data)[i / (3 * plane) * plane + i % plane];
        ((float *)elements)[i] = (float)byte / 127.5F - 1;
    }
    return tensor;
}

static tensor_t *make_input(context_t *ctx, const char *model, int run, const char *name)
{
    tensor_t *elements = find(ctx, model, run, "elements", name), *made = NULL;
    if (elements != NULL) return elements;
    tensor_t *picture = find(ctx, model, run, "picture", name);
    tensor_t *sizes = find(ctx, model, run, "in", name);
    assert_true(picture != NULL || sizes != NULL);
    made = picture != NULL ? paint(ctx, picture) : draw(ctx, name, sizes);
    tensor_release(picture);
    tensor_release(sizes);
    return made;
}

/* ---- running ---- */

static void check_output(context_t *ctx, const char *model, int run, const char *form,
                         const char *name, const tensor_t *out)
{
    tensor_t *sizes = find(ctx, model, run, "sizes", name),
             *wanted = find(ctx, model, run, "out", name);
    int64_t shape[TENSOR_MAX_RANK];
    const void *data = NULL, *numbers = NULL;
    double largest = 0.0, error = 0.0;
    assert_non_null(sizes);
    assert_non_null(wanted);
    CHECK_OK(ctx, tensor_read(ctx, sizes, shape, sizeof shape));
    assert_true(shape_equal(tensor_rank(out), tensor_sizes(out), (int)tensor_numel(sizes), shape));
    const int64_t n = tensor_numel(out), step = (n + N_SHOWN - 1) / N_SHOWN | 1;
    assert_int_equal(tensor_numel(wanted), (n + step - 1) / step);
    CHECK_OK(ctx, tensor_data(ctx, out, &data));
    CHECK_OK(ctx, tensor_data(ctx, wanted, &numbers));
    for (int64_t i = 0; i < tensor_numel(wanted); i++) {
        const double number = (double)((const float *)numbers)[i];
        const double difference = fabs((double)((const float *)data)[i * step] - number);
        largest = fmax(largest, fabs(number));
        error = isnan(difference) ? INFINITY : fmax(error, difference);
    }
    if (!(error <= TOLERANCE * largest))
        fail_msg("%s, run %d, %s: %s is off by %g of the largest element", model, run, form, name,
                 error / largest);
    tensor_release(sizes);
    tensor_release(wanted);
}

static void check_run(context_t *ctx, const model_t *model, int run, runner_t *runner,
                      const char *form)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    for (int i = 0; i < runner->n_in; i++) {
        tensor_release(runner->in[i]);
        runner->in[i] = make_input(ctx, model->spec, run, model->inputs[i].name);
    }
    CHECK_OK(ctx, mode_run(runner, &n_out, out));
    for (int i = 0; i < n_out; i++) {
        char name[MODEL_NAME_MAX];
        check_output(ctx, model->spec, run, form, model_output_name(runner->module, i, n_out, name),
                     out[i]);
    }
    mode_release_outputs(n_out, out);
}

/* ---- one model ---- */

static void load(context_t *ctx, const char *name, model_t *model)
{
    char path[MAX_PATH];
    onnx_shape_t shapes[MODEL_MAX_INPUTS];
    *model = (model_t){.kind = MODEL_ONNX, .spec = name};
    snprintf(path, sizeof path, FOLDER "/%.*s", (int)strcspn(name, "@"), name);
    for (size_t i = 0; i < values->n_initializer; i++) {
        const entry_t entry = read_entry(i);
        const bool is_input = strcmp(entry.kind, "out") != 0 && strcmp(entry.kind, "sizes") != 0;
        if (strcmp(entry.model, name) != 0 || entry.run != 0 || !is_input) continue;
        model_input_t *input = &model->inputs[model->n_inputs];
        snprintf(input->name, MODEL_NAME_MAX, "%s", entry.name);
        input->tensor = make_input(ctx, name, 0, entry.name);
        input->info = *tensor_info(input->tensor);
        shapes[model->n_inputs++] = (onnx_shape_t){input->name, input->info.rank,
                                                   input->info.sizes};
    }
    onnx_options_t options = {.n_shapes = model->n_inputs, .shapes = shapes};
    CHECK_OK(ctx, onnx_load(ctx, path, &options, &model->module));
}

static void check_mode(context_t *ctx, const char *name, run_mode_t mode)
{
    model_t model;
    runner_t runner;
    const int n_runs = count_runs(name);
    load(ctx, name, &model);
    CHECK_OK(ctx, mode_prepare(ctx, &model, mode, &runner));
    for (int run = 0; run < n_runs; run++) check_run(ctx, &model, run, &runner, mode_name(mode));
    if (mode == MODE_FROZEN) {
        module_t *loaded = NULL;
        CHECK_OK(ctx, freeze_save(ctx, runner.module, SAVED));
        CHECK_OK(ctx, freeze_load(ctx, SAVED, &loaded));
        module_release(runner.module);
        runner.module = loaded;
        for (int run = 0; run < n_runs; run++) check_run(ctx, &model, run, &runner, "loaded");
        remove(SAVED);
    }
    mode_clear(&runner);
    model_clear(&model);
}

static void models_that_people_use_give_what_onnx_runtime_gives(void **state)
{
    context_t *ctx = fixture_context(state);
    char last[128] = "";
    int n_models = 0;
    FILE *file = fopen(FOLDER "/magika/model.onnx", "rb");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    values = onnx_data_read(ctx, &onnx__graph_proto__descriptor, VALUES);
    assert_non_null(values);
    for (size_t i = 0; i < values->n_initializer; i++) {
        const entry_t entry = read_entry(i);
        if (strcmp(entry.model, last) == 0) continue;
        memcpy(last, entry.model, sizeof last);
        for (int m = 0; m < MODE_COUNT; m++) check_mode(ctx, entry.model, onnx_data_modes[m]);
        n_models++;
    }
    assert_int_equal(n_models, N_MODELS);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    onnx__graph_proto__free_unpacked(values, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_that_people_use_give_what_onnx_runtime_gives),
    };
    return cmocka_run_group_tests_name("onnx_models", tests, NULL, NULL);
}
