/* Loop, Scan, and functions that all operators with blocks share.
 *
 * A block is imported like the graph: node by node, into the same arrays of items and calls. At the
 * end of the block, its names are unbound.
 *
 * Loop and Scan become a `loop`. For each scan output, the loop carries a list, to which the body
 * appends. After the loop, the list's tensors are joined:
 *
 *   LOOP trips, condition, carried, list
 *   calls of the body
 *   append list, result
 *   YIELD condition, carried, list
 *   join list
 *
 * The body is first imported as if carried values kept their initial sizes. If it returns other
 * sizes, these are known only at run time, and the body is imported again with new symbols for
 * them. */
#include "io/onnx/flow_impl.h"

#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- blocks ---- */

status_t onnx_read_block(onnx_node_t *node, const char *name, Onnx__GraphProto **out_graph)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    if (attr == NULL || attr->g == NULL)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s is missing", name);
    *out_graph = attr->g;
    return STATUS_OK;
}

static status_t import_nodes(onnx_t *onnx, Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        TRY(onnx_add_initializer(onnx, graph->initializer[i]));
    return onnx_add_nodes(onnx, graph->n_node, graph->node, NULL);
}

status_t onnx_import_block(onnx_node_t *node, Onnx__GraphProto *graph, int n_bound, int n_results,
                           item_t *results)
{
    onnx_t *onnx = node->onnx;
    if (graph->n_output != (size_t)n_results)
        FAIL(onnx->ctx, STATUS_CORRUPT, "block \"%.64s\" gives %zu results, needs %d",
             graph->name != NULL ? graph->name : "", graph->n_output, n_results);
    const int outer_bound = onnx->first_bound;
    onnx->n_blocks++;
    onnx->first_bound = n_bound;
    status_t status = import_nodes(onnx, graph);
    onnx->first_bound = outer_bound;
    onnx->n_blocks--;
    TRY(status);
    for (int i = 0; i < n_results; i++) {
        const char *name = graph->output[i]->name != NULL ? graph->output[i]->name : "";
        results[i] = onnx_find(onnx, name);
        if (results[i] == ITEM_NONE)
            FAIL(onnx->ctx, STATUS_CORRUPT, "result \"%.64s\" is made by no node", name);
        if (onnx->items[results[i]].is_missing)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED,
                 "result \"%.64s\" is an output that is not supported", name);
    }
    onnx_unbind(onnx, n_bound);
    return STATUS_OK;
}

status_t onnx_yield(onnx_node_t *node, int n_results, item_t *results, int *out_call)
{
    node->onnx->proto = node->proto;
    return onnx_note(node->onnx,
                     &(onnx_noted_t){.kind = ONNX_CALL_YIELD, .n_in = n_results, .in = results},
                     out_call);
}

void onnx_forget(onnx_t *onnx, int first_item)
{
    for (int i = 0; i < first_item; i++)
        if (onnx->items[i].transposed >= first_item) onnx->items[i].transposed = ITEM_NONE;
}

bool onnx_read_bool(const onnx_t *onnx, item_t item)
{
    return dtype_load(DTYPE_BOOL, tensor_bytes(onnx->items[item].known)) != 0;
}

/* ---- Loop and Scan ---- */

typedef struct loop {
    onnx_node_t *node;
    Onnx__GraphProto *body;
    bool is_scan;
    bool is_map;   /* SequenceMap: carries its results, sequences that are empty at first */
    int n_carried; /* number of carried values of the ONNX node, without the lists */
    item_t trips, condition;
    item_t carried[ONNX_MAX_CARRIED];
    bool is_open[ONNX_MAX_CARRIED][TENSOR_MAX_RANK]; /* sizes that change */
    tensor_info_t elements[ONNX_MAX_CARRIED];        /* describes tensors of carried sequences */
    bool is_optional[ONNX_MAX_CARRIED];              /* carried sequences that may be none */
    int n_lists;
    item_t lists[ONNX_MAX_CARRIED]; /* initial, empty lists */
    int n_slices;                   /* Scan: inputs that are read one slice per iteration */
    int64_t slice_axes[ONNX_MAX_CARRIED], slice_directions[ONNX_MAX_CARRIED];
    int64_t list_axes[ONNX_MAX_CARRIED], list_directions[ONNX_MAX_CARRIED];

    /* State of one import of the body. */
    item_t params[ONNX_MAX_CARRIED]; /* parameters for the carried values */
    item_t iteration;                /* s64 [] */
    item_t results[ONNX_MAX_CARRIED + 1];
    int call; /* index of the LOOP */
} loop_t;

