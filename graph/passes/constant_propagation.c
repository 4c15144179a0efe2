#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/passes/pass_impl.h"
#include "graph/program/run_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* Visits nodes in order and runs those whose inputs are constants in the new graph, so results can
 * make later nodes constant. Nodes stay if they write, if their values are written, if their
 * results are too large, or if they fail to run. An if whose condition is known becomes its branch.
 * A loop that never runs becomes its initial values; a loop that runs once becomes its body. The
 * interpreter runs loops that read only constants, within limits. */

#define MAX_BYTES ((size_t)64 << 20)
#define MAX_TRIPS 1024
#define LONG_NAME 120

typedef struct propagation {
    const alias_t *alias;
    datum_t *none;
} propagation_t;

/* ---- nodes that can run ---- */

static bool is_written(const propagation_t *propagation, const graph_node_t *node)
{
    bool written = false;
    for (int i = 0; i < node->n_inputs; i++)
        written |= alias_is_mutated(propagation->alias, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        written |= alias_is_mutated(propagation->alias, node->outputs[i]);
    return written;
}

/* Also true for a builtin without inputs, such as an empty list. */
static bool has_constant_inputs(const rewrite_t *rewrite, const graph_node_t *node)
{
    int n_constants = node->kind == NODE_BUILTIN;
    for (int i = 0; i < node->n_inputs; i++) {
        value_t value = rewrite_value(rewrite, node->inputs[i]);
        if (value == VALUE_NONE) continue;
        if (graph_builder_constant(rewrite->to, value) == NULL) return false;
        n_constants++;
    }
    return n_constants > 0;
}

static size_t bytes_of(const datum_t *datum)
{
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_TENSOR) return info_bytes(tensor_info(datum_as_tensor(datum)));
    size_t bytes = 0;
    if (kind == DATUM_LIST || kind == DATUM_TUPLE || kind == DATUM_DICT) {
        for (int i = 0; i < datum_length(datum); i++) bytes += bytes_of(datum_item(datum, i));
    }
    return bytes;
}

/* Limit of the bytes of a node's results: MAX_BYTES, or the bytes of its operands if these are
 * more, because pass dead_code frees them. */
static size_t limit_of(const rewrite_t *rewrite, const graph_node_t *node)
{
    size_t bytes = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        value_t value = rewrite_value(rewrite, node->inputs[i]);
        if (value != VALUE_NONE) bytes += bytes_of(graph_builder_constant(rewrite->to, value));
    }
    return bytes > MAX_BYTES ? bytes : MAX_BYTES;
}

static bool is_huge(const rewrite_t *rewrite, const graph_node_t *node, size_t limit)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const graph_type_t *type = graph_value_type(rewrite->from, node->outputs[i]);
        if (type->kind != TYPE_TENSOR || !type->has_info) continue;
        int64_t bytes = (int64_t)dtype_size(type->info.dtype);
        for (int d = 0; d < type->info.rank; d++) {
            int64_t size = type->info.sizes[d] < 1 ? 1 : type->info.sizes[d];
            if (!shape_multiply(bytes, size, &bytes)) return true;
        }
        if (bytes > (int64_t)limit) return true;
    }
    return false;
}

static bool can_run(const rewrite_t *rewrite, const graph_node_t *node)
{
    if (node->kind != NODE_OP && node->kind != NODE_BUILTIN) return false;
    if (node->kind == NODE_OP && (node->op->traits & TRAIT_DRAWS) != 0) return false;
    return node->n_outputs > 0 && node->n_sized == 0 && !alias_has_effect(node) &&
           has_constant_inputs(rewrite, node) && !is_written(rewrite->user, node) &&
           !is_huge(rewrite, node, limit_of(rewrite, node));
}

/* ---- running ---- */

