/* The inside of data sets, and how an item is read without a context. */
#ifndef TESSERA_IO_DATA_DATASET_IMPL_H
#define TESSERA_IO_DATA_DATASET_IMPL_H

#include <stdatomic.h>

#include "io/data/loader.h"
#include "tensor/context_impl.h"

struct dataset {
    atomic_int n_references;
    allocator_t allocator;
    int64_t n, n_classes;
    tensor_info_t item, target; /* one each, as loaders give them */
    tensor_t *elements;         /* of all items, contiguous, u8 or of the item's type; or NULL */
    tensor_t *targets;          /* of all items, contiguous, of the target's type */
    char **paths;               /* of pictures, in place of elements */
    char **class_names;         /* of folders */
    int n_paths, path_capacity, n_class_names, class_capacity;
};

/* An empty data set with one reference. */
status_t dataset_make(context_t *ctx, dataset_t **out_dataset);

/* Tells a failure to who has no context; gives the status back. */
status_t dataset_fail(failure_t *failure, status_t status, const char *format, ...)
    TESSERA_PRINTF(3, 4);

/* Which changes an item undergoes: a function of seed, epoch and item. */
typedef struct loader_change {
    bool flips;
    int64_t down, right; /* the first row and column of what is cut out of the padded picture */
} loader_change_t;

/* Writes one item as loaders give it. pixels has room for a picture of the data set as bytes; it is
 * not used for arrays. */
status_t loader_read_item(const dataset_t *dataset, const loader_options_t *options, int64_t epoch,
                          int64_t item, uint8_t *pixels, void *out_item, failure_t *failure);

/* The items of an epoch in their order: all numbers below n. */
void loader_order(const loader_options_t *options, int64_t epoch, int64_t n, int64_t *out_items);

#endif
