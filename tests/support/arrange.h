/* Copies a tensor to another arrangement of its elements in memory. */
#ifndef TESSERA_TESTS_ARRANGE_H
#define TESSERA_TESTS_ARRANGE_H

#include "tensor/tensor.h"

typedef enum arrangement {
    ARRANGE_CONTIGUOUS,
    ARRANGE_LAST,     /* dense, channels last */
    ARRANGE_REVERSED, /* dense, first dimension varies fastest */
    ARRANGE_GAPPED,   /* dense, every second element of a larger tensor */
    ARRANGE_SNAPSHOT, /* mkldnn, bytes not reordered yet */
    ARRANGE_BLOCKS_16,
    ARRANGE_BLOCKS_8,
    ARRANGE_MKLDNN_LAST,
    ARRANGE_COUNT
} arrangement_t;

const char *arrange_name(arrangement_t arrangement);

/* Returns true if a dense tensor can have the arrangement. Channels last needs a channel
 * dimension. */
bool arrange_is_possible(const tensor_t *tensor, arrangement_t arrangement);

/* Makes a tensor with the same elements in this arrangement. */
status_t arrange(context_t *ctx, tensor_t *tensor, arrangement_t arrangement, tensor_t **out);

#endif
