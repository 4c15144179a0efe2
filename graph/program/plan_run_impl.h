/* The state of one run of a plan. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_RUN_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PLAN_RUN_IMPL_H

#include "graph/program/plan_impl.h"

typedef struct plan_run {
    context_t *ctx; /* in a worker: the worker's context */
    plan_t *plan;
    plan_frame_t *frame;
    bool is_watched;   /* observers or the trace receive each step */
    bool shows_inputs; /* an observer reads elements of inputs */
    int slice;         /* current slice; 0 outside of loops */
    int worker;        /* current worker; 0 outside of loops */
    int n_wanted;
    tensor_t *const *wanted; /* the caller's tensors, to which results are written */
    datum_t **arguments;     /* [n_arguments] */
} plan_run_t;

/* ---- plan.c ---- */

status_t plan_run_step(plan_run_t *run, const step_t *step);

/* Fails if the run was cancelled or has exceeded its time limit. Workers may call it. */
status_t plan_check_step(const plan_run_t *run, const step_t *step);

/* Returns a parameter, or the view of it that the source describes. The caller releases it. */
status_t plan_take_parameter(plan_run_t *run, const plan_source_t *source, tensor_t **out_tensor);

/* Sets the addresses that a step reads and writes, for the current slice; NULL for an input without
 * a fixed address. */
void plan_find_places(const plan_run_t *run, const step_t *step, void **in, void **out);

/* ---- plan_loops.c ---- */

status_t plan_run_loop(plan_run_t *run, const plan_loop_t *loop);

/* The bytes that a frame needs for the workers of any loop. */
size_t plan_workers_bytes(const plan_t *plan);

/* ---- plan_chains.c ---- */

status_t plan_run_chain(plan_run_t *run, const plan_chain_t *chain);

/* ---- plan_watch.c ---- */

/* Makes a tensor over bytes of the frame. It is valid while the step runs. */
status_t plan_tensor_at(plan_run_t *run, const tensor_info_t *info, void *bytes, tensor_t **out);

/* The tensors that observers see for a step's inputs and outputs. */
typedef struct plan_watch {
    tensor_t *in[OP_MAX_INPUTS], *out[OP_MAX_OUTPUTS];
} plan_watch_t;

/* Called before and after the kernel, which began at `begin` (context_now) and took ns.
 * plan_watch_end passes the step to observers unless the run failed, and releases what
 * plan_watch_begin made. */
status_t plan_watch_begin(plan_run_t *run, const step_t *step, void *const *in, void *const *out,
                          plan_watch_t *watch);
status_t plan_watch_end(plan_run_t *run, const step_t *step, status_t status, uint64_t begin,
                        uint64_t ns, plan_watch_t *watch);

status_t plan_run_kernel(plan_run_t *run, const step_t *step, void *const *in, void *const *out);
status_t plan_run_watched(plan_run_t *run, const step_t *step, void *const *in, void *const *out);

#endif
