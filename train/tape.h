/* The tape records the operators that run, and propagates gradients back through them.
 *
 *     tape_create(ctx, &tape);                    starts recording
 *     tape_watch_module(ctx, tape, model);        requests gradients of its parameters
 *     module_forward(ctx, model, x, &y);
 *     loss_mse(ctx, y, target, REDUCTION_MEAN, &loss);
 *     tape_backward(ctx, tape, loss, NULL);
 *     tape_gradient(tape, module_parameter(model, "0.weight"));
 *
 * Gradients have the layout in which operators return them: blocked if the forward pass used
 * blocked layouts. For the tape, results of functions that are not operators, such as tensor_view
 * and to_dense, are constants; use op_reshape, op_to_dense and so on instead, which propagate
 * gradients. A tape belongs to its context and records all operators that run in the context.
 * Frozen and compiled modules run a plan, a fixed list of operators that a tape cannot record:
 * calling one fails with UNSUPPORTED unless the tape is paused.
 *
 * After an in-place call, the tape treats the tensor that the call wrote (the target) as the call's
 * result. A call fails if its target shares memory with a watched tensor. It also fails if the
 * elements of an input have changed since the tape recorded them. Examples: the input is a result
 * that tensor_fill has overwritten, or a view of a target that was made before the in-place call.
 *
 * A context may have several tapes. Each records the operators that depend on its own watched
 * tensors, and propagates gradients independently. If one tape runs tape_backward, another tape
 * that is not paused records the operators of the backward pass like any other call. */
#ifndef TESSERA_TRAIN_TAPE_H
#define TESSERA_TRAIN_TAPE_H

#include "module/module.h"

typedef struct tape tape_t;

/* Starts recording. Call tape_destroy before the context is destroyed. */
status_t tape_create(context_t *ctx, tape_t **out_tape) TESSERA_API(tape_create);
void tape_destroy(tape_t *tape) TESSERA_API(tape_destroy);

/* Request the gradient of a tensor, or of all floating-point parameters of a module, until the tape
 * is destroyed. A second call for the same tensor does nothing. INVALID_ARGUMENT if the tensor is
 * not floating-point or was computed from a watched tensor, or if the tape has already recorded a
 * call. */
status_t tape_watch(context_t *ctx, tape_t *tape, tensor_t *tensor) TESSERA_API(tape_watch);
status_t tape_watch_module(context_t *ctx, tape_t *tape, module_t *module)
    TESSERA_API(tape_watch_module);

/* Operators between pause and resume are not recorded, as with torch.no_grad(). Calls nest. */
void tape_pause(tape_t *tape) TESSERA_API(tape_pause);
void tape_resume(tape_t *tape) TESSERA_API(tape_resume);

/* Computes the gradients of the watched tensors, adds them to the gradients that these tensors
 * already have, and clears the recording; so run the forward pass again before the next call. grad
 * is the gradient with respect to output, with its sizes and dtype. NULL means 1, for an output of
 * one element. Counters and profiles include the operators of the backward pass.
 *
 * INVALID_ARGUMENT  output was not computed from watched tensors since the last tape_backward
 *                   (gradients of gradients are not supported); or output, or an operand that a
 *                   gradient rule reads, was written after it was recorded
 * UNSUPPORTED       a gradient reaches an operator without a gradient rule
 *
 * On failure no gradient has changed, but the recording is cleared. */
status_t tape_backward(context_t *ctx, tape_t *tape, const tensor_t *output, const tensor_t *grad)
    TESSERA_API(tape_backward);

/* Clears the recording without computing gradients. Use it after a forward pass that needs none. */
void tape_forget(tape_t *tape) TESSERA_API(tape_forget);

/* The gradient of a watched tensor, borrowed until the next call with this tape; NULL if none
 * yet. */
tensor_t *tape_gradient(const tape_t *tape, const tensor_t *tensor) TESSERA_API(tape_gradient);
void tape_zero_gradients(tape_t *tape) TESSERA_API(tape_zero_gradients);

/* Number of recorded operators, and bytes of the tensors that are held because their gradient rules
 * read them. */
int tape_n_operators(const tape_t *tape) TESSERA_API(tape_n_operators);
size_t tape_bytes(const tape_t *tape) TESSERA_API(tape_bytes);

#endif
