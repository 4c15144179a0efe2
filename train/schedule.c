#include "train/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

double schedule_step(double lr, int64_t step, int64_t step_size, double gamma)
{
    const int64_t n_drops = step / (step_size > 1 ? step_size : 1);
    return lr * pow(gamma, (double)n_drops);
}

double schedule_cosine(double lr, int64_t step, int64_t t_max, double lr_min)
{
    const double way = (double)step / (double)(t_max > 1 ? t_max : 1);
    return lr_min + (lr - lr_min) * (1.0 + cos(pi * way)) / 2.0;
}

one_cycle_options_t one_cycle_options(double max_lr, int64_t total_steps)
{
    return (one_cycle_options_t){.max_lr = max_lr,
                                 .total_steps = total_steps,
                                 .pct_start = 0.3,
                                 .div_factor = 25.0,
                                 .final_div_factor = 1e4};
}

/* Interpolates between the rates at both ends of a phase. `way` is the fraction of the phase that
 * has passed. */
static double anneal(bool is_linear, double from, double to, double way)
{
    return is_linear ? from + (to - from) * way : to + (from - to) / 2.0 * (1.0 + cos(pi * way));
}

double schedule_one_cycle(const one_cycle_options_t *options, int64_t step)
{
    if (options == NULL) return 0.0;
    const double total = (double)options->total_steps;
    const double first = options->max_lr / options->div_factor;
    const double last = first / options->final_div_factor;
    const double top = options->pct_start * total - 1.0;
    const double back = options->three_phase ? 2.0 * options->pct_start * total - 2.0 : total - 1.0;
    const double ends[] = {top, back, total - 1.0};
    const double rates[] = {first, options->max_lr, options->three_phase ? first : last, last};
    double begin = 0.0;
    if ((double)step >= total - 1.0) return last;
    int phase = 0;
    for (; phase < 2 && (double)step > ends[phase]; phase++) begin = ends[phase];
    const double length = ends[phase] - begin;
    const double way = length > 0.0 ? ((double)step - begin) / length : 1.0;
    return anneal(options->is_linear, rates[phase], rates[phase + 1], way);
}