/* Creates a known item of one integer or bool. */
static status_t add_known(onnx_t *onnx, dtype_t dtype, int64_t number, item_t *out)
{
    tensor_t *tensor = NULL;
    TRY(tensor_full(onnx->ctx, dtype, 0, NULL, (double)number, &tensor));
    scope_take(onnx->ctx, tensor);
    return onnx_item_take(onnx, NULL, tensor, out);
}

/* Adds a parameter of the body or a result of the loop. Its info is that of `like`, but with new
 * symbols for changing sizes and for elements of short integer vectors. */
static status_t add_param(onnx_t *onnx, item_t like, const bool *is_open, item_t *out)
{
    const tensor_info_t *given = onnx_info(onnx, like);
    tensor_info_t info = info_dense(given->dtype, given->rank, given->sizes);
    for (int d = 0; d < info.rank; d++)
        if (is_open[d]) info.sizes[d] = -1;
    onnx_name_sizes(onnx, &info);
    TRY(onnx_value(onnx, NULL, &info, out));
    return onnx_name_elements(onnx, *out);
}

static bool carries_special(const loop_t *loop, int i)
{
    return onnx_is_special(loop->node->onnx, loop->carried[i]);
}

/* Adds a carried sequence as a parameter of the body or a result of the loop. */
static status_t add_carried_sequence(const loop_t *loop, int i, item_t *out)
{
    onnx_t *onnx = loop->node->onnx;
    TRY(onnx_value(onnx, NULL, &loop->elements[i], out));
    onnx->items[*out].is_sequence = true;
    onnx->items[*out].is_optional = loop->is_optional[i];
    return STATUS_OK;
}

static status_t add_carried_param(loop_t *loop, int i)
{
    onnx_t *onnx = loop->node->onnx;
    if (carries_special(loop, i)) {
        TRY(add_carried_sequence(loop, i, &loop->params[i]));
    } else {
        TRY(add_param(onnx, loop->carried[i], loop->is_open[i], &loop->params[i]));
        for (int d = 0; d < onnx->items[loop->params[i]].info.rank; d++)
            onnx->items[loop->params[i]].is_changing |= loop->is_open[i][d];
    }
    onnx->calls[loop->call].out[loop->n_carried + loop->n_lists + 1 + i] = loop->params[i];
    return STATUS_OK;
}

static status_t add_params(loop_t *loop)
{
    onnx_t *onnx = loop->node->onnx;
    item_t counter, zero;
    onnx_call_t call;
    tensor_info_t index = info_dense(DTYPE_S64, 0, NULL);
    index.is_number = true;
    TRY(onnx_value(onnx, NULL, &index, &counter));
    onnx->calls[loop->call].out[loop->n_carried + loop->n_lists] = counter;
    for (int i = 0; i < loop->n_carried; i++) TRY(add_carried_param(loop, i));
    for (int i = 0; i < loop->n_lists; i++) {
        item_t list;
        TRY(onnx_value(onnx, NULL, &(tensor_info_t){.dtype = DTYPE_NONE}, &list));
        loop->params[loop->n_carried + i] = list;
        onnx->calls[loop->call].out[2 * loop->n_carried + loop->n_lists + 1 + i] = list;
    }
    /* Adding 0 converts the number of the iteration to a tensor. */
    TRY(add_known(onnx, DTYPE_S64, 0, &zero));
    onnx_call(loop->node, "add", &call);
    return onnx_emit(&call, 2, (item_t[]){zero, counter}, &loop->iteration);
}

