/* Calls of operators. A call runs at import if all operands are known. If elements are symbolic,
 * the import computes with the symbols where possible. Any other call is recorded for the graph. */
#include "io/onnx/node_impl.h"

#include <stdio.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "tensor/info_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

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

/* ---- recording ---- */

static status_t make_note(onnx_t *onnx, const onnx_noted_t *call, onnx_noted_t *out_noted)
{
    size_t attrs_bytes = call->attrs != NULL ? call->op->attrs.bytes : 0;
    size_t n = (size_t)call->n_in + (size_t)call->n_out;
    char *block = NULL;
    attrs_bytes = (attrs_bytes + 15) & ~(size_t)15;
    TRY(context_get(onnx->ctx, attrs_bytes + n * sizeof(item_t), "a call", &block));
    *out_noted = *call;
    out_noted->attrs = block;
    out_noted->in = (item_t *)(void *)(block + attrs_bytes);
    out_noted->out = out_noted->in + call->n_in;
    if (call->attrs != NULL) memcpy(block, call->attrs, call->op->attrs.bytes);
    for (int i = 0; i < call->n_in; i++) out_noted->in[i] = call->in[i];
    for (int i = 0; i < call->n_out; i++) out_noted->out[i] = ITEM_NONE;
    return STATUS_OK;
}

int onnx_n_integers(const opdef_t *op, const void *attrs, int field)
{
    const attr_field_t *at = &op->attrs.fields[field];
    if (at->kind == ATTR_INT) return 1;
    if (at->kind == ATTR_ARRAY) return at->length;
    if (at->kind != ATTR_INTS) return 0;
    return ((const ints_t *)(const void *)((const char *)attrs + at->offset))->n;
}

int64_t *onnx_integer_at(const opdef_t *op, const void *attrs, int field, int index)
{
    void *place;
    memcpy(&place, &attrs, sizeof place);
    return size_place(op, place, field, index);
}

status_t onnx_note(onnx_t *onnx, const onnx_noted_t *call, int *out_call)
{
    TRY(context_grow(onnx->ctx, &onnx->calls, &onnx->calls_capacity, onnx->n_calls + 1,
                     sizeof *onnx->calls));
    TRY(make_note(onnx, call, &onnx->calls[onnx->n_calls]));
    onnx->calls[onnx->n_calls].proto = onnx->proto;
    *out_call = onnx->n_calls++;
    return STATUS_OK;
}

void onnx_cut_calls(onnx_t *onnx, int first)
{
    for (int i = first; i < onnx->n_calls; i++) {
        CONTEXT_PUT(onnx->ctx, onnx->calls[i].message, onnx->calls[i].attrs);
    }
    if (first < onnx->n_calls) onnx->n_calls = first;
}

onnx_noted_t *onnx_call_of(const onnx_t *onnx, item_t item, const char *op_name)
{
    const int at = item != ITEM_NONE ? onnx->items[item].call : -1;
    if (at < 0 || onnx->calls[at].kind != ONNX_CALL_OP) return NULL;
    return strcmp(onnx->calls[at].op->name, op_name) == 0 ? &onnx->calls[at] : NULL;
}

/* Adds a result of a call, with its info. */
static status_t add_result(onnx_t *onnx, int call, int output, const tensor_info_t *info,
                           item_t *out)
{
    TRY(onnx_value(onnx, NULL, info, out));
    onnx->items[*out].call = call;
    onnx->calls[call].out[output] = *out;
    return STATUS_OK;
}

status_t onnx_builtin(onnx_node_t *node, const char *name, int n_in, const item_t *in, item_t *out)
{
    onnx_t *onnx = node->onnx;
    item_t *operands = NULL;
    int at = 0;
    memcpy(&operands, &in, sizeof operands); /* onnx_note copies them */
    TRY(onnx_note(onnx,
                  &(onnx_noted_t){.kind = ONNX_CALL_BUILTIN,
                                  .builtin = name,
                                  .n_in = n_in,
                                  .in = operands,
                                  .n_out = out != NULL ? 1 : 0},
                  &at));
    if (out == NULL) return STATUS_OK;
    return add_result(onnx, at, 0, &(tensor_info_t){.dtype = DTYPE_NONE}, out);
}

