#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/onnx/onnx.h"
#include "tests/support/drawn.h"
#include "tests/support/onnx/onnx_runs.h"

void onnx_runs_open(context_t *ctx, const char *folder, const char *name, onnx_runs_t *out_runs)
{
    char path[ONNX_RUNS_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.values", folder, name);
    *out_runs = (onnx_runs_t){.folder = folder, .name = name};
    out_runs->values = onnx_data_read(ctx, &onnx__graph_proto__descriptor, path);
    if (out_runs->values == NULL) fail_msg("%s cannot be read", path);
    for (size_t i = 0; i < out_runs->values->n_initializer; i++) {
        int run = 0;
        assert_int_equal(sscanf(out_runs->values->initializer[i]->name, "%d/", &run), 1);
        assert_in_range(run, 0, ONNX_RUNS_MAX - 1);
        if (run >= out_runs->n_runs) out_runs->n_runs = run + 1;
    }
}

void onnx_runs_close(onnx_runs_t *runs)
{
    onnx__graph_proto__free_unpacked(runs->values, NULL);
    runs->values = NULL;
}

/* ---- values ---- */

static const Onnx__TensorProto *find_value(const onnx_runs_t *runs, int run, const char *name,
                                           const char *suffix)
{
    char key[MODEL_NAME_MAX + 32];
    snprintf(key, sizeof key, "%d/%s%s", run, name, suffix);
    for (size_t i = 0; i < runs->values->n_initializer; i++)
        if (strcmp(runs->values->initializer[i]->name, key) == 0)
            return runs->values->initializer[i];
    return NULL;
}

static tensor_t *draw(context_t *ctx, int run, const char *name, const tensor_t *sizes)
{
    char key[MODEL_NAME_MAX + 32];
    int64_t shape[TENSOR_MAX_RANK];
    tensor_t *tensor = NULL;
    void *elements = NULL;
    snprintf(key, sizeof key, "%d/%s", run, name);
    CHECK_OK(ctx, tensor_read(ctx, sizes, shape, sizeof shape));
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, (int)tensor_numel(sizes), shape, &tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &elements));
    drawn_fill(key, 0.0, 1.0, tensor_numel(tensor), elements);
    return tensor;
}

tensor_t *onnx_runs_find(context_t *ctx, const onnx_runs_t *runs, int run, const char *name)
{
    const Onnx__TensorProto *value = find_value(runs, run, name, "");
    const Onnx__TensorProto *drawn = find_value(runs, run, name, " drawn");
    tensor_t *tensor = NULL, *sizes = NULL;
    if (value != NULL) CHECK_OK(ctx, onnx_data_tensor(ctx, value, &tensor));
    if (drawn != NULL) {
        CHECK_OK(ctx, onnx_data_tensor(ctx, drawn, &sizes));
        tensor = draw(ctx, run, name, sizes);
        tensor_release(sizes);
    }
    return tensor;
}

/* ---- importing ---- */

