/* Choosing the operators that get a narrower dtype, and casts. Used by lower_precision and by the
 * calibration before it.
 *
 * The folder graph/passes/precision contains the passes that choose another type of number:
 * narrower dtypes, 8-bit integers, f32 where bf16 is slow, approximate products. */
#ifndef TESSERA_GRAPH_PASSES_PRECISION_PRECISION_IMPL_H
#define TESSERA_GRAPH_PASSES_PRECISION_PRECISION_IMPL_H

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"

/* True for an f32 product (convolution, linear or matmul) of constant weight whose operands and
 * result are not written in place. */
bool precision_may_lower(const graph_t *graph, const alias_t *alias, const graph_node_t *node);

/* True if one of the NULL-terminated patterns (NULL: none) matches the node's path. */
bool precision_is_kept(const graph_node_t *node, const char *const *patterns);

/* The role of an input; operands of post-ops are activations. */
operand_role_t precision_role(const graph_node_t *node, int index);

/* Adds a cast of a value of the new graph. */
value_t precision_cast(rewrite_t *rewrite, value_t value, dtype_t dtype, const char *path);

#endif
