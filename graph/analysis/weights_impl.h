/* How the weights of a node are used. */
#ifndef TESSERA_GRAPH_ANALYSIS_WEIGHTS_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_WEIGHTS_IMPL_H

#include "dispatch/opdef.h"
#include "graph/ir/graph.h"

/* WEIGHT_CONSTANT if all weights of the node are constants of the graph. Otherwise WEIGHT_KEPT:
 * they may change between runs, as attributes do. */
weight_use_t weights_of(const graph_t *graph, const graph_node_t *node);

#endif
