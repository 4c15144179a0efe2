/* Training: steps of forward, backward and update on a module.
 *
 *     module_mkldnn(ctx, model, NULL);
 *     optimizer_sgd(ctx, model, &(sgd_options_t){.lr = 0.1, .momentum = 0.9}, &optimizer);
 *     trainer_create(ctx, model, cross_entropy, NULL, optimizer, NULL, &trainer);
 *     trainer_step(ctx, trainer, 1, &x, labels, NULL, &loss);
 *
 * Weights that module_mkldnn has marked, their gradients and what the optimizer keeps for them stay
 * blocked from the first step to the last; state dicts have them plain at any time.
 *
 * TRAIN_EAGER runs the module's operators one by one and records them on a tape. TRAIN_PLANNED
 * traces forward and loss for each set of inputs, adds the nodes of the gradients, and runs both as
 * one plan, with formats chosen for the whole: what is baked into a trace (see graph_trace) is
 * baked in here. Both give the same numbers but for the order of sums. Of the plans, those for the
 * eight sets of inputs that came last are kept.
 *
 * A relu or relu6 behind a batch norm is a part of it in a plan. Its gradient is 0 where what the
 * norm gives, made again from x, is cut: within rounding of the bound that may be another element.
 *
 * A plan updates each parameter as soon as its gradient is there and nobody reads the parameter any
 * more, and takes the gradient's memory for other things. The loss is looked at, and all that the
 * updates need is made, before the first of them. What fails behind that, as memory for a kernel's
 * own use, leaves parameters broken: the message says so, and the trainer takes no further step.
 * A large gradient of a fully connected layer comes in slices, each stepped before the next is
 * made: the same bits as all at once where oneDNN has AVX-512, elsewhere but for the order of sums
 * at the ends of its tiles.
 * With update_apart, with a max_norm, with ranks, and where parameters are not f32 or have gaps,
 * all gradients are kept to the end of the plan, and parameters are updated behind it at once.
 *
 * Under a memory_limit as few activations as will do are dropped behind the forward pass and made
 * again, by the same operators and so to the same bits, where the backward pass reads them: those
 * of batch norms, activations, sums, pooling and the like, whose own operands are kept. */
#ifndef TESSERA_TRAIN_TRAINER_H
#define TESSERA_TRAIN_TRAINER_H

#include "graph/ir/graph.h"
#include "train/parallel.h"

TESSERA_BEGIN

typedef struct trainer trainer_t;

typedef enum train_mode { TRAIN_EAGER, TRAIN_PLANNED } train_mode_t;

/* The loss of the module's first result, a floating tensor of one element, made of operators. */
typedef status_t (*train_loss_t)(context_t *ctx, void *user, const tensor_t *output,
                                 const tensor_t *target, tensor_t **out_loss);

typedef struct train_options {
    train_mode_t mode;
    double max_norm;    /* gradients are scaled down to this norm of all of them; 0: they are not */
    bool keep_numerics; /* planned: no convolution by winograd, which rounds otherwise */
    bool update_apart;  /* planned: parameters are updated behind the plan, see above */
    size_t memory_limit;  /* planned: bytes of a plan's arena (trainer_arena_bytes); 0: no bound */
    parallel_t *parallel; /* the ranks that train together, borrowed; NULL: this process alone */
} train_options_t;

/* What the last step took. In a plan forward and backward are one: all of it is backward_ns. */
typedef struct train_times {
    uint64_t forward_ns, backward_ns, update_ns;
} train_times_t;

/* Switches the module to training (module_train). The module is retained; the optimizer,
 * made for this module, has to live until the trainer's end. With ranks all of them have to make
 * one, which begins by parallel_broadcast.
 * options NULL: eager. */
status_t trainer_create(context_t *ctx, module_t *module, train_loss_t loss, void *user,
                        optimizer_t *optimizer, const train_options_t *options,
                        trainer_t **out_trainer) TESSERA_API(trainer_create);
void trainer_destroy(trainer_t *trainer) TESSERA_API(trainer_destroy);

/* One step on a batch: the module's forward on n_in inputs, loss, gradients, update. out_output, a
 * result that the caller releases, is what the module gave before the update; NULL: not wanted.
 * With ranks the loss is that of all their batches, and a step that fails on one has failed on all.
 *
 * INVALID_ARGUMENT  a memory_limit below what a step takes when all is made again that can be; the
 *                   loss is no finite number, or depends on no parameter of the optimizer; the
 *                   module has no longer one of these, or in another dtype or sizes. Then, and on
 *                   every failure before the update itself, parameters, the optimizer's state and
 *                   random numbers are what they were before, and so are running statistics unless
 *                   memory for the update is refused
 * CANCELLED, LIMIT  the step was interrupted, and nothing has changed. From the first write of
 *                   state or a parameter on, a step is finished: it gives OK, and a cancel is left
 *                   to the next call
 * UNSUPPORTED       an operator without a rule for gradients; what a plan cannot run, which a
 *                   trainer of mode TRAIN_EAGER can
 * IO                a rank has ended */
status_t trainer_step(context_t *ctx, trainer_t *trainer, int n_in, const tensor_t *const *in,
                      const tensor_t *target, tensor_t **out_output, double *out_loss)
    TESSERA_API(trainer_step);

train_times_t trainer_times(const trainer_t *trainer) TESSERA_API(trainer_times);
/* The graph that the last step ran as a plan: forward, gradients and transitions; borrowed. NULL
 * for a trainer that is eager, or has not run. */
const graph_t *trainer_graph(const trainer_t *trainer) TESSERA_API(trainer_graph);
/* Bytes of the last plan's arena; 0: none. */
size_t trainer_arena_bytes(const trainer_t *trainer) TESSERA_API(trainer_arena_bytes);

TESSERA_END

#endif