/* ---- slices of Scan's inputs ---- */

/* The index of the slice: i in iteration i, or n - 1 - i for direction 1. */
static status_t find_place(loop_t *loop, int slice, item_t *out)
{
    onnx_node_t *node = loop->node;
    item_t last, one;
    *out = loop->iteration;
    if (loop->slice_directions[slice] == 0) return STATUS_OK;
    TRY(add_known(node->onnx, DTYPE_S64, 1, &one));
    TRY(onnx_op(node, "sub", NULL, 2, (item_t[]){loop->trips, one}, &last));
    return onnx_op(node, "sub", NULL, 2, (item_t[]){last, loop->iteration}, out);
}

static status_t add_slice(loop_t *loop, int slice, item_t *out)
{
    onnx_node_t *node = loop->node;
    item_t place;
    TRY(find_place(loop, slice, &place));
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", loop->slice_axes[slice])), 2,
                   (item_t[]){node->in[loop->n_carried + slice], place}, out);
}

/* ---- the body ---- */

static status_t bind_input(loop_t *loop, int input, item_t item)
{
    const char *name = loop->body->input[input]->name;
    return name != NULL && *name != '\0' ? onnx_bind(loop->node->onnx, name, item) : STATUS_OK;
}

/* SequenceMap: binds each sequence's tensor of this iteration, and the inputs that are tensors. */
static status_t bind_tensors(loop_t *loop)
{
    onnx_node_t *node = loop->node;
    for (int i = 0; i < node->n_in; i++) {
        item_t item = node->in[i];
        if (node->onnx->items[item].is_sequence)
            TRY(onnx_sequence_item(node, node->in[i], loop->iteration, &item));
        TRY(bind_input(loop, i, item));
    }
    return STATUS_OK;
}

static status_t bind_inputs(loop_t *loop)
{
    onnx_t *onnx = loop->node->onnx;
    item_t goes_on, slice;
    int next = 0;
    if (loop->is_map) return bind_tensors(loop);
    if (!loop->is_scan) {
        TRY(bind_input(loop, next++, loop->iteration));
        TRY(add_known(onnx, DTYPE_BOOL, true, &goes_on));
        TRY(bind_input(loop, next++, goes_on));
    }
    for (int i = 0; i < loop->n_carried; i++) TRY(bind_input(loop, next++, loop->params[i]));
    for (int i = 0; i < loop->n_slices; i++) {
        TRY(add_slice(loop, i, &slice));
        TRY(bind_input(loop, next++, slice));
    }
    return STATUS_OK;
}

/* Appends the iteration's scan outputs to the lists. */
static status_t append_results(loop_t *loop, const item_t *collected)
{
    for (int i = 0; i < loop->n_lists; i++) {
        item_t in[2] = {loop->params[loop->n_carried + i], ITEM_NONE};
        int64_t dim = 0;
        onnx_call_t call;
        onnx_call(loop->node, "unsqueeze", &call);
        onnx_set_ints(&call, "dims", 1, &dim);
        TRY(onnx_emit(&call, 1, &collected[i], &in[1]));
        TRY(onnx_builtin(loop->node, "append", 2, in, NULL));
        loop->results[1 + loop->n_carried + i] = in[0];
    }
    return STATUS_OK;
}

/* SequenceMap: appends the iteration's results to the sequences. */
static status_t insert_results(loop_t *loop, const item_t *given)
{
    onnx_node_t *node = loop->node;
    onnx_t *onnx = node->onnx;
    for (int i = 0; i < loop->n_carried; i++) {
        if (onnx_is_special(onnx, given[i]))
            FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "result %d of the body is not a tensor", i);
        onnx->proto = node->proto;
        TRY(onnx_sequence_insert(node, loop->params[i], given[i], ITEM_NONE,
                                 &loop->results[1 + i]));
    }
    return STATUS_OK;
}