status_t onnx_sequence(onnx_node_t *node, dtype_t dtype, int n, const item_t *items, item_t *out)
{
    onnx_t *onnx = node->onnx;
    tensor_info_t element = {.dtype = dtype, .rank = ONNX_RANK_NONE};
    TRY(onnx_builtin(node, "list", n, items, out));
    for (int i = 0; i < n; i++) {
        const tensor_info_t one = onnx_element_info(onnx, items[i]);
        element = onnx_join_elements(&element, &one);
    }
    onnx->items[*out].is_sequence = true;
    onnx->calls[onnx->items[*out].call].is_known = true;
    onnx_set_element(onnx, *out, &element);
    return STATUS_OK;
}

status_t onnx_sizes(onnx_node_t *node, item_t x, item_t *out)
{
    onnx_t *onnx = node->onnx;
    const tensor_info_t info = *onnx_info(onnx, x);
    bool has_symbols = false;
    for (int d = 0; d < info.rank; d++) has_symbols = has_symbols || sym_is(info.sizes[d]);
    if (!has_symbols) return onnx_vector(onnx, NULL, info.rank, info.sizes, out);
    const tensor_info_t sizes = info_dense(DTYPE_S64, 1, (int64_t[]){info.rank});
    TRY(onnx_builtin(node, "shape", 1, &x, out));
    onnx->items[*out].info = sizes;
    onnx->calls[onnx->items[*out].call].is_known = true;
    return onnx_set_symbols(onnx, *out, false, info.sizes);
}

/* ---- inference ---- */

/* An operand's elements; NULL if they are unknown. */
static const void *elements_of(const onnx_t *onnx, const onnx_noted_t *call, int operand)
{
    if (call->in[operand] == ITEM_NONE) return NULL;
    const tensor_t *known = onnx->items[call->in[operand]].known;
    return known != NULL && info_is_contiguous(tensor_info(known)) ? tensor_bytes(known) : NULL;
}

/* ---- sizes known only at run time ---- */

#define MAX_UNKNOWN 4
#define MAX_CANDIDATES 16
#define MAX_CANDIDATE 65536

/* Sizes and attributes of a call that depend on elements, and candidate values for them. */
typedef struct unknowns {
    int n, n_candidates;
    int64_t sizes[MAX_UNKNOWN], values[MAX_UNKNOWN];
    int64_t candidates[MAX_CANDIDATES];
} unknowns_t;

static void add_to_set(int64_t value, int capacity, int *n, int64_t *set)
{
    for (int i = 0; i < *n; i++)
        if (set[i] == value) return;
    if (*n < capacity) set[(*n)++] = value;
}

/* Finds the unknown sizes of a call. False if there are none or too many. */
static bool find_unknowns(onnx_t *onnx, const op_call_t *call, unknowns_t *out)
{
    int n_unknown = 0;
    int64_t all[MAX_UNKNOWN + 1], product = 1; /* a reshape to [3,4,-1] takes 12 elements */
    *out = (unknowns_t){.n_candidates = 3, .candidates = {8, 1, 2}};
    for (int i = 0; i < call->n_in; i++)
        for (int d = 0; call->in[i]->dtype != DTYPE_NONE && d < call->in[i]->rank; d++) {
            const int64_t size = call->in[i]->sizes[d], hint = sym_hint(onnx->ctx, size);
            if (hint == SYM_NONE)
                add_to_set(size, MAX_UNKNOWN + 1, &n_unknown, all);
            else
                add_to_set(hint, MAX_CANDIDATES, &out->n_candidates, out->candidates);
        }
    for (int f = 0; f < call->op->attrs.n_fields; f++)
        for (int i = 0; i < onnx_n_integers(call->op, call->attrs, f); i++) {
            const int64_t value = *onnx_integer_at(call->op, call->attrs, f, i);
            if (onnx_is_symbol(value) && sym_hint(onnx->ctx, value) == SYM_NONE)
                add_to_set(value, MAX_UNKNOWN + 1, &n_unknown, all);
            if (value > 0 && value <= MAX_CANDIDATE / product) product *= value;
        }
    add_to_set(product, MAX_CANDIDATES, &out->n_candidates, out->candidates);
    if (n_unknown > MAX_UNKNOWN) return false;
    out->n = n_unknown;
    for (int i = 0; i < n_unknown; i++) out->sizes[i] = all[i];
    return n_unknown > 0;
}

