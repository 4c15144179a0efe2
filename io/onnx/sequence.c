/* Sequences and optionals.
 *
 * If the tensors of a sequence are items, the sequence is an array of these: SequenceAt with a
 * known position returns an item, ConcatFromSequence is a concat. It becomes a list of the graph
 * only if it is a result, a loop carries it, or a position depends on elements. A sequence that is
 * an input or is carried by a loop is always a list, and its operators are builtins.
 *
 * An optional with an element is that element; an optional without one is the literal none. Only an
 * optional that is an input or the result of an If is tested at run time. */
#include "io/onnx/flow_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Maximum number of tensors in a sequence that is an array of items. */
#define MAX_ELEMENTS 4096

static status_t check_sequence(onnx_node_t *node, int input)
{
    const onnx_item_t *item = &node->onnx->items[node->in[input]];
    if (!item->is_sequence || item->is_optional || item->is_none)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is %s, a sequence is needed",
             input, item->is_optional || item->is_none ? "an optional" : "a tensor");
    return STATUS_OK;
}

static status_t check_tensor(onnx_node_t *node, int input)
{
    if (onnx_is_special(node->onnx, node->in[input]))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is no tensor, one is needed",
             input);
    return STATUS_OK;
}

/* Records a builtin that returns a list; `element` describes its tensors. */
static status_t call_list(onnx_node_t *node, const char *builtin, int n_in, const item_t *in,
                          const tensor_info_t *element, item_t *out)
{
    TRY(onnx_builtin(node, builtin, n_in, in, out));
    node->onnx->items[*out].is_sequence = true;
    onnx_set_element(node->onnx, *out, element);
    return STATUS_OK;
}

/* Records a builtin that returns a tensor; sizes of -1 depend on elements. */
static status_t call_tensor(onnx_node_t *node, const char *builtin, int n_in, const item_t *in,
                            const tensor_info_t *given, item_t *out)
{
    onnx_t *onnx = node->onnx;
    tensor_info_t info = *given;
    if (info.dtype == DTYPE_NONE || info.rank < 0)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "tensors of the sequence have %s at import",
             info.rank == ONNX_RANK_ANY ? "different ranks" : "no dtype and rank that are known");
    TRY(onnx_builtin(node, builtin, n_in, in, out));
    onnx_name_sizes(onnx, &info);
    onnx->items[*out].info = info;
    return onnx_name_elements(onnx, *out);
}

static status_t give_bool(onnx_node_t *node, bool is_true, item_t *out)
{
    tensor_t *tensor = NULL;
    TRY(tensor_full(node->onnx->ctx, DTYPE_BOOL, 0, NULL, is_true, &tensor));
    scope_take(node->onnx->ctx, tensor);
    return onnx_item_take(node->onnx, NULL, tensor, out);
}

static status_t give_integer(onnx_node_t *node, int64_t number, item_t *out)
{
    tensor_t *tensor = NULL;
    TRY(tensor_from(node->onnx->ctx, DTYPE_S64, 0, NULL, &number, &tensor));
    scope_take(node->onnx->ctx, tensor);
    return onnx_item_take(node->onnx, NULL, tensor, out);
}

/* ---- positions ---- */

/* Reads the position from a known input. If the input is absent, the position is that of the last
 * tensor, or with takes_end the end. */
static status_t read_place(onnx_node_t *node, int input, int n, bool takes_end, int *out_place)
{
    int64_t place = takes_end ? n : n - 1;
    int n_given = 0;
    TRY(onnx_input_ints(node, input, "the position", 1, &n_given, &place));
    if (n_given == 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "the position has no element");
    if (place < -(int64_t)n || place >= n + takes_end)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "position %lld of a sequence of %d, %d to %d is needed", (long long)place, n, -n,
             n - !takes_end);
    *out_place = (int)(place < 0 ? place + n : place);
    return STATUS_OK;
}

/* True if the position and the sequence's tensors are known. */
static bool is_resolved(const onnx_node_t *node, int place_input, int *out_n,
                        const item_t **out_items)
{
    const bool is_place = !onnx_has(node, place_input) ||
                          node->onnx->items[node->in[place_input]].known != NULL;
    return onnx_is_listed(node->onnx, node->in[0], out_n, out_items) && is_place;
}

