/* A step's forward, loss and gradients as one plan, for one set of inputs. */
#ifndef TESSERA_TRAIN_PROGRAM_IMPL_H
#define TESSERA_TRAIN_PROGRAM_IMPL_H

#include "graph/program/plan_impl.h"
#include "train/trainer.h"

/* A buffer that a run gives a new value: what an in-place operator wrote in the trace. */
typedef struct train_state {
    char *path;
    int result;
} train_state_t;

/* Who is told of a step that updates: before the first update with loss, output and the new values
 * of state; then of each gradient, by its parameter. */
typedef struct train_program train_program_t;
typedef struct train_sink {
    void *user;
    status_t (*check)(context_t *ctx, void *user, const train_program_t *program,
                      datum_t *const *in);
    status_t (*update)(context_t *ctx, void *user, int parameter, const tensor_t *gradient);
    int n_done;
} train_sink_t;

struct train_program {
    struct train_program *next;
    int n_in; /* the target included */
    tensor_info_t *inputs;
    int n_threads; /* what kernels were chosen and prepared for */
    plan_t *plan;
    graph_t *graph;
    module_t *step; /* "model" below it is the module */
    int *gradients; /* [parameters of the optimizer]: the result that is its gradient, or -1 */
    train_state_t *states;
    int n_states;
    bool keep_numerics; /* of train_options_t */
    char *tree;         /* the module, its methods and ties when it was traced */
    uint64_t changes;   /* module_changes when it was last seen to be that */

    /* Of a program that updates in its run: n_updates 0: gradients are results. */
    bool may_update; /* it was asked for */
    int n_updates;
    int *order;           /* [n_updates]: parameters as they are updated */
    tensor_info_t *given; /* [parameters]: as what a gradient comes; DTYPE_NONE: none does */
    plan_master_t *masters;
    int n_masters;
    train_sink_t *sink; /* of the run under way */
};

typedef struct train_asked {
    train_loss_t loss;
    void *user;
    bool keep_numerics;
    bool may_update; /* parameters may be updated in the run, see step_may_be_late */
} train_asked_t;

/* in: the module's inputs, then the target. */
status_t train_program_create(context_t *ctx, module_t *module, const train_asked_t *asked,
                              optimizer_t *optimizer, int n_in, const tensor_t *const *in,
                              train_program_t **out_program);
void train_program_destroy(context_t *ctx, train_program_t *program);
bool train_program_takes(const context_t *ctx, const train_program_t *program, int n_in,
                         const tensor_t *const *in);

/* Whether the module is still what was traced: same layers, methods, attributes, sizes of
 * parameters, and the same names for one tensor. */
status_t train_program_check(context_t *ctx, train_program_t *program, bool *out_is_valid);

#define TRAIN_RESULT_LOSS 0
#define TRAIN_RESULT_OUTPUT 1

/* ---- the update inside the plan ---- */

#define TRAIN_CHECK "check"
#define TRAIN_UPDATE "update"

/* The graph with calls for its updates, if they can be there; else the graph. */
status_t train_program_add_updates(context_t *ctx, optimizer_t *optimizer, const graph_t *graph,
                                   train_program_t *program, graph_t **out_graph);
status_t train_program_set_calls(context_t *ctx, train_program_t *program);
status_t train_program_note_gradients(context_t *ctx, int n_parameters, train_program_t *program);

#endif
