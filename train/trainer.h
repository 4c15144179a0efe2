/* Training steps on a module: forward, backward and update.
 *
 *     module_mkldnn(ctx, model, NULL);
 *     optimizer_sgd(ctx, model, &(sgd_options_t){.lr = 0.1, .momentum = 0.9}, &optimizer);
 *     trainer_create(ctx, model, cross_entropy, NULL, optimizer, NULL, &trainer);
 *     trainer_step(ctx, trainer, 1, &x, labels, NULL, &loss);
 *
 * Weights that module_mkldnn has prepared for blocked formats stay blocked during training, like
 * their gradients and the optimizer's state. State dicts always contain dense tensors.
 *
 * TRAIN_EAGER runs the module's operators one by one and records them on a tape. TRAIN_PLANNED
 * traces forward and loss once for each set of input sizes, adds the gradients, and compiles all of
 * it to a plan: a list of operators whose formats are chosen together. A trace turns some values
 * into constants, see graph_trace. Both modes return the same numbers, except for the order of
 * sums. The plans of the eight most recently used sets of input sizes are kept.
 *
 * A plan fuses a batch norm and a relu or relu6 after it. The gradient is 0 where the relu clamps
 * the norm's result. To find these elements, the backward pass computes the norm's result again
 * from x; where it is within a rounding error of the bound, the gradient can differ from eager
 * mode.
 *
 * A plan updates each parameter as soon as its gradient is complete and no later operator reads the
 * parameter; then the gradient's memory is reused. Before the first update, the plan checks the
 * loss and allocates what the updates need. If an operator fails later, for example for lack of
 * memory, only some parameters have been updated; the message says so, and the trainer rejects
 * further steps. With update_apart, max_norm or parallel, or if a parameter is not f32 or has gaps
 * in memory, the plan returns all gradients, and all parameters are updated after it.
 *
 * If a linear layer has at most 64 rows of input, a large gradient of its weight is computed in
 * tiles or slices, and each of them updates its part of the weight before the next one is computed.
 * With AVX-512, this does not change any bit of the result; on other machines, the order of sums at
 * the edges of tiles may differ.
 *
 * With a memory_limit, as few activations as necessary are released after the forward pass and
 * recomputed during the backward pass (gradient checkpointing), with the same operators, so the
 * results have the same bits. Only results of batch norms, activations, sums, pooling and similar
 * operators whose operands are still stored can be recomputed. */
#ifndef TESSERA_TRAIN_TRAINER_H
#define TESSERA_TRAIN_TRAINER_H

#include "graph/ir/graph.h"
#include "train/parallel.h"

typedef struct trainer trainer_t;

typedef enum train_mode { TRAIN_EAGER, TRAIN_PLANNED } train_mode_t;

/* Computes the loss, a floating-point tensor of one element, from the module's first result, using
 * operators. */
typedef status_t (*train_loss_t)(context_t *ctx, void *user, const tensor_t *output,
                                 const tensor_t *target, tensor_t **out_loss);

typedef struct train_options {
    train_mode_t mode;
    double max_norm;      /* limit of the norm of all gradients, see clip_gradients; 0: none */
    bool keep_numerics;   /* planned: no Winograd convolutions, which round differently */
    bool update_apart;    /* planned: update all parameters after the plan */
    size_t memory_limit;  /* planned: limit of trainer_arena_bytes; 0: none */
    parallel_t *parallel; /* the ranks that train together, borrowed; NULL: only this process */
} train_options_t;

/* Times of the last step. In a plan, backward_ns is the time of forward and backward together. */
typedef struct train_times {
    uint64_t forward_ns, backward_ns, update_ns;
} train_times_t;

/* Creates a trainer and switches the module to training mode (module_train). The trainer retains
 * the module. The optimizer must belong to this module and exist longer than the trainer. With
 * options->parallel, all ranks must call this function, which calls parallel_broadcast. NULL
 * options mean eager mode. */
status_t trainer_create(context_t *ctx, module_t *module, train_loss_t loss, void *user,
                        optimizer_t *optimizer, const train_options_t *options,
                        trainer_t **out_trainer) TESSERA_API(trainer_create);
void trainer_destroy(trainer_t *trainer) TESSERA_API(trainer_destroy);

/* Runs one step on a batch: forward on n_in inputs, loss, gradients, update. out_output receives
 * the module's first result, computed before the update; the caller releases it. out_output may be
 * NULL. With parallel, the loss is the mean over the items of all ranks, and a step that fails on
 * one rank fails on all.
 *
 * INVALID_ARGUMENT  a memory_limit that is too small even if every possible activation is
 *                   recomputed; a loss that is not finite or depends on no parameter of the
 *                   optimizer; a parameter that has been removed from the module, or whose dtype or
 *                   sizes have changed. After any failure before the update itself, parameters,
 *                   optimizer state and random numbers are unchanged. Running statistics are
 *                   unchanged too, unless memory for the update cannot be allocated.
 * CANCELLED, LIMIT  the step was cancelled or has reached a limit, and nothing has changed. Once a
 *                   step has started to write state or parameters, it completes and returns OK; a
 *                   cancel then applies to the next call.
 * UNSUPPORTED       an operator without a gradient rule; something that a plan cannot run, but
 *                   TRAIN_EAGER can
 * IO                a rank has ended */
status_t trainer_step(context_t *ctx, trainer_t *trainer, int n_in, const tensor_t *const *in,
                      const tensor_t *target, tensor_t **out_output, double *out_loss)
    TESSERA_API(trainer_step);

train_times_t trainer_times(const trainer_t *trainer) TESSERA_API(trainer_times);
/* The graph of the last step's plan: forward, gradients and conversions of the layout; borrowed.
 * NULL if the trainer is eager or has not run. */
const graph_t *trainer_graph(const trainer_t *trainer) TESSERA_API(trainer_graph);
/* Bytes of the memory block (arena) in which the last plan stores its values; 0 if there is no
 * plan. */
size_t trainer_arena_bytes(const trainer_t *trainer) TESSERA_API(trainer_arena_bytes);

#endif
