/* Learning rate schedules: functions of the step number, which counts from 0. They return PyTorch's
 * values. Set the rate before each step:
 *
 *     optimizer_set_lr(ctx, optimizer, schedule_cosine(0.1, step, n_steps, 0.0)); */
#ifndef TESSERA_TRAIN_SCHEDULE_H
#define TESSERA_TRAIN_SCHEDULE_H

#include "tensor/api.h"

#include <stdbool.h>
#include <stdint.h>

TESSERA_BEGIN

/* lr * gamma^(step / step_size), with integer division. A step_size below 1 counts as 1. */
double schedule_step(double lr, int64_t step, int64_t step_size, double gamma)
    TESSERA_API(schedule_step);

/* Follows half a cosine from lr at step 0 to lr_min at step t_max, then back up. A t_max below 1
 * counts as 1. */
double schedule_cosine(double lr, int64_t step, int64_t t_max, double lr_min)
    TESSERA_API(schedule_cosine);

/* In the first pct_start of total_steps, rises from the initial rate, max_lr / div_factor, to
 * max_lr. Then falls to the initial rate / final_div_factor. With three_phase, it first falls to
 * the initial rate, as slowly as it rose. A phase is half a cosine, or a straight line if
 * is_linear. */
typedef struct one_cycle_options {
    double max_lr;
    int64_t total_steps;
    double pct_start, div_factor, final_div_factor;
    bool is_linear, three_phase;
} one_cycle_options_t;

/* PyTorch's defaults: pct_start 0.3, div_factor 25, final_div_factor 10000. */
one_cycle_options_t one_cycle_options(double max_lr, int64_t total_steps)
    TESSERA_API(one_cycle_options);

/* Steps after the last one have the learning rate of the last one. */
double schedule_one_cycle(const one_cycle_options_t *options, int64_t step)
    TESSERA_API(schedule_one_cycle);

TESSERA_END

#endif
