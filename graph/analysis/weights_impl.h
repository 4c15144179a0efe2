/* How the weights of a node are used. */
#ifndef TESSERA_GRAPH_ANALYSIS_WEIGHTS_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_WEIGHTS_IMPL_H

#include "dispatch/opdef.h"
#include "graph/ir/graph.h"

/* WEIGHT_CONSTANT if all weights are constants of the graph. Otherwise, as for attributes, they may
 * change between runs: WEIGHT_KEPT. */
weight_use_t weights_of(const graph_t *graph, const graph_node_t *node);

#endif
