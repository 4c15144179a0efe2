/* Estimated costs of running slices of a batch, see plan_slices.c. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_SLICES_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PLAN_SLICES_IMPL_H

#include "graph/program/plan_impl.h"

/* True if the operand has a batch dimension, unlike a weight. */
bool plan_has_batch(const step_t *step, int index);

/* True if only steps of the loop write and read the buffer. */
static inline bool plan_stays_inside(const plan_root_t *root, const plan_loop_t *loop)
{
    return root->kind == ROOT_ARENA && root->first_step >= loop->first_step &&
           root->last_step < loop->first_step + loop->n_steps;
}

/* The largest number of slices that one worker runs; all slices if there are no workers. */
static inline int plan_slices_of_each(const plan_loop_t *loop)
{
    return (loop->n_slices + loop->n_workers - 1) / loop->n_workers;
}

/* Estimates the steps s with batches[s] > 0; do not query other steps. Destroy *out_costs even on
 * failure. */
typedef struct plan_slice_costs plan_slice_costs_t;
status_t plan_slice_costs_create(context_t *ctx, const plan_t *plan, int n_threads,
                                 const int64_t *batches, plan_slice_costs_t **out_costs);
void plan_slice_costs_destroy(context_t *ctx, plan_slice_costs_t *costs);

/* Estimated nanoseconds for all slices of a loop. A loop of one slice is a single step. */
double plan_slice_costs_loop(const plan_slice_costs_t *costs, const plan_loop_t *loop);

/* Checks the size of the arena. A loop may need more memory than its steps without a loop, since
 * buffers that it accesses by slices live as long as the loop; it must not need more than the plan
 * without loops. To check loops that end before step `end`, call ..._end_before, then ..._add for
 * each earlier step, from the last on. ..._have_room checks the loop that starts at the step added
 * last. */
void plan_slice_costs_end_before(plan_slice_costs_t *costs, int end);
void plan_slice_costs_add(plan_slice_costs_t *costs, int first);
bool plan_slice_costs_have_room(const plan_slice_costs_t *costs, int n_slices, int n_workers);

/* True if one of the steps begin to end - 1 reads and writes more than a quarter of the last-level
 * cache when it runs without slices. */
bool plan_slice_costs_are_large(const plan_slice_costs_t *costs, int begin, int end);

#endif
