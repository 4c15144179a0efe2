/* Optimizers: how gradients change the parameters of a module, by PyTorch's definitions.
 *
 *     sgd_options_t options = sgd_options(0.1);
 *     options.momentum = 0.9;
 *     optimizer_sgd(ctx, model, &options, &optimizer);
 *     for (int i = 0; i < optimizer_n_parameters(optimizer); i++)
 *         gradients[i] = tape_gradient(tape, optimizer_parameter(optimizer, i));
 *     optimizer_step(ctx, optimizer, gradients);
 *
 * A step writes parameters in place, in the format of their gradients: a weight that module_mkldnn
 * marked stays blocked, as its gradient and its state (momentum, averages) are, and its plain bytes
 * are made when somebody asks for them. Padded lanes stay zero. All tensors of a step are written
 * in one pass on the context's threads, and the result does not depend on their number.
 *
 * An optimizer holds its module; parameters are looked up by their names at each step. It belongs
 * to one thread at a time. */
#ifndef TESSERA_TRAIN_OPTIMIZER_H
#define TESSERA_TRAIN_OPTIMIZER_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct optimizer optimizer_t;

/* ---- making ---- */

/* g is the gradient, plus weight_decay * p.
 *
 *   buffer = momentum * buffer + (1 - dampening) * g      the first time: g
 *   p      = p - lr * buffer                              nesterov: p - lr * (g + momentum *
 * buffer)
 *
 * Without momentum there is no buffer, and p = p - lr * g. nesterov needs momentum and no
 * dampening.
 */
typedef struct sgd_options {
    double lr, momentum, dampening, weight_decay;
    bool nesterov;
} sgd_options_t;

/* g is the gradient, plus weight_decay * p; decoupled, p is multiplied by 1 - lr * weight_decay
 * instead. t counts the parameter's steps from 1.
 *
 *   exp_avg    = exp_avg + (1 - beta1) * (g - exp_avg)
 *   exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
 *   p          = p - lr / (1 - beta1^t) * exp_avg / (sqrt(exp_avg_sq) / sqrt(1 - beta2^t) + eps)
 *
 * amsgrad takes max_exp_avg_sq, the largest exp_avg_sq so far, in its place. */
typedef struct adam_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool amsgrad, decoupled_weight_decay;
} adam_options_t;

/* g is the gradient, plus weight_decay * p.
 *
 *   square_avg = alpha * square_avg + (1 - alpha) * g * g
 *   average    = sqrt(square_avg) + eps                   centered: sqrt(square_avg - grad_avg^2) +
 *                                                         eps, with grad_avg = grad_avg + (1 -
 *                                                         alpha) * (g - grad_avg)
 *   p          = p - lr * g / average                     with momentum: p - lr * buffer, with
 *                                                         buffer = momentum * buffer + g / average
 */
typedef struct rmsprop_options {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered;
} rmsprop_options_t;

/* PyTorch's defaults, with this learning rate. */
sgd_options_t sgd_options(double lr) TESSERA_API(sgd_options);
adam_options_t adam_options(double lr) TESSERA_API(adam_options);
adam_options_t adamw_options(double lr) TESSERA_API(adamw_options);
rmsprop_options_t rmsprop_options(double lr) TESSERA_API(rmsprop_options);

/* The module's floating parameters, in the order of module_walk; one that stands in several places
 * once, under the first of its names. options NULL: PyTorch's defaults. AdamW is Adam with
 * decoupled weight decay, whatever the options say about that.
 *
 * INVALID_ARGUMENT  a negative option, a beta of 1 and more, nesterov without momentum or with
 *                   dampening, no floating parameter
 * UNSUPPORTED       two parameters that have bytes in common */
status_t optimizer_sgd(context_t *ctx, module_t *module, const sgd_options_t *options,
                       optimizer_t **out_optimizer) TESSERA_API(optimizer_sgd);
status_t optimizer_adam(context_t *ctx, module_t *module, const adam_options_t *options,
                        optimizer_t **out_optimizer) TESSERA_API(optimizer_adam);
status_t optimizer_adamw(context_t *ctx, module_t *module, const adam_options_t *options,
                         optimizer_t **out_optimizer) TESSERA_API(optimizer_adamw);
status_t optimizer_rmsprop(context_t *ctx, module_t *module, const rmsprop_options_t *options,
                           optimizer_t **out_optimizer) TESSERA_API(optimizer_rmsprop);
/* NULL is let pass. */
void optimizer_destroy(optimizer_t *optimizer) TESSERA_API(optimizer_destroy);

/* ---- stepping ---- */

