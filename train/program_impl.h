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

typedef struct train_program {
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
} train_program_t;

/* in: the module's inputs, then the target. */
status_t train_program_create(context_t *ctx, module_t *module, train_loss_t loss, void *user,
                              optimizer_t *optimizer, bool keep_numerics, int n_in,
                              const tensor_t *const *in, train_program_t **out_program);
void train_program_destroy(context_t *ctx, train_program_t *program);
bool train_program_takes(const context_t *ctx, const train_program_t *program, int n_in,
                         const tensor_t *const *in);

/* Whether the module is still what was traced: same layers, methods, attributes, sizes of
 * parameters, and the same names for one tensor. */
status_t train_program_check(context_t *ctx, train_program_t *program, bool *out_is_valid);

#define TRAIN_RESULT_LOSS 0
#define TRAIN_RESULT_OUTPUT 1

#endif
