/* Loaders: batches of a data set, in an order that a seed gives, changed at random on demand.
 *
 *   loader_create(ctx, dataset, &(loader_options_t){.batch = 32, .shuffle = true}, &loader);
 *   for (bool is_end = false; !is_end;) {
 *       loader_next(ctx, loader, &x, &y, &is_end);
 *       ...
 *   }
 *
 * Order and changes depend on the seed, the epoch and the number of an item alone, so they are the
 * same on every machine, whatever was read before.
 *
 * Of several processes that train together each reads its part of every batch: of a batch of 7
 * items in 2 parts, part 0 has the first 4 and part 1 the last 3. A last batch that has fewer items
 * than there are parts is left out.
 *
 * One thread of the loader's own reads the next batch while the caller works on this one. It has no
 * context: what it cannot do, loader_next tells. Who makes a loader uses it, one call at a time. */
#ifndef TESSERA_IO_DATA_LOADER_H
#define TESSERA_IO_DATA_LOADER_H

#include "io/data/dataset.h"

TESSERA_BEGIN

typedef struct loader loader_t;

/* What is zero is off. Pictures are items of rank 3, [channels][height][width]. */
typedef struct loader_options {
    int64_t batch; /* items at a time, from 1 */
    uint64_t seed;
    int part, n_parts;    /* this part of each batch alone, see below; n_parts 0: all of it */
    bool shuffle;         /* each epoch has an order of its own; else that of the data set */
    bool drop_last;       /* leave out a last batch that is not full */
    bool flip;            /* pictures left to right, one in two */
    int64_t crop_padding; /* zeros around a picture, from which its size is cut at random */
    int n_channels;       /* of mean and std: as many as the first size of an item, or 1 for all */
    const float *mean;    /* subtracted from items that are f32; NULL: none */
    const float *std;     /* that they are divided by after; NULL: 1 */
} loader_options_t;

/* Begins at the first batch of epoch 0. The arrays of the options are copied.
 * INVALID_ARGUMENT for options that the items do not allow, and where drop_last leaves nothing. */
status_t loader_create(context_t *ctx, dataset_t *dataset, const loader_options_t *options,
                       loader_t **out_loader) TESSERA_API(loader_create);
/* Waits for a batch that is being read. */
void loader_destroy(loader_t *loader) TESSERA_API(loader_destroy);

/* The next batch: x [n][sizes of an item], y [n][sizes of a target], dense. out_is_end becomes true
 * with the last batch of an epoch, behind which the next epoch begins; NULL: not asked for. A batch
 * that cannot be read is an error that names the file, and is tried again by the next call. */
status_t loader_next(context_t *ctx, loader_t *loader, tensor_t **out_x, tensor_t **out_y,
                     bool *out_is_end) TESSERA_API(loader_next);

/* Batches of an epoch. */
int64_t loader_batches(const loader_t *loader) TESSERA_API(loader_batches);

/* Where the next batch stands, to go on from there later by loader_seek; both count from 0. */
void loader_position(const loader_t *loader, int64_t *out_epoch, int64_t *out_batch)
    TESSERA_API(loader_position);
/* INVALID_ARGUMENT for a negative epoch, and a batch that an epoch does not have. */
status_t loader_seek(context_t *ctx, loader_t *loader, int64_t epoch, int64_t batch)
    TESSERA_API(loader_seek);

TESSERA_END

#endif
