/* The inside of data-parallel training: what a trainer calls round its step. */
#ifndef TESSERA_TRAIN_PARALLEL_IMPL_H
#define TESSERA_TRAIN_PARALLEL_IMPL_H

#include "tensor/context_impl.h"
#include "train/group_impl.h"
#include "train/parallel.h"

/* A step of all ranks. begin: this rank's batch has n_items. ready: while the backward pass goes
 * on, the gradient of a parameter is what it will be. exchange, which every rank calls, also one
 * whose step has failed, with its status: gradients and loss become the means, or the step has
 * failed on all ranks. A gradient that is exchanged is replaced by a tensor over the parallel_t's
 * own bytes, which stands until the next step. */
void parallel_begin(parallel_t *parallel, int64_t n_items);
void parallel_ready(parallel_t *parallel, int parameter, const tensor_t *gradient);
status_t parallel_exchange(context_t *ctx, parallel_t *parallel, status_t own,
                           const optimizer_t *optimizer, tensor_t **gradients, double *loss);

#ifdef TESSERA_HAVE_MPI

/* A parameter's gradient among the elements that are exchanged. */
typedef struct exchanged {
    tensor_info_t info; /* as which all ranks have it there */
    bool is_planned;    /* some rank had one at some step */
    bool is_ready;      /* its elements are there */
    int64_t first, n;   /* elements, padding included */
} exchanged_t;

/* Elements that are added together, whichever gradients' they are. */
typedef struct bucket {
    int64_t first, n;
    int n_gradients, n_missing; /* that have elements here, of which so many are not ready */
    MPI_Request request;
} bucket_t;

struct parallel {
    context_t *ctx;
    group_t group;
    parallel_options_t options;
    MPI_Op add_bf16;
    bool has_add_bf16;
    parallel_counts_t counts;
    int64_t n_items; /* of this rank's batch */
    int n;           /* parameters; 0 before the first step */
    exchanged_t *gradients;
    tensor_t *elements; /* f32, of all gradients, the last parameter's first */
    float *data;        /* its bytes */
    uint16_t *sent;     /* what is added in their place as bf16, or NULL */
    bucket_t *buckets;
    int n_buckets, n_begun;
    status_t status; /* of packing while the backward pass goes on */
};

void parallel_clear(parallel_t *parallel);

#endif
#endif
