/* From what was called to the module and its graph.
 *
 * First it is found out which integers follow sizes, and which known items the graph has to
 * calculate; what follows nothing fixes a size, and all is found out anew. Then the graph is built,
 * and held against the trials: it has to give the sizes that they gave, and to fail where they did.
 */
#include "io/onnx_node_impl.h"
#include "io/onnx_trial_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- attributes that follow sizes ---- */

static const void *attrs_at(const onnx_noted_t *call, int trial)
{
    bool is_other = call->others != NULL && call->others[trial] != NULL;
    return is_other ? call->others[trial] : call->attrs;
}

static status_t add_sized(onnx_t *onnx, onnx_noted_t *call, const onnx_sized_t *sized)
{
    TRY(context_grow(onnx->ctx, &call->sized, &call->sized_capacity, call->n_sized + 1,
                     sizeof *call->sized));
    call->sized[call->n_sized++] = *sized;
    return STATUS_OK;
}

/* One size of a reshape may be what is left. */
static bool leave_open(onnx_t *onnx, onnx_noted_t *call, int field, int index)
{
    int n = onnx_n_integers(call->op, call->attrs, field);
    if (strcmp(call->op->name, "reshape") != 0) return false;
    for (int i = 0; i < n; i++)
        if (*onnx_integer_at(call->op, call->attrs, field, i) == -1) return false;
    for (int k = 0; k < onnx->n_trials; k++)
        if (!onnx->is_over[k]) *onnx_integer_at(call->op, attrs_at(call, k), field, index) = -1;
    return true;
}

/* *out_trial: the first at which an integer follows nothing, or 0. */
static status_t explain_integer(onnx_t *onnx, onnx_noted_t *call, const onnx_samples_t *samples,
                                int field, int index, int *out_trial)
{
    int64_t values[ONNX_MAX_TRIALS];
    onnx_sized_t sized = {.field = field, .index = index};
    int first = 0;
    for (int s = 0; s < samples->n; s++) {
        values[s] = *onnx_integer_at(call->op, attrs_at(call, samples->trials[s]), field, index);
        if (first == 0 && values[s] != values[0]) first = s;
    }
    if (first == 0) return STATUS_OK;
    if (onnx_samples_fit(onnx, samples, values, &sized.value) ||
        onnx_samples_between(onnx, samples, values, &sized.value))
        return add_sized(onnx, call, &sized);
    if (leave_open(onnx, call, field, index)) return STATUS_OK;
    *out_trial = samples->trials[first];
    return onnx_pool_ask(onnx);
}

static status_t explain_call(onnx_t *onnx, onnx_noted_t *call, int *out_trial)
{
    onnx_samples_t *samples = NULL;
    call->n_sized = 0;
    *out_trial = 0;
    if (call->others == NULL || call->kind != ONNX_CALL_OP) return STATUS_OK;
    TRY(onnx_samples_begin(onnx, &samples));
    if (!onnx->is_local) onnx_samples_open(onnx, samples);
    if (call->n_in > 0 && call->in[0] != ITEM_NONE) onnx_samples_dims(onnx, call->in[0], samples);
    if (onnx->is_local) onnx_samples_open(onnx, samples);
    status_t status = STATUS_OK;
    for (int f = 0; f < call->op->attrs.n_fields; f++) {
        int n = onnx_n_integers(call->op, call->attrs, f);
        for (int i = 0; i < n && status == STATUS_OK && *out_trial == 0; i++)
            status = explain_integer(onnx, call, samples, f, i, out_trial);
    }
    context_put(onnx->ctx, samples);
    return status;
}

/* ---- known items that follow sizes ---- */

/* The graph has it. */
static bool is_made(const onnx_noted_t *call)
{
    return call->kind != ONNX_CALL_KNOWN && (!call->is_known || call->is_needed);
}

static bool is_calculated(const onnx_t *onnx, item_t item)
{
    return onnx->items[item].known != NULL &&
           (onnx->items[item].is_doubtful || onnx_varies(onnx, item));
}

