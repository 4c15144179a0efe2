/* Calls of our operators: run at import when all operands are known, else nodes of the graph. */
#include "io/onnx_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- attributes by name ---- */

static void fail_call(onnx_call_t *call, const char *what)
{
    if (call->status == STATUS_OK)
        call->status = context_fail(call->node->onnx->ctx, STATUS_UNSUPPORTED, "this build's %s",
                                    what);
}

void onnx_call(onnx_node_t *node, const char *op_name, onnx_call_t *out_call)
{
    memset(out_call, 0, sizeof *out_call);
    out_call->node = node;
    out_call->op = ops_find(op_name);
    if (out_call->op == NULL || out_call->op->attrs.bytes > ONNX_ATTRS_MAX) {
        out_call->status = context_fail(node->onnx->ctx, STATUS_UNSUPPORTED,
                                        "it needs operator %s, which is not there", op_name);
        return;
    }
    attrs_init(&out_call->op->attrs, out_call->attrs);
}

static const attr_field_t *find(onnx_call_t *call, const char *name, void **out_place)
{
    if (call->status != STATUS_OK) return NULL;
    const attr_table_t *table = &call->op->attrs;
    for (int i = 0; i < table->n_fields; i++) {
        if (strcmp(table->fields[i].name, name) != 0) continue;
        *out_place = call->attrs + table->fields[i].offset;
        return &table->fields[i];
    }
    call->status = context_fail(call->node->onnx->ctx, STATUS_UNSUPPORTED,
                                "operator %s has no attribute %s", call->op->name, name);
    return NULL;
}

void onnx_set_int(onnx_call_t *call, const char *name, int64_t value)
{
    void *place = NULL;
    const attr_field_t *field = find(call, name, &place);
    if (field == NULL) return;
    switch (field->kind) {
    case ATTR_BOOL: *(bool *)place = value != 0; break;
    case ATTR_INT: *(int64_t *)place = value; break;
    case ATTR_DTYPE: *(dtype_t *)place = (dtype_t)value; break;
    case ATTR_NAME: *(int *)place = (int)value; break;
    default: fail_call(call, "attribute takes no integer");
    }
}

void onnx_set_float(onnx_call_t *call, const char *name, double value)
{
    void *place = NULL;
    const attr_field_t *field = find(call, name, &place);
    if (field == NULL) return;
    if (field->kind == ATTR_FLOAT)
        *(double *)place = value;
    else
        fail_call(call, "attribute takes no float");
}

void onnx_set_ints(onnx_call_t *call, const char *name, int n, const int64_t *values)
{
    void *place = NULL;
    const attr_field_t *field = find(call, name, &place);
    if (field == NULL) return;
    if (field->kind == ATTR_INTS && n <= TENSOR_MAX_RANK) {
        ints_t ints = {.n = n};
        for (int i = 0; i < n; i++) ints.values[i] = values[i];
        *(ints_t *)place = ints;
    } else if (field->kind == ATTR_ARRAY && n == field->length) {
        for (int i = 0; i < n; i++) ((int64_t *)place)[i] = values[i];
    } else {
        fail_call(call, "attribute takes no such list");
    }
}

void onnx_set_floats(onnx_call_t *call, const char *name, int n, const double *values)
{
    void *place = NULL;
    const attr_field_t *field = find(call, name, &place);
    if (field == NULL) return;
    if (field->kind == ATTR_FLOATS && n <= TENSOR_MAX_RANK) {
        floats_t floats = {.n = n};
        for (int i = 0; i < n; i++) floats.values[i] = values[i];
        *(floats_t *)place = floats;
    } else {
        fail_call(call, "attribute takes no list of floats");
    }
}

void onnx_set_all(onnx_call_t *call, const void *attrs, size_t bytes)
{
    if (call->status != STATUS_OK) return;
    if (call->op->attrs.bytes == bytes)
        memcpy(call->attrs, attrs, bytes);
    else
        fail_call(call, "operator has other attributes");
}

/* ---- running at import ---- */

static status_t check_folded(context_t *ctx, const onnx_call_t *call, int n_in,
                             const tensor_t *const *in)
{
    const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[OP_MAX_INPUTS];
    tensor_info_t out[OP_MAX_OUTPUTS];
    int n_out = 0;
    for (int i = 0; i < n_in; i++) infos[i] = in[i] != NULL ? tensor_info(in[i]) : &absent;
    TRY(dispatch_infer(ctx, call->op, call->attrs, n_in, infos, &n_out, out));
    for (int i = 0; i < n_out; i++)
        if (info_bytes(&out[i]) > ONNX_MAX_FOLDED)
            FAIL(ctx, STATUS_UNSUPPORTED, "a constant %s, %zu bytes are the most",
                 info_brief(&out[i]), ONNX_MAX_FOLDED);
    return STATUS_OK;
}