/* Makes a constant contiguous. Makes it dense unless its type is mkldnn. */
static status_t settle(context_t *ctx, const graph_type_t *type, datum_t **datum)
{
    if (datum_kind(*datum) != DATUM_TENSOR) return STATUS_OK;
    tensor_t *tensor = datum_as_tensor(*datum);
    tensor_t *settled = NULL;
    if (tensor_layout(tensor) == LAYOUT_DENSE) {
        TRY(tensor_contiguous(ctx, tensor, &settled));
    } else {
        bool stays = type->kind == TYPE_TENSOR && type->has_info &&
                     type->info.layout == LAYOUT_MKLDNN;
        if (stays) return STATUS_OK;
        TRY(to_dense(ctx, tensor, &settled));
    }
    datum_t *replaced = NULL;
    status_t status = datum_tensor(ctx, settled, &replaced);
    scope_take(ctx, settled);
    tensor_drop(settled);
    TRY(status);
    datum_release(*datum);
    *datum = replaced;
    return STATUS_OK;
}

static status_t run_node(rewrite_t *rewrite, const graph_node_t *node, datum_t **in, datum_t **out)
{
    const propagation_t *propagation = rewrite->user;
    for (int i = 0; i < node->n_inputs; i++) {
        value_t value = rewrite_value(rewrite, node->inputs[i]);
        in[i] = value == VALUE_NONE ? propagation->none
                                    : graph_builder_constant(rewrite->to, value);
    }
    if (node->kind == NODE_BUILTIN)
        return run_builtin(rewrite->ctx, node->name, node->n_inputs, in, node->n_outputs, out);
    return run_op(rewrite->ctx, node->op, node->attrs, node->n_inputs, in, WEIGHT_GIVEN, NULL,
                  node->n_outputs, out);
}

/* Adds a constant; scalars become literals. */
static value_t add_constant(rewrite_t *rewrite, datum_t *datum, const char *name)
{
    switch (datum_kind(datum)) {
    case DATUM_NONE:
    case DATUM_INT:
    case DATUM_FLOAT:
    case DATUM_BOOL:
    case DATUM_STRING: return graph_add_literal(rewrite->to, datum);
    default: return graph_add_constant(rewrite->to, datum, name);
    }
}

/* Names a result after its first operand that has a name: "fc.weight" becomes "fc.weight.permute".
 * A long name is not extended; the builder then adds a number. */
static void name_result(const rewrite_t *rewrite, const graph_node_t *node, text_t *name)
{
    for (int i = 0; i < node->n_inputs && node->kind == NODE_OP; i++) {
        const char *origin = graph_builder_name(rewrite->to,
                                                rewrite_value(rewrite, node->inputs[i]));
        if (origin == NULL) continue;
        text_append(name, "%s", origin);
        if (strlen(origin) < LONG_NAME) text_append(name, ".%s", node->op->name);
        return;
    }
}

static status_t add_constants(rewrite_t *rewrite, const graph_node_t *node, datum_t **out)
{
    for (int i = 0; i < node->n_outputs; i++) {
        if (bytes_of(out[i]) > limit_of(rewrite, node))
            FAIL(rewrite->ctx, STATUS_UNSUPPORTED, "the result is too large");
        TRY(settle(rewrite->ctx, graph_value_type(rewrite->from, node->outputs[i]), &out[i]));
    }
    text_t derived = text_begin(rewrite->ctx);
    name_result(rewrite, node, &derived);
    for (int i = 0; i < node->n_outputs; i++) {
        const char *name = rewrite_name(rewrite->from, node->outputs[i]);
        if (name == NULL && derived.length > 0) name = text_string(&derived);
        rewrite_map(rewrite, node->outputs[i], add_constant(rewrite, out[i], name));
    }
    FINISH(text_status(&derived), text_clear(&derived));
}

/* Keeps a node whose run failed. This is not an error, because the node's branch may never run. */
static status_t leave(rewrite_t *rewrite, const graph_node_t *node, status_t status)
{
    if (interrupt_is_final(status)) return status;
    pass_note(rewrite->ctx, "constant_propagation", node, context_error(rewrite->ctx));
    scope_forgive(rewrite->ctx);
    return STATUS_OK;
}

