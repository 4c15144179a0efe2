/* Graphs of bf16 on processors without instructions for it. */
#ifndef TESSERA_GRAPH_PASSES_WIDEN_IMPL_H
#define TESSERA_GRAPH_PASSES_WIDEN_IMPL_H

#include "graph/ir/graph.h"

/* True if the graph has products of a narrow dtype, and oneDNN makes no instructions for it here:
 * its kernels would be references, or emulate it slower than f32 is. */
bool widen_is_due(const graph_t *graph);

/* The graph that computes them in f32, by the pass widen_precision; the same graph if it is not
 * due. */
status_t widen_graph(context_t *ctx, const graph_t *graph, graph_t **out_graph);

#endif
