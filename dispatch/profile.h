/* Profiles: what each operator and each reorder of a run took, run after run.
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
 * A profile is an observer of its context while a run lasts: it sees modules that run operator by
 * operator as well as plans. It ends before its context does. */
#ifndef TESSERA_DISPATCH_PROFILE_H
#define TESSERA_DISPATCH_PROFILE_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

typedef struct profile profile_t;

/* A reorder or a copy, as the counters count it. */
typedef struct profile_reorder {
    reorder_cause_t cause;
    bool is_copy;   /* by our own loops */
    const char *by; /* as conversion_t has it */
    tensor_info_t from, to;
    uint64_t bytes;  /* read plus written */
    double ns;       /* median over the runs */
    double begin_ns; /* in the run that is shown, from its beginning */
    double shown_ns; /* and how long it took there */
} profile_reorder_t;

/* A call of an operator with the reorders inside of it, or a reorder that stands alone: one that a
 * plan puts between its steps, or that makes a result dense. */
typedef struct profile_node {
    const opdef_t *op; /* NULL: a reorder alone */
    const char *path;  /* of the module, "layer1.0.conv1"; "" for the root's own */
    const char *kernel, *implementation; /* "" where there is none */
    int n_in, n_out;
    const tensor_info_t *in;  /* as the kernel reads them; dtype NONE: absent */
    const tensor_info_t *out; /* as whoever comes next gets them */
    const int *producers;     /* [n_in] the node that made it, -1 for inputs and weights */
    int n_reorders;
    const profile_reorder_t *reorders;
    int n_slices; /* of the batch, for each of which a plan ran it: `in` and `out` are those of the
                     first, flops, bytes and times of all; else 1 */
    double flops; /* dispatch_flops */
    uint64_t bytes; /* of operands and results, once each; of a reorder alone read plus written */
    double ns;      /* median over the runs, reorders inside included */
    double begin_ns, shown_ns; /* in the run that is shown */
} profile_node_t;

/* The caller destroys it. */
status_t profile_create(context_t *ctx, profile_t **out_profile) TESSERA_API(profile_create);
void profile_destroy(profile_t *profile) TESSERA_API(profile_destroy);

/* What runs between the two is a run. A run that does not run what the first one ran, in the same
 * order, is left out. INVALID_ARGUMENT  a run within a run, or an end without a beginning */
status_t profile_begin_run(profile_t *profile) TESSERA_API(profile_begin_run);
status_t profile_end_run(profile_t *profile) TESSERA_API(profile_end_run);

/* Takes medians, and chooses the run to show: the one of median time. INVALID_ARGUMENT if there was
 * no run. Nothing is recorded after. */
status_t profile_finish(profile_t *profile) TESSERA_API(profile_finish);

/* Of a finished profile: nodes in the order in which they ran. */
int profile_n_nodes(const profile_t *profile) TESSERA_API(profile_n_nodes);
const profile_node_t *profile_node(const profile_t *profile, int index) TESSERA_API(profile_node);
/* Runs that count, and those left out. */
int profile_n_runs(const profile_t *profile) TESSERA_API(profile_n_runs);
int profile_n_left_out(const profile_t *profile) TESSERA_API(profile_n_left_out);
/* The median time of a run from beginning to end, what lies between nodes included; and that of the
 * run that is shown. */
double profile_run_ns(const profile_t *profile) TESSERA_API(profile_run_ns);
double profile_shown_ns(const profile_t *profile) TESSERA_API(profile_shown_ns);

TESSERA_END

#endif