static int64_t number_of(onnx_t *onnx, const unknowns_t *unknowns, int64_t size)
{
    for (int i = 0; i < unknowns->n; i++)
        if (unknowns->sizes[i] == size) return unknowns->values[i];
    return sym_hint(onnx->ctx, size);
}

static status_t infer_numbers(onnx_t *onnx, const op_call_t *given, const unknowns_t *unknowns,
                              int *out_n, tensor_info_t *out)
{
    tensor_info_t infos[OP_MAX_INPUTS];
    const tensor_info_t *in[OP_MAX_INPUTS];
    for (int i = 0; i < given->n_in; i++) {
        int64_t sizes[TENSOR_MAX_RANK];
        in[i] = &infos[i];
        infos[i] = *given->in[i];
        if (infos[i].dtype == DTYPE_NONE) continue;
        for (int d = 0; d < infos[i].rank; d++)
            sizes[d] = number_of(onnx, unknowns, infos[i].sizes[d]);
        infos[i] = info_dense(infos[i].dtype, infos[i].rank, sizes);
        infos[i].is_number = given->in[i]->is_number;
    }
    alignas(max_align_t) unsigned char attrs[ONNX_ATTRS_MAX];
    memcpy(attrs, given->attrs, given->op->attrs.bytes);
    for (int f = 0; f < given->op->attrs.n_fields; f++)
        for (int i = 0; i < onnx_n_integers(given->op, attrs, f); i++) {
            int64_t *value = onnx_integer_at(given->op, attrs, f, i);
            if (onnx_is_symbol(*value)) *value = number_of(onnx, unknowns, *value);
        }
    return dispatch_infer(onnx->ctx, given->op, attrs, given->n_in, in, out_n, out);
}

/* Infers results that depend on sizes known only at run time: tries small numbers for these sizes
 * until the operator accepts them. Only the number, ranks and dtypes of the results are used; all
 * sizes become -1. */
static status_t infer_ranks(onnx_t *onnx, const op_call_t *given, int *out_n, tensor_info_t *out)
{
    enum { MAX_TRIED = 1024 };
    unknowns_t unknowns;
    status_t status = STATUS_UNSUPPORTED;
    if (!find_unknowns(onnx, given, &unknowns)) return status;
    int n_tried = 1;
    for (int i = 0; i < unknowns.n; i++) n_tried *= unknowns.n_candidates;
    if (n_tried > MAX_TRIED) n_tried = MAX_TRIED;
    for (int t = 0; t < n_tried && status == STATUS_UNSUPPORTED; t++) {
        for (int i = 0, rest = t; i < unknowns.n; i++, rest /= unknowns.n_candidates)
            unknowns.values[i] = unknowns.candidates[rest % unknowns.n_candidates];
        scope_attempt(onnx->ctx);
        status = infer_numbers(onnx, given, &unknowns, out_n, out);
        const bool is_forgiven = status == STATUS_INVALID_ARGUMENT || status == STATUS_UNSUPPORTED;
        status = scope_attempt_end(onnx->ctx, status, is_forgiven);
        if (is_forgiven) status = STATUS_UNSUPPORTED;
    }
    for (int i = 0; status == STATUS_OK && i < *out_n; i++)
        for (int d = 0; d < out[i].rank; d++) out[i].sizes[d] = -1;
    return status;
}

static bool has_unknown_size(onnx_t *onnx, const op_call_t *call)
{
    unknowns_t unknowns;
    return find_unknowns(onnx, call, &unknowns);
}

