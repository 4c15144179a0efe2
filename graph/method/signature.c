/* Describes arguments and results of a graph. Result types are known for the sizes at which it was
 * made. Inferring the types again at other sizes shows which of the results' sizes are open. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/method/method_impl.h"
#include "tensor/scope_impl.h"

static datum_kind_t kind_of(const graph_type_t *type)
{
    switch (type->kind) {
    case TYPE_TENSOR: return DATUM_TENSOR;
    case TYPE_INT: return DATUM_INT;
    case TYPE_FLOAT: return DATUM_FLOAT;
    case TYPE_BOOL: return DATUM_BOOL;
    case TYPE_STRING: return DATUM_STRING;
    case TYPE_LIST: return DATUM_LIST;
    case TYPE_TUPLE: return DATUM_TUPLE;
    case TYPE_DICT: return DATUM_DICT;
    case TYPE_UNKNOWN:
    case TYPE_NONE:
    case TYPE_MODULE: break;
    }
    return DATUM_NONE;
}

static void read_type(const graph_type_t *type, const char *name, module_value_t *out_value)
{
    *out_value = (module_value_t){.name = name, .kind = kind_of(type), .rank = -1};
    if (type->kind != TYPE_TENSOR || !type->has_info) return;
    out_value->dtype = type->info.dtype;
    out_value->rank = type->info.rank;
    for (int d = 0; d < type->info.rank; d++) {
        out_value->made[d] = type->info.sizes[d];
        out_value->dims[d] = type_dim_name(type, d);
        out_value->sizes[d] = type_is_open(type, d) ? -1 : type->info.sizes[d];
    }
}

/* The name of the input size that changes from `before` to `after`; NULL if there is none. */
static const char *find_name(const graph_t *graph, const graph_t *resized, int64_t before,
                             int64_t after)
{
    const graph_block_t *body = graph_body(graph), *other = graph_body(resized);
    for (int i = graph_first_input(graph); i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        const graph_type_t *moved = graph_value_type(resized, other->params[i]);
        for (int d = 0; d < type->info.rank; d++)
            if (type_dim_name(type, d) != NULL && type->info.sizes[d] == before &&
                moved->info.sizes[d] == after)
                return type_dim_name(type, d);
    }
    return NULL;
}

/* Resizes the graph so that all open sizes change; NULL if no such sizes are accepted. */
static status_t resize(context_t *ctx, const graph_t *graph, graph_t **out_graph)
{
    const graph_block_t *body = graph_body(graph);
    int64_t sizes[GRAPH_MAX_NAMES];
    tensor_info_t *infos = NULL;
    TRY(context_get(ctx, (size_t)body->n_params * sizeof *infos, "other sizes", &infos));
    status_t status = STATUS_INVALID_ARGUMENT;
    *out_graph = NULL;
    for (int attempt = 0; status == STATUS_INVALID_ARGUMENT; attempt++) {
        if (!graph_generic_sizes(ctx, graph, attempt, sizes)) {
            status = STATUS_OK;
            break;
        }
        graph_substitute(graph, sizes, infos);
        scope_attempt(ctx);
        status = graph_resize(ctx, graph, infos, false, out_graph);
        status = scope_attempt_end(ctx, status, status == STATUS_INVALID_ARGUMENT);
    }
    context_put(ctx, infos);
    return status;
}

/* Marks the sizes of result `index` that change with the input sizes as open. If no other input
 * sizes are accepted, or the result's type is unknown for these, marks all of its sizes. */
static status_t open_sizes(context_t *ctx, const graph_t *graph, int index, module_value_t *value)
{
    if (value->rank <= 0 || !graph_is_open(graph)) return STATUS_OK;
    graph_t *resized = NULL;
    TRY(resize(ctx, graph, &resized));
    const graph_type_t *type = NULL;
    if (resized != NULL) type = graph_value_type(resized, graph_body(resized)->results[index]);
    if (type != NULL && (!type_is_static(type) || type->info.rank != value->rank)) type = NULL;
    for (int d = 0; d < value->rank; d++) {
        if (type != NULL && type->info.sizes[d] == value->made[d]) continue;
        value->sizes[d] = -1;
        if (type != NULL)
            value->dims[d] = find_name(graph, resized, value->made[d], type->info.sizes[d]);
    }
    graph_release(resized);
    return STATUS_OK;
}

status_t graph_describe(context_t *ctx, const graph_t *graph, bool is_output, int index, int *out_n,
                        module_value_t *out_value)
{
    const graph_block_t *body = graph_body(graph);
    const int first = graph_first_input(graph);
    *out_n = is_output ? body->n_results : body->n_params - first;
    if (index < 0 || index >= *out_n) return STATUS_OK;
    value_t value = is_output ? body->results[index] : body->params[first + index];
    if (value == VALUE_NONE) {
        *out_value = (module_value_t){.rank = -1};
        return STATUS_OK;
    }
    read_type(graph_value_type(graph, value), graph_value_name(graph, value), out_value);
    return is_output ? open_sizes(ctx, graph, index, out_value) : STATUS_OK;
}
