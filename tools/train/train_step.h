/* Parts of a training step, found by their names on command lines: loss, optimizer, schedule. */
#ifndef TESSERA_TOOLS_TRAIN_TRAIN_STEP_H
#define TESSERA_TOOLS_TRAIN_TRAIN_STEP_H

#include <tessera.h>

/* A negative number stands for the optimizer's default. */
typedef struct train_recipe {
    const char *loss, *optimizer;
    double lr, momentum, weight_decay;
    train_mode_t mode;
    int64_t memory_limit; /* bytes of a plan's arena; 0: unlimited */
    parallel_t *parallel; /* or NULL */
} train_recipe_t;

/* A loss and its name. takes_classes: targets must be integers, the numbers of classes. */
typedef struct train_criterion {
    const char *name;
    train_loss_t run;
    bool takes_classes;
} train_criterion_t;

/* Returns NULL if there is no such loss. TRAIN_CRITERIA lists the names. */
const train_criterion_t *train_find_criterion(const char *name);
bool train_is_optimizer(const char *name);
#define TRAIN_CRITERIA "cross_entropy, nll, mse, l1, smooth_l1 or bce_with_logits"
#define TRAIN_OPTIMIZERS "sgd, adam or adamw"

/* A schedule: rate returns the learning rate of a step, 0 to n_steps - 1. */
typedef struct train_schedule {
    const char *name;
    double (*rate)(double lr, int64_t step, int64_t n_steps);
} train_schedule_t;
const train_schedule_t *train_find_schedule(const char *name);
#define TRAIN_SCHEDULES "constant, step, cosine or one_cycle"

/* A module's optimizer and trainer. */
typedef struct train_setup {
    module_t *module; /* retained */
    optimizer_t *optimizer;
    trainer_t *trainer;
} train_setup_t;
status_t train_set_up(context_t *ctx, module_t *module, const train_recipe_t *recipe,
                      train_setup_t *out_setup);
void train_take_down(train_setup_t *setup);

/* Computes the sizes of the module's output for x, without training. x is borrowed. */
status_t train_probe(context_t *ctx, module_t *module, const tensor_t *x, tensor_info_t *out_info);

/* Returns the median of n times; sorts them. */
double train_median(double *times_ms, int64_t n);

#endif