static status_t run_constant(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    context_t *ctx = rewrite->ctx;
    datum_t **in = NULL, **out = NULL;
    size_t n_out = (size_t)node->n_outputs;
    TRY(context_get(ctx, (size_t)node->n_inputs * sizeof *in, "operands", &in));
    status_t status = context_get_zeroed(ctx, n_out * sizeof *out, "results", &out);
    if (status == STATUS_OK) status = run_node(rewrite, node, in, out);
    if (status == STATUS_OK) status = add_constants(rewrite, node, out);
    for (size_t i = 0; out != NULL && i < n_out; i++) datum_release(out[i]);
    CONTEXT_PUT(ctx, out, in);
    if (status != STATUS_OK) return leave(rewrite, node, status);
    *out_done = true;
    return STATUS_OK;
}

/* ---- branches ---- */

/* The constant for an old value; none for an omitted operand; NULL if not constant, or written. */
static datum_t *known_datum(const rewrite_t *rewrite, value_t old)
{
    const propagation_t *propagation = rewrite->user;
    if (alias_is_mutated(propagation->alias, old)) return NULL;
    value_t value = rewrite_value(rewrite, old);
    return value == VALUE_NONE ? propagation->none : graph_builder_constant(rewrite->to, value);
}

static bool find_truth(const rewrite_t *rewrite, value_t condition, bool *out_truth)
{
    const datum_t *datum = known_datum(rewrite, condition);
    if (datum == NULL) return false;
    datum_kind_t kind = datum_kind(datum);
    bool has_truth = kind == DATUM_BOOL || kind == DATUM_INT || kind == DATUM_FLOAT ||
                     (kind == DATUM_TENSOR && tensor_numel(datum_as_tensor(datum)) == 1);
    return has_truth && run_truth(rewrite->ctx, "if", datum, out_truth) == STATUS_OK;
}

/* ---- loops ---- */

/* Maximum number of iterations of a loop; -1 if unknown. */
static int64_t most_trips(const rewrite_t *rewrite, const graph_node_t *loop)
{
    const datum_t *count = known_datum(rewrite, loop->inputs[0]);
    bool begins = true;
    datum_t *condition = known_datum(rewrite, loop->inputs[1]);
    if (condition != NULL && datum_kind(condition) != DATUM_NONE &&
        find_truth(rewrite, loop->inputs[1], &begins) && !begins)
        return 0;
    if (count == NULL) return -1;
    if (datum_kind(count) == DATUM_NONE) return INT64_MAX;
    if (datum_kind(count) == DATUM_INT) return datum_as_int(count) < 0 ? 0 : datum_as_int(count);
    int64_t n = 0;
    if (datum_kind(count) != DATUM_TENSOR || tensor_numel(datum_as_tensor(count)) != 1 ||
        tensor_item_integer(rewrite->ctx, datum_as_tensor(count), &n) != STATUS_OK)
        return -1;
    return n < 0 ? 0 : n;
}

/* True if the trip count and the conditions show that the loop runs exactly once. */
static bool runs_once(const rewrite_t *rewrite, const graph_node_t *loop, int64_t most)
{
    const datum_t *condition = known_datum(rewrite, loop->inputs[1]);
    bool begins = condition != NULL && datum_kind(condition) == DATUM_NONE;
    if (!begins && !find_truth(rewrite, loop->inputs[1], &begins)) return false;
    if (!begins || most < 1) return false;
    const datum_t *again = graph_constant(rewrite->from, loop->blocks[0]->results[0]);
    return most == 1 || (again != NULL && datum_kind(again) == DATUM_BOOL && !datum_as_bool(again));
}

static void skip_loop(rewrite_t *rewrite, const graph_node_t *loop)
{
    for (int i = 0; i < loop->n_outputs; i++)
        rewrite_map(rewrite, loop->outputs[i], rewrite_value(rewrite, loop->inputs[i + 2]));
}

