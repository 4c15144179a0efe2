#include <string.h>

#include "graph/passes/pass_impl.h"

/* Replaces items of tuples that this graph makes by the values of which the tuple was made; tuples
 * are immutable. Tuples that come from branches, loops and calls stay. */

static const graph_node_t *find_tuple(const graph_t *graph, const graph_node_t *node)
{
    bool takes_out = rewrite_is_builtin(node, "unpack") || rewrite_is_builtin(node, "index");
    const graph_node_t *tuple = takes_out ? graph_producer(graph, node->inputs[0]) : NULL;
    return rewrite_is_builtin(tuple, "tuple") ? tuple : NULL;
}

/* Index of the item, or of the first item, that is read; -1 if it is unknown or out of range. */
static int find_place(const graph_t *graph, const graph_node_t *node, const graph_node_t *tuple)
{
    if (rewrite_is_builtin(node, "unpack")) return node->n_outputs == tuple->n_inputs ? 0 : -1;
    const datum_t *place = graph_constant(graph, node->inputs[1]);
    if (place == NULL || datum_kind(place) != DATUM_INT) return -1;
    int64_t at = datum_as_int(place), n = tuple->n_inputs;
    if (at < 0) at += n;
    return at >= 0 && at < n ? (int)at : -1;
}

/* True if the node reads items of a tuple that the graph makes. If an item is none, only operators
 * may read it, because none is an omitted operand to them. */
static bool can_lower(const graph_t *graph, const graph_node_t *node, int *out_place)
{
    const graph_node_t *tuple = find_tuple(graph, node);
    int place = tuple != NULL ? find_place(graph, node, tuple) : -1;
    for (int i = 0; i < node->n_outputs && place >= 0; i++)
        if (tuple->inputs[place + i] == VALUE_NONE &&
            !rewrite_feeds_operators(graph, node->outputs[i]))
            return false;
    *out_place = place;
    return place >= 0;
}

static status_t lower(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    int place;
    *out_done = can_lower(rewrite->from, node, &place);
    if (!*out_done) return STATUS_OK;
    const graph_node_t *tuple = find_tuple(rewrite->from, node);
    for (int i = 0; i < node->n_outputs; i++)
        rewrite_map(rewrite, node->outputs[i], rewrite_value(rewrite, tuple->inputs[place + i]));
    return STATUS_OK;
}

status_t pass_lower_tuples(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                           graph_t **out_graph)
{
    (void)options;
    return rewrite_graph(ctx, graph, lower, NULL, out_graph);
}