static status_t infer_known(onnx_t *onnx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    bool is_pinned = false;
    char why[CONTEXT_ERROR_MAX];
    scope_attempt(onnx->ctx);
    status_t status = dispatch_infer_symbolic(onnx->ctx, call, out_n, out, &is_pinned);
    const bool is_again = status == STATUS_UNSUPPORTED && has_unknown_size(onnx, call);
    snprintf(why, sizeof why, "%s", is_again ? context_error(onnx->ctx) : "");
    status = scope_attempt_end(onnx->ctx, status, is_again);
    if (!is_again) return status;
    TRY(sym_status(onnx->ctx));
    status = infer_ranks(onnx, call, out_n, out);
    return status == STATUS_UNSUPPORTED ? context_fail(onnx->ctx, status, "%s", why) : status;
}

/* Infers the results. Treats known tensors as contiguous whatever their strides are, because they
 * will be contiguous in the graph. */
static status_t infer(onnx_t *onnx, const onnx_noted_t *call, int *out_n, tensor_info_t *out)
{
    tensor_info_t infos[OP_MAX_INPUTS];
    const tensor_info_t *in[OP_MAX_INPUTS];
    const void *data[OP_MAX_INPUTS] = {NULL};
    for (int i = 0; i < call->n_in; i++) {
        in[i] = &infos[i];
        infos[i] = (tensor_info_t){.dtype = DTYPE_NONE};
        if (call->in[i] == ITEM_NONE) continue;
        infos[i] = *onnx_info(onnx, call->in[i]);
        bool is_number = infos[i].is_number;
        infos[i] = info_dense(infos[i].dtype, infos[i].rank, infos[i].sizes);
        infos[i].is_number = is_number;
        data[i] = elements_of(onnx, call, i);
    }
    const op_call_t measured = {
        .op = call->op, .attrs = call->attrs, .n_in = call->n_in, .in = in, .data = data};
    *out_n = 0;
    TRY(infer_known(onnx, &measured, out_n, out));
    INVARIANT(*out_n == call->n_out);
    return STATUS_OK;
}

/* ---- running at import ---- */

static status_t check_folded(context_t *ctx, int n, const tensor_info_t *out)
{
    for (int i = 0; i < n; i++)
        if (info_is_sized(&out[i]) && info_bytes(&out[i]) > ONNX_MAX_FOLDED)
            FAIL(ctx, STATUS_UNSUPPORTED, "a constant %s, %zu bytes are the most",
                 info_brief(&out[i]), ONNX_MAX_FOLDED);
    return STATUS_OK;
}

/* Runs the call. Results are dense and owned by the caller. */
static status_t run(onnx_t *onnx, const onnx_noted_t *call, tensor_t **out)
{
    context_t *ctx = onnx->ctx;
    const tensor_t *tensors[OP_MAX_INPUTS] = {NULL};
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    int n = call->n_out;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != ITEM_NONE) tensors[i] = onnx->items[call->in[i]].known;
    TRY(dispatch_run(ctx, call->op, call->attrs, call->n_in, tensors, &n, results));
    status_t status = STATUS_OK;
    for (int i = 0; i < n; i++) {
        scope_take(ctx, results[i]);
        if (status == STATUS_OK) status = tensor_readable(ctx, results[i], &out[i]);
        tensor_drop(results[i]);
    }
    return status;
}

