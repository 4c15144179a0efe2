#include "tools/support/mode.h"

#include <string.h>

#include "tensor/base/try_impl.h"

static const char *const names[MODE_COUNT] = {"dense", "nhwc", "mkldnn", "graph", "frozen"};

const char *mode_name(run_mode_t mode)
{
    return names[mode];
}

bool mode_parse(const char *name, run_mode_t *out_mode)
{
    for (int i = 0; i < MODE_COUNT; i++)
        if (strcmp(names[i], name) == 0) {
            *out_mode = (run_mode_t)i;
            return true;
        }
    return false;
}

run_mode_t mode_default(const char *spec)
{
    return model_kind(spec) == MODEL_FROZEN ? MODE_FROZEN : MODE_MKLDNN;
}

status_t mode_trace(context_t *ctx, model_t *model)
{
    if (graph_of(model->module, "forward") != NULL) return STATUS_OK;
    const tensor_info_t *infos[MODEL_MAX_INPUTS] = {NULL};
    for (int i = 0; i < model->n_inputs; i++) infos[i] = &model->inputs[i].info;
    return graph_trace_for(ctx, model->module, "forward", model->n_inputs, infos);
}

status_t mode_freeze(context_t *ctx, model_t *model, const freeze_options_t *options,
                     module_t **out_frozen)
{
    TRY(mode_trace(ctx, model));
    return freeze(ctx, model->module, options, out_frozen);
}

/* Makes `forward` run as plans of its graph. Attributes are not constants: each run reads them. */
static status_t set_plan(context_t *ctx, module_t *module)
{
    graph_t *optimised = NULL;
    pass_options_t options = {.self = module};
    TRY(pass_run(ctx, graph_of(module, "forward"), pass_pipeline_graph(), &options, &optimised));
    status_t status = plan_set_method(ctx, module, "forward", optimised, 0);
    graph_release(optimised);
    return status;
}

static status_t prepare_module(context_t *ctx, model_t *model, run_mode_t mode,
                               module_t **out_module)
{
    if (mode == MODE_FROZEN && !freeze_is_frozen(model->module))
        return mode_freeze(ctx, model, NULL, out_module);
    if (mode == MODE_GRAPH) TRY(mode_trace(ctx, model));
    if (mode != MODE_DENSE && mode != MODE_FROZEN) TRY(module_mkldnn(ctx, model->module, NULL));
    if (mode == MODE_GRAPH) TRY(set_plan(ctx, model->module));
    *out_module = module_retain(model->module);
    return STATUS_OK;
}

static status_t prepare_input(context_t *ctx, run_mode_t mode, tensor_t *tensor, tensor_t **out)
{
    int rank = tensor_rank(tensor);
    if (mode == MODE_NHWC && (rank == 4 || rank == 5))
        return tensor_channels_last(ctx, tensor, out);
    *out = tensor_retain(tensor);
    return STATUS_OK;
}

status_t mode_prepare(context_t *ctx, model_t *model, run_mode_t mode, runner_t *out_runner)
{
    runner_t runner = {.ctx = ctx, .mode = mode};
    if (model->kind == MODEL_FROZEN && mode != MODE_FROZEN)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "%s is frozen and runs in mode frozen only; mode %s needs the model it was made from",
             model->spec, names[mode]);
    TRY(dispatch_set_policy(ctx, POLICY_AUTO));
    TRY(prepare_module(ctx, model, mode, &runner.module));
    status_t status = STATUS_OK;
    for (int i = 0; i < model->n_inputs && status == STATUS_OK; i++) {
        status = prepare_input(ctx, mode, model->inputs[i].tensor, &runner.in[i]);
        if (status == STATUS_OK) runner.n_in++;
    }
    if (status == STATUS_OK)
        status = dispatch_set_policy(ctx, mode == MODE_DENSE ? POLICY_PER_OP : POLICY_AUTO);
    if (status != STATUS_OK) {
        mode_clear(&runner);
        return status;
    }
    *out_runner = runner;
    return STATUS_OK;
}

void mode_release_outputs(int n, tensor_t **outputs)
{
    for (int i = 0; i < n; i++) tensor_release(outputs[i]);
}

status_t mode_run_once(runner_t *runner)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    TRY(mode_run(runner, &n_out, out));
    mode_release_outputs(n_out, out);
    return STATUS_OK;
}

status_t mode_run(runner_t *runner, int *n_out, tensor_t **out)
{
    context_t *ctx = runner->ctx;
    tensor_t *made[METHOD_MAX_OUTPUTS] = {NULL};
    int n_made = 0;
    TRY(module_call_tensors(ctx, runner->module, "forward", runner->n_in,
                            (const tensor_t *const *)runner->in, &n_made, made));
    for (int i = 0; i < n_made; i++) {
        tensor_t *dense = NULL;
        status_t status = to_dense(ctx, made[i], &dense);
        if (status != STATUS_OK) {
            mode_release_outputs(n_made, made);
            return status;
        }
        tensor_release(made[i]);
        made[i] = dense;
    }
    memcpy(out, made, (size_t)n_made * sizeof *out);
    *n_out = n_made;
    return STATUS_OK;
}

void mode_clear(runner_t *runner)
{
    for (int i = 0; i < runner->n_in; i++) tensor_release(runner->in[i]);
    module_release(runner->module);
    runner->n_in = 0;
    runner->module = NULL;
}