/* Dense results, which are ours. */
static status_t run(onnx_t *onnx, const onnx_call_t *call, int n_in, const item_t *in, int n_out,
                    tensor_t **out)
{
    context_t *ctx = onnx->ctx;
    const tensor_t *tensors[OP_MAX_INPUTS] = {NULL};
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    int n = n_out;
    for (int i = 0; i < n_in; i++)
        if (in[i] != ITEM_NONE) tensors[i] = onnx->items[in[i]].known;
    TRY(check_folded(ctx, call, n_in, tensors));
    TRY(dispatch_run(ctx, call->op, call->attrs, n_in, tensors, &n, results));
    status_t status = STATUS_OK;
    for (int i = 0; i < n; i++) {
        scope_take(ctx, results[i]);
        if (status == STATUS_OK) status = tensor_readable(ctx, results[i], &out[i]);
        tensor_drop(results[i]);
    }
    return status;
}

static status_t fold(onnx_call_t *call, int n_in, const item_t *in, int n_out, item_t *out)
{
    onnx_t *onnx = call->node->onnx;
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    const char *name = NULL;
    bool is_weight = false;
    for (int i = 0; i < n_in; i++) {
        if (in[i] == ITEM_NONE) continue;
        const onnx_item_t *item = &onnx->items[in[i]];
        if (name == NULL || (item->is_weight && !is_weight)) name = item->name;
        is_weight = is_weight || item->is_weight;
    }
    status_t status = run(onnx, call, n_in, in, n_out, results);
    for (int i = 0; i < n_out; i++) {
        item_t item = ITEM_NONE;
        if (status == STATUS_OK) {
            status = onnx_known_take(onnx, name, results[i], &item);
        } else {
            tensor_drop(results[i]);
        }
        if (status != STATUS_OK) continue;
        onnx->items[item].is_view = (call->op->traits & TRAIT_VIEW) != 0;
        onnx->items[item].is_weight = is_weight &&
                                      dtype_is_floating(tensor_dtype(onnx->items[item].known));
        out[i] = item;
    }
    return status;
}

/* ---- adding to the graph ---- */

static status_t add(onnx_call_t *call, int n_in, const item_t *in, int n_out, item_t *out)
{
    onnx_t *onnx = call->node->onnx;
    value_t values[OP_MAX_INPUTS], results[OP_MAX_OUTPUTS];
    for (int i = 0; i < n_in; i++) {
        values[i] = GRAPH_NONE;
        if (in[i] != ITEM_NONE) TRY(onnx_value_of(onnx, in[i], &values[i]));
    }
    graph_add_op_n(onnx->builder, call->op, call->attrs, n_in, values, call->node->path, n_out,
                   results);
    TRY(graph_builder_status(onnx->builder));
    for (int i = 0; i < n_out; i++) {
        const graph_type_t *type = graph_builder_type(onnx->builder, results[i]);
        if (type->kind != TYPE_TENSOR || !type->has_info)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED, "%s: the shape of its result is not known",
                 call->op->name);
        TRY(onnx_value(onnx, NULL, results[i], &out[i]));
    }
    return STATUS_OK;
}

/* Optional operands at the end stand as left out. */
static int complete(const opdef_t *op, int n_in, const item_t *in, item_t *out_in)
{
    memcpy(out_in, in, (size_t)n_in * sizeof *in);
    for (; n_in < op->n_operands && op->operands[n_in].is_optional; n_in++)
        out_in[n_in] = ITEM_NONE;
    return n_in;
}

status_t onnx_emit_n(onnx_call_t *call, int n_in, const item_t *in, int n_out, item_t *out)
{
    onnx_t *onnx = call->node->onnx;
    TRY(call->status);
    if (n_in > OP_MAX_INPUTS || n_out > OP_MAX_OUTPUTS)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "%d inputs and %d outputs, %d and %d are the most",
             n_in, n_out, OP_MAX_INPUTS, OP_MAX_OUTPUTS);
    bool is_known = true;
    item_t operands[OP_MAX_INPUTS];
    n_in = complete(call->op, n_in, in, operands);
    in = operands;
    for (int i = 0; i < n_in; i++)
        is_known = is_known && (in[i] == ITEM_NONE || onnx->items[in[i]].known != NULL);
    item_t results[OP_MAX_OUTPUTS];
    TRY(is_known ? fold(call, n_in, in, n_out, results) : add(call, n_in, in, n_out, results));
    memcpy(out, results, (size_t)n_out * sizeof *out);
    return STATUS_OK;
}

/* ---- calls that several operators share ---- */