static status_t take_body(rewrite_t *rewrite, const graph_node_t *loop)
{
    const graph_block_t *body = loop->blocks[0];
    datum_t *zero = NULL;
    TRY(datum_int(rewrite->ctx, 0, &zero));
    rewrite_map(rewrite, body->params[0], graph_add_literal(rewrite->to, zero));
    datum_release(zero);
    for (int i = 0; i < loop->n_outputs; i++)
        rewrite_map(rewrite, body->params[i + 1], rewrite_value(rewrite, loop->inputs[i + 2]));
    TRY(rewrite_nodes(rewrite, body));
    for (int i = 0; i < loop->n_outputs; i++)
        rewrite_map(rewrite, loop->outputs[i], rewrite_value(rewrite, body->results[i + 1]));
    return STATUS_OK;
}

/* The values that a loop reads from the graph around it. */
typedef struct reading {
    const rewrite_t *rewrite;
    datum_t **known; /* [n_values] */
    bool all_known;
} reading_t;

static void read_values(reading_t *reading, int n, const value_t *values)
{
    for (int i = 0; i < n; i++) {
        if (values[i] < 0 || !rewrite_is_mapped(reading->rewrite, values[i])) continue;
        reading->known[values[i]] = known_datum(reading->rewrite, values[i]);
        reading->all_known &= reading->known[values[i]] != NULL;
    }
}

static status_t read_node(void *user, const graph_node_t *node)
{
    reading_t *reading = user;
    read_values(reading, node->n_inputs, node->inputs);
    for (int b = 0; b < node->n_blocks; b++)
        read_values(reading, node->blocks[b]->n_results, node->blocks[b]->results);
    reading->all_known &= !is_written(reading->rewrite->user, node) &&
                          !is_huge(reading->rewrite, node, MAX_BYTES);
    return STATUS_OK;
}

static status_t run_loop(rewrite_t *rewrite, const graph_node_t *loop, datum_t **known,
                         bool *out_done)
{
    context_t *ctx = rewrite->ctx;
    datum_t **out = NULL;
    run_limits_t limits = {MAX_TRIPS, limit_of(rewrite, loop)};
    TRY(context_get_zeroed(ctx, (size_t)loop->n_outputs * sizeof *out, "results", &out));
    status_t status = run_known(ctx, rewrite->from, loop, NULL, known, &limits, out);
    if (status == STATUS_OK) status = add_constants(rewrite, loop, out);
    for (int i = 0; i < loop->n_outputs; i++) datum_release(out[i]);
    context_put(ctx, out);
    if (status != STATUS_OK) return leave(rewrite, loop, status);
    *out_done = true;
    return STATUS_OK;
}

static status_t propagate_loop(rewrite_t *rewrite, const graph_node_t *loop, bool *out_done)
{
    context_t *ctx = rewrite->ctx;
    int64_t most = most_trips(rewrite, loop);
    *out_done = most == 0 || runs_once(rewrite, loop, most);
    if (most == 0) skip_loop(rewrite, loop);
    if (*out_done) return most == 0 ? STATUS_OK : take_body(rewrite, loop);
    if (most < 0 || alias_has_effect(loop)) return STATUS_OK;
    reading_t reading = {.rewrite = rewrite, .all_known = true};
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(rewrite->from) * sizeof *reading.known,
                           "values of a loop", &reading.known));
    (void)read_node(&reading, loop);
    for (int b = 0; b < loop->n_blocks; b++)
        (void)rewrite_visit(loop->blocks[b], read_node, &reading);
    FINISH(reading.all_known ? run_loop(rewrite, loop, reading.known, out_done) : STATUS_OK,
           context_put(ctx, reading.known));
}

/* ---- items of containers, and comparisons with none ---- */