Onnx__ModelProto *onnx_runs_model(context_t *ctx, const onnx_runs_t *runs, const char *file)
{
    char path[ONNX_RUNS_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.onnx", runs->folder, file);
    Onnx__ModelProto *proto = onnx_data_read(ctx, &onnx__model_proto__descriptor, path);
    if (proto == NULL) fail_msg("%s cannot be read", path);
    return proto;
}

void onnx_runs_inputs(context_t *ctx, const onnx_runs_t *runs, int run, const model_t *model,
                      tensor_t **out_in)
{
    for (int i = 0; i < model->n_inputs; i++) {
        out_in[i] = onnx_runs_find(ctx, runs, run, model->inputs[i].name);
        if (out_in[i] == NULL) fail_msg("%s has no value %s", runs->name, model->inputs[i].name);
    }
}

status_t onnx_runs_load(context_t *ctx, const onnx_runs_t *runs, const char *file, int run,
                        model_t *out_model)
{
    char path[ONNX_RUNS_PATH_MAX];
    tensor_t *in[MODEL_MAX_INPUTS] = {NULL};
    onnx_shape_t shapes[MODEL_MAX_INPUTS];
    Onnx__ModelProto *proto = onnx_runs_model(ctx, runs, file);
    *out_model = (model_t){.kind = MODEL_ONNX, .spec = runs->name};
    for (size_t i = 0; i < proto->graph->n_input; i++)
        snprintf(out_model->inputs[out_model->n_inputs++].name, MODEL_NAME_MAX, "%s",
                 proto->graph->input[i]->name);
    onnx__model_proto__free_unpacked(proto, NULL);
    onnx_runs_inputs(ctx, runs, run, out_model, in);
    for (int i = 0; i < out_model->n_inputs; i++) {
        model_input_t *input = &out_model->inputs[i];
        input->tensor = in[i];
        input->info = *tensor_info(in[i]);
        shapes[i] = (onnx_shape_t){input->name, input->info.rank, input->info.sizes};
    }
    const onnx_options_t options = {.n_shapes = out_model->n_inputs, .shapes = shapes};
    snprintf(path, sizeof path, "%s/%s.onnx", runs->folder, file);
    return onnx_load(ctx, path, &options, &out_model->module);
}

/* ---- running ---- */

static double largest_of(context_t *ctx, const tensor_t *tensor)
{
    double largest = 0.0;
    const void *data = NULL;
    if (tensor_dtype(tensor) != DTYPE_F32) return 0.0;
    CHECK_OK(ctx, tensor_data(ctx, tensor, &data));
    for (int64_t i = 0; i < tensor_numel(tensor); i++)
        largest = fmax(largest, fabs((double)((const float *)data)[i]));
    return largest;
}

static bool check_output(context_t *ctx, const onnx_runs_t *runs, int run, const char *name,
                         const tensor_t *got, double rtol, double atol)
{
    tensor_t *wanted = onnx_runs_find(ctx, runs, run, name);
    if (wanted == NULL) fail_msg("%s has no value %s", runs->name, name);
    if (rtol == 0.0) atol *= largest_of(ctx, wanted);
    const bool is_same = onnx_data_is_same(ctx, got, wanted, rtol, atol);
    tensor_release(wanted);
    return is_same;
}

/* In mode nhwc, 4-D inputs are channels_last, as in mode_prepare. */
static void set_inputs(context_t *ctx, const onnx_runs_t *runs, int run, const model_t *model,
                       runner_t *runner)
{
    for (int i = 0; i < runner->n_in; i++) tensor_release(runner->in[i]);
    onnx_runs_inputs(ctx, runs, run, model, runner->in);
    for (int i = 0; i < runner->n_in && runner->mode == MODE_NHWC; i++) {
        tensor_t *plain = runner->in[i];
        if (tensor_rank(plain) != 4) continue;
        CHECK_OK(ctx, tensor_channels_last(ctx, plain, &runner->in[i]));
        tensor_release(plain);
    }
}

bool onnx_runs_check(context_t *ctx, const onnx_runs_t *runs, int run, const model_t *model,
                     runner_t *runner, double rtol, double atol, const char *form)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    bool is_same = true;
    set_inputs(ctx, runs, run, model, runner);
    if (mode_run(runner, &n_out, out) != STATUS_OK) {
        print_error("%s, run %d, %s: %s\n", runs->name, run, form, context_error(ctx));
        return false;
    }
    for (int i = 0; i < n_out; i++) {
        char name[MODEL_NAME_MAX];
        model_output_name(runner->module, i, n_out, name);
        if (check_output(ctx, runs, run, name, out[i], rtol, atol)) continue;
        print_error("%s, run %d, %s: wrong output %s\n", runs->name, run, form, name);
        is_same = false;
    }
    mode_release_outputs(n_out, out);
    return is_same;
}
