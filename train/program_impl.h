/* Forward, loss and gradients of a step as one plan, for one set of input infos. */
#ifndef TESSERA_TRAIN_PROGRAM_IMPL_H
#define TESSERA_TRAIN_PROGRAM_IMPL_H

#include "graph/program/plan_impl.h"
#include "train/optimizer_impl.h"
#include "train/trainer.h"

/* A buffer that a run updates: the trace wrote it with an in-place operator. */
typedef struct train_state {
    char *path;
    int result;
} train_state_t;

/* Callbacks of a step that updates parameters in its plan. check gets loss, output and the new
 * values of state before the first update. update or product then gets each gradient, with its
 * parameter. */
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
    int n_threads; /* thread count for which kernels were chosen and prepared */
    plan_t *plan;
    graph_t *graph;
    module_t *step; /* its child "model" is the module */
    int *gradients; /* [parameters of the optimizer] result index of its gradient, or -1 */
    train_state_t *states;
    int n_states;
    bool keep_numerics; /* from train_options_t */
    char *tree;         /* text of the module, its methods and shared tensors in the trace */
    uint64_t changes;   /* module_changes when the module last matched `tree` */

    /* For a program that updates parameters in its run. n_updates 0: gradients are results. */
    bool may_update; /* updates were requested */
    int n_updates;
    int *order;            /* [n_updates] parameters in the order of their updates */
    step_slices_t *slices; /* [parameters] how the gradient is split into slices */
    tensor_info_t *given;  /* [parameters] info of the gradient; DTYPE_NONE: none */
    plan_master_t *masters;
    int n_masters;
    train_sink_t *sink; /* callbacks of the current run */
};

typedef struct train_asked {
    train_loss_t loss;
    void *user;
    bool keep_numerics;
    bool may_update;     /* parameters may be updated in the run, see step_may_be_late */
    size_t memory_limit; /* from train_options_t */
} train_asked_t;

/* Traces and plans a step. in: the module's inputs, then the target. */
status_t train_program_create(context_t *ctx, module_t *module, const train_asked_t *asked,
                              optimizer_t *optimizer, int n_in, const tensor_t *const *in,
                              train_program_t **out_program);
void train_program_destroy(context_t *ctx, train_program_t *program);
bool train_program_takes(const context_t *ctx, const train_program_t *program, int n_in,
                         const tensor_t *const *in);

/* Sets *out_is_valid if the module still matches the trace: the same layers, methods, attributes,
 * parameter sizes and shared tensors. */
status_t train_program_check(context_t *ctx, train_program_t *program, bool *out_is_valid);

#define TRAIN_RESULT_LOSS 0
#define TRAIN_RESULT_OUTPUT 1

/* ---- updates inside the plan ---- */

#define TRAIN_CHECK "check"
#define TRAIN_UPDATE "update"

/* Adds a call for each update to the graph, or returns the same graph if that is impossible. */
status_t train_program_add_updates(context_t *ctx, optimizer_t *optimizer, const graph_t *graph,
                                   train_program_t *program, graph_t **out_graph);
status_t train_program_set_calls(context_t *ctx, train_program_t *program);
void train_program_note_gradients(const optimizer_t *optimizer, train_program_t *program);

/* True if the parameters can still be updated in the program's slices. */
bool train_program_may_slice(const train_program_t *program, const optimizer_t *optimizer);

/* ---- recomputation of activations ---- */

/* Drops *n activations after the forward pass and recomputes them where the backward pass first
 * reads them. If *n is -1 or too large, it is set to the largest possible number. */
status_t train_recompute(context_t *ctx, const graph_t *graph, int *n, graph_t **out_graph);

/* ---- gradients in slices ---- */

/* Sets *out_may if the weight gradient that the node computes, and that of its bias, can be
 * computed tile by tile during the update, with bitwise equal results. *out_info is then its
 * info. */
status_t train_product_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                          bool *out_may, tensor_info_t *out_info);

/* The slices of the weight gradient that the node computes; size 0: it is not split. */
status_t train_slices_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                         step_slices_t *out_slices);

/* Adds nodes that compute `n` indices of that gradient from `first` on, in place of the node. Also
 * adds the bias gradient, if the node computes one: all of it with the first slice if inputs are
 * sliced, a slice of it with each slice if outputs are. inputs and out_values are the node's values
 * in the new graph; VALUE_NONE: not computed. */
void train_slices_add(graph_builder_t *to, const graph_t *from, const graph_node_t *node,
                      const value_t *inputs, int dim, int64_t first, int64_t n,
                      value_t *out_values);

#endif
