#include "tools/train/train_step.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"

/* ---- losses ---- */

static status_t cross_entropy(context_t *ctx, void *user, const tensor_t *output,
                              const tensor_t *target, tensor_t **out_loss)
{
    (void)user;
    return loss_cross_entropy(ctx, output, target, NULL, out_loss);
}

static status_t nll(context_t *ctx, void *user, const tensor_t *output, const tensor_t *target,
                    tensor_t **out_loss)
{
    (void)user;
    return loss_nll(ctx, output, target, NULL, out_loss);
}

static status_t mse(context_t *ctx, void *user, const tensor_t *output, const tensor_t *target,
                    tensor_t **out_loss)
{
    (void)user;
    return loss_mse(ctx, output, target, REDUCTION_MEAN, out_loss);
}

static status_t l1(context_t *ctx, void *user, const tensor_t *output, const tensor_t *target,
                   tensor_t **out_loss)
{
    (void)user;
    return loss_l1(ctx, output, target, REDUCTION_MEAN, out_loss);
}

static status_t smooth_l1(context_t *ctx, void *user, const tensor_t *output,
                          const tensor_t *target, tensor_t **out_loss)
{
    (void)user;
    return loss_smooth_l1(ctx, output, target, 1.0, REDUCTION_MEAN, out_loss);
}

static status_t bce_with_logits(context_t *ctx, void *user, const tensor_t *output,
                                const tensor_t *target, tensor_t **out_loss)
{
    (void)user;
    return loss_bce_with_logits(ctx, output, target, NULL, NULL, REDUCTION_MEAN, out_loss);
}

static const train_criterion_t criteria[] = {
    {"cross_entropy", cross_entropy, true},
    {"nll", nll, true},
    {"mse", mse, false},
    {"l1", l1, false},
    {"smooth_l1", smooth_l1, false},
    {"bce_with_logits", bce_with_logits, false},
};

const train_criterion_t *train_find_criterion(const char *name)
{
    for (size_t i = 0; i < sizeof criteria / sizeof *criteria; i++)
        if (strcmp(criteria[i].name, name) == 0) return &criteria[i];
    return NULL;
}

/* ---- optimizers ---- */

static status_t make_sgd(context_t *ctx, module_t *module, const train_recipe_t *recipe,
                         optimizer_t **out_optimizer)
{
    sgd_options_t options = sgd_options(recipe->lr >= 0 ? recipe->lr : 0.01);
    if (recipe->momentum >= 0) options.momentum = recipe->momentum;
    if (recipe->weight_decay >= 0) options.weight_decay = recipe->weight_decay;
    return optimizer_sgd(ctx, module, &options, out_optimizer);
}

static status_t make_adam(context_t *ctx, module_t *module, const train_recipe_t *recipe,
                          optimizer_t **out_optimizer)
{
    adam_options_t options = adam_options(recipe->lr >= 0 ? recipe->lr : 0.001);
    if (recipe->weight_decay >= 0) options.weight_decay = recipe->weight_decay;
    return optimizer_adam(ctx, module, &options, out_optimizer);
}

static status_t make_adamw(context_t *ctx, module_t *module, const train_recipe_t *recipe,
                           optimizer_t **out_optimizer)
{
    adam_options_t options = adamw_options(recipe->lr >= 0 ? recipe->lr : 0.001);
    if (recipe->weight_decay >= 0) options.weight_decay = recipe->weight_decay;
    return optimizer_adamw(ctx, module, &options, out_optimizer);
}

typedef struct maker {
    const char *name;
    status_t (*make)(context_t *ctx, module_t *module, const train_recipe_t *recipe,
                     optimizer_t **out_optimizer);
} maker_t;

static const maker_t makers[] = {{"sgd", make_sgd}, {"adam", make_adam}, {"adamw", make_adamw}};

static const maker_t *find_maker(const char *name)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].name, name) == 0) return &makers[i];
    return NULL;
}

bool train_is_optimizer(const char *name)
{
    return find_maker(name) != NULL;
}

/* ---- schedules ---- */

static double keep_rate(double lr, int64_t step, int64_t n_steps)
{
    (void)step;
    (void)n_steps;
    return lr;
}

/* Divides the learning rate by 10 after each third of the steps. */
static double step_rate(double lr, int64_t step, int64_t n_steps)
{
    return schedule_step(lr, step, (n_steps + 2) / 3, 0.1);
}

static double cosine_rate(double lr, int64_t step, int64_t n_steps)
{
    return schedule_cosine(lr, step, n_steps, 0.0);
}

static double one_cycle_rate(double lr, int64_t step, int64_t n_steps)
{
    const one_cycle_options_t options = one_cycle_options(lr, n_steps);
    return schedule_one_cycle(&options, step);
}

static const train_schedule_t schedules[] = {{"constant", keep_rate},
                                             {"step", step_rate},
                                             {"cosine", cosine_rate},
                                             {"one_cycle", one_cycle_rate}};

const train_schedule_t *train_find_schedule(const char *name)
{
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        if (strcmp(schedules[i].name, name) == 0) return &schedules[i];
    return NULL;
}

/* ---- set-up ---- */

status_t train_set_up(context_t *ctx, module_t *module, const train_recipe_t *recipe,
                      train_setup_t *out_setup)
{
    train_setup_t setup = {.module = module_retain(module)};
    const train_options_t options = {.mode = recipe->mode,
                                     .memory_limit = (size_t)recipe->memory_limit,
                                     .parallel = recipe->parallel};
    const train_criterion_t *criterion = train_find_criterion(recipe->loss);
    status_t status = find_maker(recipe->optimizer)->make(ctx, module, recipe, &setup.optimizer);
    if (status == STATUS_OK)
        status = trainer_create(ctx, module, criterion->run, NULL, setup.optimizer, &options,
                                &setup.trainer);
    if (status != STATUS_OK) {
        train_take_down(&setup);
        return status;
    }
    *out_setup = setup;
    return STATUS_OK;
}

void train_take_down(train_setup_t *setup)
{
    trainer_destroy(setup->trainer);
    optimizer_destroy(setup->optimizer);
    module_release(setup->module);
    *setup = (train_setup_t){.module = NULL};
}

status_t train_probe(context_t *ctx, module_t *module, const tensor_t *x, tensor_info_t *out_info)
{
    tensor_t *output = NULL;
    TRY(module_train(ctx, module, false));
    TRY(module_forward(ctx, module, x, &output));
    *out_info = *tensor_info(output);
    tensor_release(output);
    return STATUS_OK;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double train_median(double *times_ms, int64_t n)
{
    if (n == 0) return 0.0;
    qsort(times_ms, (size_t)n, sizeof *times_ms, compare_times);
    return (times_ms[(n - 1) / 2] + times_ms[n / 2]) / 2.0;
}
