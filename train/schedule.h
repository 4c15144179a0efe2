/* Schedules: learning rates as functions of the number of the step, which counts from 0, with
 * PyTorch's values. A loop sets what they give before each step:
 *
 *     optimizer_set_lr(ctx, optimizer, schedule_cosine(0.1, step, n_steps, 0.0)); */
#ifndef TESSERA_TRAIN_SCHEDULE_H
#define TESSERA_TRAIN_SCHEDULE_H

#include "tensor/api.h"

#include <stdbool.h>
#include <stdint.h>

TESSERA_BEGIN

/* lr * gamma^(step / step_size), divided as integers. A step_size below 1 counts as 1. */
double schedule_step(double lr, int64_t step, int64_t step_size, double gamma)
    TESSERA_API(schedule_step);

/* From lr at step 0 to lr_min at step t_max along half a cosine, and back after it. A t_max below 1
 * counts as 1. */
double schedule_cosine(double lr, int64_t step, int64_t t_max, double lr_min)
    TESSERA_API(schedule_cosine);

/* Up from max_lr / div_factor to max_lr in the first pct_start of total_steps, then down to the
 * start's lr / final_div_factor; with three_phase first down to the start's lr as slowly as it went
 * up. By halves of cosines or, is_linear, in straight lines. */
typedef struct one_cycle_options {
    double max_lr;
    int64_t total_steps;
    double pct_start, div_factor, final_div_factor;
    bool is_linear, three_phase;
} one_cycle_options_t;

/* PyTorch's defaults: 0.3, 25, 10000. */
one_cycle_options_t one_cycle_options(double max_lr, int64_t total_steps)
    TESSERA_API(one_cycle_options);

/* Steps behind the last have its learning rate. */
double schedule_one_cycle(const one_cycle_options_t *options, int64_t step)
    TESSERA_API(schedule_one_cycle);

TESSERA_END

#endif
