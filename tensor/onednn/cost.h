/* What running a primitive, or a loop of our own, is estimated to cost.
 *
 * Estimates are in nanoseconds and good for comparing: `the blocked kernel, and a reorder before
 * it, against the plain kernel`. Only their order matters. */
#ifndef TESSERA_TENSOR_ONEDNN_COST_H
#define TESSERA_TENSOR_ONEDNN_COST_H

#include "tensor/context.h"
#include "tensor/info.h"

/* Of an implementation by its name, "native" for a loop of our own, for this many flops and bytes
 * on the context's threads. flops is 0 for what is bound by memory. */
double cost_run(const context_t *ctx, const char *implementation, double flops, double bytes);

/* Of moving a tensor from one format to the other; 0 where both have the same bytes. */
double cost_reorder(const tensor_info_t *from, const tensor_info_t *to);

#endif