/* Inserts `put` at a position or, if `put` is ITEM_NONE, removes the item there. */
static status_t change(onnx_node_t *node, int n, const item_t *items, int place, item_t put)
{
    onnx_t *onnx = node->onnx;
    item_t *changed = NULL;
    int n_changed = 0;
    if (n >= MAX_ELEMENTS)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "a sequence of more than %d tensors", MAX_ELEMENTS);
    TRY(context_get(onnx->ctx, (size_t)(n + 1) * sizeof *changed, "a sequence", &changed));
    for (int i = 0; i <= n; i++) {
        if (i == place && put != ITEM_NONE) changed[n_changed++] = put;
        if (i < n && (i != place || put != ITEM_NONE)) changed[n_changed++] = items[i];
    }
    FINISH(
        onnx_sequence(node, onnx->items[node->in[0]].info.dtype, n_changed, changed, &node->out[0]),
        context_put(onnx->ctx, changed));
}

status_t onnx_sequence_item(onnx_node_t *node, item_t list, item_t place, item_t *out)
{
    const tensor_info_t element = *onnx_info(node->onnx, list);
    return call_tensor(node, "index", 2, (item_t[]){list, place}, &element, out);
}

status_t onnx_sequence_insert(onnx_node_t *node, item_t list, item_t tensor, item_t place,
                              item_t *out)
{
    const tensor_info_t before = onnx_element_info(node->onnx, list);
    const tensor_info_t one = onnx_element_info(node->onnx, tensor);
    const tensor_info_t element = onnx_join_elements(&before, &one);
    return call_list(node, "insert", 3, (item_t[]){list, tensor, place}, &element, out);
}

/* ---- operators ---- */

status_t onnx_import_sequence_construct(onnx_node_t *node)
{
    TRY(onnx_check_inputs(node, 0, node->n_in));
    for (int i = 0; i < node->n_in; i++) TRY(check_tensor(node, i));
    return onnx_sequence(node, DTYPE_NONE, node->n_in, node->in, &node->out[0]);
}

status_t onnx_import_sequence_empty(onnx_node_t *node)
{
    int64_t to = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    dtype_t dtype;
    TRY(onnx_attr_int(node, "dtype", to, &to));
    TRY(onnx_dtype(node->onnx->ctx, to, &dtype));
    return onnx_sequence(node, dtype, 0, NULL, &node->out[0]);
}

status_t onnx_import_sequence_insert(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    const item_t *items;
    int n = 0, place = 0;
    TRY(check_sequence(node, 0));
    TRY(check_tensor(node, 1));
    if (onnx_has(node, 2)) TRY(check_tensor(node, 2));
    TRY(onnx_check_integers(node, 2, "the position"));
    const tensor_info_t list = onnx_element_info(onnx, node->in[0]);
    const tensor_info_t one = onnx_element_info(onnx, node->in[1]);
    if (list.dtype != DTYPE_NONE && list.dtype != one.dtype)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "%s into a sequence of %s", dtype_name(one.dtype),
             dtype_name(list.dtype));
    if (is_resolved(node, 2, &n, &items)) {
        TRY(read_place(node, 2, n, true, &place));
        return change(node, n, items, place, node->in[1]);
    }
    return onnx_sequence_insert(node, node->in[0], node->in[1],
                                onnx_has(node, 2) ? node->in[2] : ITEM_NONE, &node->out[0]);
}

status_t onnx_import_sequence_erase(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    const item_t *items;
    int n = 0, place = 0;
    TRY(check_sequence(node, 0));
    if (onnx_has(node, 1)) TRY(check_tensor(node, 1));
    TRY(onnx_check_integers(node, 1, "the position"));
    if (is_resolved(node, 1, &n, &items)) {
        TRY(read_place(node, 1, n, false, &place));
        return change(node, n, items, place, ITEM_NONE);
    }
    item_t in[2] = {node->in[0], onnx_has(node, 1) ? node->in[1] : ITEM_NONE};
    const tensor_info_t element = onnx_element_info(onnx, node->in[0]);
    if (in[1] == ITEM_NONE) TRY(give_integer(node, -1, &in[1]));
    return call_list(node, "erase", 2, in, &element, &node->out[0]);
}

status_t onnx_import_sequence_at(onnx_node_t *node)
{
    const item_t *items;
    int n = 0, place = 0;
    TRY(check_sequence(node, 0));
    TRY(check_tensor(node, 1));
    TRY(onnx_check_integers(node, 1, "the position"));
    if (is_resolved(node, 1, &n, &items)) {
        TRY(read_place(node, 1, n, false, &place));
        node->out[0] = items[place];
        return STATUS_OK;
    }
    return onnx_sequence_item(node, node->in[0], node->in[1], &node->out[0]);
}

/* Converts a number of the graph (`len`, a comparison) to a tensor, by applying operator `op` to
 * the number and a known tensor. */
