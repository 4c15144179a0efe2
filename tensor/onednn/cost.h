/* Estimated run time of a primitive or of one of Tessera's own loops.
 *
 * Estimates are in nanoseconds and serve only for comparison: `blocked kernel plus a reorder`
 * against `plain kernel`. They follow from cost_limits and from the fraction of these limits that
 * an implementation reaches. freeze_tune replaces them by measurements. */
#ifndef TESSERA_TENSOR_ONEDNN_COST_H
#define TESSERA_TENSOR_ONEDNN_COST_H

#include "tensor/context.h"
#include "tensor/info.h"

/* Peak speed of the machine, in bytes and operations per nanosecond. It depends on the instruction
 * set only, with values that perf/limits measured, so that the same file gets the same choices on
 * all machines of a kind. */
typedef struct cost_limits {
    double flops;   /* per core */
    double cached;  /* bytes of activations, which are in cache because the previous operator has
                       just written them */
    double memory;  /* bytes of weights, which the rest of the network has evicted from the
                       caches */
    double reorder; /* bytes read and written by a reorder */
} cost_limits_t;

cost_limits_t cost_limits(void);

/* Cost of an implementation by name ("native": Tessera's own loop) for this many flops and bytes on
 * the context's threads. flops is 0 for work bound by memory. */
double cost_run(const context_t *ctx, const char *implementation, double flops, double bytes);

/* cost_run plus the cost of reading a weight of weight_bytes. */
double cost_layer(const context_t *ctx, const char *implementation, double flops, double bytes,
                  double weight_bytes);

/* Cost of reordering a tensor from one format to the other; 0 if both have the same bytes. */
double cost_reorder(const tensor_info_t *from, const tensor_info_t *to);

#endif
