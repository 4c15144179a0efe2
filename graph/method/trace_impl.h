/* Tracing a method, and checking the trace at other sizes. */
#ifndef TESSERA_GRAPH_METHOD_TRACE_IMPL_H
#define TESSERA_GRAPH_METHOD_TRACE_IMPL_H

#include "graph/ir/graph.h"

/* Runs the method and returns a graph of the operators that ran. */
status_t trace_once(context_t *ctx, module_t *module, const char *method, int n_in,
                    const tensor_t *const *in, graph_t **out_graph);

/* Runs the method again at other sizes, on tensors without data, each time on a copy of `initial`,
 * the module before the first trace. Returns the graph with names for sizes that may vary. Other
 * sizes stay fixed, and the graph records the reason. */
status_t trace_other_sizes(context_t *ctx, module_t *initial, const char *method, int n_in,
                           const tensor_info_t *const *in, const graph_t *graph,
                           graph_t **out_graph);

/* Runs the method of `initial` once, on tensors without data, and returns a graph of the operators
 * that would run. */
status_t trace_infos(context_t *ctx, module_t *initial, const char *method, int n_in,
                     const tensor_info_t *const *in, graph_t **out_graph);

#endif
