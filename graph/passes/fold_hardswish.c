#include <math.h>

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"

/* Models of opsets that lack the operator say hardswish in four: x * clamp(x + 3, 0, 6) / 6, or
 * x * (clamp(x + 3, 0, 6) / 6), or x * hardsigmoid(x). What is left of them goes as dead code. */

/* The operator of two operands that makes a value, or NULL. */
static const graph_node_t *binary_at(const alias_t *alias, value_t value, const char *op)
{
    const graph_node_t *node = value < 0 ? NULL : graph_producer(alias->graph, value);
    bool is_it = rewrite_is_op(node, op) && !node->is_in_place && node->n_inputs == 2;
    return is_it && !alias_is_mutated(alias, value) ? node : NULL;
}

static bool is_number(const graph_t *graph, value_t value, double number)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    bool is_some = datum != NULL &&
                   (datum_kind(datum) == DATUM_INT || datum_kind(datum) == DATUM_FLOAT);
    return is_some && fabs(datum_as_float(datum) - number) <= 1e-6 * number;
}

/* v in v op c or, where the operands may change places, in c op v; GRAPH_NONE for others. */
static value_t operand_beside(const alias_t *alias, value_t value, const char *op, double number,
                              bool commutes)
{
    const graph_node_t *node = binary_at(alias, value, op);
    if (node == NULL) return GRAPH_NONE;
    if (is_number(alias->graph, node->inputs[1], number)) return node->inputs[0];
    bool is_second = commutes && is_number(alias->graph, node->inputs[0], number);
    return is_second ? node->inputs[1] : GRAPH_NONE;
}

/* v in v / 6; GRAPH_NONE for others. */
static value_t numerator(const alias_t *alias, value_t value)
{
    value_t whole = operand_beside(alias, value, "div", 6.0, false);
    return whole != GRAPH_NONE ? whole : operand_beside(alias, value, "mul", 1.0 / 6.0, true);
}

static bool has_attr(const graph_node_t *node, const char *name, double number)
{
    const double *given = rewrite_attr(node, name, ATTR_FLOAT);
    return given != NULL && fabs(*given - number) <= 1e-6;
}

/* The activation that makes a value and reads x, or NULL. */
static const graph_node_t *activation_at(const alias_t *alias, value_t value)
{
    const graph_node_t *node = value < 0 ? NULL : graph_producer(alias->graph, value);
    bool is_some = node != NULL && node->kind == NODE_OP && !node->is_in_place &&
                   node->n_inputs == 1 && !alias_is_mutated(alias, value);
    return is_some ? node : NULL;
}

/* x in clamp(x + 3, 0, 6). */
static value_t gated(const alias_t *alias, value_t value)
{
    const graph_node_t *node = activation_at(alias, value);
    bool is_clamp = rewrite_is_op(node, "relu6") ||
                    (rewrite_is_op(node, "clamp") && has_attr(node, "min", 0.0) &&
                     has_attr(node, "max", 6.0));
    return is_clamp ? operand_beside(alias, node->inputs[0], "add", 3.0, true) : GRAPH_NONE;
}

/* x in clamp(x + 3, 0, 6) / 6. */
static value_t gated_to_one(const alias_t *alias, value_t value)
{
    const graph_node_t *node = activation_at(alias, value);
    if (rewrite_is_op(node, "hardsigmoid") && has_attr(node, "alpha", 1.0 / 6.0) &&
        has_attr(node, "beta", 0.5))
        return node->inputs[0];
    value_t whole = numerator(alias, value);
    return whole != GRAPH_NONE ? gated(alias, whole) : GRAPH_NONE;
}

typedef value_t (*gate_t)(const alias_t *alias, value_t value);

/* x in x * gate(x). */
static value_t factor(const alias_t *alias, value_t value, gate_t gate)
{
    const graph_node_t *node = binary_at(alias, value, "mul");
    for (int i = 0; node != NULL && i < 2; i++)
        if (node->inputs[i] >= 0 && gate(alias, node->inputs[1 - i]) == node->inputs[i])
            return node->inputs[i];
    return GRAPH_NONE;
}

static bool is_floating(const graph_t *graph, value_t value)
{
    const graph_type_t *type = graph_value_type(graph, value);
    return type->kind == TYPE_TENSOR && type->has_info && dtype_is_floating(type->info.dtype);
}

static status_t replace(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *const *alias = rewrite->user;
    if (node->n_outputs != 1) return STATUS_OK;
    value_t out = node->outputs[0], x = factor(*alias, out, gated_to_one);
    value_t whole = x == GRAPH_NONE ? numerator(*alias, out) : GRAPH_NONE;
    if (whole != GRAPH_NONE) x = factor(*alias, whole, gated);
    if (x == GRAPH_NONE || !is_floating(rewrite->from, x) || alias_is_mutated(*alias, x))
        return STATUS_OK;
    value_t value = rewrite_value(rewrite, x);
    rewrite_map(rewrite, out,
                graph_add_op(rewrite->to, ops_find("hardswish"), NULL, 1, &value, node->path));
    *out_done = true;
    return STATUS_OK;
}

status_t pass_fold_hardswish(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                             graph_t **out_graph)
{
    (void)options;
    const alias_t *alias;
    TRY(alias_of(ctx, graph, &alias));
    return rewrite_graph(ctx, graph, replace, &alias, out_graph);
}
