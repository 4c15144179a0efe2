#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* Visits the nodes of each block backwards. A node is needed if it has effects or if one of its
 * outputs is needed. The inputs of a needed node, and the results of its blocks, are needed,
 * too. */

typedef struct needs {
    bool *values;
    int n_dead;
} needs_t;

static bool is_needed(const needs_t *needs, const graph_node_t *node)
{
    bool needed = alias_has_effect(node);
    for (int i = 0; i < node->n_outputs; i++) needed |= needs->values[node->outputs[i]];
    return needed;
}

static void need_all(needs_t *needs, int n, const value_t *values)
{
    for (int i = 0; i < n; i++) {
        if (values[i] >= 0) needs->values[values[i]] = true;
    }
}

static void look_back(needs_t *needs, const graph_block_t *block)
{
    need_all(needs, block->n_results, block->results);
    for (int i = block->n_nodes - 1; i >= 0; i--) {
        const graph_node_t *node = block->nodes[i];
        if (!is_needed(needs, node)) {
            needs->n_dead++;
            continue;
        }
        need_all(needs, node->n_inputs, node->inputs);
        for (int b = 0; b < node->n_blocks; b++) look_back(needs, node->blocks[b]);
    }
}

static status_t drop_dead(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    *out_done = !is_needed(rewrite->user, node);
    return STATUS_OK;
}

status_t pass_dead_code(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                        graph_t **out_graph)
{
    (void)options;
    needs_t needs = {NULL, 0};
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof *needs.values,
                           "needed values", &needs.values));
    look_back(&needs, graph_body(graph));
    FINISH(needs.n_dead > 0 ? rewrite_graph(ctx, graph, drop_dead, &needs, out_graph)
                            : rewrite_nothing(graph, out_graph),
           context_put(ctx, needs.values));
}
