#include "graph/passes/pattern_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Exporters write numbers as constants of one element and any dtype. If the other operand is a
 * floating-point tensor, they become literals, which patterns and post-ops recognise. */

static const char *const operators[] = {"add", "sub",     "mul",     "div",
                                        "pow", "maximum", "minimum", NULL};

static bool takes_numbers(const graph_node_t *node)
{
    for (int i = 0; operators[i] != NULL && node->kind == NODE_OP; i++)
        if (rewrite_is_op(node, operators[i])) return node->n_inputs == 2;
    return false;
}

/* True if the result has the other operand's dtype and shape, whatever the constant. */
static bool is_beside(const graph_t *graph, const graph_node_t *node, value_t other)
{
    const tensor_info_t *x = pattern_info(graph, other);
    return x != NULL && dtype_is_floating(x->dtype) && pattern_same(graph, other, node->outputs[0]);
}

static const tensor_t *constant_of(const graph_t *graph, value_t value)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return NULL;
    const tensor_t *tensor = datum_as_tensor(datum);
    return tensor_numel(tensor) == 1 && tensor_dtype(tensor) != DTYPE_BOOL ? tensor : NULL;
}

static status_t make_number(rewrite_t *rewrite, const tensor_t *tensor, value_t *out_value)
{
    const dtype_t dtype = tensor_dtype(tensor);
    uint64_t element = 0;
    datum_t *datum = NULL;
    TRY(tensor_read(rewrite->ctx, tensor, &element, dtype_size(dtype)));
    TRY(datum_float(rewrite->ctx, dtype_load(dtype, &element), &datum));
    *out_value = graph_add_literal(rewrite->to, datum);
    datum_release(datum);
    return STATUS_OK;
}

static status_t replace(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *const *alias = rewrite->user;
    if (!takes_numbers(node)) return STATUS_OK;
    for (int i = 1; i >= 0; i--) {
        const tensor_t *constant = constant_of(rewrite->from, node->inputs[i]);
        if (constant == NULL || (i == 0 && node->is_in_place) ||
            alias_is_mutated(*alias, node->inputs[i]) ||
            !is_beside(rewrite->from, node, node->inputs[1 - i]))
            continue;
        value_t inputs[2] = {VALUE_NONE, VALUE_NONE};
        inputs[1 - i] = rewrite_value(rewrite, node->inputs[1 - i]);
        TRY(make_number(rewrite, constant, &inputs[i]));
        TRY(rewrite_copy_with(rewrite, node, inputs));
        *out_done = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

status_t pass_immediates(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                         graph_t **out_graph)
{
    (void)options;
    const alias_t *alias;
    TRY(alias_of(ctx, graph, &alias));
    return rewrite_graph(ctx, graph, replace, &alias, out_graph);
}