/* Sizes of inputs times a number, plus a number. */
static bool is_line(const size_expr_t *expr)
{
    for (int i = 0; expr->n_terms == 1 && i < expr->terms[0].n; i++)
        if (expr->terms[0].parts[i].divisor != 1) return false;
    return expr->n_terms == 1;
}

/* One integer that is a line over sizes of inputs, or over their product, needs no call; one that
 * no call gives is calculated in any case. */
static status_t explain_number(onnx_t *onnx, onnx_item_t *item)
{
    onnx_samples_t *samples = NULL;
    int64_t values[ONNX_MAX_TRIALS];
    size_expr_t expr;
    dtype_t dtype = tensor_dtype(item->known);
    context_put(onnx->ctx, item->expr);
    item->expr = NULL;
    if (item->is_doubtful || (dtype != DTYPE_S64 && dtype != DTYPE_S32) || item->infos != NULL ||
        tensor_numel(item->known) != 1)
        return STATUS_OK;
    TRY(onnx_samples_begin(onnx, &samples));
    onnx_samples_open(onnx, samples);
    bool is_one = true;
    for (int s = 0; s < samples->n && is_one; s++) {
        int k = samples->trials[s];
        const tensor_t *known = item->knowns != NULL && item->knowns[k] != NULL ? item->knowns[k]
                                                                                : item->known;
        is_one = tensor_numel(known) == 1;
        if (is_one) values[s] = dtype_load_integer(dtype, tensor_bytes(known));
    }
    status_t status = STATUS_OK;
    const bool has_call = item->call >= 0 && onnx->calls[item->call].kind != ONNX_CALL_KNOWN;
    if (is_one && onnx_samples_fit(onnx, samples, values, &expr) && (!has_call || is_line(&expr))) {
        status = context_get(onnx->ctx, sizeof *item->expr, "a size", &item->expr);
        if (status == STATUS_OK) *item->expr = expr;
    }
    context_put(onnx->ctx, samples);
    return status;
}

/* The item is read in the graph: what gives it is needed there. *out_trial: one at which it is what
 * no call gives, or 0. */
static status_t need(onnx_t *onnx, item_t index, int *out_trial)
{
    int n = 0;
    const item_t *items;
    if (index != ITEM_NONE && onnx_is_listed(onnx, index, &n, &items))
        onnx->calls[onnx->items[index].call].is_needed = true;
    if (index == ITEM_NONE || !is_calculated(onnx, index)) return STATUS_OK;
    onnx_item_t *item = &onnx->items[index];
    TRY(explain_number(onnx, item));
    if (item->expr != NULL) return STATUS_OK;
    if (item->call >= 0 && onnx->calls[item->call].kind != ONNX_CALL_KNOWN) {
        onnx->calls[item->call].is_needed = true;
        return STATUS_OK;
    }
    for (int k = onnx->n_trials - 1; k > 0; k--)
        if (!onnx->is_over[k] && onnx_differs(onnx, index, k)) *out_trial = k;
    return STATUS_OK;
}

static item_t output_item(const onnx_t *onnx, size_t output)
{
    const char *name = onnx->model->graph->output[output]->name;
    return onnx_find(onnx, name != NULL ? name : "");
}

/* Products of dequantized integers are those of integers later: their weight, which is known, is
 * dequantized in the graph. */
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

/* From the last call to the first, since a call needs what is before it. */
static status_t explain_all(onnx_t *onnx, bool *out_again)
{
    int trial = 0;
    for (int at = 0; at < onnx->n_calls; at++) onnx->calls[at].is_needed = false;
    TRY(onnx_pool_fill(onnx));
    for (size_t i = 0; i < onnx->model->graph->n_output; i++)
        TRY(need(onnx, output_item(onnx, i), &trial));
    for (int at = onnx->n_calls - 1; at >= 0 && trial == 0; at--) {
        onnx_noted_t *call = &onnx->calls[at];
        if (!is_made(call)) continue;
        need_integers(onnx, call);
        for (int i = 0; i < call->n_in && trial == 0; i++) TRY(need(onnx, call->in[i], &trial));
        if (trial == 0) TRY(explain_call(onnx, call, &trial));
        if (trial > 0)
            onnx_fix(onnx, trial, call->proto, "it depends on the size, and not as lines do");
        status_t status = onnx_check_data(onnx);
        if (status != STATUS_OK)
            return onnx_fail_at(onnx, status, "node", onnx_path_of(call->proto),
                                call->proto->op_type);
    }
    *out_again = trial > 0;
    return STATUS_OK;
}

