/* bf16 graphs on processors without bf16 instructions. */
#ifndef TESSERA_GRAPH_PASSES_PRECISION_WIDEN_IMPL_H
#define TESSERA_GRAPH_PASSES_PRECISION_WIDEN_IMPL_H

#include "graph/ir/graph.h"

/* True if the graph has bf16 products and this processor has no instructions for them. Without
 * them, oneDNN's kernels are reference code, or emulations slower than f32. */
bool widen_is_due(const graph_t *graph);

/* Returns the graph with f32 products, made by pass widen_precision, or the same graph if
 * widen_is_due is false. */
status_t widen_graph(context_t *ctx, const graph_t *graph, graph_t **out_graph);

#endif
