/* Internals of passes: rewriting, trace notes, and the passes by name.
 *
 * The folder graph/passes contains the passes and their driver. Passes of one kind are in
 * folders. */
#ifndef TESSERA_GRAPH_PASSES_PASS_IMPL_H
#define TESSERA_GRAPH_PASSES_PASS_IMPL_H

#include "graph/ir/rewrite_impl.h"
#include "graph/passes/pass.h"

/* Reports the reason why a pass did not change a candidate, as a line of the pass trace:
 * "tessera,pass,<pass>,,,,<node's path or operator>: <reason>". */
void pass_note(context_t *ctx, const char *pass, const graph_node_t *node, const char *reason);

/* The open graph at sizes that are not 1, and equal only if they must be. *out_graph is NULL if
 * nodes reject all such sizes; then `reason` (which may be NULL) names the node. infos has one
 * element for each parameter. */
status_t pass_make_generic(context_t *ctx, const graph_t *graph, tensor_info_t *infos,
                           text_t *reason, graph_t **out_graph);

/* The passes, as listed in passes.def. */
#define PASS(name, changes_numerics, contract)                                                     \
    status_t pass_##name(context_t *ctx, const graph_t *graph, const pass_options_t *options,      \
                         graph_t **out_graph);
#include "graph/passes/passes.def"
#undef PASS

#endif
