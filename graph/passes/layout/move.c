/* Conversions that may move, and loops that run at least once. */
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/move_impl.h"

bool move_is_conversion(const graph_t *graph, const graph_node_t *node)
{
    return node != NULL && node->kind == NODE_OP && graph_is_conversion(node->op) &&
           layout_value_info(graph, node->inputs[0]) != NULL &&
           layout_value_info(graph, node->outputs[0]) != NULL &&
           graph_constant(graph, node->inputs[0]) == NULL;
}

bool move_is_same(const graph_t *graph, const graph_node_t *a, const graph_node_t *b)
{
    return move_is_conversion(graph, a) && a->inputs[0] == b->inputs[0] &&
           type_equal(graph_value_type(graph, a->outputs[0]),
                      graph_value_type(graph, b->outputs[0]));
}

static bool is_true(const datum_t *datum)
{
    return datum != NULL && (datum_kind(datum) == DATUM_NONE ||
                             (datum_kind(datum) == DATUM_BOOL && datum_as_bool(datum)));
}

bool move_has_trip(const graph_t *graph, const graph_node_t *loop)
{
    if (loop->inputs[0] < 0) return true;
    const datum_t *count = graph_constant(graph, loop->inputs[0]);
    return count != NULL && (datum_kind(count) == DATUM_NONE ||
                             (datum_kind(count) == DATUM_INT && datum_as_int(count) > 0));
}

bool move_may_begin(const graph_t *graph, const graph_node_t *loop)
{
    return loop->inputs[1] < 0 || is_true(graph_constant(graph, loop->inputs[1]));
}
