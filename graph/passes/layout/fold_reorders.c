/* Replaces a reorder of a constant by a constant in the reorder's format. The result is cached with
 * the constant's storage, so that plans for other sizes share it. */
#include "dispatch/pack_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* The constant that a conversion reads, if the conversion's result format is known; else NULL. */
static datum_t *converted_constant(const graph_t *graph, const graph_node_t *node)
{
    if (node->kind != NODE_OP || !graph_is_conversion(node->op)) return NULL;
    datum_t *constant = graph_constant(graph, node->inputs[0]);
    bool is_tensor = constant != NULL && datum_kind(constant) == DATUM_TENSOR;
    return is_tensor && type_is_static(graph_value_type(graph, node->outputs[0])) ? constant : NULL;
}

/* The packed constant gets the plain constant's name. */
static const char *name_of(const graph_t *graph, const graph_node_t *node)
{
    const char *own = rewrite_name(graph, node->outputs[0]);
    return own != NULL ? own : rewrite_name(graph, node->inputs[0]);
}

static status_t fold_conversion(rewrite_t *rewrite, const graph_node_t *node, datum_t *constant)
{
    context_t *ctx = rewrite->ctx;
    const graph_type_t *type = graph_value_type(rewrite->from, node->outputs[0]);
    tensor_t *tensor = datum_as_tensor(constant), *packed = NULL;
    datum_t *datum = NULL;
    storage_set_packable(tensor->storage, true);
    status_t status = pack_weight(ctx, NULL, tensor, &type->info, &packed);
    if (status == STATUS_OK) status = datum_tensor(ctx, packed, &datum);
    if (status == STATUS_OK) {
        value_t value = graph_add_constant(rewrite->to, datum, name_of(rewrite->from, node));
        if (value >= 0) graph_set_type(rewrite->to, value, type);
        rewrite_map(rewrite, node->outputs[0], value);
    }
    datum_release(datum);
    tensor_drop(packed);
    return status;
}

/* Constants whose only reader is a conversion. They are removed, and the results get their
 * names. */
typedef struct readers {
    const graph_t *graph;
    bool *is_replaced; /* [n_values] */
} readers_t;

static status_t note_conversion(void *user, const graph_node_t *node)
{
    readers_t *readers = user;
    if (converted_constant(readers->graph, node) != NULL)
        readers->is_replaced[node->inputs[0]] = graph_n_uses(readers->graph, node->inputs[0]) == 1;
    return STATUS_OK;
}

static status_t fold_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const readers_t *readers = rewrite->user;
    datum_t *constant = converted_constant(rewrite->from, node);
    *out_done = constant != NULL ||
                (node->kind == NODE_CONSTANT && readers->is_replaced[node->outputs[0]]);
    return constant != NULL ? fold_conversion(rewrite, node, constant) : STATUS_OK;
}

status_t pass_fold_reorders(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                            graph_t **out_graph)
{
    (void)options;
    readers_t readers = {.graph = graph};
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof *readers.is_replaced,
                           "converted constants", &readers.is_replaced));
    (void)rewrite_visit(graph_body(graph), note_conversion, &readers);
    FINISH(rewrite_graph(ctx, graph, fold_node, &readers, out_graph),
           context_put(ctx, readers.is_replaced));
}