status_t onnx_unary(onnx_node_t *node, const char *op_name, item_t x, item_t *out)
{
    onnx_call_t call;
    onnx_call(node, op_name, &call);
    return onnx_emit(&call, 1, &x, out);
}

/* A known number beside a value of the graph becomes a literal, which passes fold further. */
static status_t literal(onnx_node_t *node, item_t x, item_t other, item_t *out)
{
    onnx_t *onnx = node->onnx;
    const onnx_item_t *item = &onnx->items[x];
    *out = x;
    if (item->known == NULL || item->is_weight || onnx->items[other].known != NULL)
        return STATUS_OK;
    const tensor_info_t *info = tensor_info(item->known);
    if (info->is_number || info_numel(info) != 1 || info->rank > onnx_info(onnx, other)->rank)
        return STATUS_OK;
    if (dtype_is_floating(info->dtype)) {
        double number = 0;
        TRY(tensor_item(onnx->ctx, item->known, &number));
        return onnx_number(onnx, number, out);
    }
    int64_t number = 0;
    TRY(tensor_item_integer(onnx->ctx, item->known, &number));
    return onnx_integer(onnx, number, out);
}

status_t onnx_binary(onnx_node_t *node, const char *op_name, item_t a, item_t b, item_t *out)
{
    item_t in[2] = {a, b};
    onnx_call_t call;
    TRY(literal(node, a, b, &in[0]));
    TRY(literal(node, b, a, &in[1]));
    onnx_call(node, op_name, &call);
    return onnx_emit(&call, 2, in, out);
}

status_t onnx_reshape(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out)
{
    const tensor_info_t *info = onnx_info(node->onnx, x);
    *out = x;
    if (shape_equal(info->rank, info->sizes, rank, sizes)) return STATUS_OK;
    onnx_call_t call;
    onnx_call(node, "reshape", &call);
    onnx_set_ints(&call, "sizes", rank, sizes);
    return onnx_emit(&call, 1, &x, out);
}

status_t onnx_permute(onnx_node_t *node, item_t x, int n, const int64_t *dims, item_t *out)
{
    bool is_identity = true;
    for (int i = 0; i < n; i++) is_identity = is_identity && dims[i] == i;
    *out = x;
    if (is_identity) return STATUS_OK;
    onnx_call_t call;
    onnx_call(node, "permute", &call);
    onnx_set_ints(&call, "dims", n, dims);
    return onnx_emit(&call, 1, &x, out);
}

status_t onnx_expand(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out)
{
    const tensor_info_t *info = onnx_info(node->onnx, x);
    *out = x;
    if (shape_equal(info->rank, info->sizes, rank, sizes)) return STATUS_OK;
    onnx_call_t call;
    onnx_call(node, "expand", &call);
    onnx_set_ints(&call, "sizes", rank, sizes);
    return onnx_emit(&call, 1, &x, out);
}

status_t onnx_cast(onnx_node_t *node, item_t x, dtype_t dtype, item_t *out)
{
    *out = x;
    if (onnx_info(node->onnx, x)->dtype == dtype) return STATUS_OK;
    onnx_call_t call;
    onnx_call(node, "cast", &call);
    onnx_set_int(&call, "dtype", dtype);
    return onnx_emit(&call, 1, &x, out);
}

status_t onnx_slice(onnx_node_t *node, item_t x, int dim, int64_t start, int64_t end, int64_t step,
                    item_t *out)
{
    *out = x;
    if (start == 0 && step == 1 && end == onnx_info(node->onnx, x)->sizes[dim]) return STATUS_OK;
    onnx_call_t call;
    onnx_call(node, "slice", &call);
    onnx_set_int(&call, "dim", dim);
    onnx_set_int(&call, "start", start);
    onnx_set_int(&call, "end", end);
    onnx_set_int(&call, "step", step);
    return onnx_emit(&call, 1, &x, out);
}

status_t onnx_transposed(onnx_node_t *node, item_t x, item_t *out)
{
    onnx_t *onnx = node->onnx;
    item_t transposed = onnx->items[x].transposed;
    if (transposed == ITEM_NONE) {
        TRY(onnx_permute(node, x, 2, (int64_t[]){1, 0}, &transposed));
        onnx->items[x].transposed = transposed;
        onnx->items[transposed].transposed = x;
    }
    *out = transposed;
    return STATUS_OK;
}

status_t onnx_take(onnx_node_t *node, item_t x, int dim, int n, const int64_t *index, item_t *out)
{
    item_t in[2] = {x, ITEM_NONE};
    onnx_call_t call;
    TRY(onnx_vector(node->onnx, NULL, n, index, &in[1]));
    onnx_call(node, "gather", &call);
    onnx_set_int(&call, "dim", dim);
    return onnx_emit(&call, 2, in, out);
}

#endif
