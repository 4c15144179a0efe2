/* What running a primitive, or a loop of our own, is estimated to cost.
 *
 * Estimates are in nanoseconds and good for comparing: `the blocked kernel, and a reorder before
 * it, against the plain kernel`. Only their order matters. All of them follow from cost_limits and
 * from the share of these that an implementation reaches; freeze_tune measures instead. */
#ifndef TESSERA_TENSOR_ONEDNN_COST_H
#define TESSERA_TENSOR_ONEDNN_COST_H

#include "tensor/context.h"
#include "tensor/info.h"

/* What the machine can do at most, in bytes and operations per nanosecond: by its instruction set,
 * as perf/limits measured machines with it, so that one file and one kind of machine give one
 * choice. */
typedef struct cost_limits {
    double flops;   /* of one core */
    double cached;  /* bytes of activations, which the operator before has just written */
    double memory;  /* bytes of weights, which a whole network has pushed out of the caches */
    double reorder; /* bytes read and written by a reorder */
} cost_limits_t;

cost_limits_t cost_limits(void);

/* Of an implementation by its name, "native" for a loop of our own, for this many flops and bytes
 * on the context's threads. flops is 0 for what is bound by memory. */
double cost_run(const context_t *ctx, const char *implementation, double flops, double bytes);

/* The same with a weight of so many bytes, which is read beside the rest. */
double cost_layer(const context_t *ctx, const char *implementation, double flops, double bytes,
                  double weight_bytes);

/* Of moving a tensor from one format to the other; 0 where both have the same bytes. */
double cost_reorder(const tensor_info_t *from, const tensor_info_t *to);

#endif
