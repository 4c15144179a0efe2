/* Loaders return batches of a data set, optionally shuffled and with random changes.
 *
 *   loader_create(ctx, dataset, &(loader_options_t){.batch = 32, .shuffle = true}, &loader);
 *   for (bool is_end = false; !is_end;) {
 *       loader_next(ctx, loader, &x, &y, &is_end);
 *       ...
 *   }
 *
 * The order and the changes depend only on the seed, the epoch and the item's index, not on the
 * machine or on batches read before.
 *
 * If n_parts processes train together, each reads one part of every batch. With a batch of 7 items
 * and 2 parts, part 0 reads the first 4 items and part 1 the last 3. A last batch with fewer items
 * than parts is skipped.
 *
 * The loader's own thread reads the next batch while the caller works on the current one.
 * loader_next reports that thread's errors. Calls on one loader must not overlap in time. */
#ifndef TESSERA_IO_DATA_LOADER_H
#define TESSERA_IO_DATA_LOADER_H

#include "io/data/dataset.h"

typedef struct loader loader_t;

/* Options; zero means off. A picture is an item of rank 3, [channels][height][width]. */
typedef struct loader_options {
    int64_t batch; /* items per batch, at least 1 */
    uint64_t seed;
    int part, n_parts;    /* which part of each batch to read; n_parts 0: the entire batch */
    bool shuffle;         /* a new order in each epoch; false: the data set's order */
    bool drop_last;       /* skip a last batch that is not full */
    bool flip;            /* mirror half of the pictures, left to right */
    int64_t crop_padding; /* zeros added on each side before a random crop to the original size */
    int n_channels;       /* length of mean and std: the item's first size, or 1 for all channels */
    const float *mean;    /* subtracted from f32 items; NULL: 0 */
    const float *std;     /* f32 items are divided by it after the mean is subtracted; NULL: 1 */
} loader_options_t;

/* Creates a loader at the first batch of epoch 0. Copies the arrays of the options.
 * INVALID_ARGUMENT for options that do not fit the items, and if drop_last leaves no batch. */
status_t loader_create(context_t *ctx, dataset_t *dataset, const loader_options_t *options,
                       loader_t **out_loader) TESSERA_API(loader_create);
/* Destroys a loader. Waits until its thread has finished reading a batch. */
void loader_destroy(loader_t *loader) TESSERA_API(loader_destroy);

/* Returns the next batch: x [n][sizes of an item], y [n][sizes of a target], dense. *out_is_end
 * (may be NULL) is true for the last batch of an epoch; the next epoch follows. If a batch cannot
 * be read, the error names the file and the next call tries the same batch again. */
status_t loader_next(context_t *ctx, loader_t *loader, tensor_t **out_x, tensor_t **out_y,
                     bool *out_is_end) TESSERA_API(loader_next);

/* The number of batches in an epoch. */
int64_t loader_batches(const loader_t *loader) TESSERA_API(loader_batches);

/* The epoch and index, both from 0, of the batch that loader_next returns next. loader_seek sets
 * them. */
void loader_position(const loader_t *loader, int64_t *out_epoch, int64_t *out_batch)
    TESSERA_API(loader_position);
/* INVALID_ARGUMENT for a negative epoch, and for a batch that an epoch does not have. */
status_t loader_seek(context_t *ctx, loader_t *loader, int64_t epoch, int64_t batch)
    TESSERA_API(loader_seek);

#endif
