/* Modes: the ways of running a model that bench compares.
 *
 *   dense    policy per_op: plain at every operator's border, weights reordered at each call
 *   nhwc     policy auto, weights packed once, inputs channels_last
 *   mkldnn   policy auto, weights packed once, activations blocked where that is best
 *   graph    traced, layout pass and plan; attributes not frozen
 *   frozen   everything folded, fused and packed */
#ifndef TESSERA_TOOLS_MODE_H
#define TESSERA_TOOLS_MODE_H

#include "tools/model.h"

typedef enum run_mode {
    MODE_DENSE,
    MODE_NHWC,
    MODE_MKLDNN,
    MODE_GRAPH,
    MODE_FROZEN,
    MODE_COUNT
} run_mode_t;

const char *mode_name(run_mode_t mode);

/* False when there is no such mode. */
bool mode_parse(const char *name, run_mode_t *out_mode);

/* What a model is run in when nothing is said: frozen for a frozen file, else mkldnn. */
run_mode_t mode_default(const char *spec);

/* A model ready to run. */
typedef struct runner {
    context_t *ctx;
    run_mode_t mode;
    module_t *module;
    int n_in;
    tensor_t *in[MODEL_MAX_INPUTS];
} runner_t;

/* Prepares the model, whose inputs are filled, in place; the context is the runner's from then on,
 * since its policy is set. UNSUPPORTED for a frozen file in another mode than frozen. */
status_t mode_prepare(context_t *ctx, model_t *model, run_mode_t mode, runner_t *out_runner);

/* Puts a graph method in place of a C method; imported models have one already. */
status_t mode_trace(context_t *ctx, model_t *model);

/* Traces where there is no graph yet, and freezes. */
status_t mode_freeze(context_t *ctx, model_t *model, const freeze_options_t *options,
                     module_t **out_frozen);

/* One inference. Results are dense, the caller releases; out has room for METHOD_MAX_OUTPUTS. */
status_t mode_run(runner_t *runner, int *n_out, tensor_t **out);
void mode_release_outputs(int n, tensor_t **outputs);

/* One inference whose results nobody asks for. */
status_t mode_run_once(runner_t *runner);

void mode_clear(runner_t *runner);

#endif
