#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* linear(flatten(x, 1)) becomes linear(x) flatten=true, so that x may keep its layout. A reshape to
 * [N][rest] counts as a flatten. If x may be written, the flatten stays: it may copy the elements
 * before the write, but linear(x) would read them after the write. */

static bool is_tensor_of_rank(const graph_t *graph, value_t value, int from, int to)
{
    const graph_type_t *type = graph_value_type(graph, value);
    return type->kind == TYPE_TENSOR && type->has_info && type->info.rank >= from &&
           type->info.rank <= to;
}

static bool flattens(const graph_t *graph, const graph_node_t *node)
{
    if (node == NULL || node->kind != NODE_OP || node->is_in_place || node->n_inputs < 1 ||
        node->inputs[0] < 0)
        return false;
    value_t x = node->inputs[0], flat = node->outputs[0];
    bool has_ranks = is_tensor_of_rank(graph, x, 3, TENSOR_MAX_RANK) &&
                     is_tensor_of_rank(graph, flat, 2, 2);
    if (rewrite_is_op(node, "flatten")) {
        const int64_t *start = rewrite_attr(node, "start_dim", ATTR_INT);
        const int64_t *end = rewrite_attr(node, "end_dim", ATTR_INT);
        bool is_all = start != NULL && end != NULL && *start == 1 && *end == -1;
        return has_ranks && (is_all || graph_value_type(graph, x)->info.sizes[0] ==
                                           graph_value_type(graph, flat)->info.sizes[0]);
    }
    return rewrite_is_op(node, "reshape") && has_ranks &&
           graph_value_type(graph, x)->info.sizes[0] > 0 &&
           graph_value_type(graph, x)->info.sizes[0] ==
               graph_value_type(graph, flat)->info.sizes[0];
}

/* The flatten before a linear that can flatten its input itself; else NULL. */
static const graph_node_t *flatten_before(const alias_t *alias, const graph_node_t *node)
{
    const graph_t *graph = alias->graph;
    if (!rewrite_is_op(node, "linear") || node->is_in_place || node->inputs[0] < 0) return NULL;
    const bool *flatten = rewrite_attr(node, "flatten", ATTR_BOOL);
    if (flatten == NULL || *flatten) return NULL;
    const graph_node_t *before = graph_producer(graph, node->inputs[0]);
    if (!flattens(graph, before) || alias_is_mutated(alias, before->inputs[0])) return NULL;
    return before;
}

static status_t take_over(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *alias;
    TRY(alias_of(rewrite->ctx, rewrite->from, &alias));
    const graph_node_t *before = flatten_before(alias, node);
    if (before == NULL) return STATUS_OK;
    context_t *ctx = rewrite->ctx;
    graph_node_t linear = *node;
    void *attrs = NULL;
    value_t *inputs = NULL;
    status_t status = context_get(ctx, node->op->attrs.bytes, "attributes", &attrs);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs", &inputs);
    if (status == STATUS_OK) {
        memcpy(attrs, node->attrs, node->op->attrs.bytes);
        bool *flatten = rewrite_attr_in(node, attrs, "flatten", ATTR_BOOL);
        *flatten = true;
        linear.attrs = attrs;
        for (int i = 0; i < node->n_inputs; i++)
            inputs[i] = rewrite_value(rewrite, node->inputs[i]);
        inputs[0] = rewrite_value(rewrite, before->inputs[0]);
        status = rewrite_emit(rewrite, &linear, inputs, node->outputs);
        *out_done = true;
    }
    CONTEXT_PUT(ctx, inputs, attrs);
    return status;
}

status_t pass_flatten_into_linear(context_t *ctx, const graph_t *graph,
                                  const pass_options_t *options, graph_t **out_graph)
{
    (void)options;
    return rewrite_graph(ctx, graph, take_over, NULL, out_graph);
}
