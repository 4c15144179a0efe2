/* The first and last use of each value. Values are released after their last use. */
#ifndef TESSERA_GRAPH_ANALYSIS_LIFETIMES_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_LIFETIMES_IMPL_H

#include "graph/ir/graph_impl.h"

typedef struct lifetimes {
    graph_analysis_t kept;
    int most_operands;          /* largest number of inputs or outputs of a node */
    const graph_block_t **home; /* [n_values]: block that contains the value's definition */
    int *last_use; /* [n_values]: index in home's nodes of the last node that reads the value,
                      itself or in its blocks; n_nodes if home returns the value. If nothing reads
                      it: its own node, or -1 for a parameter */
} lifetimes_t;

/* The lifetimes of a graph. The first call computes them; the graph owns them. */
status_t lifetimes_of(context_t *ctx, const graph_t *graph, const lifetimes_t **out_lifetimes);

#endif