/* ---- numbers that follow sizes ---- */

static status_t add_operator(onnx_t *onnx, onnx_call_t *call, int n_in, const value_t *in,
                             value_t *out_value)
{
    TRY(call->status);
    *out_value = graph_add_op(onnx->builder, call->op, call->attrs, n_in, in, NULL);
    return graph_builder_status(onnx->builder);
}

/* The input and the dimension of it that have this open size. */
static item_t find_dim(const onnx_t *onnx, int open, int *out_dim)
{
    for (int i = 0; i < onnx->n_inputs; i++) {
        item_t item = onnx->inputs[i].item;
        if (onnx_is_special(onnx, item)) continue;
        for (int d = 0; d < onnx->items[item].info.rank; d++) {
            *out_dim = d;
            if (onnx->inputs[i].open[d] == open) return item;
        }
    }
    return ITEM_NONE;
}

/* The size of a name as s64 [1]: a slice of an input's shape. */
static status_t add_size(onnx_t *onnx, int open, value_t *out_value)
{
    onnx_node_t node = {.onnx = onnx};
    onnx_call_t call;
    int dim = 0;
    item_t input = find_dim(onnx, open, &dim);
    graph_node_t shape = {.kind = NODE_BUILTIN, .name = "shape", .n_inputs = 1, .n_outputs = 1};
    graph_add_node(onnx->builder, &shape, &onnx->items[input].value, NULL, NULL, out_value);
    TRY(graph_builder_status(onnx->builder));
    onnx_call(&node, "slice", &call);
    onnx_set_int(&call, "start", dim);
    onnx_set_int(&call, "end", dim + 1);
    value_t sizes = *out_value;
    return add_operator(onnx, &call, 1, &sizes, out_value);
}

static status_t add_step(onnx_t *onnx, const char *op, int64_t number, value_t *value)
{
    onnx_node_t node = {.onnx = onnx};
    onnx_call_t call;
    datum_t *datum = NULL;
    TRY(datum_int(onnx->ctx, number, &datum));
    value_t in[2] = {*value, graph_add_literal(onnx->builder, datum)};
    datum_release(datum);
    onnx_call(&node, op, &call);
    return add_operator(onnx, &call, 2, in, value);
}

static status_t add_part(onnx_t *onnx, const size_part_t *part, value_t *out_value)
{
    TRY(add_size(onnx, part->variable.dim, out_value));
    if (part->offset != 0) TRY(add_step(onnx, "add", part->offset, out_value));
    if (part->divisor != 1) TRY(add_step(onnx, "div_floor", part->divisor, out_value));
    return STATUS_OK;
}

/* A product or a sum of both. */
static status_t add_both(onnx_t *onnx, const char *op, value_t other, value_t *value)
{
    onnx_node_t node = {.onnx = onnx};
    onnx_call_t call;
    const value_t in[2] = {*value, other};
    onnx_call(&node, op, &call);
    return add_operator(onnx, &call, 2, in, value);
}

static status_t add_sum(onnx_t *onnx, const size_expr_t *expr, value_t *out_value)
{
    for (int t = 0; t < expr->n_terms; t++) {
        const size_term_t *term = &expr->terms[t];
        value_t product = VALUE_NONE, part = VALUE_NONE;
        TRY(add_part(onnx, &term->parts[0], &product));
        for (int i = 1; i < term->n; i++) {
            TRY(add_part(onnx, &term->parts[i], &part));
            TRY(add_both(onnx, "mul", part, &product));
        }
        if (term->factor != 1) TRY(add_step(onnx, "mul", term->factor, &product));
        if (t == 0)
            *out_value = product;
        else
            TRY(add_both(onnx, "add", product, out_value));
    }
    return expr->offset != 0 ? add_step(onnx, "add", expr->offset, out_value) : STATUS_OK;
}