static status_t fold(onnx_t *onnx, int at)
{
    onnx_noted_t *call = &onnx->calls[at];
    tensor_info_t infos[OP_MAX_OUTPUTS];
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    const char *name = NULL;
    bool is_weight = false;
    int n = 0;
    for (int i = 0; i < call->n_in; i++) {
        if (call->in[i] == ITEM_NONE) continue;
        const onnx_item_t *item = &onnx->items[call->in[i]];
        if (name == NULL || (item->is_weight && !is_weight)) name = item->name;
        is_weight = is_weight || item->is_weight;
    }
    TRY(infer(onnx, call, &n, infos));
    TRY(check_folded(onnx->ctx, n, infos));
    call->is_known = true;
    status_t status = run(onnx, call, results);
    for (int i = 0; i < call->n_out; i++) {
        item_t item = ITEM_NONE;
        if (status == STATUS_OK) {
            status = onnx_item_take(onnx, name, results[i], &item);
        } else {
            tensor_drop(results[i]);
        }
        if (status != STATUS_OK) continue;
        onnx->items[item].is_view = (call->op->traits & TRAIT_VIEW) != 0;
        onnx->items[item].is_weight = is_weight &&
                                      dtype_is_floating(tensor_dtype(onnx->items[item].known));
        onnx->items[item].call = at;
        call->out[i] = item;
    }
    return status;
}

/* ---- adding to the graph ---- */

/* Gives new symbols to sizes that depend on elements. */
void onnx_name_sizes(onnx_t *onnx, tensor_info_t *info)
{
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < info->rank; d++)
        sizes[d] = info->sizes[d] == -1 ? onnx_unknown_size(onnx) : info->sizes[d];
    *info = info_dense(info->dtype, info->rank, sizes);
}

static status_t add(onnx_t *onnx, int at)
{
    onnx_noted_t *call = &onnx->calls[at];
    tensor_info_t infos[OP_MAX_OUTPUTS];
    int n = 0;
    TRY(infer(onnx, call, &n, infos));
    for (int i = 0; i < n; i++) {
        item_t out = ITEM_NONE;
        onnx_name_sizes(onnx, &infos[i]);
        TRY(add_result(onnx, at, i, &infos[i], &out));
        TRY(onnx_name_elements(onnx, out));
    }
    return STATUS_OK;
}

/* Copies the operands, and adds ITEM_NONE for optional operands that are omitted at the end. */
static int complete(const opdef_t *op, int n_in, const item_t *in, item_t *out_in)
{
    memcpy(out_in, in, (size_t)n_in * sizeof *in);
    for (; n_in < op->n_operands && op->operands[n_in].is_optional; n_in++)
        out_in[n_in] = ITEM_NONE;
    return n_in;
}

/* True if an attribute is symbolic. */
static bool has_symbols(const onnx_call_t *call)
{
    for (int f = 0; f < call->op->attrs.n_fields; f++)
        for (int i = 0; i < onnx_n_integers(call->op, call->attrs, f); i++)
            if (onnx_is_symbol(*onnx_integer_at(call->op, call->attrs, f, i))) return true;
    return false;
}

status_t onnx_emit_n(onnx_call_t *call, int n_in, const item_t *in, int n_out, item_t *out)
{
    onnx_t *onnx = call->node->onnx;
    TRY(call->status);
    TRY(sym_status(onnx->ctx));
    if (n_in > OP_MAX_INPUTS || n_out > OP_MAX_OUTPUTS)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "%d inputs and %d outputs, %d and %d are the most",
             n_in, n_out, OP_MAX_INPUTS, OP_MAX_OUTPUTS);
    item_t operands[OP_MAX_INPUTS];
    onnx_noted_t noted = {
        .kind = ONNX_CALL_OP, .op = call->op, .attrs = call->attrs, .in = operands};
    int at = 0;
    bool is_known = !has_symbols(call), is_calculated = false;
    noted.n_in = complete(call->op, n_in, in, operands);
    noted.n_out = n_out;
    TRY(onnx_note(onnx, &noted, &at));
    for (int i = 0; i < noted.n_in; i++)
        is_known = is_known && (operands[i] == ITEM_NONE || onnx->items[operands[i]].known != NULL);
    if (is_known) {
        TRY(fold(onnx, at));
    } else {
        TRY(onnx_run_symbols(onnx, at, &is_calculated));
        if (!is_calculated) TRY(add(onnx, at));
    }
    TRY(sym_status(onnx->ctx));
    memcpy(out, onnx->calls[at].out, (size_t)n_out * sizeof *out);
    return STATUS_OK;
}