/* Index of the item among the operands of the node that made the container; -1 if unknown. */
static int place_of(const rewrite_t *rewrite, const graph_node_t *maker, value_t key)
{
    const datum_t *datum = known_datum(rewrite, key);
    if (datum == NULL) return -1;
    if (rewrite_is_builtin(maker, "list") && datum_kind(datum) == DATUM_INT) {
        int64_t at = datum_as_int(datum), n = maker->n_inputs;
        if (at < 0) at += n;
        return at >= 0 && at < n ? (int)at : -1;
    }
    if (!rewrite_is_builtin(maker, "dict") || datum_kind(datum) != DATUM_STRING) return -1;
    int place = -1;
    for (int i = 0; i < maker->n_inputs; i += 2) {
        const datum_t *name = known_datum(rewrite, maker->inputs[i]);
        if (name == NULL || datum_kind(name) != DATUM_STRING) return -1;
        if (strcmp(datum_as_string(name), datum_as_string(datum)) == 0) place = i + 1;
    }
    return place;
}

/* Replaces an index or unpack of a list or dict that the graph makes and never changes by the
 * items. Pass lower_tuples does this for tuples. */
static bool take_apart(rewrite_t *rewrite, const graph_node_t *node)
{
    bool is_index = rewrite_is_builtin(node, "index"),
         is_unpack = rewrite_is_builtin(node, "unpack");
    if ((!is_index && !is_unpack) || node->inputs[0] < 0 || is_written(rewrite->user, node))
        return false;
    const graph_node_t *maker = graph_producer(rewrite->from, node->inputs[0]);
    if (is_unpack && (!rewrite_is_builtin(maker, "list") || maker->n_inputs != node->n_outputs))
        return false;
    int place = is_index && maker != NULL ? place_of(rewrite, maker, node->inputs[1]) : -1;
    if (is_index && place < 0) return false;
    for (int i = 0; i < node->n_outputs; i++)
        rewrite_map(rewrite, node->outputs[i],
                    rewrite_value(rewrite, maker->inputs[is_index ? place : i]));
    return true;
}

