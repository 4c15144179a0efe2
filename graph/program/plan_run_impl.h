/* A run of a plan, for those who run its steps. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_RUN_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PLAN_RUN_IMPL_H

#include "graph/program/plan_impl.h"

typedef struct plan_run {
    context_t *ctx; /* of a worker that of its thread */
    plan_t *plan;
    plan_frame_t *frame;
    bool is_watched;   /* observers, or the trace, are told of steps */
    bool shows_inputs; /* one of them reads elements of inputs */
    int slice;         /* of the loop that is run, else 0 */
    int worker;        /* of that loop, else 0 */
    int n_wanted;
    tensor_t *const *wanted; /* tensors of the caller's, for results */
    datum_t **arguments;     /* [n_arguments] */
} plan_run_t;

/* ---- plan.c ---- */

status_t plan_run_step(plan_run_t *run, const step_t *step);

/* Fails where the run was cancelled, or its time is up; a worker may ask. */
status_t plan_check_step(const plan_run_t *run, const step_t *step);

/* The parameter of a source, or the view of it that the source is; the caller drops it. */
status_t plan_take_parameter(plan_run_t *run, const plan_source_t *source, tensor_t **out_tensor);

/* Where a step of a slice reads, NULL for what is no root and no packed tensor, and writes. */
void plan_find_places(const plan_run_t *run, const step_t *step, void **in, void **out);

/* ---- plan_loops.c ---- */

status_t plan_run_loop(plan_run_t *run, const plan_loop_t *loop);

/* Of what a frame has for the workers of any loop. */
size_t plan_workers_bytes(const plan_t *plan);

/* ---- plan_watch.c ---- */

/* A tensor over bytes of the frame, while the step runs. */
status_t plan_tensor_at(plan_run_t *run, const tensor_info_t *info, void *bytes, tensor_t **out);

/* What observers see of a step: tensors over what it reads and writes. */
typedef struct plan_watch {
    tensor_t *in[OP_MAX_INPUTS], *out[OP_MAX_OUTPUTS];
} plan_watch_t;

/* Before the kernel runs, and behind it, when it took so long. The second lets go of what the first
 * made, and tells observers of it where the run did not fail. */
status_t plan_watch_begin(plan_run_t *run, const step_t *step, void *const *in, void *const *out,
                          plan_watch_t *watch);
status_t plan_watch_end(plan_run_t *run, const step_t *step, status_t status, uint64_t ns,
                        plan_watch_t *watch);

status_t plan_run_kernel(plan_run_t *run, const step_t *step, void *const *in, void *const *out);
status_t plan_run_watched(plan_run_t *run, const step_t *step, void *const *in, void *const *out);

#endif
