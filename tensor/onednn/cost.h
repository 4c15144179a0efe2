/* Estimated run time of a primitive or of one of Tessera's own loops.
 *
 * Estimates are in nanoseconds and are only used to compare candidates, for example a blocked
 * kernel plus a reorder with a row-major kernel. They are computed from the machine's limits
 * (cost_limits) and the fraction of these limits that an implementation reaches. freeze_tune
 * replaces them by measurements. */
#ifndef TESSERA_TENSOR_ONEDNN_COST_H
#define TESSERA_TENSOR_ONEDNN_COST_H

#include "tensor/context.h"
#include "tensor/info.h"
#include "tensor/onednn/problem.h"

/* Peak speed of the machine, in bytes and operations per nanosecond. The values were measured with
 * perf/limits once for each instruction set, so that the same model gets the same choices on all
 * machines with one instruction set. */
typedef struct cost_limits {
    double flops;   /* per core */
    double cached;  /* bytes of activations, which are in the cache because the previous operator
                       has just written them */
    double memory;  /* bytes of weights, which the rest of the network has evicted from the
                       caches */
    double reorder; /* bytes read and written by a reorder */
} cost_limits_t;

cost_limits_t cost_limits(void);

/* Cost of a call on the context's threads, from the name of its implementation ("native": one of
 * Tessera's own loops) and the number of operations and bytes. Pass flops 0 if only the bytes limit
 * the speed. */
double cost_run(const context_t *ctx, const char *implementation, double flops, double bytes);

/* The same plus the cost of reading a weight of weight_bytes. */
double cost_layer(const context_t *ctx, const char *implementation, double flops, double bytes,
                  double weight_bytes);

/* Additional cost of a convolution by matrix products ("gemm"): for each group of each image, it
 * copies all windows into a matrix, and calls the product once. 0 for other implementations. */
double cost_windows(const context_t *ctx, const char *implementation,
                    const onednn_problem_t *problem);

/* Cost of reordering a tensor from one format to the other; 0 if both have the same bytes. */
double cost_reorder(const tensor_info_t *from, const tensor_info_t *to);

#endif
