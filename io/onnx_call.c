/* Calls of our operators: run at import when all operands are known, else noted for the graph. What
 * trial 0 calls is compared with what the others do. */
#include "io/onnx_node_impl.h"
#include "io/onnx_trial_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "tensor/info_impl.h"
#include "tensor/interrupt_impl.h"
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

/* ---- noting ---- */

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

/* True when attributes differ in integers alone. */
static bool is_alike(const opdef_t *op, const void *a, const void *b)
{
    alignas(max_align_t) unsigned char copy[ONNX_ATTRS_MAX];
    memcpy(copy, a, op->attrs.bytes);
    for (int f = 0; f < op->attrs.n_fields; f++) {
        int n = onnx_n_integers(op, b, f);
        if (n != onnx_n_integers(op, a, f)) return false;
        for (int i = 0; i < n; i++)
            *onnx_integer_at(op, copy, f, i) = *onnx_integer_at(op, b, f, i);
    }
    return attrs_equal(&op->attrs, copy, b);
}

/* Attributes of this trial, where they are others than at trial 0. */
static status_t note_attrs(onnx_t *onnx, const onnx_noted_t *call, onnx_noted_t *noted)
{
    size_t bytes = call->attrs != NULL ? call->op->attrs.bytes : 0;
    void *copy = NULL;
    if (bytes == 0 || attrs_equal(&call->op->attrs, call->attrs, noted->attrs)) return STATUS_OK;
    if (noted->others == NULL)
        TRY(context_get_zeroed(onnx->ctx, (size_t)onnx->n_trials * sizeof *noted->others,
                               "attributes of trials", &noted->others));
    TRY(context_get(onnx->ctx, bytes, "attributes of a trial", &copy));
    memcpy(copy, call->attrs, bytes);
    context_put(onnx->ctx, noted->others[onnx->trial]);
    noted->others[onnx->trial] = copy;
    return STATUS_OK;
}

static bool is_same_call(const onnx_noted_t *a, const onnx_noted_t *b)
{
    if (a->kind != b->kind || a->builtin != b->builtin || a->op != b->op || a->n_in != b->n_in ||
        a->n_out != b->n_out ||
        (a->n_in > 0 && memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) != 0))
        return false;
    return a->kind != ONNX_CALL_OP || is_alike(a->op, a->attrs, b->attrs);
}

status_t onnx_note(onnx_t *onnx, const onnx_noted_t *call, int *out_call)
{
    if (onnx->trial > 0) {
        *out_call = onnx->next_call;
        onnx->differs = onnx->next_call >= onnx->n_calls ||
                        !is_same_call(call, &onnx->calls[onnx->next_call]);
        if (onnx->differs) return STATUS_UNSUPPORTED;
        return note_attrs(onnx, call, &onnx->calls[onnx->next_call++]);
    }
    TRY(context_grow(onnx->ctx, &onnx->calls, &onnx->calls_capacity, onnx->n_calls + 1,
                     sizeof *onnx->calls));
    TRY(make_note(onnx, call, &onnx->calls[onnx->n_calls]));
    onnx->calls[onnx->n_calls].proto = onnx->proto;
    onnx->calls[onnx->n_calls].first_data = onnx->n_data;
    *out_call = onnx->n_calls++;
    return STATUS_OK;
}

void onnx_cut_calls(onnx_t *onnx, int first)
{
    for (int i = first; i < onnx->n_calls; i++) {
        onnx_noted_t *call = &onnx->calls[i];
        for (int k = 0; call->others != NULL && k < onnx->n_trials; k++)
            context_put(onnx->ctx, call->others[k]);
        context_put(onnx->ctx, call->others);
        context_put(onnx->ctx, call->sized);
        context_put(onnx->ctx, call->message);
        context_put(onnx->ctx, call->attrs);
    }
    if (first >= onnx->n_calls) return;
    onnx->n_data = onnx->calls[first].first_data;
    onnx->n_calls = first;
}

onnx_noted_t *onnx_call_of(const onnx_t *onnx, item_t item, const char *op_name)
{
    const int at = item != ITEM_NONE ? onnx->items[item].call : -1;
    if (at < 0 || onnx->calls[at].kind != ONNX_CALL_OP) return NULL;
    return strcmp(onnx->calls[at].op->name, op_name) == 0 ? &onnx->calls[at] : NULL;
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
    if (onnx->trial == 0) {
        TRY(onnx_value(onnx, NULL, &(tensor_info_t){.dtype = DTYPE_NONE}, out));
        onnx->items[*out].call = at;
        onnx->calls[at].out[0] = *out;
    }
    *out = onnx->calls[at].out[0];
    return STATUS_OK;
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
    return onnx_set_element(onnx, *out, &element);
}

