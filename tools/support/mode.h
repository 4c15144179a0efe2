/* Modes: the ways to run a model that bench compares.
 *
 *   dense    policy per_op: row-major between operators, weights reordered in each call
 *   nhwc     policy auto, weights packed once, inputs channels_last
 *   mkldnn   policy auto, weights packed once, activations blocked where that is fastest
 *   graph    traced, with layout pass and plan; attributes not frozen
 *   frozen   everything folded, fused and packed */
#ifndef TESSERA_TOOLS_SUPPORT_MODE_H
#define TESSERA_TOOLS_SUPPORT_MODE_H

#include "tools/support/model.h"

typedef enum run_mode {
    MODE_DENSE,
    MODE_NHWC,
    MODE_MKLDNN,
    MODE_GRAPH,
    MODE_FROZEN,
    MODE_COUNT
} run_mode_t;

const char *mode_name(run_mode_t mode);

/* Returns false if there is no mode of this name. */
bool mode_parse(const char *name, run_mode_t *out_mode);

/* The default mode of a model: frozen for a frozen file, else mkldnn. */
run_mode_t mode_default(const char *spec);

/* A model that has been prepared to run in a mode. */
typedef struct runner {
    context_t *ctx;
    run_mode_t mode;
    module_t *module;
    int n_in;
    tensor_t *in[MODEL_MAX_INPUTS];
} runner_t;

/* Prepares the model, not a copy; its inputs must have tensors. The runner takes over the context
 * and sets its policy. UNSUPPORTED: the model is a frozen file and the mode is not frozen. */
status_t mode_prepare(context_t *ctx, model_t *model, run_mode_t mode, runner_t *out_runner);

/* Replaces a `forward` in C by a graph. Does nothing for imported models, which have graphs. */
status_t mode_trace(context_t *ctx, model_t *model);

/* Freezes the model; traces it first if it has no graph. */
status_t mode_freeze(context_t *ctx, model_t *model, const freeze_options_t *options,
                     module_t **out_frozen);

/* Runs one inference. The results are dense, and the caller releases them; out has
 * METHOD_MAX_OUTPUTS elements. */
status_t mode_run(runner_t *runner, int *n_out, tensor_t **out);
void mode_release_outputs(int n, tensor_t **outputs);

/* Runs one inference and discards its results. */
status_t mode_run_once(runner_t *runner);

void mode_clear(runner_t *runner);

#endif
