/* Where each value is made and read last: what an interpreter needs to release values early. */
#ifndef TESSERA_GRAPH_ANALYSIS_LIFETIMES_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_LIFETIMES_IMPL_H

#include "graph/ir/graph_impl.h"

typedef struct lifetimes {
    graph_analysis_t kept;
    int most_operands;          /* inputs or outputs of one node, at the most */
    const graph_block_t **home; /* [n_values]: the block whose parameter or node makes the value */
    int *last_use; /* [n_values]: index in home's nodes of the last one that reads the value, itself
                      or in its blocks; n_nodes for a result of home; -1 for a parameter that
                      nothing reads; its own node for another value that nothing reads */
} lifetimes_t;

/* Made when it is first asked for, and borrowed from the graph, which keeps it to its end. */
status_t lifetimes_of(context_t *ctx, const graph_t *graph, const lifetimes_t **out_lifetimes);

#endif