status_t onnx_sizes(onnx_node_t *node, item_t x, item_t *out)
{
    onnx_t *onnx = node->onnx;
    const tensor_info_t *info = onnx_info(onnx, x);
    int at = 0;
    tensor_t *sizes = NULL;
    if (!onnx_varies(onnx, x)) return onnx_vector(onnx, NULL, info->rank, info->sizes, out);
    TRY(onnx_note(onnx,
                  &(onnx_noted_t){.kind = ONNX_CALL_BUILTIN,
                                  .builtin = "shape",
                                  .is_known = true,
                                  .n_in = 1,
                                  .in = &x,
                                  .n_out = 1},
                  &at));
    TRY(tensor_from(onnx->ctx, DTYPE_S64, 1, (int64_t[]){info->rank}, info->sizes, &sizes));
    scope_take(onnx->ctx, sizes);
    item_t *item = &onnx->calls[at].out[0];
    if (onnx->trial == 0) {
        TRY(onnx_item_take(onnx, NULL, sizes, item));
        onnx->items[*item].call = at;
    } else {
        TRY(onnx_set_known_take(onnx, *item, sizes));
    }
    *out = *item;
    return STATUS_OK;
}

status_t onnx_known_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item)
{
    int at = 0;
    status_t status = onnx_note(onnx, &(onnx_noted_t){.kind = ONNX_CALL_KNOWN, .n_out = 1}, &at);
    if (status != STATUS_OK) {
        tensor_drop(tensor);
        return status;
    }
    item_t *item = &onnx->calls[at].out[0];
    TRY(onnx->trial == 0 ? onnx_item_take(onnx, name, tensor, item)
                         : onnx_set_known_take(onnx, *item, tensor));
    *out_item = *item;
    return STATUS_OK;
}

/* ---- inference ---- */

/* The item's tensor in this trial, or what stands for it; NULL: neither. */
static tensor_t *data_of(const onnx_t *onnx, item_t item)
{
    tensor_t *known = onnx->items[item].known != NULL ? onnx_tensor_of(onnx, item) : NULL;
    return known != NULL ? known : onnx_stand_of(onnx, item);
}

/* The elements of this operand are sizes and bounds, not what the operator works on. */
static bool says_sizes(const opdef_t *op, int operand)
{
    return op->fixed != NULL ? operand >= op->fixed->n_kept : strcmp(op->name, "range") == 0;
}

/* With the elements that are known, and where `uses_stands` those that stand for others, as far as
 * they lie in rows. */
static status_t infer_with(onnx_t *onnx, const onnx_noted_t *call, const void *attrs,
                           const tensor_info_t *const *in, bool uses_stands, int *out_n,
                           tensor_info_t *out)
{
    const void *data[OP_MAX_INPUTS] = {NULL};
    for (int i = 0; i < call->n_in; i++) {
        const item_t item = call->in[i];
        const tensor_t *tensor = NULL;
        if (item != ITEM_NONE &&
            ((uses_stands && says_sizes(call->op, i)) || onnx->items[item].known != NULL))
            tensor = data_of(onnx, item);
        if (tensor != NULL && info_is_contiguous(tensor_info(tensor)))
            data[i] = tensor_bytes(tensor);
    }
    op_call_t measured = {
        .op = call->op, .attrs = attrs, .n_in = call->n_in, .in = in, .data = data};
    return select_infer(onnx->ctx, &measured, out_n, out);
}

/* Numbers that stand for elements may be impossible together: 6 rows of 6, of what has 24
 * elements. */
static status_t infer_measured(onnx_t *onnx, const onnx_noted_t *call, const void *attrs,
                               const tensor_info_t *const *in, int *out_n, tensor_info_t *out)
{
    alignas(max_align_t) unsigned char normalised[ONNX_ATTRS_MAX];
    TRY(select_attrs(onnx->ctx, call->op, attrs, normalised));
    scope_attempt(onnx->ctx);
    status_t status = infer_with(onnx, call, normalised, in, true, out_n, out);
    const bool is_impossible = status == STATUS_INVALID_ARGUMENT;
    status = scope_attempt_end(onnx->ctx, status, is_impossible);
    return is_impossible ? infer_with(onnx, call, normalised, in, false, out_n, out) : status;
}

