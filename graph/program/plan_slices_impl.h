/* What slices of a batch are made of, and what they are estimated to cost: see plan_slices.c. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_SLICES_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PLAN_SLICES_IMPL_H

#include "graph/program/plan_impl.h"

/* Operands have a batch or are the same for all elements of it, as a weight is. */
bool plan_has_batch(const step_t *step, int index);

/* Whether the steps of a loop alone write and read a root. */
static inline bool plan_stays_inside(const plan_root_t *root, const plan_loop_t *loop)
{
    return root->kind == ROOT_ARENA && root->first_step >= loop->first_step &&
           root->last_step < loop->first_step + loop->n_steps;
}

/* By the worker that has most; all of them where there are none. */
static inline int plan_slices_of_each(const plan_loop_t *loop)
{
    return (loop->n_slices + loop->n_workers - 1) / loop->n_workers;
}

/* Estimates for the steps that have a batch; of the others, where it is 0, nothing is asked. On
 * failure *out_costs is to be destroyed, too. */
typedef struct plan_slice_costs plan_slice_costs_t;
status_t plan_slice_costs_create(context_t *ctx, const plan_t *plan, int n_threads,
                                 const int64_t *batches, plan_slice_costs_t **out_costs);
void plan_slice_costs_destroy(context_t *ctx, plan_slice_costs_t *costs);

/* Nanoseconds that all slices of a loop take; a loop of one slice is a step by itself. */
double plan_slice_costs_loop(const plan_slice_costs_t *costs, const plan_loop_t *loop);

/* What the arena needs. A loop may keep more than its steps would one by one, since what it reads
 * or writes in slices lives as long as it: it is not worth more memory than the whole plan needs.
 * Loops that end before step `end` are asked for from the shortest on: each call is for one step
 * more. */
void plan_slice_costs_end_before(plan_slice_costs_t *costs, int end);
void plan_slice_costs_add(plan_slice_costs_t *costs, int first);
bool plan_slice_costs_have_room(const plan_slice_costs_t *costs, int n_slices, int n_workers);

/* Whether one of the steps [begin, end) reads and writes more than stays in the last cache. */
bool plan_slice_costs_are_large(const plan_slice_costs_t *costs, int begin, int end);

#endif
