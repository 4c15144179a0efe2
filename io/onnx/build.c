/* Builds the module and its graph from the recorded calls.
 *
 * A call whose results are known at import is added only if the graph reads a result. In this case,
 * results that are expressions of sizes are computed again in each run. */
#include "io/onnx/node_impl.h"

#include <stdalign.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- calls that the graph needs ---- */

static bool is_made(const onnx_noted_t *call)
{
    return !call->is_known || call->is_needed;
}

/* Marks the call that produces the item as needed, because the graph reads the item's symbols or
 * list. */
static void need(onnx_t *onnx, item_t index)
{
    int n = 0;
    const item_t *items;
    if (index == ITEM_NONE) return;
    const onnx_item_t *item = &onnx->items[index];
    if (item->call >= 0 && (item->symbols != NULL || onnx_is_listed(onnx, index, &n, &items)))
        onnx->calls[item->call].is_needed = true;
}

static item_t output_item(const onnx_t *onnx, size_t output)
{
    const char *name = onnx->model->graph->output[output]->name;
    return onnx_find(onnx, name != NULL ? name : "");
}

/* Marks the dequantize of a product's integer weight as needed, although its result is known at
 * import: pass fold_quantize needs it to replace a product of dequantized integers with an integer
 * product. */
static void need_integers(onnx_t *onnx, const onnx_noted_t *call)
{
    static const char *const names[] = {"conv1d", "conv2d", "conv3d", "linear", "matmul"};
    bool is_product = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && call->kind == ONNX_CALL_OP; i++)
        is_product |= strcmp(call->op->name, names[i]) == 0;
    if (!is_product || (onnx->options != NULL && onnx->options->keeps_numbers)) return;
    onnx_noted_t *x = onnx_call_of(onnx, call->in[0], "dequantize");
    onnx_noted_t *permute = onnx_call_of(onnx, call->in[1], "permute");
    onnx_noted_t *weight = onnx_call_of(onnx, permute != NULL ? permute->in[0] : call->in[1],
                                        "dequantize");
    if (x == NULL || x->is_known || weight == NULL || !weight->is_known) return;
    weight->is_needed = true;
    if (permute != NULL) permute->is_needed = true;
}

/* Visits the calls from last to first, because needed calls make earlier calls needed. */
static void find_needed(onnx_t *onnx)
{
    for (size_t i = 0; i < onnx->model->graph->n_output; i++) need(onnx, output_item(onnx, i));
    for (int at = onnx->n_calls - 1; at >= 0; at--) {
        onnx_noted_t *call = &onnx->calls[at];
        if (!is_made(call)) continue;
        need_integers(onnx, call);
        for (int i = 0; i < call->n_in; i++) need(onnx, call->in[i]);
    }
}

/* ---- integer attributes that depend on sizes ---- */

/* The attributes of a node, with hints instead of symbolic integers, and the expressions of these
 * integers. */
typedef struct sized_node {
    alignas(max_align_t) unsigned char attrs[ONNX_ATTRS_MAX];
    int n;
    sized_attr_t sized[TENSOR_MAX_RANK * 4];
} sized_node_t;

/* Sets a size of a reshape to -1, so that it is inferred at run time. False if another size is
 * already -1. */
static bool leave_open(const onnx_noted_t *call, sized_node_t *node, int field, int index)
{
    const int n = onnx_n_integers(call->op, node->attrs, field);
    if (strcmp(call->op->name, "reshape") != 0) return false;
    for (int i = 0; i < n; i++)
        if (*onnx_integer_at(call->op, node->attrs, field, i) == -1) return false;
    *onnx_integer_at(call->op, node->attrs, field, index) = -1;
    return true;
}

static status_t add_sized(onnx_t *onnx, const onnx_noted_t *call, sized_node_t *node, int field,
                          int index)
{
    enum { MAX_SIZED = sizeof node->sized / sizeof *node->sized };
    int64_t *place = onnx_integer_at(call->op, node->attrs, field, index);
    const int64_t symbol = *place, hint = sym_hint(onnx->ctx, symbol);
    sized_attr_t sized = {field, index, symbol, onnx->space};
    if (!onnx_is_symbol(symbol)) return STATUS_OK;
    if (hint == SYM_NONE) {
        sized.value = onnx_by_operand(onnx, call->in[0], symbol);
        if (sized.value == SYM_NONE && leave_open(call, node, field, index)) return STATUS_OK;
        if (sized.value == SYM_NONE)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED,
                 "%s follows a size that depends on elements of another tensor",
                 call->op->attrs.fields[field].name);
    }
    if (node->n == MAX_SIZED)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "more than %d integers follow sizes", MAX_SIZED);
    *place = hint == SYM_NONE ? 1 : hint;
    node->sized[node->n++] = sized;
    return STATUS_OK;
}