/* What the operands are in this trial; a known tensor goes to the graph without gaps. */
static status_t infer(onnx_t *onnx, const onnx_noted_t *call, const void *attrs, int *out_n,
                      tensor_info_t *out)
{
    tensor_info_t infos[OP_MAX_INPUTS];
    const tensor_info_t *in[OP_MAX_INPUTS];
    for (int i = 0; i < call->n_in; i++) {
        in[i] = &infos[i];
        infos[i] = (tensor_info_t){.dtype = DTYPE_NONE};
        if (call->in[i] == ITEM_NONE) continue;
        infos[i] = *onnx_info(onnx, call->in[i]);
        bool is_number = infos[i].is_number;
        infos[i] = info_dense(infos[i].dtype, infos[i].rank, infos[i].sizes);
        infos[i].is_number = is_number;
    }
    *out_n = 0;
    TRY((call->op->traits & TRAIT_MEASURES) != 0
            ? infer_measured(onnx, call, attrs, in, out_n, out)
            : dispatch_infer(onnx->ctx, call->op, attrs, call->n_in, in, out_n, out));
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

/* Dense results, which are ours. */
static status_t run(onnx_t *onnx, const onnx_noted_t *call, const void *attrs, tensor_t **out)
{
    context_t *ctx = onnx->ctx;
    const tensor_t *tensors[OP_MAX_INPUTS] = {NULL};
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    int n = call->n_out;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != ITEM_NONE) tensors[i] = data_of(onnx, call->in[i]);
    TRY(dispatch_run(ctx, call->op, attrs, call->n_in, tensors, &n, results));
    status_t status = STATUS_OK;
    for (int i = 0; i < n; i++) {
        scope_take(ctx, results[i]);
        if (status == STATUS_OK) status = tensor_readable(ctx, results[i], &out[i]);
        tensor_drop(results[i]);
    }
    return status;
}

/* The results of trial 0 are new items. */
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
    TRY(infer(onnx, call, call->attrs, &n, infos));
    TRY(check_folded(onnx->ctx, n, infos));
    status_t status = run(onnx, call, call->attrs, results);
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

/* A result of another shape, or with many elements, cannot be one tensor that is calculated anew:
 * the trial ends, and the node is imported again with this call in the graph. */
static status_t force(onnx_t *onnx, int at)
{
    int index = at - onnx->first_call;
    onnx->differs = index >= ONNX_MAX_FORCED;
    onnx->has_forced = !onnx->differs;
    if (onnx->has_forced) onnx->is_forced[index] = true;
    return STATUS_UNSUPPORTED;
}

/* The results of another trial belong to the items of trial 0. */
static status_t fold_again(onnx_t *onnx, int at, const void *attrs)
{
    const onnx_noted_t *call = &onnx->calls[at];
    tensor_info_t infos[OP_MAX_OUTPUTS];
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    bool differs = call->others != NULL && call->others[onnx->trial] != NULL;
    int n = 0;
    for (int i = 0; i < call->n_in && !differs; i++)
        differs = call->in[i] != ITEM_NONE && onnx_differs(onnx, call->in[i], onnx->trial);
    if (!differs) return STATUS_OK;
    TRY(infer(onnx, call, attrs, &n, infos));
    for (int i = 0; i < n; i++) {
        const tensor_info_t *first = tensor_info(onnx->items[call->out[i]].known);
        if (!shape_equal(first->rank, first->sizes, infos[i].rank, infos[i].sizes) ||
            info_numel(&infos[i]) > ONNX_MAX_VARYING)
            return force(onnx, at);
    }
    status_t status = run(onnx, call, attrs, results);
    for (int i = 0; i < call->n_out; i++) {
        if (status == STATUS_OK) {
            status = onnx_set_known_take(onnx, call->out[i], results[i]);
        } else {
            tensor_drop(results[i]);
        }
    }
    return status;
}

/* ---- adding to the graph ---- */

/* Sizes that depend on elements become numbers that stand for them. */
status_t onnx_stand_in(onnx_t *onnx, int *data, tensor_info_t *info)
{
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < info->rank; d++)
        sizes[d] = info->sizes[d] < 0 ? onnx_data_size(onnx, (*data)++) : info->sizes[d];
    TRY(shape_check(onnx->ctx, "sizes that depend on elements", info->dtype, info->rank, sizes));
    *info = info_dense(info->dtype, info->rank, sizes);
    if (onnx->trial == 0 && *data > onnx->n_data) onnx->n_data = *data;
    return STATUS_OK;
}

static bool has_data(const onnx_t *onnx, const onnx_noted_t *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != ITEM_NONE && data_of(onnx, call->in[i]) == NULL) return false;
    return true;
}

/* What stands for results: what the operator makes of what stands for its operands, else numbers of
 * their own. */