static status_t import_body(loop_t *loop)
{
    onnx_node_t *node = loop->node;
    onnx_t *onnx = node->onnx;
    const int n = loop->n_carried + loop->n_lists, n_bound = onnx->n_bound;
    const int n_results = n + (loop->is_scan || loop->is_map ? 0 : 1), first_item = onnx->n_items;
    item_t in[ONNX_MAX_CARRIED + 2], given[ONNX_MAX_CARRIED + 1];
    int end = 0;
    in[0] = loop->trips;
    in[1] = loop->condition;
    for (int i = 0; i < loop->n_carried; i++) in[2 + i] = loop->carried[i];
    for (int i = 0; i < loop->n_lists; i++) in[2 + loop->n_carried + i] = loop->lists[i];
    onnx->proto = node->proto;
    TRY(onnx_note(
        onnx,
        &(onnx_noted_t){
            .kind = ONNX_CALL_LOOP, .n_in = n + 2, .in = in, .n_results = n, .n_out = 2 * n + 1},
        &loop->call));
    const int outer_bound = onnx->first_bound;
    TRY(add_params(loop));
    onnx->first_bound = n_bound;
    status_t status = bind_inputs(loop);
    onnx->first_bound = outer_bound;
    TRY(status);
    TRY(onnx_import_block(node, loop->body, n_bound, n_results, given));
    if (n_results == n) TRY(add_known(onnx, DTYPE_BOOL, true, &loop->results[0]));
    if (loop->is_map) {
        TRY(insert_results(loop, given));
    } else {
        memcpy(&loop->results[n_results == n ? 1 : 0], given,
               (size_t)(n_results - loop->n_lists) * sizeof *given);
    }
    TRY(append_results(loop, &given[n_results - loop->n_lists]));
    TRY(onnx_yield(node, n + 1, loop->results, &end));
    onnx->calls[loop->call].end = end;
    onnx_forget(onnx, first_item);
    return STATUS_OK;
}

/* Finds out if the body changes dtype or sizes of the tensors in a carried sequence. */
static status_t find_other_elements(loop_t *loop, int i, bool *changed)
{
    onnx_t *onnx = loop->node->onnx;
    const item_t result = loop->results[1 + i];
    const onnx_item_t *item = &onnx->items[result];
    if (!item->is_sequence || !carries_special(loop, i))
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "value %d is %s, and then %s", i,
             carries_special(loop, i) ? "a sequence" : "a tensor",
             item->is_sequence ? "a sequence" : "a tensor");
    const bool is_optional = loop->is_optional[i] || item->is_optional || item->is_none;
    *changed |= is_optional != loop->is_optional[i];
    loop->is_optional[i] = is_optional;
    const tensor_info_t given = onnx_element_info(onnx, result);
    const tensor_info_t joined = onnx_join_elements(&loop->elements[i], &given);
    *changed |= !onnx_same_elements(&joined, &loop->elements[i]);
    loop->elements[i] = joined;
    return STATUS_OK;
}

/* Marks sizes that differ between the start and the end of the body. */
static status_t find_changes(loop_t *loop, bool *out_changed)
{
    onnx_t *onnx = loop->node->onnx;
    *out_changed = false;
    for (int i = 0; i < loop->n_carried; i++) {
        if (carries_special(loop, i) || onnx_is_special(onnx, loop->results[1 + i])) {
            TRY(find_other_elements(loop, i, out_changed));
            continue;
        }
        const tensor_info_t *in = onnx_info(onnx, loop->params[i]);
        const tensor_info_t *out = onnx_info(onnx, loop->results[1 + i]);
        char brief[INFO_TEXT_MAX];
        if (in->dtype != out->dtype || in->rank != out->rank)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED, "value %d is %s, and then %s", i,
                 info_text(in, brief), info_brief(out));
        for (int d = 0; d < in->rank; d++) {
            const bool is_same = sym_knows_equal(onnx->ctx, in->sizes[d], out->sizes[d]);
            if (is_same || loop->is_open[i][d]) continue;
            loop->is_open[i][d] = *out_changed = true;
        }
    }
    return STATUS_OK;
}

