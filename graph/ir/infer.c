/* Infers the outputs of nodes from their operand types. Defines the table of builtins. */
#include <string.h>

#include "graph/ir/graph_impl.h"

/* ---- operators ---- */

int graph_n_post(const opdef_t *op, const void *attrs)
{
    return post_operands(attrs_post(&op->attrs, attrs));
}

/* Finds the info of an operand. False if its type is incomplete. Numbers take part in type
 * promotion as in PyTorch. */
static bool info_of_type(const graph_type_t *type, tensor_info_t *out_info)
{
    dtype_t dtype = DTYPE_NONE;
    if (type->is_optional) return false;
    switch (type->kind) {
    case TYPE_TENSOR: *out_info = type->info; return type_is_static(type);
    case TYPE_NONE: *out_info = (tensor_info_t){.dtype = DTYPE_NONE}; return true;
    case TYPE_INT: dtype = DTYPE_S64; break;
    case TYPE_FLOAT: dtype = DTYPE_F64; break;
    case TYPE_BOOL: dtype = DTYPE_BOOL; break;
    default: return false;
    }
    *out_info = info_dense(dtype, 0, NULL);
    out_info->is_number = true;
    return true;
}

/* True if a required operand is `none`. This is an error only if the node runs, which may never
 * happen. */
static bool lacks(const opdef_t *op, int index, const graph_type_t *type)
{
    return type->kind == TYPE_NONE && index < op->n_operands && !op->operands[index].is_optional &&
           !op->operands[index].is_variadic;
}

status_t graph_infer(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                     const graph_type_t *const *in, int *out_n, tensor_info_t *out)
{
    tensor_info_t infos[OP_MAX_INPUTS];
    const tensor_info_t *places[OP_MAX_INPUTS];
    *out_n = 0;
    REQUIRE(ctx, n_in <= OP_MAX_INPUTS, "%s: %d inputs, at most %d are possible", op->name, n_in,
            OP_MAX_INPUTS);
    for (int i = 0; i < n_in; i++) {
        if (!info_of_type(in[i], &infos[i]) || lacks(op, i, in[i])) return STATUS_OK;
        places[i] = &infos[i];
    }
    return dispatch_infer(ctx, op, attrs, n_in, places, out_n, out);
}

/* ---- builtins ---- */

static const builtin_t builtins[] = {
#define BUILTIN(name, min_inputs, max_inputs, n_outputs, rule)                                     \
    {#name, min_inputs, max_inputs, n_outputs, BUILTIN_##rule},
    GRAPH_BUILTINS(BUILTIN)
#undef BUILTIN
};

const builtin_t *graph_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
    return NULL;
}

/* A type that includes types[first], types[first + step], ... */
static status_t common_type(context_t *ctx, graph_t *graph, int n, int first, int step,
                            const graph_type_t *const *types, const graph_type_t **out_type)
{
    const graph_type_t *common = first < n ? types[first] : type_plain(TYPE_UNKNOWN);
    for (int i = first + step; i < n; i += step)
        TRY(type_join(ctx, graph, common, types[i], &common));
    *out_type = common;
    return STATUS_OK;
}

static type_kind_t number_kind(int n_in, const graph_type_t *const *in)
{
    type_kind_t kind = TYPE_INT;
    for (int i = 0; i < n_in; i++) {
        if (in[i]->is_optional) return TYPE_UNKNOWN;
        if (in[i]->kind == TYPE_FLOAT)
            kind = TYPE_FLOAT;
        else if (in[i]->kind != TYPE_INT && in[i]->kind != TYPE_BOOL)
            return TYPE_UNKNOWN;
    }
    return kind;
}

static status_t type_of_dict(context_t *ctx, graph_t *graph, int n_in,
                             const graph_type_t *const *in, const graph_type_t **out_type)
{
    const graph_type_t *items[2];
    TRY(common_type(ctx, graph, n_in, 0, 2, in, &items[0]));
    TRY(common_type(ctx, graph, n_in, 1, 2, in, &items[1]));
    if (n_in == 0) items[0] = type_plain(TYPE_STRING);
    return type_of_items(ctx, graph, TYPE_DICT, 2, items, out_type);
}