static status_t find_sized(onnx_t *onnx, const onnx_noted_t *call, sized_node_t *out_node)
{
    out_node->n = 0;
    if (call->kind != ONNX_CALL_OP) return STATUS_OK;
    memcpy(out_node->attrs, call->attrs, call->op->attrs.bytes);
    for (int f = 0; f < call->op->attrs.n_fields; f++)
        for (int i = 0; i < onnx_n_integers(call->op, call->attrs, f); i++)
            TRY(add_sized(onnx, call, out_node, f, i));
    return sym_status(onnx->ctx);
}

/* ---- tensors of integers that depend on sizes ---- */

static status_t add_operator(onnx_t *onnx, onnx_call_t *call, int n_sized,
                             const sized_attr_t *sized, value_t in, value_t *out_value)
{
    graph_node_t node = {.kind = NODE_OP,
                         .op = call->op,
                         .attrs = call->attrs,
                         .n_inputs = 1,
                         .n_outputs = 1,
                         .n_sized = n_sized,
                         .sized = sized};
    TRY(call->status);
    graph_add_node(onnx->builder, &node, &in, NULL, NULL, out_value);
    return graph_builder_status(onnx->builder);
}

static status_t add_number(onnx_t *onnx, int64_t number, value_t *value)
{
    onnx_node_t node = {.onnx = onnx};
    onnx_call_t call;
    datum_t *datum = NULL;
    TRY(datum_int(onnx->ctx, number, &datum));
    const value_t in[2] = {*value, graph_add_literal(onnx->builder, datum)};
    datum_release(datum);
    onnx_call(&node, "add", &call);
    TRY(call.status);
    *value = graph_add_op(onnx->builder, call.op, call.attrs, 2, in, NULL);
    return graph_builder_status(onnx->builder);
}

/* The smallest value that an element can have, or 0 if that is positive. onnx_calculate subtracts
 * it from all elements, because it computes them as sizes, which cannot be negative. */
static status_t find_least(onnx_t *onnx, int64_t n, const int64_t *symbols, int64_t *out_least)
{
    int64_t min = 0, max = 0;
    *out_least = 0;
    for (int64_t i = 0; i < n; i++) {
        sym_range(onnx->ctx, symbols[i], &min, &max);
        if (min < *out_least) *out_least = min;
    }
    if (*out_least < -(INT64_C(1) << 40))
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "an integer that follows sizes has no least value");
    return STATUS_OK;
}

/* Computes integers that depend on sizes: expands a scalar to a tensor with the integers as sizes,
 * and reads its shape. The expanded tensor takes no memory. */
