/* What passes are made of: rewriting, notes for the trace, and the passes by name. */
#ifndef TESSERA_GRAPH_PASSES_PASS_IMPL_H
#define TESSERA_GRAPH_PASSES_PASS_IMPL_H

#include "graph/ir/rewrite_impl.h"
#include "graph/passes/pass.h"

/* Why a pass left a candidate alone: a line of the pass trace,
 * "tessera,pass,<pass>,,,,<node's path or operator>: <reason>". */
void pass_note(context_t *ctx, const char *pass, const graph_node_t *node, const char *reason);

/* The open graph at sizes of which none is 1, or equal to another, by chance, and all others than
 * in its types; NULL when it can be had at no such sizes, and then reason, which may be NULL, says
 * which node takes none. infos has room for one of each parameter. */
status_t pass_make_generic(context_t *ctx, const graph_t *graph, tensor_info_t *infos,
                           text_t *reason, graph_t **out_graph);

/* The passes themselves, as passes.def lists them. */
#define PASS(name, changes_numerics, contract)                                                     \
    status_t pass_##name(context_t *ctx, const graph_t *graph, const pass_options_t *options,      \
                         graph_t **out_graph);
#include "graph/passes/passes.def"
#undef PASS

#endif
