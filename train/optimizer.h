/* Optimizers update the parameters of a module from gradients, as defined by PyTorch.
 *
 *     sgd_options_t options = sgd_options(0.1);
 *     options.momentum = 0.9;
 *     optimizer_sgd(ctx, model, &options, &optimizer);
 *     for (int i = 0; i < optimizer_n_parameters(optimizer); i++)
 *         gradients[i] = tape_gradient(tape, optimizer_parameter(optimizer, i));
 *     optimizer_step(ctx, optimizer, gradients);
 *
 * A step writes parameters in place, in the format of their gradients. A weight that module_mkldnn
 * has prepared for blocked formats stays blocked, like its gradient and its state (momentum,
 * averages). Its row-major bytes are written only when something reads them. The padding of blocks
 * stays zero. All tensors are updated in one parallel pass, and the result does not depend on the
 * number of threads.
 *
 * An optimizer retains its module and looks up parameters by name at each step. Only one thread may
 * use it at a time. */
#ifndef TESSERA_TRAIN_OPTIMIZER_H
#define TESSERA_TRAIN_OPTIMIZER_H

#include "module/module.h"

typedef struct optimizer optimizer_t;

/* ---- constructors ---- */

/* g is the gradient plus weight_decay * p.
 *
 *   buffer = momentum * buffer + (1 - dampening) * g      in the first step: g
 *   p      = p - lr * buffer
 *            nesterov: p - lr * (g + momentum * buffer)
 *
 * Without momentum there is no buffer: p = p - lr * g. nesterov requires momentum, and no
 * dampening. */
typedef struct sgd_options {
    double lr, momentum, dampening, weight_decay;
    bool nesterov;
} sgd_options_t;

/* g is the gradient plus weight_decay * p. With decoupled_weight_decay, p is multiplied by 1 - lr *
 * weight_decay instead. t counts the parameter's steps from 1.
 *
 *   exp_avg    = exp_avg + (1 - beta1) * (g - exp_avg)
 *   exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
 *   p          = p - lr / (1 - beta1^t) * exp_avg / (sqrt(exp_avg_sq) / sqrt(1 - beta2^t) + eps)
 *
 * amsgrad uses max_exp_avg_sq, the largest exp_avg_sq so far, in place of exp_avg_sq. */
typedef struct adam_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool amsgrad, decoupled_weight_decay;
} adam_options_t;

/* g is the gradient plus weight_decay * p.
 *
 *   square_avg = alpha * square_avg + (1 - alpha) * g * g
 *   average    = sqrt(square_avg) + eps
 *                centered: sqrt(square_avg - grad_avg^2) + eps,
 *                with grad_avg = grad_avg + (1 - alpha) * (g - grad_avg)
 *   p          = p - lr * g / average
 *                with momentum: p - lr * buffer,
 *                with buffer = momentum * buffer + g / average */
typedef struct rmsprop_options {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered;
} rmsprop_options_t;

/* Return PyTorch's defaults, with the given learning rate. */
sgd_options_t sgd_options(double lr) TESSERA_API(sgd_options);
adam_options_t adam_options(double lr) TESSERA_API(adam_options);
adam_options_t adamw_options(double lr) TESSERA_API(adamw_options);
rmsprop_options_t rmsprop_options(double lr) TESSERA_API(rmsprop_options);

/* Create an optimizer for the module's floating-point parameters, in the order of module_walk. A
 * parameter with several names is listed once, under its first name. NULL options are PyTorch's
 * defaults. optimizer_adamw is Adam with decoupled weight decay; it ignores the value of
 * decoupled_weight_decay.
 *
 * INVALID_ARGUMENT  a negative option; beta >= 1; nesterov without momentum or with dampening; no
 *                   floating-point parameter
 * UNSUPPORTED       two parameters share bytes */
status_t optimizer_sgd(context_t *ctx, module_t *module, const sgd_options_t *options,
                       optimizer_t **out_optimizer) TESSERA_API(optimizer_sgd);
status_t optimizer_adam(context_t *ctx, module_t *module, const adam_options_t *options,
                        optimizer_t **out_optimizer) TESSERA_API(optimizer_adam);
status_t optimizer_adamw(context_t *ctx, module_t *module, const adam_options_t *options,
                         optimizer_t **out_optimizer) TESSERA_API(optimizer_adamw);
status_t optimizer_rmsprop(context_t *ctx, module_t *module, const rmsprop_options_t *options,
                           optimizer_t **out_optimizer) TESSERA_API(optimizer_rmsprop);
/* NULL is allowed. */
void optimizer_destroy(optimizer_t *optimizer) TESSERA_API(optimizer_destroy);

/* ---- steps ---- */

