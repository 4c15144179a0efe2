/* Gradients of graphs: the graph that computes its results, and gradients of one of them. */
#ifndef TESSERA_TRAIN_GRAPH_GRAD_H
#define TESSERA_TRAIN_GRAPH_GRAD_H

#include "graph/ir/graph.h"

TESSERA_BEGIN

/* A graph that returns what `graph` does and then, for each value of wrt, the gradient of result
 * `loss`, a floating tensor of one element. Where a value has none, because the loss does not
 * depend on it, out_results[i] is -1, else the number of the result that is its gradient.
 * out_results has room for n_wrt. Nodes that are added have the path of the operator that they
 * belong to. All sizes have to be known, and nodes are operators, constants and attributes alone.
 *
 * INVALID_ARGUMENT  a value or result that the graph has not, sizes that are not known, a loss that
 *                   is no floating number
 * UNSUPPORTED       if, loop or call; an operator without a rule, one written in place, or one with
 *                   a value of unknown dtype or sizes, on the way; a rule that reads a value which
 *                   is written in place */
status_t graph_grad(context_t *ctx, const graph_t *graph, int loss, int n_wrt, const value_t *wrt,
                    int *out_results, graph_t **out_graph) TESSERA_API(graph_grad);

TESSERA_END

#endif
