/* What becomes of the weights of a node. */
#ifndef TESSERA_GRAPH_ANALYSIS_WEIGHTS_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_WEIGHTS_IMPL_H

#include "dispatch/opdef.h"
#include "graph/ir/graph.h"

/* WEIGHT_CONSTANT where each is a constant of the graph. Others, attributes above all, may be
 * written and stepped between runs: WEIGHT_KEPT. */
weight_use_t weights_of(const graph_t *graph, const graph_node_t *node);

#endif
