/* A step's forward, loss and gradients as one plan, for one set of inputs. */
#ifndef TESSERA_TRAIN_PROGRAM_IMPL_H
#define TESSERA_TRAIN_PROGRAM_IMPL_H

#include "graph/program/plan_impl.h"
#include "train/optimizer_impl.h"
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
    status_t (*update)(context_t *ctx, void *user, int parameter, int64_t first,
                       const tensor_t *gradient);
    status_t (*product)(context_t *ctx, void *user, int parameter, const tensor_t *x,
                        const tensor_t *grad);
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
    int *order;            /* [n_updates]: parameters as they are updated */
    step_slices_t *slices; /* [parameters]: in which a gradient comes */
    tensor_info_t *given;  /* [parameters]: as what a gradient comes; DTYPE_NONE: none does */
    plan_master_t *masters;
    int n_masters;
    train_sink_t *sink; /* of the run under way */
};

typedef struct train_asked {
    train_loss_t loss;
    void *user;
    bool keep_numerics;
    bool may_update;     /* parameters may be updated in the run, see step_may_be_late */
    size_t memory_limit; /* of train_options_t */
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
void train_program_note_gradients(const optimizer_t *optimizer, train_program_t *program);

/* True if parameters can still be stepped in the program's slices. */
bool train_program_may_slice(const train_program_t *program, const optimizer_t *optimizer);

/* ---- activations that are made again ---- */

/* The graph with *n activations dropped behind the forward pass and made again where the backward
 * pass reads them first; *n -1, or more than can be: as many as can be, which *n becomes. */
status_t train_recompute(context_t *ctx, const graph_t *graph, int *n, graph_t **out_graph);

/* ---- gradients in slices ---- */

/* Whether the gradient of a weight that the node makes, and that of its bias, may be made a tile at
 * a time while they are stepped: then as *out_info, to the bits of the node. */
status_t train_product_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                          bool *out_may, tensor_info_t *out_info);

/* The slices of the gradient of a weight that the node makes; size 0: it is made whole. */
status_t train_slices_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                         step_slices_t *out_slices);

/* Adds what makes `n` indices of that gradient from `first` on, in the place of the node; and the
 * gradient of the bias, where the node makes one: all of it with the first slice of inputs, a slice
 * of it with each slice of outputs. inputs and out_values stand for the node's in the new graph;
 * VALUE_NONE: not made. */
void train_slices_add(graph_builder_t *to, const graph_t *from, const graph_node_t *node,
                      const value_t *inputs, int dim, int64_t first, int64_t n,
                      value_t *out_values);

#endif
