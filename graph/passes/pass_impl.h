/* Internals of passes: rewriting, trace notes, and the passes by name. */
#ifndef TESSERA_GRAPH_PASSES_PASS_IMPL_H
#define TESSERA_GRAPH_PASSES_PASS_IMPL_H

#include "graph/ir/rewrite_impl.h"
#include "graph/passes/pass.h"

/* Reports why a pass left a candidate alone, as a line of the pass trace:
 * "tessera,pass,<pass>,,,,<node's path or operator>: <reason>". */
void pass_note(context_t *ctx, const char *pass, const graph_node_t *node, const char *reason);

/* The open graph at sizes that are not 1 and not equal by accident. NULL if nodes reject all such
 * sizes; `reason`, which may be NULL, then names the node. infos has one element for each
 * parameter. */
status_t pass_make_generic(context_t *ctx, const graph_t *graph, tensor_info_t *infos,
                           text_t *reason, graph_t **out_graph);

/* The passes, as listed in passes.def. */
#define PASS(name, changes_numerics, contract)                                                     \
    status_t pass_##name(context_t *ctx, const graph_t *graph, const pass_options_t *options,      \
                         graph_t **out_graph);
#include "graph/passes/passes.def"
#undef PASS

#endif