/* ---- results of a loop ---- */

/* Adds output i. Its info is that of its parameter, but with new symbols for changing sizes. */
static status_t add_carried(loop_t *loop, int i)
{
    onnx_t *onnx = loop->node->onnx;
    item_t out = ITEM_NONE;
    TRY(carries_special(loop, i) ? add_carried_sequence(loop, i, &out)
                                 : add_param(onnx, loop->params[i], loop->is_open[i], &out));
    onnx->items[out].call = loop->call;
    onnx->calls[loop->call].out[i] = out;
    if (i < loop->node->n_out) loop->node->out[i] = out;
    return STATUS_OK;
}

/* The number of iterations; -1 if it depends on elements. */
static int64_t count_trips(const loop_t *loop)
{
    const onnx_t *onnx = loop->node->onnx;
    const item_t goes_on = loop->results[0];
    const bool is_counted = loop->trips != ITEM_NONE && loop->condition == ITEM_NONE &&
                            onnx_is_known(onnx, loop->trips) &&
                            onnx->items[goes_on].known != NULL && onnx_read_bool(onnx, goes_on);
    if (!is_counted) return -1;
    const onnx_item_t *trips = &onnx->items[loop->trips];
    const int64_t n = trips->known != NULL ? dtype_load_integer(tensor_dtype(trips->known),
                                                                tensor_bytes(trips->known))
                                           : trips->symbols[0];
    return sym_max(onnx->ctx, n, 0);
}

/* Moves dimension 0, the iterations, to the output's axis. Reverses it for direction 1. */
static status_t turn(loop_t *loop, int list, item_t *item)
{
    onnx_t *onnx = loop->node->onnx;
    const int rank = onnx->items[*item].info.rank;
    int64_t dims[TENSOR_MAX_RANK];
    int axis = 0;
    onnx_call_t call;
    if (!shape_dim(rank, loop->list_axes[list], &axis))
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d",
             (long long)loop->list_axes[list], rank);
    if (loop->list_directions[list] != 0) {
        onnx_call(loop->node, "slice_by", &call);
        onnx_set_int(&call, "step", -1);
        TRY(onnx_emit(&call, 1, item, item));
    }
    if (axis == 0) return STATUS_OK;
    for (int d = 0; d < rank; d++) dims[d] = d < axis ? d + 1 : d == axis ? 0 : d;
    onnx_call(loop->node, "permute", &call);
    onnx_set_ints(&call, "dims", rank, dims);
    return onnx_emit(&call, 1, item, item);
}

static status_t add_collected(loop_t *loop, int i, item_t element)
{
    onnx_node_t *node = loop->node;
    onnx_t *onnx = node->onnx;
    item_t in[3], out;
    TRY(onnx_value(onnx, NULL, &(tensor_info_t){.dtype = DTYPE_NONE}, &in[0]));
    onnx->items[in[0]].call = loop->call;
    onnx->calls[loop->call].out[loop->n_carried + i] = in[0];
    if (loop->n_carried + i >= node->n_out) return STATUS_OK;
    tensor_t *dim = NULL;
    TRY(tensor_integer(onnx->ctx, 0, &dim));
    scope_take(onnx->ctx, dim);
    TRY(onnx_item_take(onnx, NULL, dim, &in[1]));
    onnx->proto = node->proto;
    TRY(onnx_empty(node, element, &in[2]));
    TRY(onnx_builtin(node, "join", in[2] != ITEM_NONE ? 3 : 2, in, &out));
    tensor_info_t info = *onnx_info(onnx, element); /* dimension 0 counts iterations */
    info.sizes[0] = count_trips(loop);
    onnx_name_sizes(onnx, &info);
    onnx->items[out].info = info;
    TRY(turn(loop, i, &out));
    node->out[loop->n_carried + i] = out;
    return STATUS_OK;
}

