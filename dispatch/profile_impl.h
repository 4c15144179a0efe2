/* Internals of profiles: the recorded events, and the nodes made from them. */
#ifndef TESSERA_DISPATCH_PROFILE_IMPL_H
#define TESSERA_DISPATCH_PROFILE_IMPL_H

#include "dispatch/profile.h"
#include "tensor/context_impl.h"

/* Bytes that an operator wrote in the first run. */
typedef struct extent {
    const char *begin, *end;
} extent_t;

/* An event that the observer received in the first run. */
typedef struct record {
    const opdef_t *op; /* NULL: a conversion */
    char *path, *kernel, *implementation;
    int slice;                  /* slice of the batch, for a step that a plan runs slice by slice */
    const prepared_t *prepared; /* identifies such steps; only its address is used */
    int n_in, n_out;
    tensor_info_t *in, *out; /* for a conversion: from, to */
    const char **in_bytes;   /* [n_in] for activations, else NULL */
    extent_t *out_bytes;     /* [n_out] */
    double flops;
    uint64_t bytes;
    reorder_cause_t cause; /* for a conversion */
    const char *by;
    bool is_copy;
} record_t;

typedef struct sample {
    uint64_t begin, ns; /* begin: from the start of the run */
} sample_t;

struct profile {
    context_t *ctx;
    observer_t observer;
    bool is_running, is_finished;
    char path[512]; /* path of the running module */
    int n_cut;      /* levels that did not fit into `path` */

    status_t status; /* first failure in a callback */
    int n_records, capacity;
    record_t *records;
    int n_runs, n_left_out;
    int at; /* next record of the current run */
    bool is_other;
    uint64_t run_begin;
    int n_samples, samples_capacity;
    sample_t *samples; /* [n_runs][n_records], then the current run's */
    int run_capacity;
    uint64_t *run_ns; /* [n_runs] */

    int n_nodes;
    profile_node_t *nodes;
    profile_reorder_t *reorders;
    int *producers;
    double median_ns, shown_ns; /* time of a run */
};

/* Makes nodes from records and samples. */
status_t profile_build(profile_t *profile);

#endif
