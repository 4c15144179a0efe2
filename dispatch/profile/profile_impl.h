/* Internals of profiles: the recorded events, and the nodes made from them. */
#ifndef TESSERA_DISPATCH_PROFILE_PROFILE_IMPL_H
#define TESSERA_DISPATCH_PROFILE_PROFILE_IMPL_H

#include "dispatch/profile/profile.h"
#include "tensor/context_impl.h"

/* Bytes that an operator wrote in the first run. */
typedef struct extent {
    const char *begin, *end;
} extent_t;

/* A call or conversion that the observer received in the first run. */
typedef struct record {
    const opdef_t *op; /* NULL: a conversion */
    char *path, *kernel, *implementation;
    int slice;                  /* index of the slice (part of a batch), see profile_node_t */
    const prepared_t *prepared; /* identifies the step of a slice; only its address is used */
    int n_in, n_out;
    tensor_info_t *in, *out; /* for a conversion: from, to */
    const char **in_bytes;   /* [n_in] address of an activation; NULL for other inputs */
    extent_t *out_bytes;     /* [n_out] */
    double flops;
    uint64_t bytes;
    reorder_cause_t cause; /* for a conversion */
    const char *by;
    bool is_copy;
} record_t;

typedef struct sample {
    uint64_t begin, ns; /* begin: time since the start of the run */
} sample_t;

struct profile {
    context_t *ctx;
    observer_t observer;
    bool is_running, is_finished;
    char path[512]; /* path of the running module */
    int n_cut;      /* number of inner modules whose names did not fit into `path` */

    status_t status; /* first failure in a callback */
    int n_records, capacity;
    record_t *records;
    int n_runs, n_left_out;
    int at; /* number of records of the current run so far */
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
