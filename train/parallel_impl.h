/* Data-parallel training: the calls that a trainer makes during its step. */
#ifndef TESSERA_TRAIN_PARALLEL_IMPL_H
#define TESSERA_TRAIN_PARALLEL_IMPL_H

#include "tensor/context_impl.h"
#include "train/group_impl.h"
#include "train/parallel.h"

/* The calls of one step. parallel_begin starts it and passes the number of items in this rank's
 * batch. parallel_ready reports, during the backward pass, that the gradient of a parameter is
 * complete. parallel_exchange replaces gradients and loss by their means over all ranks, or fails
 * on all ranks. Every rank calls it, even after its own step has failed; `own` is the status of
 * that step. The new gradients use memory of the parallel_t and are valid until the next step. */
void parallel_begin(parallel_t *parallel, int64_t n_items);
void parallel_ready(parallel_t *parallel, int parameter, const tensor_t *gradient);
status_t parallel_exchange(context_t *ctx, parallel_t *parallel, status_t own,
                           const optimizer_t *optimizer, tensor_t **gradients, double *loss);

#ifdef TESSERA_HAVE_MPI

/* The gradient of one parameter: its range in the array that ranks sum. */
typedef struct exchanged {
    tensor_info_t info; /* the format of the gradient in the array, on all ranks */
    bool is_planned;    /* some rank has had this gradient, now or in an earlier step */
    bool is_ready;      /* this step's elements are in the array */
    int64_t first, n;   /* range of elements in the array, with padding */
} exchanged_t;

/* A range of the array that is summed with one MPI call; it may contain parts of several
 * gradients. */
typedef struct bucket {
    int64_t first, n;
    int n_gradients, n_missing; /* gradients that overlap the bucket; of these, not ready */
    MPI_Request request;
} bucket_t;

struct parallel {
    context_t *ctx;
    group_t group;
    parallel_options_t options;
    MPI_Op add_bf16;
    bool has_add_bf16;
    parallel_counts_t counts;
    int64_t n_items; /* items in this rank's batch */
    int n;           /* number of parameters; 0 before the first step */
    exchanged_t *gradients;
    tensor_t *elements; /* f32, all gradients; the last parameter's comes first */
    float *data;        /* the bytes of `elements` */
    uint16_t *sent;     /* the elements rounded to bf16, which are sent instead of f32; or NULL */
    bucket_t *buckets;
    int n_buckets, n_begun;
    status_t status; /* status of packing during the backward pass */
};

void parallel_clear(parallel_t *parallel);

#endif
#endif