status_t onnx_calculate(onnx_t *onnx, item_t index, value_t *out_value)
{
    const onnx_item_t *item = &onnx->items[index];
    const tensor_info_t *info = &item->info;
    const int64_t n = info_numel(info);
    onnx_node_t node = {.onnx = onnx};
    sized_attr_t sized[TENSOR_MAX_RANK];
    int64_t sizes[TENSOR_MAX_RANK], least = 0;
    onnx_call_t call;
    datum_t *datum = NULL;
    int n_sized = 0;
    if (n > TENSOR_MAX_RANK || dtype_is_floating(info->dtype))
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "%s of integers that follow sizes", info_brief(info));
    TRY(find_least(onnx, n, item->symbols, &least));
    for (int i = 0; i < (int)n; i++) {
        const int64_t size = sym_subtract(onnx->ctx, item->symbols[i], least);
        sizes[i] = sym_hint(onnx->ctx, size);
        if (sizes[i] == SYM_NONE)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED,
                 "an integer follows a size that depends on elements");
        if (onnx_is_symbol(size)) sized[n_sized++] = (sized_attr_t){0, i, size, onnx->space};
    }
    TRY(datum_int(onnx->ctx, 0, &datum));
    value_t value = graph_add_literal(onnx->builder, datum);
    datum_release(datum);
    onnx_call(&node, "expand", &call);
    onnx_set_ints(&call, "sizes", (int)n, sizes);
    TRY(add_operator(onnx, &call, n_sized, sized, value, &value));
    const graph_node_t shape = {
        .kind = NODE_BUILTIN, .name = "shape", .n_inputs = 1, .n_outputs = 1};
    graph_add_node(onnx->builder, &shape, &value, NULL, NULL, &value);
    TRY(graph_builder_status(onnx->builder));
    TRY(least < 0 ? add_number(onnx, least, &value) : STATUS_OK);
    if (info->rank != 1) {
        const int64_t ones[TENSOR_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        onnx_call(&node, "reshape", &call);
        onnx_set_ints(&call, "sizes", info->rank, info->rank == 0 ? ones : info->sizes);
        TRY(add_operator(onnx, &call, 0, NULL, value, &value));
    }
    if (info->dtype != DTYPE_S64) {
        onnx_call(&node, "cast", &call);
        onnx_set_int(&call, "dtype", info->dtype);
        TRY(add_operator(onnx, &call, 0, NULL, value, &value));
    }
    *out_value = value;
    return STATUS_OK;
}

/* ---- the graph ---- */

/* Adds an input that is a sequence (a list of tensors) or an optional (may be none). */
static void add_special(onnx_t *onnx, onnx_item_t *item)
{
    const graph_type_t tensor = {.kind = TYPE_TENSOR};
    graph_type_t type = tensor;
    if (item->is_sequence) type = (graph_type_t){.kind = TYPE_LIST, .n_items = 1, .items = &tensor};
    type.is_optional = item->is_optional;
    item->value = graph_add_param(onnx->builder, item->name, &type);
}

static status_t add_inputs(onnx_t *onnx)
{
    for (int i = 0; i < onnx->n_inputs; i++) {
        const onnx_input_t *input = &onnx->inputs[i];
        onnx_item_t *item = &onnx->items[input->item];
        const char *dims[TENSOR_MAX_RANK] = {NULL};
        graph_type_t type = {.kind = TYPE_TENSOR};
        type.has_info = onnx_hint_info(onnx, &item->info, &type.info);
        for (int d = 0; d < item->info.rank; d++) {
            if (input->open[d] == ONNX_NOT_OPEN) continue;
            dims[d] = onnx->open[input->open[d]].name;
            type.dims = dims;
        }
        if (onnx_is_special(onnx, input->item))
            add_special(onnx, item);
        else
            item->value = graph_add_param(onnx->builder, item->name, &type);
    }
    return graph_builder_status(onnx->builder);
}

/* Adds builtin `fail` for a block that the import refused. If the block runs, it reports the
 * refusal's message. */
static status_t add_failure(onnx_t *onnx, const onnx_noted_t *call)
{
    const char *path = onnx_path_of(call->proto);
    onnx_item_t *item = &onnx->items[call->out[0]];
    graph_node_t node = {.kind = NODE_BUILTIN,
                         .name = "fail",
                         .path = *path != '\0' ? path : NULL,
                         .n_inputs = 1,
                         .n_outputs = 1};
    graph_type_t type = {.kind = TYPE_TENSOR};
    type.has_info = onnx_hint_info(onnx, &item->info, &type.info);
    datum_t *message = NULL;
    TRY(datum_string(onnx->ctx, call->message, &message));
    value_t in = graph_add_literal(onnx->builder, message);
    datum_release(message);
    const graph_type_t *types[] = {onnx_is_special(onnx, call->out[0]) ? NULL : &type};
    graph_add_node(onnx->builder, &node, &in, types, NULL, &item->value);
    return graph_builder_status(onnx->builder);
}

