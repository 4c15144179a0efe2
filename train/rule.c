/* Optimizer options: their defaults, their checks, and conversion to update rules. */
#include "train/optimizer_impl.h"

sgd_options_t sgd_options(double lr)
{
    return (sgd_options_t){.lr = lr};
}

adam_options_t adam_options(double lr)
{
    return (adam_options_t){.lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

adam_options_t adamw_options(double lr)
{
    adam_options_t options = adam_options(lr);
    options.weight_decay = 1e-2;
    options.decoupled_weight_decay = true;
    return options;
}

rmsprop_options_t rmsprop_options(double lr)
{
    return (rmsprop_options_t){.lr = lr, .alpha = 0.99, .eps = 1e-8};
}

/* ---- checks ---- */

/* Fails unless value >= 0, so it also rejects NaN. */
static status_t check_option(context_t *ctx, const char *op, const char *name, double value)
{
    REQUIRE(ctx, value >= 0.0, "%s: %s %g, must not be negative", op, name, value);
    return STATUS_OK;
}

static status_t check_beta(context_t *ctx, const char *op, const char *name, double value)
{
    REQUIRE(ctx, value >= 0.0 && value < 1.0, "%s: %s %g, must be at least 0 and below 1", op, name,
            value);
    return STATUS_OK;
}

status_t update_check_sgd(context_t *ctx, const char *op, const sgd_options_t *options)
{
    TRY(check_option(ctx, op, "lr", options->lr));
    TRY(check_option(ctx, op, "momentum", options->momentum));
    TRY(check_option(ctx, op, "weight_decay", options->weight_decay));
    REQUIRE(ctx, options->dampening == options->dampening, "%s: dampening %g, must be a number", op,
            options->dampening);
    REQUIRE(ctx, !options->nesterov || (options->momentum > 0.0 && options->dampening == 0.0),
            "%s: nesterov with momentum %g and dampening %g, needs momentum and no dampening", op,
            options->momentum, options->dampening);
    return STATUS_OK;
}

status_t update_check_adam(context_t *ctx, const char *op, const adam_options_t *options)
{
    TRY(check_option(ctx, op, "lr", options->lr));
    TRY(check_beta(ctx, op, "beta1", options->beta1));
    TRY(check_beta(ctx, op, "beta2", options->beta2));
    TRY(check_option(ctx, op, "eps", options->eps));
    return check_option(ctx, op, "weight_decay", options->weight_decay);
}

status_t update_check_rmsprop(context_t *ctx, const char *op, const rmsprop_options_t *options)
{
    TRY(check_option(ctx, op, "lr", options->lr));
    TRY(check_option(ctx, op, "alpha", options->alpha));
    TRY(check_option(ctx, op, "eps", options->eps));
    TRY(check_option(ctx, op, "weight_decay", options->weight_decay));
    return check_option(ctx, op, "momentum", options->momentum);
}

/* ---- update rules ---- */

update_rule_t update_sgd_rule(const sgd_options_t *options)
{
    return (update_rule_t){.kind = UPDATE_SGD,
                           .state_names = {options->momentum != 0.0 ? "momentum_buffer" : NULL},
                           .lr = options->lr,
                           .weight_decay = options->weight_decay,
                           .momentum = options->momentum,
                           .dampening = options->dampening,
                           .is_nesterov = options->nesterov};
}

update_rule_t update_adam_rule(const adam_options_t *options)
{
    return (update_rule_t){
        .kind = UPDATE_ADAM,
        .state_names = {"exp_avg", "exp_avg_sq", options->amsgrad ? "max_exp_avg_sq" : NULL},
        .lr = options->lr,
        .weight_decay = options->weight_decay,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .eps = options->eps,
        .is_decoupled = options->decoupled_weight_decay};
}

update_rule_t update_rmsprop_rule(const rmsprop_options_t *options)
{
    return (update_rule_t){.kind = UPDATE_RMSPROP,
                           .state_names = {"square_avg",
                                           options->momentum != 0.0 ? "momentum_buffer" : NULL,
                                           options->centered ? "grad_avg" : NULL},
                           .lr = options->lr,
                           .weight_decay = options->weight_decay,
                           .momentum = options->momentum,
                           .beta2 = options->alpha,
                           .eps = options->eps};
}
