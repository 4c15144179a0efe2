#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"

/* Replaces an operator with TRAIT_IDENTITY by its first operand. If the operand's bytes are written
 * in place and have another reader (for an input, the caller), the operator stays, unless it works
 * in place itself. */

static bool is_removable(const alias_t *alias, const graph_node_t *node)
{
    if (node->kind != NODE_OP || (node->op->traits & TRAIT_IDENTITY) == 0 || node->n_outputs != 1 ||
        node->inputs[0] < 0)
        return false;
    if (node->is_in_place || !alias_is_mutated(alias, node->inputs[0])) return true;
    return graph_n_uses(alias->graph, node->inputs[0]) == 1 &&
           graph_producer(alias->graph, node->inputs[0]) != NULL;
}

static status_t remove_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *const *alias = rewrite->user;
    *out_done = is_removable(*alias, node);
    if (*out_done) rewrite_map(rewrite, node->outputs[0], rewrite_value(rewrite, node->inputs[0]));
    return STATUS_OK;
}

status_t pass_remove_identity(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                              graph_t **out_graph)
{
    (void)options;
    const alias_t *alias;
    TRY(alias_of(ctx, graph, &alias));
    return rewrite_graph(ctx, graph, remove_node, &alias, out_graph);
}