static status_t add_node(onnx_t *onnx, const onnx_noted_t *call, value_t *in)
{
    value_t out[OP_MAX_OUTPUTS];
    const char *path = onnx_path_of(call->proto);
    sized_node_t sized;
    TRY(find_sized(onnx, call, &sized));
    graph_node_t node = {.kind = NODE_OP,
                         .op = call->op,
                         .attrs = sized.attrs,
                         .is_in_place = call->is_in_place,
                         .path = *path != '\0' ? path : NULL,
                         .n_inputs = call->n_in,
                         .n_outputs = call->n_out,
                         .n_sized = sized.n,
                         .sized = sized.sized};
    if (call->kind == ONNX_CALL_BUILTIN) {
        node.kind = NODE_BUILTIN;
        node.name = call->builtin;
        node.attrs = NULL;
    }
    for (int i = 0; i < call->n_in; i++) {
        in[i] = VALUE_NONE;
        if (call->in[i] != ITEM_NONE) TRY(onnx_value_of(onnx, call->in[i], &in[i]));
    }
    graph_add_node(onnx->builder, &node, in, NULL, NULL, out);
    TRY(graph_builder_status(onnx->builder));
    for (int i = 0; i < call->n_out; i++) onnx->items[call->out[i]].value = out[i];
    return STATUS_OK;
}

/* Adds a call. The array of operands is allocated, because a list may have any number of them. */
static status_t add_call(onnx_t *onnx, const onnx_noted_t *call)
{
    value_t *in = NULL;
    if (call->message != NULL) return add_failure(onnx, call);
    TRY(context_get(onnx->ctx, (size_t)(call->n_in + 1) * sizeof *in, "operands", &in));
    FINISH(add_node(onnx, call, in), context_put(onnx->ctx, in));
}

/* ---- blocks ---- */

/* Adds known items that a block reads to the graph before the block, so that other blocks can read
 * them too. */
static status_t add_known(onnx_t *onnx, const onnx_noted_t *flow)
{
    for (const onnx_noted_t *call = flow + 1; call <= &onnx->calls[flow->end]; call++) {
        for (int i = 0; i < call->n_in && is_made(call); i++) {
            value_t value;
            if (call->in[i] == ITEM_NONE) continue;
            const onnx_item_t *item = &onnx->items[call->in[i]];
            const bool is_symbols = item->symbols != NULL && !item->is_live && item->call < 0;
            if (item->known != NULL || item->is_none || is_symbols)
                TRY(onnx_value_of(onnx, call->in[i], &value));
        }
    }
    return STATUS_OK;
}

/* Adds an `if` on a bool and begins its first block. */
static status_t begin_if(onnx_t *onnx, const onnx_noted_t *call)
{
    const char *path = onnx_path_of(call->proto);
    graph_node_t node = {.kind = NODE_IF,
                         .path = *path != '\0' ? path : NULL,
                         .n_inputs = 1,
                         .n_outputs = call->n_out,
                         .n_blocks = 2};
    value_t condition, out[OP_MAX_OUTPUTS];
    TRY(add_known(onnx, call));
    TRY(onnx_value_of(onnx, call->in[0], &condition));
    graph_add_node(onnx->builder, &node, &condition, NULL, NULL, out);
    for (int i = 0; i < call->n_out; i++) onnx->items[call->out[i]].value = out[i];
    graph_block_begin(onnx->builder);
    return graph_builder_status(onnx->builder);
}

/* Adds the block's parameters. Their types have the sizes of the import, but sizes that change in
 * the loop are open. */
static void add_params(onnx_t *onnx, const onnx_noted_t *call)
{
    for (int i = call->n_results; i < call->n_out; i++) {
        onnx_item_t *item = &onnx->items[call->out[i]];
        graph_type_t type = {.kind = TYPE_TENSOR};
        type.has_info = onnx_hint_info(onnx, &item->info, &type.info);
        bool is_typed = item->info.dtype != DTYPE_NONE && !item->is_changing && type.has_info &&
                        !onnx_is_special(onnx, call->out[i]);
        if (i == call->n_results) type = (graph_type_t){.kind = TYPE_INT}; /* the iteration */
        const bool is_said = is_typed || i == call->n_results;
        item->value = graph_add_param(onnx->builder, NULL, is_said ? &type : NULL);
    }
}

static status_t begin_loop(onnx_t *onnx, const onnx_noted_t *call)
{
    const char *path = onnx_path_of(call->proto);
    graph_node_t node = {.kind = NODE_LOOP,
                         .path = *path != '\0' ? path : NULL,
                         .n_inputs = call->n_in,
                         .n_outputs = call->n_results,
                         .n_blocks = 1};
    value_t in[ONNX_MAX_CARRIED + 2], out[ONNX_MAX_CARRIED];
    TRY(add_known(onnx, call));
    for (int i = 0; i < call->n_in; i++) {
        in[i] = VALUE_NONE;
        if (call->in[i] != ITEM_NONE) TRY(onnx_value_of(onnx, call->in[i], &in[i]));
    }
    graph_add_node(onnx->builder, &node, in, NULL, NULL, out);
    for (int i = 0; i < call->n_results; i++) onnx->items[call->out[i]].value = out[i];
    graph_block_begin(onnx->builder);
    add_params(onnx, call);
    return graph_builder_status(onnx->builder);
}

