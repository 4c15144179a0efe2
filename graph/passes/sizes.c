#include "graph/passes/pass_impl.h"

#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* Replaces `shape` and `size` of values with known sizes by constants. Does not change open graphs,
 * because their types show only one of many sets of sizes. */

static status_t find_size(rewrite_t *rewrite, const graph_node_t *node, datum_t **out_datum)
{
    const graph_type_t *type = graph_value_type(rewrite->from, node->inputs[0]);
    const datum_t *key = graph_constant(rewrite->from, node->inputs[1]);
    int dim = 0;
    if (key == NULL || datum_kind(key) != DATUM_INT || type->info.rank == 0 ||
        !shape_dim(type->info.rank, datum_as_int(key), &dim))
        return STATUS_OK;
    return datum_int(rewrite->ctx, type->info.sizes[dim], out_datum);
}

static status_t find_shape(rewrite_t *rewrite, const graph_node_t *node, datum_t **out_datum)
{
    const tensor_info_t *x = &graph_value_type(rewrite->from, node->inputs[0])->info;
    int64_t rank = x->rank;
    tensor_info_t info = info_dense(DTYPE_S64, 1, &rank);
    tensor_t *shape = NULL;
    void *bytes = NULL;
    TRY(tensor_make(rewrite->ctx, &info, &shape));
    status_t status = tensor_writable(rewrite->ctx, shape, &bytes);
    if (status == STATUS_OK && rank > 0) memcpy(bytes, x->sizes, (size_t)rank * sizeof(int64_t));
    if (status == STATUS_OK) status = datum_tensor(rewrite->ctx, shape, out_datum);
    tensor_drop(shape);
    return status;
}

static status_t fold_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    bool is_size = rewrite_is_builtin(node, "size");
    if (!is_size && !rewrite_is_builtin(node, "shape")) return STATUS_OK;
    if (!type_is_static(graph_value_type(rewrite->from, node->inputs[0]))) return STATUS_OK;
    datum_t *datum = NULL;
    TRY(is_size ? find_size(rewrite, node, &datum) : find_shape(rewrite, node, &datum));
    if (datum == NULL) return STATUS_OK;
    rewrite_map(rewrite, node->outputs[0],
                is_size ? graph_add_literal(rewrite->to, datum)
                        : graph_add_constant(rewrite->to, datum, NULL));
    datum_release(datum);
    *out_done = true;
    return STATUS_OK;
}

static status_t find_node(void *user, const graph_node_t *node)
{
    *(bool *)user |= rewrite_is_builtin(node, "size") || rewrite_is_builtin(node, "shape");
    return STATUS_OK;
}

status_t pass_sizes(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                    graph_t **out_graph)
{
    (void)options;
    bool has_sizes = false;
    (void)rewrite_visit(graph_body(graph), find_node, &has_sizes);
    if (!has_sizes || graph_has_names(graph)) return rewrite_nothing(graph, out_graph);
    return rewrite_graph(ctx, graph, fold_node, NULL, out_graph);
}
