/* graph_grad with additional results. */
#ifndef TESSERA_TRAIN_GRAPH_GRAD_IMPL_H
#define TESSERA_TRAIN_GRAPH_GRAD_IMPL_H

#include "train/graph_grad.h"

/* Like graph_grad, but the new graph also returns the values `more`, after the results of `graph`
 * and before the gradients. */
status_t graph_grad_after(context_t *ctx, const graph_t *graph, int loss, int n_more,
                          const value_t *more, int n_wrt, const value_t *wrt, int *out_results,
                          graph_t **out_graph);

#endif
