/* Profiles: the time of each operator and reorder, over several runs.
 *
 *   profile_create(ctx, &profile);
 *   for (int i = 0; i < 10; i++) {
 *       profile_begin_run(profile);
 *       module_forward(ctx, net, image, &scores);
 *       profile_end_run(profile);
 *   }
 *   profile_finish(profile);
 *   for (int i = 0; i < profile_n_nodes(profile); i++) use(profile_node(profile, i));
 *   profile_destroy(profile);
 *
 * During each run, a profile records all operators of its context, whether a plan (compiled graph)
 * or dispatch runs them. Destroy it before its context. */
#ifndef TESSERA_DISPATCH_PROFILE_PROFILE_H
#define TESSERA_DISPATCH_PROFILE_PROFILE_H

#include "dispatch/dispatch.h"

typedef struct profile profile_t;

/* A reorder or a copy. "The shown run" is the typical run that profile_finish selects. */
typedef struct profile_reorder {
    reorder_cause_t cause;
    bool is_copy;   /* by Tessera's own loops */
    const char *by; /* conversion_t.by */
    tensor_info_t from, to;
    uint64_t bytes;  /* read plus written */
    double ns;       /* median over the runs */
    double begin_ns; /* when it began in the shown run, from the run's start */
    double shown_ns; /* duration in the shown run */
} profile_reorder_t;

/* A call of an operator with its reorders; or a separate reorder, which is between steps of a plan
 * or makes a result dense. */
typedef struct profile_node {
    const opdef_t *op; /* NULL: a separate reorder */
    const char *path;  /* path of the module, "layer1.0.conv1"; "" for the top module */
    const char *kernel, *implementation; /* "" if none */
    int n_in, n_out;
    const tensor_info_t *in;  /* as the kernel reads them; DTYPE_NONE: absent */
    const tensor_info_t *out; /* as the next operator gets them */
    const int *producers;     /* [n_in] node that made the input; -1 for inputs of the run and
                                 weights */
    int n_reorders;
    const profile_reorder_t *reorders;
    int n_slices;   /* number of parts (slices) of the batch for which a plan ran the operator one
                       after the other, else 1; `in` and `out` are those of the first slice; flops,
                       bytes and times are sums over slices */
    double flops;   /* dispatch_flops */
    uint64_t bytes; /* bytes of operands and results; for a separate reorder, read plus written */
    double ns;      /* median over the runs, including its reorders */
    double begin_ns, shown_ns; /* in the shown run */
} profile_node_t;

/* Makes a profile, which the caller destroys. */
status_t profile_create(context_t *ctx, profile_t **out_profile) TESSERA_API(profile_create);
void profile_destroy(profile_t *profile) TESSERA_API(profile_destroy);

/* Begin and end one run. A run is ignored if its operators or their order differ from the first
 * run. INVALID_ARGUMENT if a run begins inside another, or ends without a beginning. */
status_t profile_begin_run(profile_t *profile) TESSERA_API(profile_begin_run);
status_t profile_end_run(profile_t *profile) TESSERA_API(profile_end_run);

/* Ends recording, computes medians, and selects the shown run: the one whose time is nearest to the
 * median. INVALID_ARGUMENT if there was no complete run. */
status_t profile_finish(profile_t *profile) TESSERA_API(profile_finish);

/* Nodes of a finished profile, in the order in which they ran. */
int profile_n_nodes(const profile_t *profile) TESSERA_API(profile_n_nodes);
const profile_node_t *profile_node(const profile_t *profile, int index) TESSERA_API(profile_node);
/* Number of runs that were used, and number that were ignored. */
int profile_n_runs(const profile_t *profile) TESSERA_API(profile_n_runs);
int profile_n_left_out(const profile_t *profile) TESSERA_API(profile_n_left_out);
/* Time from beginning to end of a run, including time between nodes: the median over the runs, and
 * the time of the shown run. */
double profile_run_ns(const profile_t *profile) TESSERA_API(profile_run_ns);
double profile_shown_ns(const profile_t *profile) TESSERA_API(profile_shown_ns);

#endif