/* One gradient for each parameter, in their order, of its dtype and sizes and of any layout; NULL:
 * the parameter and its state stay as they are. A gradient of another format than the state's is
 * reordered, counted under cause gradient. Gradients are not written.
 *
 * INVALID_ARGUMENT  a gradient of another dtype or sizes; a parameter that the module has not any
 *                   more, or has in other sizes
 * UNSUPPORTED       a gradient for a parameter that is not f32; two parameters that have got bytes
 *                   in common
 * OUT_OF_MEMORY
 *
 * On failure parameters and state are as before. */
status_t optimizer_step(context_t *ctx, optimizer_t *optimizer, tensor_t *const *gradients)
    TESSERA_API(optimizer_step);

/* The learning rate of the steps to come. INVALID_ARGUMENT for a negative one and NaN. */
status_t optimizer_set_lr(context_t *ctx, optimizer_t *optimizer, double lr)
    TESSERA_API(optimizer_set_lr);
double optimizer_lr(const optimizer_t *optimizer) TESSERA_API(optimizer_lr);

/* ---- asking: borrowed ---- */

/* "sgd", "adam", "adamw", "rmsprop". */
const char *optimizer_kind(const optimizer_t *optimizer) TESSERA_API(optimizer_kind);

/* A parameter's name is its path; NULL for an index that is none, and for a parameter that the
 * module no longer has. */
int optimizer_n_parameters(const optimizer_t *optimizer) TESSERA_API(optimizer_n_parameters);
const char *optimizer_name(const optimizer_t *optimizer, int index) TESSERA_API(optimizer_name);
tensor_t *optimizer_parameter(const optimizer_t *optimizer, int index)
    TESSERA_API(optimizer_parameter);

/* How many steps have updated the parameter; and how many the optimizer has made, of which some may
 * have had no gradient for it. */
int64_t optimizer_n_updates(const optimizer_t *optimizer, int index)
    TESSERA_API(optimizer_n_updates);
int64_t optimizer_n_steps(const optimizer_t *optimizer) TESSERA_API(optimizer_n_steps);

/* Parameter `nth` of those that no step so far has updated, by its name; NULL behind the last, and
 * before the first step. A loop that finds one after its first step warns its user. */
const char *optimizer_unstepped(const optimizer_t *optimizer, int nth)
    TESSERA_API(optimizer_unstepped);

/* ---- state ---- */

/* Tensors of state that each parameter has, "exp_avg" and "exp_avg_sq"; of the parameter's sizes,
 * in the format of its gradients. NULL until the parameter's first update. */
int optimizer_n_states(const optimizer_t *optimizer) TESSERA_API(optimizer_n_states);
const char *optimizer_state_name(const optimizer_t *optimizer, int state)
    TESSERA_API(optimizer_state_name);
tensor_t *optimizer_state(const optimizer_t *optimizer, int index, int state)
    TESSERA_API(optimizer_state);

/* All state as a dict of dense tensors: "conv1.weight.exp_avg", and "conv1.weight.step", the
 * parameter's updates, s64[], of parameters that were updated; "lr", f64[]; "step", s64[], the
 * optimizer's steps. The caller releases. And back: names, dtypes and sizes are checked before
 * anything changes; a parameter without entries is one that was not updated. */
status_t optimizer_state_dict(context_t *ctx, const optimizer_t *optimizer, datum_t **out_dict)
    TESSERA_API(optimizer_state_dict);
status_t optimizer_load_state_dict(context_t *ctx, optimizer_t *optimizer, const datum_t *dict)
    TESSERA_API(optimizer_load_state_dict);

/* ---- steps of single tensors ---- */

/* One step of a parameter in place, by its gradient of any layout, with its state in the
 * parameter's bytes' order: a parameter that module_mkldnn marked may be dense to look at and its
 * state blocked. step counts from 1. momentum_buffer NULL: options has no momentum; max_exp_avg_sq
 * NULL: no amsgrad. INVALID_ARGUMENT for a state that lies in another format than the step is made
 * in. Otherwise as optimizer_step. */
status_t mkldnn_sgd_step(context_t *ctx, tensor_t *parameter, const tensor_t *gradient,
                         tensor_t *momentum_buffer, const sgd_options_t *options, int64_t step)
    TESSERA_API(mkldnn_sgd_step);
status_t mkldnn_adam_step(context_t *ctx, tensor_t *parameter, const tensor_t *gradient,
                          tensor_t *exp_avg, tensor_t *exp_avg_sq, tensor_t *max_exp_avg_sq,
                          const adam_options_t *options, int64_t step)
    TESSERA_API(mkldnn_adam_step);

TESSERA_END

#endif