static status_t add_stands(onnx_t *onnx, int at, const void *attrs, const tensor_info_t *infos,
                           int *data)
{
    const onnx_noted_t *call = &onnx->calls[at];
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    bool is_needed = false, is_run = false;
    for (int i = 0; i < call->n_out; i++) is_needed = is_needed || onnx_needs_stand(&infos[i]);
    if (!is_needed) return STATUS_OK;
    if (onnx_is_smooth(call->op) && has_data(onnx, call)) {
        scope_attempt(onnx->ctx);
        status_t status = run(onnx, call, attrs, results);
        bool is_forgiven = status != STATUS_OK && !interrupt_is_final(status);
        is_run = status == STATUS_OK;
        status = scope_attempt_end(onnx->ctx, status, is_forgiven);
        if (!is_forgiven) TRY(status);
    }
    status_t status = STATUS_OK;
    for (int i = 0; i < call->n_out; i++) {
        const bool is_its = is_run &&
                            shape_equal(infos[i].rank, infos[i].sizes, tensor_rank(results[i]),
                                        tensor_sizes(results[i]));
        if (!is_its || !onnx_needs_stand(&infos[i])) {
            tensor_drop(results[i]);
            results[i] = NULL;
        }
        if (status != STATUS_OK || !onnx_needs_stand(&infos[i])) {
            tensor_drop(results[i]);
            continue;
        }
        status = results[i] != NULL ? onnx_set_stand_take(onnx, call->out[i], results[i])
                                    : onnx_make_stand(onnx, call->out[i], &infos[i], data);
    }
    return status;
}

static status_t add(onnx_t *onnx, int at, const void *attrs)
{
    onnx_noted_t *call = &onnx->calls[at];
    tensor_info_t infos[OP_MAX_OUTPUTS];
    int n = 0, data = call->first_data;
    TRY(infer(onnx, call, attrs, &n, infos));
    for (int i = 0; i < n; i++) {
        TRY(onnx_stand_in(onnx, &data, &infos[i]));
        if (onnx->trial > 0) {
            TRY(onnx_set_info(onnx, call->out[i], &infos[i]));
            continue;
        }
        TRY(onnx_value(onnx, NULL, &infos[i], &call->out[i]));
        onnx->items[call->out[i]].call = at;
    }
    return add_stands(onnx, at, attrs, infos, &data);
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
    item_t operands[OP_MAX_INPUTS];
    onnx_noted_t noted = {
        .kind = ONNX_CALL_OP, .op = call->op, .attrs = call->attrs, .in = operands};
    int at = 0;
    noted.n_in = complete(call->op, n_in, in, operands);
    noted.n_out = n_out;
    TRY(onnx_note(onnx, &noted, &at));
    if (onnx->trial == 0) {
        int index = at - onnx->first_call;
        bool is_known = index >= ONNX_MAX_FORCED || !onnx->is_forced[index];
        for (int i = 0; i < noted.n_in; i++)
            is_known = is_known &&
                       (operands[i] == ITEM_NONE || onnx->items[operands[i]].known != NULL);
        onnx->calls[at].is_known = is_known;
        TRY(is_known ? fold(onnx, at) : add(onnx, at, call->attrs));
    } else {
        TRY(onnx->calls[at].is_known ? fold_again(onnx, at, call->attrs)
                                     : add(onnx, at, call->attrs));
    }
    memcpy(out, onnx->calls[at].out, (size_t)n_out * sizeof *out);
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
    if (item->known == NULL || item->is_weight || onnx->items[other].known != NULL ||
        item->is_doubtful || onnx->is_literal || onnx_varies(onnx, x))
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
    if (!node->onnx->is_literal && shape_equal(info->rank, info->sizes, rank, sizes))
        return STATUS_OK;
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
    if (!node->onnx->is_literal && shape_equal(info->rank, info->sizes, rank, sizes))
        return STATUS_OK;
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
    bool is_whole = start == 0 && step == 1 && end == onnx_info(node->onnx, x)->sizes[dim];
    if (is_whole && !node->onnx->is_literal) return STATUS_OK;
    onnx_call_t call;
    onnx_call(node, "slice", &call);
    onnx_set_int(&call, "dim", dim);
    onnx_set_int(&call, "start", start);
    onnx_set_int(&call, "end", end);
    onnx_set_int(&call, "step", step);
    return onnx_emit(&call, 1, &x, out);
}

/* In every trial of a node the calls before this one have given the same items. */
static bool is_before(const onnx_t *onnx, item_t item)
{
    int at = onnx->items[item].call;
    return at < onnx->first_call || at < (onnx->trial == 0 ? onnx->n_calls : onnx->next_call);
}

status_t onnx_transposed(onnx_node_t *node, item_t x, item_t *out)
{
    onnx_t *onnx = node->onnx;
    item_t transposed = onnx->items[x].transposed;
    if (transposed == ITEM_NONE || !is_before(onnx, transposed)) {
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
