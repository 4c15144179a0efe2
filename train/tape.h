/* The tape: records the operators that run, and passes gradients back through them.
 *
 *     tape_create(ctx, &tape);                    records from here on
 *     tape_watch_module(ctx, tape, model);        its parameters want gradients
 *     module_forward(ctx, model, x, &y);
 *     loss_mse(ctx, y, target, REDUCTION_MEAN, &loss);
 *     tape_backward(ctx, tape, loss, NULL);
 *     tape_gradient(tape, module_parameter(model, "0.weight"));
 *
 * Gradients stay in the layout in which operators give them: blocked where the forward ran blocked.
 * What functions make that are no operators, as tensor_view and to_dense, is a constant;
 * op_reshape, op_to_dense and their like pass gradients. A tape belongs to its context, and sees
 * what runs there; what runs in a plan is refused, but in a pause.
 *
 * A call in place gives its target the gradients of its result. Refused are a target that shares
 * memory with what is watched, and the use of a tensor whose elements are no longer those that the
 * tape knows: of a view of the target that was made before, or of a result that tensor_fill wrote.
 *
 * A context may have several tapes. Each records what is computed from what it watches itself, and
 * passes gradients back without the others; what an unpaused tape sees of another's
 * tape_backward it records like any other call. */
#ifndef TESSERA_TRAIN_TAPE_H
#define TESSERA_TRAIN_TAPE_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct tape tape_t;

/* Begins to record; the caller ends it by tape_destroy, before the context's end. */
status_t tape_create(context_t *ctx, tape_t **out_tape) TESSERA_API(tape_create);
void tape_destroy(tape_t *tape) TESSERA_API(tape_destroy);

/* The tensor's gradient is wanted, from here on until the tape ends; a second call does nothing. Of
 * a module, all floating parameters. INVALID_ARGUMENT: it is of no floating dtype, or was computed
 * from what is watched. */
status_t tape_watch(context_t *ctx, tape_t *tape, tensor_t *tensor) TESSERA_API(tape_watch);
status_t tape_watch_module(context_t *ctx, tape_t *tape, module_t *module)
    TESSERA_API(tape_watch_module);

/* What runs between is not recorded, as under torch.no_grad(). Calls nest. */
void tape_pause(tape_t *tape) TESSERA_API(tape_pause);
void tape_resume(tape_t *tape) TESSERA_API(tape_resume);

/* Passes the gradient of `output` back to what is watched, adding to the gradients that are there,
 * and forgets what was recorded: a second call needs another forward. grad has output's sizes and
 * dtype; NULL: 1, for an output of one element. The work counts as operators that dispatch runs.
 *
 * INVALID_ARGUMENT  output was not computed from what is watched (nor is a gradient: gradients of
 *                   gradients are not to be had); it, or an operand that a rule reads, was written
 *                   since
 * UNSUPPORTED       an operator on the way has no rule, or ran in a plan
 *
 * On failure no gradient has changed; what was recorded is forgotten as well. */
status_t tape_backward(context_t *ctx, tape_t *tape, const tensor_t *output, const tensor_t *grad)
    TESSERA_API(tape_backward);

/* Forgets what was recorded, without passing gradients: for a forward that nobody wants them of. */
void tape_forget(tape_t *tape) TESSERA_API(tape_forget);

/* The gradient of a watched tensor, borrowed until the next call with the tape; NULL: there is none
 * yet. */
tensor_t *tape_gradient(const tape_t *tape, const tensor_t *tensor) TESSERA_API(tape_gradient);
void tape_zero_gradients(tape_t *tape) TESSERA_API(tape_zero_gradients);

/* Operators that are recorded, and bytes of the tensors that are kept for their rules. */
int tape_n_operators(const tape_t *tape) TESSERA_API(tape_n_operators);
size_t tape_bytes(const tape_t *tape) TESSERA_API(tape_bytes);

TESSERA_END

#endif