/* Replaces a comparison with none if the other operand's type is known and not optional. */
static status_t compare_with_none(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    bool is_equal = rewrite_is_builtin(node, "scalar_eq");
    if (!is_equal && !rewrite_is_builtin(node, "scalar_ne")) return STATUS_OK;
    for (int i = 0; i < 2; i++) {
        const datum_t *datum = known_datum(rewrite, node->inputs[i]);
        const graph_type_t *other = graph_builder_type(rewrite->to,
                                                       rewrite_value(rewrite, node->inputs[1 - i]));
        if (datum == NULL || datum_kind(datum) != DATUM_NONE || other->is_optional ||
            other->kind == TYPE_UNKNOWN || other->kind == TYPE_NONE)
            continue;
        datum_t *result = NULL;
        TRY(datum_bool(rewrite->ctx, !is_equal, &result));
        rewrite_map(rewrite, node->outputs[0], graph_add_literal(rewrite->to, result));
        datum_release(result);
        *out_done = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* ---- operators with known last operands ---- */

/* The attributes that replace constant operands: reshape_by(x, constant) becomes reshape(x)
 * sizes=.... The caller frees *out_attrs. NULL if nothing can be replaced. */
static status_t fix_attributes(rewrite_t *rewrite, const graph_node_t *node, void **out_attrs)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const op_fixed_t *fixed = node->op->fixed;
    const tensor_info_t *infos[OP_MAX_INPUTS];
    const void *data[OP_MAX_INPUTS] = {NULL};
    for (int i = 0; i < node->n_inputs; i++) {
        const value_t value = rewrite_value(rewrite, node->inputs[i]);
        const graph_type_t *type = graph_builder_type(rewrite->to, value);
        infos[i] = value == VALUE_NONE ? &absent : &type->info;
        if (value == VALUE_NONE) continue;
        if (!type_is_static(type)) return STATUS_OK;
        if (i < fixed->n_kept) continue;
        const datum_t *datum = known_datum(rewrite, node->inputs[i]);
        if (datum == NULL || datum_kind(datum) != DATUM_TENSOR ||
            !info_is_contiguous(tensor_info(datum_as_tensor(datum))))
            return STATUS_OK;
        data[i] = tensor_bytes(datum_as_tensor(datum));
    }
    void *attrs = NULL;
    const op_call_t call = {
        .op = node->op, .attrs = node->attrs, .n_in = node->n_inputs, .in = infos, .data = data};
    TRY(context_get(rewrite->ctx, fixed->op->attrs.bytes, "attributes", &attrs));
    attrs_init(&fixed->op->attrs, attrs);
    status_t status = fixed->attrs(rewrite->ctx, &call, attrs);
    if (status == STATUS_OK)
        *out_attrs = attrs;
    else
        context_put(rewrite->ctx, attrs);
    return status == STATUS_OK ? STATUS_OK : leave(rewrite, node, status);
}

static status_t fix_operator(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    value_t inputs[OP_MAX_INPUTS];
    void *attrs = NULL;
    /* types of an open graph are those of one set of sizes */
    if (node->kind != NODE_OP || node->op->fixed == NULL || graph_has_names(rewrite->from) ||
        is_written(rewrite->user, node))
        return STATUS_OK;
    TRY(fix_attributes(rewrite, node, &attrs));
    if (attrs == NULL) return STATUS_OK;
    graph_node_t fixed = *node;
    fixed.op = node->op->fixed->op;
    fixed.attrs = attrs;
    fixed.n_inputs = node->op->fixed->n_kept;
    for (int i = 0; i < fixed.n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    *out_done = true;
    FINISH(rewrite_emit(rewrite, &fixed, inputs, node->outputs), context_put(rewrite->ctx, attrs));
}

/* Computes integers that depend on an operand's sizes, after its type has become known. */
static status_t fill_sized(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    value_t inputs[OP_MAX_INPUTS];
    if (node->kind != NODE_OP || node->n_sized == 0 || node->n_inputs == 0 ||
        size_has_names(node) || graph_has_names(rewrite->from))
        return STATUS_OK;
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    const graph_type_t *first = graph_builder_type(rewrite->to, inputs[0]);
    if (!type_is_static(first)) return STATUS_OK;
    const size_names_t names = {rewrite->from, NULL};
    graph_node_t filled = *node;
    void *attrs = NULL;
    TRY(context_get(rewrite->ctx, node->op->attrs.bytes, "attributes", &attrs));
    memcpy(attrs, node->attrs, node->op->attrs.bytes);
    status_t status = size_fill(rewrite->ctx, &names, node, &first->info, attrs, NULL);
    filled.attrs = attrs;
    filled.n_sized = 0;
    if (status == STATUS_OK) status = rewrite_emit(rewrite, &filled, inputs, node->outputs);
    context_put(rewrite->ctx, attrs);
    *out_done = status == STATUS_OK;
    return status;
}

/* ---- pass ---- */

static status_t propagate(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    bool truth;
    if (node->kind == NODE_IF && find_truth(rewrite, node->inputs[0], &truth)) {
        *out_done = true;
        return rewrite_branch(rewrite, node, truth);
    }
    if (node->kind == NODE_LOOP) return propagate_loop(rewrite, node, out_done);
    if (can_run(rewrite, node)) return run_constant(rewrite, node, out_done);
    TRY(fill_sized(rewrite, node, out_done));
    if (!*out_done) TRY(fix_operator(rewrite, node, out_done));
    if (!*out_done) *out_done = take_apart(rewrite, node);
    return *out_done ? STATUS_OK : compare_with_none(rewrite, node, out_done);
}

status_t pass_constant_propagation(context_t *ctx, const graph_t *graph,
                                   const pass_options_t *options, graph_t **out_graph)
{
    (void)options;
    propagation_t propagation = {.none = NULL};
    graph_t *result = NULL;
    scope_attempt(ctx); /* the scope does not count a failed run as its failure */
    status_t status = alias_of(ctx, graph, &propagation.alias);
    if (status == STATUS_OK) status = datum_none(ctx, &propagation.none);
    if (status == STATUS_OK) status = rewrite_graph(ctx, graph, propagate, &propagation, &result);
    status = scope_attempt_end(ctx, status, false);
    datum_release(propagation.none);
    if (status == STATUS_OK) *out_graph = result;
    return status;
}
