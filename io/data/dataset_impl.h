/* Internals of data sets. Items are read without a context. */
#ifndef TESSERA_IO_DATA_DATASET_IMPL_H
#define TESSERA_IO_DATA_DATASET_IMPL_H

#include <stdatomic.h>

#include "io/data/loader.h"
#include "tensor/context_impl.h"

struct dataset {
    atomic_int n_references;
    allocator_t allocator;
    int64_t n, n_classes;
    tensor_info_t item, target; /* one item and one target, as loaders return them */
    tensor_t *elements;         /* all items, contiguous, u8 or the item's dtype; or NULL */
    tensor_t *targets;          /* all targets, contiguous, in the target's dtype */
    char **paths;               /* files of the pictures; elements is NULL then */
    char **class_names;         /* names of the subfolders */
    int n_paths, path_capacity, n_class_names, class_capacity;
};

/* Creates a data set without items and with one reference. */
status_t dataset_make(context_t *ctx, dataset_t **out_dataset);

/* Records an error in `failure`, for functions that have no context. Returns `status`. */
status_t dataset_fail(failure_t *failure, status_t status, const char *format, ...)
    TESSERA_PRINTF(3, 4);

/* Random changes of a picture, determined by seed, epoch and item. */
typedef struct loader_change {
    bool flips;
    int64_t down, right; /* first row and column of the crop in the padded picture */
} loader_change_t;

/* Writes one item as loaders return it. `pixels` is a buffer for one decoded picture, which is not
 * used for arrays. */
status_t loader_read_item(const dataset_t *dataset, const loader_options_t *options, int64_t epoch,
                          int64_t item, uint8_t *pixels, void *out_item, failure_t *failure);

/* Writes the order of an epoch's items: a permutation of 0 to n - 1. */
void loader_order(const loader_options_t *options, int64_t epoch, int64_t n, int64_t *out_items);

#endif