/* Updates the parameters. gradients has one gradient for each parameter, in the parameters' order,
 * with the parameter's dtype and sizes, in any layout. If a gradient is NULL, its parameter and
 * state do not change. A gradient whose format differs from the state's is reordered; the counters
 * list such reorders under the cause "gradient". Gradients are not written.
 *
 * INVALID_ARGUMENT  a gradient whose dtype or sizes are not the parameter's; a parameter that has
 *                   been removed from the module, or whose sizes have changed
 * UNSUPPORTED       a gradient for a parameter that is not f32; two parameters that now share
 *                   bytes
 *
 * On failure parameters and state are unchanged. */
status_t optimizer_step(context_t *ctx, optimizer_t *optimizer, tensor_t *const *gradients)
    TESSERA_API(optimizer_step);

/* Sets the learning rate of later steps. INVALID_ARGUMENT if it is negative or NaN. */
status_t optimizer_set_lr(context_t *ctx, optimizer_t *optimizer, double lr)
    TESSERA_API(optimizer_set_lr);
double optimizer_lr(const optimizer_t *optimizer) TESSERA_API(optimizer_lr);

/* ---- queries: results are borrowed ---- */

/* Returns "sgd", "adam", "adamw" or "rmsprop". */
const char *optimizer_kind(const optimizer_t *optimizer) TESSERA_API(optimizer_kind);

/* Parameters are numbered from 0; a parameter's name is its path in the module. optimizer_name and
 * optimizer_parameter return NULL if the index is out of range. optimizer_parameter also returns
 * NULL if the parameter has been removed from the module. */
int optimizer_n_parameters(const optimizer_t *optimizer) TESSERA_API(optimizer_n_parameters);
const char *optimizer_name(const optimizer_t *optimizer, int index) TESSERA_API(optimizer_name);
tensor_t *optimizer_parameter(const optimizer_t *optimizer, int index)
    TESSERA_API(optimizer_parameter);

/* optimizer_n_updates counts the steps that updated the parameter: those in which it had a
 * gradient. optimizer_n_steps counts all steps. */
int64_t optimizer_n_updates(const optimizer_t *optimizer, int index)
    TESSERA_API(optimizer_n_updates);
int64_t optimizer_n_steps(const optimizer_t *optimizer) TESSERA_API(optimizer_n_steps);

/* Returns the name of the nth parameter that no step has updated, counting from 0; NULL if there
 * are no more, and before the first step. After the first step, a training loop can warn the user
 * that these parameters are not trained. */
const char *optimizer_unstepped(const optimizer_t *optimizer, int nth)
    TESSERA_API(optimizer_unstepped);

/* ---- state ---- */

/* State tensors of each parameter, for example "exp_avg" and "exp_avg_sq". They have the
 * parameter's sizes and the format of its gradients. optimizer_state returns NULL until the
 * parameter's first update. */
int optimizer_n_states(const optimizer_t *optimizer) TESSERA_API(optimizer_n_states);
const char *optimizer_state_name(const optimizer_t *optimizer, int state)
    TESSERA_API(optimizer_state_name);
tensor_t *optimizer_state(const optimizer_t *optimizer, int index, int state)
    TESSERA_API(optimizer_state);

/* Returns all state as a dict of dense tensors; the caller releases the dict. Its keys are "lr",
 * f64[]; "step", s64[], the number of steps; and for each updated parameter, for example,
 * "conv1.weight.exp_avg" and "conv1.weight.step", s64[], the number of its updates. Loading checks
 * names, dtypes and sizes before it changes anything. A parameter without entries counts as not yet
 * updated. */
status_t optimizer_state_dict(context_t *ctx, const optimizer_t *optimizer, datum_t **out_dict)
    TESSERA_API(optimizer_state_dict);
status_t optimizer_load_state_dict(context_t *ctx, optimizer_t *optimizer, const datum_t *dict)
    TESSERA_API(optimizer_load_state_dict);

/* ---- steps of one tensor ---- */

/* Update one parameter in place with its gradient, which may have any layout. State tensors have
 * the format in which the step updates the parameter: if module_mkldnn has prepared the parameter
 * for blocked formats, they may be blocked although the caller sees a dense parameter. step counts
 * from 1. Without momentum, momentum_buffer may be NULL; without amsgrad, max_exp_avg_sq may be
 * NULL. INVALID_ARGUMENT if a state tensor does not have the format that the step uses. Other
 * errors as for optimizer_step. */
status_t mkldnn_sgd_step(context_t *ctx, tensor_t *parameter, const tensor_t *gradient,
                         tensor_t *momentum_buffer, const sgd_options_t *options, int64_t step)
    TESSERA_API(mkldnn_sgd_step);
status_t mkldnn_adam_step(context_t *ctx, tensor_t *parameter, const tensor_t *gradient,
                          tensor_t *exp_avg, tensor_t *exp_avg_sq, tensor_t *max_exp_avg_sq,
                          const adam_options_t *options, int64_t step)
    TESSERA_API(mkldnn_adam_step);

#endif