static status_t make_tensor(onnx_node_t *node, const char *op, item_t number, dtype_t dtype,
                            item_t known, item_t *out)
{
    tensor_info_t info = info_dense(dtype, 0, NULL);
    info.is_number = true;
    node->onnx->items[number].info = info;
    return onnx_op(node, op, NULL, 2, (item_t[]){known, number}, out);
}

status_t onnx_import_sequence_length(onnx_node_t *node)
{
    const item_t *items;
    int n = 0;
    item_t length, zero;
    TRY(check_sequence(node, 0));
    if (onnx_is_listed(node->onnx, node->in[0], &n, &items))
        return give_integer(node, n, &node->out[0]);
    TRY(onnx_builtin(node, "len", 1, node->in, &length));
    TRY(give_integer(node, 0, &zero));
    return make_tensor(node, "add", length, DTYPE_S64, zero, &node->out[0]);
}

/* ---- splitting and joining ---- */

/* Reads the sizes of the pieces. Input `split` is a number (size of each piece; the last may be
 * smaller) or a vector (one size each). Without this input, each piece has size 1. */
static status_t count_pieces(onnx_node_t *node, int64_t size, int *out_n, int64_t *pieces)
{
    context_t *ctx = node->onnx->ctx;
    int n = 0;
    TRY(onnx_input_ints(node, 1, "split", MAX_ELEMENTS, &n, pieces));
    if (n < 0 || onnx_input_info(node, 1).rank == 0) { /* equal pieces */
        const int64_t piece = n < 0 ? 1 : sym_pin(ctx, pieces[0]);
        size = sym_pin(ctx, size);
        TRY(sym_status(ctx));
        if (piece < 1 || (size - 1) / piece >= MAX_ELEMENTS)
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a size of %lld in pieces of %lld", (long long)size,
                 (long long)piece);
        n = (int)(size / piece + (size % piece != 0));
        for (int i = 0; i < n; i++) pieces[i] = size - i * piece < piece ? size - i * piece : piece;
    }
    *out_n = n;
    return onnx_check_pieces(node, n, pieces, size);
}

/* Splits into pieces. Without input `split`, keepdims 0 removes the dimension. */
static status_t split(onnx_node_t *node, int axis, int64_t *pieces, item_t *items)
{
    const int64_t size = onnx_input_info(node, 0).sizes[axis];
    int64_t start = 0, dim = axis;
    int n = 0;
    bool keeps = true;
    TRY(onnx_attr_bool(node, "keepdims", true, &keeps));
    TRY(count_pieces(node, size, &n, pieces));
    for (int i = 0; i < n; i++) {
        const int64_t end = sym_add(node->onnx->ctx, start, pieces[i]);
        TRY(onnx_slice(node, node->in[0], axis, start, end, 1, &items[i]));
        start = end;
        if (keeps || onnx_has(node, 1)) continue;
        TRY(onnx_op(node, "squeeze", ONNX_ATTRS(SET_INTS("dims", 1, &dim)), 1, &items[i],
                    &items[i]));
    }
    return onnx_sequence(node, onnx_input_info(node, 0).dtype, n, items, &node->out[0]);
}

status_t onnx_import_split_to_sequence(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    int axis = 0;
    int64_t *pieces = NULL;
    TRY(check_tensor(node, 0));
    if (onnx_has(node, 1)) TRY(check_tensor(node, 1));
    const int rank = onnx_input_info(node, 0).rank;
    if (rank == 0) FAIL(ctx, STATUS_INVALID_ARGUMENT, "x is of rank 0");
    TRY(onnx_dim(node, "axis", rank, 0, &axis));
    TRY(context_get(ctx, MAX_ELEMENTS * (sizeof *pieces + sizeof(item_t)), "pieces", &pieces));
    FINISH(split(node, axis, pieces, (item_t *)(void *)(pieces + MAX_ELEMENTS)),
           context_put(ctx, pieces));
}

/* Concatenates with several calls if an operator cannot take all items at once. */
static status_t concat(onnx_node_t *node, int dim, int n, item_t *items, item_t *out)
{
    while (n > 1) {
        int n_joined = 0;
        for (int from = 0; from < n; from += OP_MAX_INPUTS) {
            const int n_in = n - from < OP_MAX_INPUTS ? n - from : OP_MAX_INPUTS;
            onnx_call_t call;
            item_t joined = items[from];
            onnx_call(node, "concat", &call);
            onnx_set_int(&call, "dim", dim);
            if (n_in > 1) TRY(onnx_emit(&call, n_in, &items[from], &joined));
            items[n_joined++] = joined;
        }
        n = n_joined;
    }
    *out = items[0];
    return STATUS_OK;
}

