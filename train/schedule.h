/* Learning rate schedules: functions of the step number, which counts from 0. They return PyTorch's
 * values. Set the rate before each step:
 *
 *     optimizer_set_lr(ctx, optimizer, schedule_cosine(0.1, step, n_steps, 0.0)); */
#ifndef TESSERA_TRAIN_SCHEDULE_H
#define TESSERA_TRAIN_SCHEDULE_H

#include "tensor/base/api.h"

#include <stdbool.h>
#include <stdint.h>

/* lr * gamma^(step / step_size), with integer division. A step_size below 1 counts as 1. */
double schedule_step(double lr, int64_t step, int64_t step_size, double gamma)
    TESSERA_API(schedule_step);

/* Falls along half a cosine from lr at step 0 to lr_min at step t_max, then rises again. A t_max
 * below 1 counts as 1. */
double schedule_cosine(double lr, int64_t step, int64_t t_max, double lr_min)
    TESSERA_API(schedule_cosine);

/* The first pct_start * total_steps steps raise the rate from the initial rate, max_lr /
 * div_factor, to max_lr. The rest lower it to the initial rate / final_div_factor. With
 * three_phase, it first falls back to the initial rate, in as many steps as it rose. A phase is
 * half a cosine, or a straight line if is_linear. */
typedef struct one_cycle_options {
    double max_lr;
    int64_t total_steps;
    double pct_start, div_factor, final_div_factor;
    bool is_linear, three_phase;
} one_cycle_options_t;

/* PyTorch's defaults: pct_start 0.3, div_factor 25, final_div_factor 10000. */
one_cycle_options_t one_cycle_options(double max_lr, int64_t total_steps)
    TESSERA_API(one_cycle_options);

/* After total_steps, the rate stays that of the last step. */
double schedule_one_cycle(const one_cycle_options_t *options, int64_t step)
    TESSERA_API(schedule_one_cycle);

#endif
