/* The ways in which the elements of an activation may lie in memory. */
#ifndef TESSERA_TESTS_ARRANGE_H
#define TESSERA_TESTS_ARRANGE_H

#include "tensor/tensor.h"

typedef enum arrangement {
    ARRANGE_CONTIGUOUS,
    ARRANGE_LAST,     /* dense, channels last */
    ARRANGE_REVERSED, /* dense, the first dimension fastest */
    ARRANGE_GAPPED,   /* dense, every other element of something larger */
    ARRANGE_SNAPSHOT, /* mkldnn, the bytes as they were */
    ARRANGE_BLOCKS_16,
    ARRANGE_BLOCKS_8,
    ARRANGE_MKLDNN_LAST,
    ARRANGE_COUNT
} arrangement_t;

const char *arrange_name(arrangement_t arrangement);

/* Whether a dense tensor can lie so: channels come last where there are channels. */
bool arrange_is_possible(const tensor_t *tensor, arrangement_t arrangement);

/* A tensor of the same elements that lies so. */
status_t arrange(context_t *ctx, tensor_t *tensor, arrangement_t arrangement, tensor_t **out);

#endif
