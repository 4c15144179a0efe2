/* Infos of values, and the nodes that convert values: used by the search, by the graph that is made
 * from its result, and by moves. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/layout_impl.h"

const tensor_info_t *layout_value_info(const graph_t *graph, value_t value)
{
    if (value < 0) return NULL;
    const graph_type_t *type = graph_value_type(graph, value);
    return type_is_static(type) ? &type->info : NULL;
}

bool layout_is_activation(const layout_site_t *site, int input)
{
    return site->node->inputs[input] >= 0 &&
           select_operand(site->node->op, input)->role == ROLE_ACTIVATION;
}

void layout_set_info(rewrite_t *rewrite, value_t value, const tensor_info_t *info)
{
    graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true, .info = *info};
    if (value >= 0) graph_set_type(rewrite->to, value, &type);
}

value_t layout_convert(rewrite_t *rewrite, value_t value, const tensor_info_t *have,
                       const tensor_info_t *want, const char *path)
{
    reorder_attrs_t attrs = {.format = want->format};
    bool same_bytes = format_same(&have->format, &want->format, want->sizes);
    const char *op = want->layout == LAYOUT_DENSE ? "to_dense"
                     : same_bytes                 ? "to_mkldnn"
                                                  : "reorder";
    bool is_reorder = strcmp(op, "reorder") == 0;
    value_t converted = graph_add_op(rewrite->to, ops_find(op), is_reorder ? &attrs : NULL, 1,
                                     &value, path);
    layout_set_info(rewrite, converted, want);
    return converted;
}
