/* Data-parallel training on Open MPI: some processes, the ranks, train one module, each on its part
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
 * All ranks make the same calls with the same module and options. What trainer_create begins with
 * is rank 0's. A step's loss and gradients are the mean over all items of all ranks, so that two
 * ranks train as one does with the doubled batch, if the loss is a mean over the items of a batch
 * (with class weights or labels that are ignored it is that only where each rank has as many of
 * them). Batch norm has the statistics of the rank's own items, in training and as running
 * statistics. Random numbers are the same on all ranks.
 *
 * Gradients are added up in the blocked bytes in which they lie, in buckets. At the first step, and
 * whenever another parameter gets its first gradient, ranks compare hashes of the gradients'
 * formats, which are those of the weights; one that differs is added up plain. A bucket is on its
 * way as soon as its gradients are there: in mode TRAIN_EAGER while the backward pass goes on, from
 * the second step on; a plan gives all gradients at its end, and only packing and adding overlap.
 *
 * Where a rank ends, by a signal or because it failed, no other one waits for ever: what it has
 * called gives IO within a second if the rank was on the same machine. On other machines mpirun
 * ends the ranks by SIGTERM. Without Open MPI at build time all calls give UNSUPPORTED.
 *
 * A parallel_t belongs to its context, and to the thread that made it. */
#ifndef TESSERA_TRAIN_PARALLEL_H
#define TESSERA_TRAIN_PARALLEL_H

#include "train/optimizer.h"

TESSERA_BEGIN

typedef struct parallel parallel_t;

/* Zeroed is the default. */
typedef struct parallel_options {
    bool bf16_gradients; /* half the bytes: gradients are rounded to bf16 before they are added */
    size_t bucket_bytes; /* gradients that are added together, as f32; 0: 4 MB */
} parallel_options_t;

/* Joins the ranks of MPI_COMM_WORLD; all of them have to. Begins MPI unless the host has, which is
 * the only time that it is begun: a program that was not started by mpirun is a rank alone.
 *
 * INVALID_ARGUMENT  MPI was ended; a process can begin it once
 * UNSUPPORTED       this build has no Open MPI
 * IO                a rank has ended; no file can be made in /tmp, by which ranks see each other */
status_t parallel_create(context_t *ctx, const parallel_options_t *options,
                         parallel_t **out_parallel) TESSERA_API(parallel_create);

/* Waits until all ranks call it, and ends MPI if parallel_create began it. Of a rank that failed,
 * or has left, it waits for nobody, and does not end MPI, which could not be done without the
 * others: the process is to end with another status than 0. */
void parallel_destroy(parallel_t *parallel) TESSERA_API(parallel_destroy);

/* This rank cannot go on, since something has failed in it that the others cannot know: what they
 * wait for fails. A step that failed on any rank needs no call: it has failed on all. */
void parallel_leave(parallel_t *parallel) TESSERA_API(parallel_leave);

int parallel_rank(const parallel_t *parallel) TESSERA_API(parallel_rank);
int parallel_n_ranks(const parallel_t *parallel) TESSERA_API(parallel_n_ranks);

/* Parameters, buffers, the optimizer's state and the context's random numbers become those of rank
 * 0: after it alone has loaded a checkpoint. trainer_create has called it. optimizer may be NULL.
 *
 * INVALID_ARGUMENT  ranks have other parameters or buffers, or other kinds of optimizers
 * IO                a rank has ended */
status_t parallel_broadcast(context_t *ctx, parallel_t *parallel, module_t *module,
                            optimizer_t *optimizer) TESSERA_API(parallel_broadcast);

/* Each of n numbers becomes its sum over the ranks: of items that were right, of times. */
status_t parallel_sum(context_t *ctx, parallel_t *parallel, int n, double *numbers)
    TESSERA_API(parallel_sum);

/* How gradients are exchanged, as of the last step. */
typedef struct parallel_counts {
    int n_blocked, n_plain; /* gradients by the bytes that are added */
    int n_buckets;
    int n_early; /* of the buckets: on their way before the backward pass had ended */
} parallel_counts_t;
parallel_counts_t parallel_counts(const parallel_t *parallel) TESSERA_API(parallel_counts);

TESSERA_END

#endif
