/* What a training step is made of, as command lines name it: loss, optimizer, mode. */
#ifndef TESSERA_TOOLS_TRAIN_STEP_H
#define TESSERA_TOOLS_TRAIN_STEP_H

#include <tessera.h>

/* Numbers below 0: the optimizer's default. */
typedef struct train_recipe {
    const char *loss, *optimizer;
    double lr, momentum, weight_decay;
    train_mode_t mode;
    int64_t memory_limit; /* bytes of a plan's arena; 0: no bound */
    parallel_t *parallel; /* or NULL */
} train_recipe_t;

/* A loss by its name: what it is, and whether targets are classes, integers that it needs. */
typedef struct train_criterion {
    const char *name;
    train_loss_t run;
    bool takes_classes;
} train_criterion_t;

/* NULL: there is none of this name; names is what there is, "a, b or c". */
const train_criterion_t *train_find_criterion(const char *name);
bool train_is_optimizer(const char *name);
#define TRAIN_CRITERIA "cross_entropy, nll, mse, l1, smooth_l1 or bce_with_logits"
#define TRAIN_OPTIMIZERS "sgd, adam or adamw"

/* The learning rate of a step, counted from 0, out of n_steps. A schedule by its name. */
typedef struct train_schedule {
    const char *name;
    double (*rate)(double lr, int64_t step, int64_t n_steps);
} train_schedule_t;
const train_schedule_t *train_find_schedule(const char *name);
#define TRAIN_SCHEDULES "constant, step, cosine or one_cycle"

/* A trainer of a module with an optimizer of its own. */
typedef struct train_setup {
    module_t *module; /* retained */
    optimizer_t *optimizer;
    trainer_t *trainer;
} train_setup_t;
status_t train_set_up(context_t *ctx, module_t *module, const train_recipe_t *recipe,
                      train_setup_t *out_setup);
void train_take_down(train_setup_t *setup);

/* Sizes of what the module gives for x, without training anything; the caller has x. */
status_t train_probe(context_t *ctx, module_t *module, const tensor_t *x, tensor_info_t *out_info);

/* The middle of n times, which are sorted. */
double train_median(double *times_ms, int64_t n);

#endif