/* The item that the body appends to a list. */
static item_t appended(const loop_t *loop, int list)
{
    const onnx_t *onnx = loop->node->onnx;
    const onnx_noted_t *call =
        &onnx->calls[onnx->calls[loop->call].end - 2 * (loop->n_lists - list) + 1];
    return call->in[1];
}

/* Describes the carried sequences before the first iteration. */
static status_t begin_elements(loop_t *loop)
{
    onnx_t *onnx = loop->node->onnx;
    for (int i = 0; i < loop->n_carried; i++) {
        const onnx_item_t *item = &onnx->items[loop->carried[i]];
        if (!carries_special(loop, i)) continue;
        if (!item->is_sequence)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED, "value %d is an optional tensor", i);
        loop->is_optional[i] = item->is_optional || item->is_none;
        loop->elements[i] = onnx_element_info(onnx, loop->carried[i]);
    }
    return STATUS_OK;
}

static status_t import_carrying(loop_t *loop)
{
    onnx_t *onnx = loop->node->onnx;
    if (loop->n_carried + loop->n_lists > ONNX_MAX_CARRIED)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "%d values are carried, %d are the most",
             loop->n_carried + loop->n_lists, ONNX_MAX_CARRIED);
    TRY(begin_elements(loop));
    for (int i = 0; i < loop->n_lists; i++)
        TRY(onnx_builtin(loop->node, "list", 0, NULL, &loop->lists[i]));
    const int n_items = onnx->n_items, n_calls = onnx->n_calls, n_bound = onnx->n_bound;
    bool is_again = true;
    while (is_again) {
        TRY(import_body(loop));
        TRY(find_changes(loop, &is_again));
        if (!is_again) continue;
        onnx_unbind(onnx, n_bound);
        onnx_cut_items(onnx, n_items);
        onnx_cut_calls(onnx, n_calls);
    }
    for (int i = 0; i < loop->n_carried; i++) TRY(add_carried(loop, i));
    for (int i = 0; i < loop->n_lists; i++) TRY(add_collected(loop, i, appended(loop, i)));
    return STATUS_OK;
}

status_t onnx_import_loop(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    loop_t loop = {.node = node, .trips = ITEM_NONE, .condition = ITEM_NONE};
    TRY(onnx_read_block(node, "body", &loop.body));
    if (onnx_has(node, 0)) loop.trips = node->in[0];
    if (onnx_has(node, 1)) loop.condition = node->in[1];
    if (loop.condition != ITEM_NONE && onnx->items[loop.condition].known != NULL &&
        onnx_read_bool(onnx, loop.condition))
        loop.condition = ITEM_NONE;
    loop.n_carried = node->n_in > 2 ? node->n_in - 2 : 0;
    if (loop.body->n_input != (size_t)loop.n_carried + 2 ||
        loop.body->n_output < (size_t)loop.n_carried + 1)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT,
             "the body has %zu inputs and %zu results for %d carried value%s", loop.body->n_input,
             loop.body->n_output, loop.n_carried, loop.n_carried == 1 ? "" : "s");
    loop.n_lists = (int)loop.body->n_output - 1 - loop.n_carried;
    TRY(onnx_check_inputs(node, 2, 2 + loop.n_carried));
    for (int i = 0; i < loop.n_carried; i++) loop.carried[i] = node->in[2 + i];
    return import_carrying(&loop);
}

/* ---- Scan ---- */