static status_t join_known(onnx_node_t *node, int dim, bool is_new, int n, const item_t *items)
{
    context_t *ctx = node->onnx->ctx;
    item_t *pieces = NULL;
    const int64_t dims = dim;
    status_t status = STATUS_OK;
    if (n == 0)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "the sequence is empty, one tensor is needed to know dtype and sizes");
    TRY(context_get(ctx, (size_t)n * sizeof *pieces, "pieces", &pieces));
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        onnx_call_t call;
        pieces[i] = items[i];
        onnx_call(node, "unsqueeze", &call);
        onnx_set_ints(&call, "dims", 1, &dims);
        if (is_new) status = onnx_emit(&call, 1, &items[i], &pieces[i]);
    }
    if (status == STATUS_OK) status = concat(node, dim, n, pieces, &node->out[0]);
    context_put(ctx, pieces);
    return status;
}

/* Describes the tensor that joining a list returns; its size along the axis is unknown. */
static tensor_info_t joined_info(const tensor_info_t *element, int dim, bool is_new)
{
    tensor_info_t info = *element;
    if (is_new) {
        info.rank++;
        for (int d = info.rank - 1; d > dim; d--) info.sizes[d] = info.sizes[d - 1];
    }
    info.sizes[dim] = -1;
    return info;
}

status_t onnx_import_concat_from_sequence(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    bool is_new = false;
    int dim = 0, n = 0;
    const item_t *items;
    item_t in[2] = {node->in[0], ITEM_NONE};
    TRY(check_sequence(node, 0));
    TRY(onnx_attr_bool(node, "new_axis", false, &is_new));
    const tensor_info_t element = *onnx_info(onnx, node->in[0]);
    const int rank = element.rank + is_new;
    if (!onnx_has_attr(node, "axis")) FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "axis is missing");
    if (element.rank >= 0 && (rank == 0 || rank > TENSOR_MAX_RANK))
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "tensors of rank %d", element.rank);
    TRY(element.rank >= 0 ? onnx_dim(node, "axis", rank, 0, &dim) : STATUS_OK);
    if (onnx_is_listed(onnx, node->in[0], &n, &items))
        return join_known(node, dim, is_new, n, items);
    const tensor_info_t info = element.rank >= 0 ? joined_info(&element, dim, is_new) : element;
    TRY(onnx_integer(onnx, dim, &in[1]));
    return call_tensor(node, is_new ? "stack" : "join", 2, in, &info, &node->out[0]);
}

/* ---- optionals ---- */

/* Returns the literal none. The attribute `type` says whether it is an optional of a sequence or
 * of a tensor. */
static status_t give_none(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    const Onnx__AttributeProto *attr = onnx_attr(node, "type");
    if (attr == NULL || attr->tp == NULL)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "neither an element nor a type");
    const tensor_info_t info = {.dtype = DTYPE_NONE, .rank = ONNX_RANK_NONE};
    TRY(onnx_value(onnx, NULL, &info, &node->out[0]));
    onnx->items[node->out[0]].is_none = true;
    onnx->items[node->out[0]].is_sequence = attr->tp->value_case ==
                                            ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    return STATUS_OK;
}

status_t onnx_import_optional(onnx_node_t *node)
{
    if (!onnx_has(node, 0)) return give_none(node);
    onnx_attr_ignore(node, "type");
    node->out[0] = node->in[0];
    return STATUS_OK;
}

status_t onnx_import_optional_has_element(onnx_node_t *node)
{
    item_t is_given, no;
    if (!onnx_has(node, 0)) return give_bool(node, false, &node->out[0]);
    const onnx_item_t *item = &node->onnx->items[node->in[0]];
    if (!item->is_optional) return give_bool(node, !item->is_none, &node->out[0]);
    TRY(onnx_builtin(node, "scalar_ne", 2, (item_t[]){node->in[0], ITEM_NONE}, &is_given));
    TRY(give_bool(node, false, &no));
    return make_tensor(node, "logical_or", is_given, DTYPE_BOOL, no, &node->out[0]);
}

status_t onnx_import_optional_get_element(onnx_node_t *node)
{
    const onnx_item_t *item = &node->onnx->items[node->in[0]];
    const tensor_info_t info = *onnx_info(node->onnx, node->in[0]);
    if (item->is_none)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "the optional has no element");
    node->out[0] = node->in[0];
    if (!item->is_optional) return STATUS_OK;
    return item->is_sequence ? call_list(node, "element", 1, node->in, &info, &node->out[0])
                             : call_tensor(node, "element", 1, node->in, &info, &node->out[0]);
}