status_t onnx_calculate(onnx_t *onnx, item_t index, value_t *out_value)
{
    const onnx_item_t *item = &onnx->items[index];
    const tensor_info_t *info = tensor_info(item->known);
    const int64_t ones[TENSOR_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    onnx_node_t node = {.onnx = onnx};
    onnx_call_t call;
    value_t in[1] = {VALUE_NONE};
    TRY(add_sum(onnx, item->expr, &in[0]));
    if (info->rank != 1) {
        onnx_call(&node, "reshape", &call);
        onnx_set_ints(&call, "sizes", info->rank, ones);
        TRY(add_operator(onnx, &call, 1, in, &in[0]));
    }
    if (info->dtype != DTYPE_S64) {
        onnx_call(&node, "cast", &call);
        onnx_set_int(&call, "dtype", info->dtype);
        TRY(add_operator(onnx, &call, 1, in, &in[0]));
    }
    *out_value = in[0];
    return STATUS_OK;
}

/* ---- the graph ---- */

/* A sequence is a list of tensors, an optional a tensor, a list or none. */
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
        graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true, .info = item->info};
        for (int d = 0; d < item->info.rank; d++) {
            if (input->open[d] == ONNX_NOT_OPEN || onnx->open[input->open[d]].is_fixed) continue;
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

/* One of its sizes depends on elements. */
static bool has_data_sizes(const onnx_t *onnx, item_t item)
{
    const tensor_info_t *infos = onnx->items[item].infos;
    for (int k = onnx->first_data_trial; k < onnx->n_trials && infos != NULL; k++)
        if (!onnx->is_over[k] && infos[k].dtype != DTYPE_NONE) return true;
    return false;
}

/* What stands for a block that was refused: an error where it is run. */
static status_t add_failure(onnx_t *onnx, const onnx_noted_t *call)
{
    const char *path = onnx_path_of(call->proto);
    onnx_item_t *item = &onnx->items[call->out[0]];
    graph_node_t node = {.kind = NODE_BUILTIN,
                         .name = "fail",
                         .path = *path != '\0' ? path : NULL,
                         .n_inputs = 1,
                         .n_outputs = 1};
    graph_type_t type = {
        .kind = TYPE_TENSOR, .has_info = !has_data_sizes(onnx, call->out[0]), .info = item->info};
    datum_t *message = NULL;
    TRY(datum_string(onnx->ctx, call->message, &message));
    value_t in = graph_add_literal(onnx->builder, message);
    datum_release(message);
    const graph_type_t *types[] = {onnx_is_special(onnx, call->out[0]) ? NULL : &type};
    graph_add_node(onnx->builder, &node, &in, types, NULL, &item->value);
    return graph_builder_status(onnx->builder);
}

/* The integers that follow sizes, in the space of the graph; to be put back. */
static status_t make_sized(onnx_t *onnx, const onnx_noted_t *call, sized_attr_t **out_sized)
{
    sym_space_t *space = NULL;
    *out_sized = NULL;
    if (call->n_sized == 0) return STATUS_OK;
    TRY(graph_space(onnx->ctx, graph_builder_graph(onnx->builder), &space));
    TRY(context_get(onnx->ctx, (size_t)call->n_sized * sizeof **out_sized, "sized integers",
                    out_sized));
    for (int i = 0; i < call->n_sized; i++) {
        sized_attr_t *sized = &(*out_sized)[i];
        *sized = (sized_attr_t){call->sized[i].field, call->sized[i].index, 0, space};
        TRY(size_symbol(onnx->ctx, &call->sized[i].value, space, &sized->value));
    }
    return STATUS_OK;
}

static status_t add_node(onnx_t *onnx, const onnx_noted_t *call, const sized_attr_t *sized,
                         value_t *in)
{
    value_t out[OP_MAX_OUTPUTS];
    const char *path = onnx_path_of(call->proto);
    graph_node_t node = {.kind = NODE_OP,
                         .op = call->op,
                         .attrs = call->attrs,
                         .is_in_place = call->is_in_place,
                         .path = *path != '\0' ? path : NULL,
                         .n_inputs = call->n_in,
                         .n_outputs = call->n_out,
                         .n_sized = call->n_sized,
                         .sized = sized};
    if (call->kind == ONNX_CALL_BUILTIN) node.kind = NODE_BUILTIN, node.name = call->builtin;
    for (int i = 0; i < call->n_in; i++) {
        in[i] = VALUE_NONE;
        if (call->in[i] != ITEM_NONE) TRY(onnx_value_of(onnx, call->in[i], &in[i]));
    }
    graph_add_node(onnx->builder, &node, in, NULL, NULL, out);
    TRY(graph_builder_status(onnx->builder));
    for (int i = 0; i < call->n_out; i++) onnx->items[call->out[i]].value = out[i];
    return STATUS_OK;
}

/* Lists have any number of operands. */
static status_t add_call(onnx_t *onnx, const onnx_noted_t *call)
{
    value_t *in = NULL;
    sized_attr_t *sized = NULL;
    if (call->message != NULL) return add_failure(onnx, call);
    TRY(context_get(onnx->ctx, (size_t)(call->n_in + 1) * sizeof *in, "operands", &in));
    status_t status = make_sized(onnx, call, &sized);
    if (status == STATUS_OK) status = add_node(onnx, call, sized, in);
    context_put(onnx->ctx, sized);
    context_put(onnx->ctx, in);
    return status;
}

/* ---- blocks ---- */

/* Known items that a block reads stand before it, for all who read them. */
static status_t add_known(onnx_t *onnx, const onnx_noted_t *flow)
{
    for (const onnx_noted_t *call = flow + 1; call <= &onnx->calls[flow->end]; call++) {
        for (int i = 0; i < call->n_in && is_made(call); i++) {
            value_t value;
            if (call->in[i] == ITEM_NONE) continue;
            const onnx_item_t *item = &onnx->items[call->in[i]];
            bool is_call = (item->known == NULL && !item->is_none) ||
                           (item->expr == NULL && item->call >= 0 &&
                            onnx->calls[item->call].kind != ONNX_CALL_KNOWN &&
                            onnx->calls[item->call].is_needed);
            if (!is_call) TRY(onnx_value_of(onnx, call->in[i], &value));
        }
    }
    return STATUS_OK;
}

/* An `if` on a bool; its first block begins. */
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

/* The block's parameters have the types that the import found, but for sizes that change. */
static void add_params(onnx_t *onnx, const onnx_noted_t *call)
{
    for (int i = call->n_results; i < call->n_out; i++) {
        onnx_item_t *item = &onnx->items[call->out[i]];
        graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true, .info = item->info};
        bool is_typed = item->info.dtype != DTYPE_NONE && !item->is_changing &&
                        !onnx_is_special(onnx, call->out[i]) && !has_data_sizes(onnx, call->out[i]);
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

/* The block ends; the `if` whose first one it was begins the other. */
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

/* Names that parameters shall not take are taken first. */
static status_t begin_module(onnx_t *onnx)
{
    enum { N_NAMES = 4 };
    static const char *const names[N_NAMES] = {"input_names", "output_names", "opset", "metadata"};
    context_t *ctx = onnx->ctx;
    char reason[ONNX_MAX_REASON];
    datum_t *none = NULL;
    for (int i = 0; i < onnx->n_items; i++) onnx->items[i].value = VALUE_NONE;
    module_release(onnx->module);
    graph_builder_destroy(onnx->builder);
    onnx->module = NULL;
    onnx->builder = NULL;
    TRY(module_create(ctx, "OnnxModel", &onnx->module));
    TRY(datum_none(ctx, &none));
    status_t status = STATUS_OK;
    for (int i = 0; i < N_NAMES && status == STATUS_OK; i++)
        status = module_set_attribute(ctx, onnx->module, names[i], none);
    datum_release(none);
    TRY(status);
    TRY(graph_builder_create(ctx, "forward", &onnx->builder));
    onnx_reason(onnx, sizeof reason, reason);
    if (reason[0] != '\0') TRY(graph_builder_set_fixed(onnx->builder, reason));
    onnx->self = graph_add_param(onnx->builder, "self", &(graph_type_t){.kind = TYPE_MODULE});
    return graph_builder_status(onnx->builder);
}

static status_t build_once(onnx_t *onnx, graph_t **out_graph)
{
    TRY(begin_module(onnx));
    TRY(add_inputs(onnx));
    TRY(add_calls(onnx));
    return finish(onnx, out_graph);
}

/* ---- against the trials ---- */

static bool gives_sizes(const onnx_t *onnx, const graph_t *resized)
{
    const graph_block_t *body = graph_body(resized);
    for (int i = 0; i < body->n_results; i++) {
        const graph_type_t *type = graph_value_type(resized, body->results[i]);
        const tensor_info_t *info = onnx_info(onnx, output_item(onnx, (size_t)i));
        if (type->kind == TYPE_TENSOR && type_is_static(type) &&
            !shape_equal(type->info.rank, type->info.sizes, info->rank, info->sizes))
            return false;
    }
    return true;
}

/* Whether the graph at these sizes is what the trial says: sizes of results, or a failure. */
static status_t check_trial(onnx_t *onnx, const graph_t *graph, int trial, bool *out_agrees)
{
    tensor_info_t *infos = NULL;
    graph_t *resized = NULL;
    TRY(context_get(onnx->ctx, (size_t)onnx->n_inputs * sizeof *infos, "infos", &infos));
    onnx->trial = trial;
    for (int i = 0; i < onnx->n_inputs; i++) infos[i] = *onnx_info(onnx, onnx->inputs[i].item);
    scope_attempt(onnx->ctx);
    status_t status = graph_resize(onnx->ctx, graph, infos, true, &resized);
    bool is_forgiven = status == STATUS_INVALID_ARGUMENT || status == STATUS_UNSUPPORTED;
    status = scope_attempt_end(onnx->ctx, status, is_forgiven);
    *out_agrees = is_forgiven == onnx->is_over[trial];
    if (*out_agrees && !is_forgiven && status == STATUS_OK)
        *out_agrees = gives_sizes(onnx, resized);
    onnx->trial = 0;
    graph_release(resized);
    context_put(onnx->ctx, infos);
    return is_forgiven ? STATUS_OK : status;
}

/* Trials of sizes that are fixed say nothing of the graph. */
static bool is_tried(const onnx_t *onnx, int trial)
{
    if (trial >= onnx->first_data_trial) return false;
    for (int i = 0; i < onnx->n_open; i++)
        if (onnx->open[i].is_fixed && onnx->sizes[trial][i] != onnx->sizes[0][i]) return false;
    return true;
}

/* Where the graph is none of the trial, its integers may follow other sizes that fit as well: those
 * of operands before those of inputs. Twice the size of what MaxPool halves is the input's size
 * where that is even, and always twice the operand's. */
static status_t check_trials(onnx_t *onnx, const graph_t *graph, bool *out_again)
{
    for (int k = 1; k < onnx->n_trials; k++) {
        bool agrees = true;
        if (is_tried(onnx, k)) TRY(check_trial(onnx, graph, k, &agrees));
        if (agrees) continue;
        if (onnx->is_local) onnx_fix(onnx, k, NULL, "the graph takes no other sizes");
        onnx->is_local = *out_again = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

status_t onnx_build(onnx_t *onnx, graph_t **out_graph)
{
    bool is_again = true;
    *out_graph = NULL;
    while (is_again) {
        graph_release(*out_graph);
        *out_graph = NULL;
        TRY(explain_all(onnx, &is_again));
        if (is_again) continue;
        TRY(build_once(onnx, out_graph));
        if (graph_has_names(*out_graph)) TRY(check_trials(onnx, *out_graph, &is_again));
    }
    return STATUS_OK;
}

#endif
