/* Reorders of constants are done now: what is left is a constant in the format that is wanted. The
 * packed form is kept with the constant's storage, so that plans for other shapes share it. */
#include "dispatch/pack_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"

static bool is_conversion(const graph_node_t *node)
{
    return node->kind == NODE_OP && graph_is_conversion(node->op);
}

static status_t fold_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    if (!is_conversion(node)) return STATUS_OK;
    datum_t *constant = graph_constant(rewrite->from, node->inputs[0]);
    const graph_type_t *type = graph_value_type(rewrite->from, node->outputs[0]);
    if (constant == NULL || datum_kind(constant) != DATUM_TENSOR || !type_is_static(type))
        return STATUS_OK;
    context_t *ctx = rewrite->ctx;
    tensor_t *tensor = datum_as_tensor(constant), *packed = NULL;
    datum_t *datum = NULL;
    storage_set_packable(tensor->storage, true);
    status_t status = pack_weight(ctx, tensor, &type->info, &packed);
    if (status == STATUS_OK) status = datum_tensor(ctx, packed, &datum);
    if (status == STATUS_OK) {
        value_t value = graph_add_constant(rewrite->to, datum,
                                           graph_value_name(rewrite->from, node->outputs[0]));
        if (value >= 0) graph_set_type(rewrite->to, value, type);
        rewrite_map(rewrite, node->outputs[0], value);
        *out_done = true;
    }
    datum_release(datum);
    tensor_drop(packed);
    return status;
}

status_t pass_fold_reorders(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                            graph_t **out_graph)
{
    (void)options;
    return rewrite_graph(ctx, graph, fold_node, NULL, out_graph);
}