static status_t read_list(onnx_node_t *node, const char *name, int n, int64_t *out_values)
{
    int n_given = 0;
    for (int i = 0; i < n; i++) out_values[i] = 0;
    TRY(onnx_attr_ints(node, name, ONNX_MAX_CARRIED, &n_given, out_values));
    if (n_given >= 0 && n_given != n)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s has %d numbers, needs %d", name, n_given,
             n);
    return STATUS_OK;
}

/* Sets the trip count, s64 []: the length of the first scan input along its axis. */
static status_t find_length(loop_t *loop)
{
    onnx_node_t *node = loop->node;
    item_t sizes;
    const int64_t axis = loop->slice_axes[0];
    TRY(onnx_sizes(node, node->in[loop->n_carried], &sizes));
    TRY(onnx_op(node, "slice", ONNX_ATTRS(SET("start", axis), SET("end", axis + 1)), 1, &sizes,
                &sizes));
    return onnx_op(node, "reshape", NULL, 1, &sizes, &loop->trips);
}

static status_t read_axes(loop_t *loop)
{
    onnx_node_t *node = loop->node;
    TRY(read_list(node, "scan_input_axes", loop->n_slices, loop->slice_axes));
    TRY(read_list(node, "scan_input_directions", loop->n_slices, loop->slice_directions));
    TRY(read_list(node, "scan_output_axes", loop->n_lists, loop->list_axes));
    TRY(read_list(node, "scan_output_directions", loop->n_lists, loop->list_directions));
    for (int i = 0; i < loop->n_slices; i++) {
        const tensor_info_t info = onnx_input_info(node, loop->n_carried + i);
        int dim = 0;
        if (info.rank == 0 || !shape_dim(info.rank, loop->slice_axes[i], &dim))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d",
                 (long long)loop->slice_axes[i], info.rank);
        loop->slice_axes[i] = dim;
    }
    return STATUS_OK;
}

status_t onnx_import_scan(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    loop_t loop = {.node = node, .is_scan = true, .trips = ITEM_NONE, .condition = ITEM_NONE};
    int64_t n_slices = 0;
    TRY(onnx_read_block(node, "body", &loop.body));
    TRY(onnx_attr_int(node, "num_scan_inputs", 0, &n_slices));
    if (n_slices < 1 || n_slices > node->n_in || loop.body->n_input != (size_t)node->n_in)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "%lld scan inputs of %d, the body has %zu",
             (long long)n_slices, node->n_in, loop.body->n_input);
    loop.n_slices = (int)n_slices;
    loop.n_carried = node->n_in - loop.n_slices;
    if (loop.body->n_output < (size_t)loop.n_carried || node->n_in > ONNX_MAX_CARRIED ||
        loop.body->n_output > ONNX_MAX_CARRIED)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "the body has %zu results for %d state%s",
             loop.body->n_output, loop.n_carried, loop.n_carried == 1 ? "" : "s");
    loop.n_lists = (int)loop.body->n_output - loop.n_carried;
    TRY(onnx_check_inputs(node, 0, node->n_in));
    for (int i = 0; i < loop.n_carried; i++) loop.carried[i] = node->in[i];
    TRY(read_axes(&loop));
    TRY(find_length(&loop));
    return import_carrying(&loop);
}

/* ---- SequenceMap ---- */

status_t onnx_import_sequence_map(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    loop_t loop = {.node = node, .is_map = true, .condition = ITEM_NONE, .n_carried = node->n_out};
    bool is_known = false;
    TRY(onnx_read_block(node, "body", &loop.body));
    if (loop.body->n_input != (size_t)node->n_in)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "the body has %zu inputs for %d",
             loop.body->n_input, node->n_in);
    TRY(onnx_map_known(node, loop.body, &is_known));
    if (is_known) return STATUS_OK;
    TRY(onnx_builtin(node, "len", 1, node->in, &loop.trips));
    for (int i = 0; i < node->n_out; i++)
        TRY(onnx_sequence(node, DTYPE_NONE, 0, NULL, &loop.carried[i]));
    return import_carrying(&loop);
}
