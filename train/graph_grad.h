/* Gradients of graphs: adds the gradients of one result to a graph. */
#ifndef TESSERA_TRAIN_GRAPH_GRAD_H
#define TESSERA_TRAIN_GRAPH_GRAD_H

#include "graph/ir/graph.h"

/* Makes a graph that returns the results of `graph`, followed by the gradient of result `loss` with
 * respect to each value of wrt. The loss must be a floating-point tensor of one element.
 * out_results [n_wrt] receives the index of each gradient among the results, or -1 if the loss does
 * not depend on the value. Each added node gets the path of the operator whose gradient it
 * computes. All sizes must be known, and the graph may contain only operators, constants and
 * attributes.
 *
 * INVALID_ARGUMENT  a value or result that the graph does not have; sizes that are not known; a
 *                   loss that is not floating-point
 * UNSUPPORTED       an if, loop or call; a gradient reaches an operator without a gradient rule, an
 *                   in-place operator, or a value of unknown dtype or sizes; a rule reads a value
 *                   that is written in place */
status_t graph_grad(context_t *ctx, const graph_t *graph, int loss, int n_wrt, const value_t *wrt,
                    int *out_results, graph_t **out_graph) TESSERA_API(graph_grad);

#endif