static status_t type_of_item(context_t *ctx, graph_t *graph, const graph_type_t *container,
                             const graph_type_t **out_type)
{
    const graph_type_t *common = type_plain(TYPE_UNKNOWN);
    if (container->kind == TYPE_LIST) common = &container->items[0];
    if (container->kind == TYPE_DICT) common = &container->items[1];
    if (container->kind == TYPE_TUPLE && container->n_items > 0 && type_is_small(container)) {
        common = &container->items[0];
        for (int i = 1; i < container->n_items; i++)
            TRY(type_join(ctx, graph, common, &container->items[i], &common));
    }
    *out_type = type_is_small(common) ? common : type_plain(TYPE_UNKNOWN);
    return STATUS_OK;
}

static void types_of_items(const graph_type_t *container, int n_out, const graph_type_t **out_types)
{
    bool is_tuple = container->kind == TYPE_TUPLE && container->n_items == n_out;
    if (!is_tuple && container->kind != TYPE_LIST) return;
    for (int i = 0; i < n_out; i++) {
        const graph_type_t *item = &container->items[is_tuple ? i : 0];
        if (type_is_small(item)) out_types[i] = item;
    }
}

static status_t type_of_shape(context_t *ctx, graph_t *graph, const graph_type_t *tensor,
                              const graph_type_t **out_type)
{
    int64_t rank = tensor->info.rank;
    tensor_info_t info = info_dense(DTYPE_S64, 1, &rank);
    *out_type = type_plain(TYPE_TENSOR);
    if (tensor->kind != TYPE_TENSOR || !tensor->has_info || tensor->is_optional) return STATUS_OK;
    return type_of_info(ctx, graph, &info, out_type);
}

static status_t type_of_inserted(context_t *ctx, graph_t *graph, const graph_type_t *list,
                                 const graph_type_t *item, const graph_type_t **out_type)
{
    if (list->kind != TYPE_LIST || list->is_optional) return STATUS_OK;
    const graph_type_t *common = type_plain(TYPE_UNKNOWN);
    TRY(type_join(ctx, graph, &list->items[0], item, &common));
    return type_of_items(ctx, graph, TYPE_LIST, 1, &common, out_type);
}

status_t type_of_builtin(context_t *ctx, graph_t *graph, const builtin_t *builtin, int n_in,
                         const graph_type_t *const *in, int n_out, const graph_type_t **out_types)
{
    const graph_type_t *common = NULL;
    switch (builtin->rule) {
    case BUILTIN_UNKNOWN: return STATUS_OK;
    case BUILTIN_INT: out_types[0] = type_plain(TYPE_INT); return STATUS_OK;
    case BUILTIN_FLOAT: out_types[0] = type_plain(TYPE_FLOAT); return STATUS_OK;
    case BUILTIN_BOOL: out_types[0] = type_plain(TYPE_BOOL); return STATUS_OK;
    case BUILTIN_TENSOR: out_types[0] = type_plain(TYPE_TENSOR); return STATUS_OK;
    case BUILTIN_SHAPE: return type_of_shape(ctx, graph, in[0], &out_types[0]);
    case BUILTIN_NUMBER: out_types[0] = type_plain(number_kind(n_in, in)); return STATUS_OK;
    case BUILTIN_LIST:
        TRY(common_type(ctx, graph, n_in, 0, 1, in, &common));
        return type_of_items(ctx, graph, TYPE_LIST, 1, &common, &out_types[0]);
    case BUILTIN_TUPLE: return type_of_items(ctx, graph, TYPE_TUPLE, n_in, in, &out_types[0]);
    case BUILTIN_DICT: return type_of_dict(ctx, graph, n_in, in, &out_types[0]);
    case BUILTIN_ITEM: return type_of_item(ctx, graph, in[0], &out_types[0]);
    case BUILTIN_SAME: out_types[0] = in[0]; return STATUS_OK;
    case BUILTIN_INSERTED: return type_of_inserted(ctx, graph, in[0], in[1], &out_types[0]);
    case BUILTIN_ITEMS: types_of_items(in[0], n_out, out_types); return STATUS_OK;
    }
    return STATUS_OK;
}

bool graph_is_conversion(const opdef_t *op)
{
    return strcmp(op->name, "reorder") == 0 || strcmp(op->name, "to_mkldnn") == 0 ||
           strcmp(op->name, "to_dense") == 0;
}