/* Ends a block. After the first block of an `if`, begins the second. */
static status_t end_block(onnx_t *onnx, const onnx_noted_t *call, bool is_first)
{
    value_t results[ONNX_MAX_CARRIED + 1];
    for (int i = 0; i < call->n_in; i++) TRY(onnx_value_of(onnx, call->in[i], &results[i]));
    graph_block_end(onnx->builder, call->n_in, results);
    if (is_first) graph_block_begin(onnx->builder);
    return graph_builder_status(onnx->builder);
}

static status_t add_any(onnx_t *onnx, int at)
{
    const onnx_noted_t *call = &onnx->calls[at];
    switch (call->kind) {
    case ONNX_CALL_IF: return begin_if(onnx, call);
    case ONNX_CALL_LOOP: return begin_loop(onnx, call);
    case ONNX_CALL_YIELD: return end_block(onnx, call, call->end > 0);
    default: return add_call(onnx, call);
    }
}

static status_t add_calls(onnx_t *onnx)
{
    for (int at = 0; at < onnx->n_calls; at++) {
        const onnx_noted_t *call = &onnx->calls[at];
        if (!is_made(call)) continue;
        status_t status = add_any(onnx, at);
        if (status != STATUS_OK)
            return onnx_fail_at(onnx, status, "node", onnx_path_of(call->proto),
                                call->proto->op_type);
    }
    return STATUS_OK;
}

static status_t finish(onnx_t *onnx, graph_t **out_graph)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    value_t results[METHOD_MAX_OUTPUTS];
    if (graph->n_output < 1 || graph->n_output > METHOD_MAX_OUTPUTS)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "onnx: %zu outputs, 1 to %d are supported",
             graph->n_output, METHOD_MAX_OUTPUTS);
    for (size_t i = 0; i < graph->n_output; i++) {
        item_t item = output_item(onnx, i);
        const char *name = graph->output[i]->name != NULL ? graph->output[i]->name : "";
        if (item == ITEM_NONE || onnx->items[item].is_missing)
            FAIL(onnx->ctx, item == ITEM_NONE ? STATUS_CORRUPT : STATUS_UNSUPPORTED,
                 "onnx: output \"%.200s\" is %s", name,
                 item == ITEM_NONE ? "made by no node" : "one that is not supported");
        TRY(onnx_value_of(onnx, item, &results[i]));
    }
    TRY(graph_finish(onnx->builder, (int)graph->n_output, results, out_graph));
    return graph_verify(onnx->ctx, *out_graph);
}

/* Creates the module. Reserves the names of attributes first, so that no parameter takes them. */
static status_t begin_module(onnx_t *onnx)
{
    enum { N_NAMES = 4 };
    static const char *const names[N_NAMES] = {"input_names", "output_names", "opset", "metadata"};
    context_t *ctx = onnx->ctx;
    datum_t *none = NULL;
    TRY(module_create(ctx, "OnnxModel", &onnx->module));
    TRY(datum_none(ctx, &none));
    status_t status = STATUS_OK;
    for (int i = 0; i < N_NAMES && status == STATUS_OK; i++)
        status = module_set_attribute(ctx, onnx->module, names[i], none);
    datum_release(none);
    TRY(status);
    TRY(graph_builder_create(ctx, "forward", &onnx->builder));
    graph_set_space(graph_builder_graph(onnx->builder), onnx->space);
    onnx->self = graph_add_param(onnx->builder, "self", &(graph_type_t){.kind = TYPE_MODULE});
    return graph_builder_status(onnx->builder);
}

status_t onnx_build(onnx_t *onnx, graph_t **out_graph)
{
    *out_graph = NULL;
    find_needed(onnx);
    TRY(begin_module(onnx));
    TRY(add_inputs(onnx));
    TRY(add_calls(onnx));
    return finish(onnx, out_graph);
}