status_t onnx_op(onnx_node_t *node, const char *op_name, const onnx_set_t *attrs, int n_in,
                 const item_t *in, item_t *out)
{
    onnx_call_t call;
    onnx_call(node, op_name, &call);
    for (const onnx_set_t *set = attrs; set != NULL && set->name != NULL; set++) {
        void *place = NULL;
        const attr_field_t *field = find(&call, set->name, &place);
        if (field == NULL) break;
        if (field->kind == ATTR_INTS || field->kind == ATTR_ARRAY)
            onnx_set_ints(&call, set->name, set->n, set->ints);
        else if (field->kind == ATTR_FLOAT)
            onnx_set_float(&call, set->name, set->number);
        else
            onnx_set_int(&call, set->name, set->value);
    }
    return onnx_emit(&call, n_in, in, out);
}

/* ---- calls that several operators share ---- */

status_t onnx_unary(onnx_node_t *node, const char *op_name, item_t x, item_t *out)
{
    return onnx_op(node, op_name, NULL, 1, &x, out);
}

/* If x has a single known element and the other operand is a value of the graph, converts x to a
 * literal, so that graph passes can fold it. */
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
    TRY(literal(node, a, b, &in[0]));
    TRY(literal(node, b, a, &in[1]));
    return onnx_op(node, op_name, NULL, 2, in, out);
}

status_t onnx_with_number(onnx_node_t *node, const char *op_name, item_t x, double number,
                          item_t *out)
{
    item_t item;
    TRY(onnx_number(node->onnx, number, &item));
    return onnx_binary(node, op_name, x, item, out);
}

status_t onnx_concat(onnx_node_t *node, int n, const item_t *parts, int64_t dim, item_t *out)
{
    *out = parts[0];
    if (n == 1) return STATUS_OK;
    return onnx_op(node, "concat", ONNX_ATTRS(SET("dim", dim)), n, parts, out);
}

status_t onnx_reshape(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out)
{
    const tensor_info_t *info = onnx_info(node->onnx, x);
    *out = x;
    if (shape_equal(info->rank, info->sizes, rank, sizes)) return STATUS_OK;
    return onnx_op(node, "reshape", ONNX_ATTRS(SET_INTS("sizes", rank, sizes)), 1, &x, out);
}

status_t onnx_permute(onnx_node_t *node, item_t x, int n, const int64_t *dims, item_t *out)
{
    bool is_identity = true;
    for (int i = 0; i < n; i++) is_identity = is_identity && dims[i] == i;
    *out = x;
    if (is_identity) return STATUS_OK;
    return onnx_op(node, "permute", ONNX_ATTRS(SET_INTS("dims", n, dims)), 1, &x, out);
}

status_t onnx_expand(onnx_node_t *node, item_t x, int rank, const int64_t *sizes, item_t *out)
{
    const tensor_info_t *info = onnx_info(node->onnx, x);
    *out = x;
    if (shape_equal(info->rank, info->sizes, rank, sizes)) return STATUS_OK;
    return onnx_op(node, "expand", ONNX_ATTRS(SET_INTS("sizes", rank, sizes)), 1, &x, out);
}

status_t onnx_cast(onnx_node_t *node, item_t x, dtype_t dtype, item_t *out)
{
    *out = x;
    if (onnx_info(node->onnx, x)->dtype == dtype) return STATUS_OK;
    return onnx_op(node, "cast", ONNX_ATTRS(SET("dtype", dtype)), 1, &x, out);
}

status_t onnx_slice(onnx_node_t *node, item_t x, int dim, int64_t start, int64_t end, int64_t step,
                    item_t *out)
{
    *out = x;
    bool is_whole = start == 0 && step == 1 && end == onnx_info(node->onnx, x)->sizes[dim];
    if (is_whole) return STATUS_OK;
    return onnx_op(
        node, "slice",
        ONNX_ATTRS(SET("dim", dim), SET("start", start), SET("end", end), SET("step", step)), 1, &x,
        out);
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
    TRY(onnx_vector(node->onnx, NULL, n, index, &in[1]));
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", dim)), 2, in, out);
}
