/* Data-parallel training on Open MPI: several processes (ranks) train one module, each on its part
 * of every batch.
 *
 *     mpirun -n 2 program
 *
 *     parallel_create(ctx, NULL, &parallel);
 *     const loader_options_t items = {.batch = 64,
 *                                     .part = parallel_rank(parallel),
 *                                     .n_parts = parallel_n_ranks(parallel)};
 *     const train_options_t options = {.parallel = parallel};
 *     trainer_create(ctx, model, cross_entropy, NULL, optimizer, &options, &trainer);
 *     trainer_step(ctx, trainer, 1, &x, labels, NULL, &loss);
 *     if (parallel_rank(parallel) == 0) checkpoint_save(ctx, model, optimizer, path, NULL);
 *
 * All ranks make the same calls with the same module and options. trainer_create copies rank 0's
 * state to all ranks. The loss and the gradients of a step are means over the items (samples of the
 * batch) of all ranks. So if the loss is a mean over the items of a batch, two ranks train like one
 * rank with the doubled batch. With class weights or ignored labels, this holds only if the weights
 * of the items have the same sum on all ranks. Batch norm uses only the statistics of the rank's
 * own items, for running statistics too. All ranks use the same random numbers.
 *
 * Gradients are summed in their blocked format. They are packed one after another into an array
 * that is divided into buckets of 4 MB. At the first step, and whenever a parameter gets its first
 * gradient, ranks compare hashes of the gradients' formats. A gradient whose formats differ between
 * ranks is summed in plain (row-major) layout. A bucket is sent as soon as its gradients are
 * complete. In mode TRAIN_EAGER, from the second step on, buckets are sent during the backward
 * pass. In mode TRAIN_PLANNED, all gradients are complete only at the end of the backward pass;
 * then a bucket is sent while later ones are packed.
 *
 * If a rank ends, by a signal or after a failure, no other rank waits for it forever: on the same
 * machine, the current call of each other rank fails with STATUS_IO within a second. On other
 * machines mpirun ends the ranks with SIGTERM. Without Open MPI at build time all calls return
 * UNSUPPORTED.
 *
 * A parallel_t belongs to its context and to the thread that created it. */
#ifndef TESSERA_TRAIN_PARALLEL_H
#define TESSERA_TRAIN_PARALLEL_H

#include "train/optimizer.h"

typedef struct parallel parallel_t;

/* Zero-initialised options are the defaults. */
typedef struct parallel_options {
    bool bf16_gradients; /* rounds gradients to bf16 before summing, which halves the bytes sent */
    size_t bucket_bytes; /* bytes of f32 gradients in a bucket; 0: 4 MB */
} parallel_options_t;

/* Joins the ranks of MPI_COMM_WORLD; all of them must call it. Initialises MPI if the program has
 * not done so. A program that was not started with mpirun is the only rank.
 *
 * INVALID_ARGUMENT  MPI has already been finalised; a process cannot initialise it again
 * UNSUPPORTED       this build has no Open MPI
 * IO                a rank has ended; or the file in /tmp cannot be created that tells other ranks
 *                   whether this rank still runs */
status_t parallel_create(context_t *ctx, const parallel_options_t *options,
                         parallel_t **out_parallel) TESSERA_API(parallel_create);

/* Waits until all ranks call it, and finalises MPI if parallel_create initialised it. After a rank
 * has failed or called parallel_leave, it does neither, because finalising MPI would wait for that
 * rank; the process should then exit with a nonzero status. */
void parallel_destroy(parallel_t *parallel) TESSERA_API(parallel_destroy);

/* Reports that this rank cannot continue, for a reason that other ranks do not know. Calls in which
 * they wait for this rank then fail. Not needed after a failed step, because a step that fails on
 * one rank fails on all. */
void parallel_leave(parallel_t *parallel) TESSERA_API(parallel_leave);

int parallel_rank(const parallel_t *parallel) TESSERA_API(parallel_rank);
int parallel_n_ranks(const parallel_t *parallel) TESSERA_API(parallel_n_ranks);

/* Copies parameters, buffers, the optimizer's state and the state of the context's random generator
 * from rank 0 to all ranks, for example after rank 0 has loaded a checkpoint. trainer_create calls
 * it. optimizer may be NULL.
 *
 * INVALID_ARGUMENT  ranks have different parameters or buffers, or different kinds of optimizers
 * IO                a rank has ended */
status_t parallel_broadcast(context_t *ctx, parallel_t *parallel, module_t *module,
                            optimizer_t *optimizer) TESSERA_API(parallel_broadcast);

/* Replaces each of n numbers by its sum over the ranks, for example numbers of correct items. */
status_t parallel_sum(context_t *ctx, parallel_t *parallel, int n, double *numbers)
    TESSERA_API(parallel_sum);

/* How gradients were exchanged in the last step. */
typedef struct parallel_counts {
    int n_blocked, n_plain; /* gradients summed in a blocked format, and in plain layout */
    int n_buckets;
    int n_early; /* buckets that were sent before the backward pass ended */
} parallel_counts_t;
parallel_counts_t parallel_counts(const parallel_t *parallel) TESSERA_API(parallel_counts);

#endif
