/* A program is a training step (forward, loss, gradients) for one set of input sizes and formats.
 * It is traced as a graph and compiled to a plan: a list of operators with fixed kernels and
 * memory. */
#ifndef TESSERA_TRAIN_PROGRAM_IMPL_H
#define TESSERA_TRAIN_PROGRAM_IMPL_H

#include "graph/program/plan_impl.h"
#include "train/optimizer_impl.h"
#include "train/trainer.h"

/* State: a buffer such as a running mean that each step updates. The trace wrote it with an
 * in-place operator; now `result` is the index of the graph's result with the new value. */
typedef struct train_state {
    char *path;
    int result;
} train_state_t;

/* Callbacks of a step that updates parameters in its plan. Before the first update, `check`
 * receives the loss, the output and the new values of state. Then `update` receives each gradient
 * or slice of a gradient (which starts at index `first`), or `product` receives the two matrices
 * whose product is the gradient. */
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
    int n_in; /* number of the module's inputs, plus 1 for the target */
    tensor_info_t *inputs;
    int n_threads; /* number of threads for which kernels were prepared */
    plan_t *plan;
    graph_t *graph;
    module_t *step; /* the traced module; its child "model" is the trained module */
    int *gradients; /* [parameters of the optimizer] index of the gradient's result, or -1 */
    train_state_t *states;
    int n_states;
    bool keep_numerics; /* from train_options_t */
    char *tree;       /* text that describes the traced module: members, methods, shared tensors */
    uint64_t changes; /* module_changes() when the module last matched `tree` */

    /* If n_updates > 0, a run of the plan updates the parameters; if it is 0, the plan returns the
     * gradients. */
    bool may_update; /* updates were requested */
    int n_updates;
    int *order;            /* [n_updates] parameters, in the order of their updates */
    step_slices_t *slices; /* [parameters] slices of the gradient */
    tensor_info_t *given;  /* [parameters] info of the gradient; DTYPE_NONE: none */
    plan_master_t *masters;
    int n_masters;
    train_sink_t *sink; /* callbacks of the current run */
};

typedef struct train_asked {
    train_loss_t loss;
    void *user;
    bool keep_numerics;
    bool may_update;     /* the plan may update parameters, see step_may_be_late */
    size_t memory_limit; /* from train_options_t */
} train_asked_t;

/* Traces a step and makes its plan. `in` has the module's inputs, then the target. */
status_t train_program_create(context_t *ctx, module_t *module, const train_asked_t *asked,
                              optimizer_t *optimizer, int n_in, const tensor_t *const *in,
                              train_program_t **out_program);
void train_program_destroy(context_t *ctx, train_program_t *program);
bool train_program_takes(const context_t *ctx, const train_program_t *program, int n_in,
                         const tensor_t *const *in);

/* Sets *out_is_valid to whether the module still matches the trace: the same layers, methods,
 * attributes, parameter sizes and shared tensors. */
status_t train_program_check(context_t *ctx, train_program_t *program, bool *out_is_valid);

#define TRAIN_RESULT_LOSS 0
#define TRAIN_RESULT_OUTPUT 1

/* ---- updates inside the plan ---- */

#define TRAIN_CHECK "check"
#define TRAIN_UPDATE "update"

/* Adds a call for each parameter's update to the graph. Returns an unchanged graph if that is
 * impossible. */
status_t train_program_add_updates(context_t *ctx, optimizer_t *optimizer, const graph_t *graph,
                                   train_program_t *program, graph_t **out_graph);
status_t train_program_set_calls(context_t *ctx, train_program_t *program);
void train_program_note_gradients(const optimizer_t *optimizer, train_program_t *program);

/* True if the parameters can still be updated with the slices of gradients that the program
 * computes. */
bool train_program_may_slice(const train_program_t *program, const optimizer_t *optimizer);

/* ---- recomputation of activations ---- */

/* Rewrites the graph so that *n activations are released after the forward pass, and recomputed
 * when the backward pass first reads them. If *n is -1 or too large, sets it to the largest
 * possible number. */
status_t train_recompute(context_t *ctx, const graph_t *graph, int *n, graph_t **out_graph);

/* ---- gradients in slices ---- */

/* `node` computes the gradient of a weight, and perhaps of its bias. Sets *out_may if the update
 * can compute these gradients tile by tile instead, with the same bits. *out_info describes the
 * gradient. */
status_t train_product_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                          bool *out_may, tensor_info_t *out_info);

/* Describes the slices in which the weight gradient of this node is computed. Size 0 means that it
 * is not split. */
status_t train_slices_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                         step_slices_t *out_slices);

/* Adds nodes that compute one slice of the node's weight gradient: `n` indices of dimension dim
 * from `first` on. If the node also computes the bias gradient, so do the new nodes: if the slices
 * divide the inputs of the layer, the first slice comes with the complete bias gradient; if they
 * divide its outputs, each slice comes with its part. inputs and out_values are values in the new
 * graph; VALUE_NONE: not computed. */
void train_slices_add(graph_builder_t *to, const graph_t *from, const graph_node_t *node,
                      const value_t *inputs, int dim, int64_t first, int64_t n,
                      value_t *out_values);

#endif
