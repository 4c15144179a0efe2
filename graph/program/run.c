#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/analysis/lifetimes_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/program/plan_impl.h"
#include "graph/program/run_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* What a value is while the graph runs; a module is borrowed. */
typedef struct slot {
    datum_t *datum;
    module_t *module;
    const char *path; /* of the module, for observers */
} slot_t;

/* A run. Values are released after the last node of their own block that uses them, itself or in an
 * inner block. in and out are room for one node's operands. */
typedef struct run {
    context_t *ctx;
    const graph_t *graph;
    const char *name;
    const program_t *program; /* NULL: every node is run by itself */
    slot_t *slots;
    const lifetimes_t *lifetimes;
    const tensor_t **live_in; /* room for the inputs of any region */
    datum_t **in;
    datum_t **out;
    datum_t *none;
    int n_dense;
    datum_t **dense;      /* [n_dense]: what runs in the place of an mkldnn input, or NULL */
    const alias_t *alias; /* tells which constants are written: each run has its own of those */
    const tensor_info_t **infos; /* of inputs */
    bool is_limited;
    run_limits_t limits; /* what is left of them */
} run_t;

/* ---- values ---- */

static void clear_slot(slot_t *slot)
{
    datum_release(slot->datum);
    *slot = (slot_t){0};
}

static slot_t copy_slot(const slot_t *slot)
{
    return (slot_t){datum_retain(slot->datum), slot->module, slot->path};
}

static void release_one(run_t *run, const graph_block_t *block, int index, value_t value)
{
    if (value >= 0 && run->lifetimes->home[value] == block &&
        run->lifetimes->last_use[value] <= index)
        clear_slot(&run->slots[value]);
}

/* Releases what dies at the index-th node of `block`; `node` is that node or one inside it. */
static void release_dead(run_t *run, const graph_block_t *block, int index,
                         const graph_node_t *node)
{
    for (int i = 0; i < node->n_inputs; i++) release_one(run, block, index, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++) release_one(run, block, index, node->outputs[i]);
    for (int b = 0; b < node->n_blocks; b++) {
        const graph_block_t *inner = node->blocks[b];
        for (int i = 0; i < inner->n_nodes; i++) release_dead(run, block, index, inner->nodes[i]);
        for (int i = 0; i < inner->n_results; i++)
            release_one(run, block, index, inner->results[i]);
    }
}

static void clear_block(run_t *run, const graph_block_t *block)
{
    for (int i = 0; i < block->n_params; i++) clear_slot(&run->slots[block->params[i]]);
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        for (int i = 0; i < node->n_outputs; i++) clear_slot(&run->slots[node->outputs[i]]);
    }
}

/* ---- operators ---- */

/* A tensor of ours, which an open scope shall not release as well. */
static void drop(context_t *ctx, tensor_t *tensor)
{
    scope_take(ctx, tensor);
    tensor_drop(tensor);
}

static status_t number_of(context_t *ctx, const char *op, const datum_t *datum, tensor_t **out)
{
    switch (datum_kind(datum)) {
    case DATUM_INT: return tensor_integer(ctx, datum_as_int(datum), out);
    case DATUM_FLOAT: return tensor_number(ctx, datum_as_float(datum), out);
    case DATUM_BOOL: return tensor_full(ctx, DTYPE_BOOL, 0, NULL, datum_as_bool(datum), out);
    default:
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "%s: an operand of kind %s, must be a tensor or a number", op,
             datum_kind_name(datum_kind(datum)));
    }
}

/* Operands on their way into dispatch; `made` marks the numbers, which are ours. */
typedef struct operands {
    int n;
    tensor_t *tensors[OP_MAX_INPUTS];
    bool made[OP_MAX_INPUTS];
} operands_t;

static status_t add_operand(context_t *ctx, const char *op, const datum_t *datum,
                            operands_t *operands)
{
    datum_kind_t kind = datum != NULL ? datum_kind(datum) : DATUM_NONE;
    if (kind == DATUM_LIST || kind == DATUM_TUPLE) {
        for (int i = 0; i < datum_length(datum); i++)
            TRY(add_operand(ctx, op, datum_item(datum, i), operands));
        return STATUS_OK;
    }
    REQUIRE(ctx, operands->n < OP_MAX_INPUTS, "%s: more than %d operands", op, OP_MAX_INPUTS);
    tensor_t *tensor = NULL;
    bool made = false;
    if (kind == DATUM_TENSOR) {
        tensor = datum_as_tensor(datum);
    } else if (kind != DATUM_NONE) {
        TRY(number_of(ctx, op, datum, &tensor));
        made = true;
    }
    operands->tensors[operands->n] = tensor;
    operands->made[operands->n++] = made;
    return STATUS_OK;
}

static status_t run_on_tensors(context_t *ctx, const opdef_t *op, const void *attrs,
                               const operands_t *operands, const format_t *out_format, int n_out,
                               datum_t **out)
{
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    datum_t *datums[OP_MAX_OUTPUTS] = {NULL};
    int n = OP_MAX_OUTPUTS;
    TRY(dispatch_run_as(ctx, op, attrs, operands->n, (const tensor_t *const *)operands->tensors,
                        out_format, &n, results));
    status_t status = STATUS_OK;
    if (n != n_out)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "%s: makes %d tensors, the graph takes %d", op->name, n, n_out);
    for (int i = 0; i < n; i++) {
        if (status == STATUS_OK) status = datum_tensor(ctx, results[i], &datums[i]);
        drop(ctx, results[i]);
    }
    if (status == STATUS_OK) {
        memcpy(out, datums, (size_t)n * sizeof *out);
        return STATUS_OK;
    }
    for (int i = 0; i < n; i++) datum_release(datums[i]);
    return status;
}

status_t run_op(context_t *ctx, const opdef_t *op, const void *attrs, int n_in, datum_t *const *in,
                const format_t *out_format, int n_out, datum_t **out)
{
    operands_t operands = {.n = 0};
    status_t status = STATUS_OK;
    for (int i = 0; i < n_in && status == STATUS_OK; i++)
        status = add_operand(ctx, op->name, in[i], &operands);
    if (status == STATUS_OK)
        status = run_on_tensors(ctx, op, attrs, &operands, out_format, n_out, out);
    for (int i = 0; i < operands.n; i++) {
        if (operands.made[i]) drop(ctx, operands.tensors[i]);
    }
    return status;
}

/* The result of an in-place operator goes into operand 0, which stands for it from then on. */
static status_t write_in_place(context_t *ctx, const graph_node_t *node, datum_t *target,
                               datum_t **result)
{
    REQUIRE(ctx, node->n_outputs == 1 && datum_kind(target) == DATUM_TENSOR,
            "%s_: operand 0 is no tensor that could be written", node->op->name);
    tensor_t *dst = datum_as_tensor(target);
    const tensor_t *src = datum_as_tensor(*result);
    if (dst != src) {
        REQUIRE(ctx,
                tensor_dtype(dst) == tensor_dtype(src) &&
                    shape_equal(tensor_rank(dst), tensor_sizes(dst), tensor_rank(src),
                                tensor_sizes(src)),
                "%s_: operand 0 is %s, the result %s cannot be written into it", node->op->name,
                tensor_text(dst), tensor_text(src));
        TRY(tensor_copy(ctx, dst, src));
    }
    datum_release(*result);
    *result = datum_retain(target);
    return STATUS_OK;
}

status_t run_truth(context_t *ctx, const char *who, const datum_t *datum, bool *out_truth)
{
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_TENSOR) {
        double value;
        TRY(tensor_item(ctx, datum_as_tensor(datum), &value));
        *out_truth = value != 0.0;
        return STATUS_OK;
    }
    REQUIRE(ctx, kind == DATUM_BOOL || kind == DATUM_INT || kind == DATUM_FLOAT,
            "%s: the condition is of kind %s, must be a bool", who, datum_kind_name(kind));
    *out_truth = kind == DATUM_BOOL ? datum_as_bool(datum) : datum_as_float(datum) != 0.0;
    return STATUS_OK;
}

/* ---- nodes ---- */

static status_t run_block(run_t *run, const graph_block_t *block, slot_t *results);

/* Borrows the operands from `first` on as datums. */
static status_t gather(run_t *run, const graph_node_t *node, int first)
{
    for (int i = first; i < node->n_inputs; i++) {
        value_t value = node->inputs[i];
        datum_t *datum = value < 0 ? run->none : run->slots[value].datum;
        REQUIRE(run->ctx, datum != NULL, "%s: %%%s is a module, must be a tensor or another datum",
                run->name, graph_value_name(run->graph, value));
        run->in[i - first] = datum;
    }
    return STATUS_OK;
}

static void set_outputs(run_t *run, const graph_node_t *node)
{
    for (int i = 0; i < node->n_outputs; i++)
        run->slots[node->outputs[i]] = (slot_t){.datum = run->out[i]};
}

static status_t check_bytes(run_t *run, const graph_node_t *node)
{
    for (int i = 0; i < node->n_outputs && run->is_limited; i++) {
        const tensor_t *tensor = datum_as_tensor(run->slots[node->outputs[i]].datum);
        if (info_bytes(&tensor->info) > run->limits.bytes)
            FAIL(run->ctx, STATUS_UNSUPPORTED, "%s: more than %zu bytes", graph_node_word(node),
                 run->limits.bytes);
    }
    return STATUS_OK;
}

static bool is_blocked(const datum_t *datum)
{
    return datum != NULL && datum_kind(datum) == DATUM_TENSOR &&
           tensor_layout(datum_as_tensor(datum)) == LAYOUT_MKLDNN;
}

/* Puts a dense tensor in the place of an mkldnn one. */
static status_t make_dense(context_t *ctx, datum_t **datum)
{
    const tensor_info_t *info = tensor_info(datum_as_tensor(*datum));
    tensor_info_t want = info_dense(info->dtype, info->rank, info->sizes);
    tensor_t *dense = NULL;
    datum_t *wrapped = NULL;
    TRY(convert_to(ctx, datum_as_tensor(*datum), &want, CAUSE_OUTPUT, &dense));
    status_t status = datum_tensor(ctx, dense, &wrapped);
    tensor_drop(dense);
    TRY(status);
    datum_release(*datum);
    *datum = wrapped;
    return STATUS_OK;
}

/* What views share and an operator writes is dense, under every policy. A tensor that an operator
 * made becomes it; one that others have, from an attribute or a call, cannot. */
static status_t keep_views(run_t *run, const graph_node_t *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        datum_t **datum = &run->slots[node->outputs[i]].datum;
        if (!is_blocked(*datum) || !alias_is_viewed(run->alias, node->outputs[i])) continue;
        if (node->kind == NODE_OP && !node->is_in_place) {
            TRY(make_dense(run->ctx, datum));
            continue;
        }
        FAIL(run->ctx, STATUS_UNSUPPORTED,
             "%s: %%%s is %s, and a view of it is written in place: to_dense gives it strides",
             graph_node_word(node), graph_value_name(run->graph, node->outputs[i]),
             tensor_text(datum_as_tensor(*datum)));
    }
    return STATUS_OK;
}

/* The format that the layout pass chose for what a node makes, or NULL; transitions have theirs in
 * their attributes. */
static const format_t *chosen_format(const run_t *run, const graph_node_t *node)
{
    if (node->n_outputs == 0 || graph_is_conversion(node->op)) return NULL;
    const graph_type_t *type = graph_value_type(run->graph, node->outputs[0]);
    bool is_chosen = type_is_static(type) && type->info.layout == LAYOUT_MKLDNN &&
                     type->info.format.kind != FORMAT_ANY;
    return is_chosen ? &type->info.format : NULL;
}

/* The node's attributes with what its sized integers are now, which the caller puts back. */
static status_t size_attributes(run_t *run, const graph_node_t *node, void **out_attrs)
{
    const size_names_t names = {run->graph, run->infos};
    const datum_t *first = node->n_inputs > 0 ? run->in[0] : NULL;
    const tensor_info_t *info = NULL;
    if (first != NULL && datum_kind(first) == DATUM_TENSOR)
        info = tensor_info(datum_as_tensor(first));
    TRY(context_get(run->ctx, node->op->attrs.bytes, "attributes", out_attrs));
    memcpy(*out_attrs, node->attrs, node->op->attrs.bytes);
    return size_fill(run->ctx, &names, node, info, *out_attrs);
}

static status_t run_op_node(run_t *run, const graph_node_t *node)
{
    context_t *ctx = run->ctx;
    void *sized = NULL;
    TRY(gather(run, node, 0));
    status_t status = node->n_sized > 0 ? size_attributes(run, node, &sized) : STATUS_OK;
    const void *attrs = sized != NULL ? sized : node->attrs;
    if (node->path != NULL) dispatch_enter_module(ctx, node->path);
    if (status == STATUS_OK)
        status = run_op(ctx, node->op, attrs, node->n_inputs, run->in, chosen_format(run, node),
                        node->n_outputs, run->out);
    if (node->path != NULL) dispatch_leave_module(ctx, node->path);
    context_put(ctx, sized);
    TRY(status);
    if (node->is_in_place) {
        status = write_in_place(ctx, node, run->in[0], &run->out[0]);
        if (status != STATUS_OK) {
            for (int i = 0; i < node->n_outputs; i++) datum_release(run->out[i]);
            return status;
        }
    }
    set_outputs(run, node);
    return check_bytes(run, node);
}

static module_t *module_of(const run_t *run, const graph_node_t *node)
{
    return node->n_inputs > 0 && node->inputs[0] >= 0 ? run->slots[node->inputs[0]].module : NULL;
}

static status_t run_getattr(run_t *run, const graph_node_t *node)
{
    slot_t result = {.path = node->name};
    module_t *module = module_of(run, node);
    if (module != NULL) {
        TRY(attribute_get(run->ctx, module, node->name, &result.datum, &result.module));
    } else {
        TRY(gather(run, node, 0));
        datum_t *object = run->in[0];
        datum_t *item = datum_kind(object) == DATUM_DICT ? datum_find(object, node->name) : NULL;
        REQUIRE(run->ctx, item != NULL, "getattr: a %s has no \"%s\"",
                datum_kind_name(datum_kind(object)), node->name);
        result.datum = datum_retain(item);
    }
    run->slots[node->outputs[0]] = result;
    return STATUS_OK;
}

static status_t run_setattr(run_t *run, const graph_node_t *node)
{
    module_t *module = module_of(run, node);
    REQUIRE(run->ctx, module != NULL, "setattr: \"%s\" of a value that is no module", node->name);
    TRY(gather(run, node, 1));
    return attribute_set(run->ctx, module, node->name, run->in[0]);
}

static status_t run_call(run_t *run, const graph_node_t *node)
{
    context_t *ctx = run->ctx;
    module_t *module = module_of(run, node);
    REQUIRE(ctx, module != NULL, "call: \"%s\" of a value that is no module", node->name);
    TRY(gather(run, node, 1));
    const char *path = node->path != NULL ? node->path : run->slots[node->inputs[0]].path;
    datum_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    if (path != NULL) dispatch_enter_module(ctx, path);
    status_t status = module_call(ctx, module, node->name, node->n_inputs - 1, run->in, &n_out,
                                  out);
    if (path != NULL) dispatch_leave_module(ctx, path);
    TRY(status);
    if (n_out != node->n_outputs) {
        for (int i = 0; i < n_out; i++) datum_release(out[i]);
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "call: \"%s\" of %s gives %d values, the graph takes %d",
             node->name, module_type(module), n_out, node->n_outputs);
    }
    memcpy(run->out, out, (size_t)n_out * sizeof *out);
    set_outputs(run, node);
    return STATUS_OK;
}

static status_t run_if(run_t *run, const graph_node_t *node)
{
    TRY(gather(run, node, 0));
    bool truth;
    TRY(run_truth(run->ctx, "if", run->in[0], &truth));
    const graph_block_t *block = node->blocks[truth ? 0 : 1];
    INVARIANT(block->n_results == node->n_outputs);
    slot_t *results;
    TRY(context_get_zeroed(run->ctx, (size_t)node->n_outputs * sizeof *results,
                           "results of a branch", &results));
    status_t status = run_block(run, block, results);
    for (int i = 0; i < node->n_outputs && status == STATUS_OK; i++)
        run->slots[node->outputs[i]] = results[i];
    context_put(run->ctx, results);
    return status;
}

/* How often at most; none: as long as the condition holds. */
static status_t trip_count(run_t *run, const datum_t *datum, int64_t *out_count)
{
    switch (datum_kind(datum)) {
    case DATUM_NONE: *out_count = INT64_MAX; return STATUS_OK;
    case DATUM_INT: *out_count = datum_as_int(datum); return STATUS_OK;
    case DATUM_TENSOR: return tensor_item_integer(run->ctx, datum_as_tensor(datum), out_count);
    default:
        FAIL(run->ctx, STATUS_INVALID_ARGUMENT,
             "loop: the trip count is of kind %s, must be an int",
             datum_kind_name(datum_kind(datum)));
    }
}

/* state: the condition, then the carried values; one iteration reads and replaces it. */
static status_t run_iteration(run_t *run, const graph_block_t *block, int64_t iteration,
                              slot_t *state)
{
    datum_t *index;
    TRY(datum_int(run->ctx, iteration, &index));
    run->slots[block->params[0]] = (slot_t){.datum = index};
    for (int i = 1; i < block->n_params; i++) {
        run->slots[block->params[i]] = state[i];
        state[i] = (slot_t){0};
    }
    clear_slot(&state[0]);
    return run_block(run, block, state);
}

static status_t loop_until_done(run_t *run, const graph_node_t *node, slot_t *state)
{
    const graph_block_t *block = node->blocks[0];
    int64_t trips;
    bool goes_on = true;
    TRY(trip_count(run, run->in[0], &trips));
    if (datum_kind(run->in[1]) != DATUM_NONE)
        TRY(run_truth(run->ctx, "loop", run->in[1], &goes_on));
    for (int64_t i = 0; i < trips && goes_on; i++) {
        if (run->is_limited && run->limits.trips-- <= 0)
            FAIL(run->ctx, STATUS_UNSUPPORTED, "loop: it runs too often");
        TRY(run_iteration(run, block, i, state));
        if (state[0].datum != NULL && datum_kind(state[0].datum) != DATUM_NONE)
            TRY(run_truth(run->ctx, "loop", state[0].datum, &goes_on));
    }
    return STATUS_OK;
}

static status_t run_loop(run_t *run, const graph_node_t *node)
{
    const graph_block_t *block = node->blocks[0];
    int n = node->n_outputs + 1;
    INVARIANT(node->n_inputs == n + 1 && block->n_params == n && block->n_results == n);
    for (int i = 0; i < 2; i++) {
        run->in[i] = node->inputs[i] < 0 ? run->none : run->slots[node->inputs[i]].datum;
        REQUIRE(run->ctx, run->in[i] != NULL, "loop: a module stands for the %s",
                i == 0 ? "trip count" : "condition");
    }
    slot_t *state;
    TRY(context_get_zeroed(run->ctx, (size_t)n * sizeof *state, "carried values of a loop",
                           &state));
    for (int i = 1; i < n; i++) {
        value_t value = node->inputs[i + 1];
        if (value < 0)
            state[i].datum = datum_retain(run->none);
        else
            state[i] = copy_slot(&run->slots[value]);
    }
    status_t status = loop_until_done(run, node, state);
    clear_slot(&state[0]);
    for (int i = 1; i < n; i++) {
        if (status == STATUS_OK)
            run->slots[node->outputs[i - 1]] = state[i];
        else
            clear_slot(&state[i]);
    }
    context_put(run->ctx, state);
    return status;
}

/* A constant is given so that whoever writes a result does not write the graph: a tensor is copied
 * when it is written. */
static status_t give_constant(run_t *run, datum_t *constant, datum_t **out_datum)
{
    if (datum_kind(constant) != DATUM_TENSOR) return datum_clone(run->ctx, constant, out_datum);
    const tensor_t *tensor = datum_as_tensor(constant);
    tensor_t *own = NULL;
    TRY(tensor_snapshot(run->ctx, tensor, &tensor->info, tensor->offset, &own));
    status_t status = datum_tensor(run->ctx, own, out_datum);
    tensor_drop(own);
    return status;
}

static status_t run_constant(run_t *run, const graph_node_t *node)
{
    value_t value = node->outputs[0];
    datum_t **datum = &run->slots[value].datum;
    if (alias_is_mutated(run->alias, value)) return datum_clone(run->ctx, node->datum, datum);
    if (alias_is_returned(run->alias, value)) return give_constant(run, node->datum, datum);
    return attribute_copy(run->ctx, node->datum, datum);
}

static status_t run_node(run_t *run, const graph_node_t *node)
{
    switch (node->kind) {
    case NODE_OP: return run_op_node(run, node);
    case NODE_CONSTANT: return run_constant(run, node);
    case NODE_GETATTR: return run_getattr(run, node);
    case NODE_SETATTR: return run_setattr(run, node);
    case NODE_CALL: return run_call(run, node);
    case NODE_IF: return run_if(run, node);
    case NODE_LOOP: return run_loop(run, node);
    case NODE_BUILTIN:
        TRY(gather(run, node, 0));
        TRY(run_builtin(run->ctx, node->name, node->n_inputs, run->in, node->n_outputs, run->out));
        set_outputs(run, node);
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* ---- blocks and regions ---- */

/* False when a live-in is not the tensor that the plan was built for: a number, or other sizes. */
static bool gather_live_in(run_t *run, const region_t *region)
{
    for (int i = 0; i < region->n_in; i++) {
        const datum_t *datum = run->slots[region->in[i]].datum;
        if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return false;
        run->live_in[i] = datum_as_tensor(datum);
        if (!plan_takes(region->plan, i, &run->live_in[i]->info)) return false;
    }
    return true;
}

static status_t run_plan_of(run_t *run, const region_t *region)
{
    tensor_t *results[METHOD_MAX_OUTPUTS];
    for (int i = 0; i < region->n_constants; i++) TRY(run_node(run, region->constants[i]));
    TRY(plan_execute(run->ctx, region->plan, region->n_in, run->live_in, results));
    status_t status = STATUS_OK;
    for (int i = 0; i < region->n_out; i++) {
        slot_t *slot = &run->slots[region->out[i]];
        if (status == STATUS_OK) status = datum_tensor(run->ctx, results[i], &slot->datum);
        tensor_drop(results[i]);
        bool is_viewed = is_blocked(slot->datum) && alias_is_viewed(run->alias, region->out[i]);
        if (status == STATUS_OK && is_viewed) status = make_dense(run->ctx, &slot->datum);
    }
    return status;
}

static status_t run_nodes(run_t *run, const graph_block_t *block, int first, int end)
{
    for (int i = first; i < end; i++) {
        TRY(run_node(run, block->nodes[i]));
        TRY(keep_views(run, block->nodes[i]));
        release_dead(run, block, i, block->nodes[i]);
    }
    return STATUS_OK;
}

static status_t run_region(run_t *run, const region_t *region)
{
    int end = region->first + region->n_nodes;
    if (!gather_live_in(run, region)) return run_nodes(run, region->block, region->first, end);
    TRY(run_plan_of(run, region));
    for (int i = 0; i < region->n_in; i++) release_one(run, region->block, end - 1, region->in[i]);
    return STATUS_OK;
}

static status_t run_all(run_t *run, const graph_block_t *block)
{
    int n_regions = 0, at = 0;
    const region_t *region = run->program == NULL
                                 ? NULL
                                 : program_regions(run->program, block, &n_regions);
    for (int i = 0; i < n_regions; i++, region++) {
        TRY(run_nodes(run, block, at, region->first));
        TRY(run_region(run, region));
        at = region->first + region->n_nodes;
    }
    return run_nodes(run, block, at, block->n_nodes);
}

/* Runs a block whose parameters are set; results are written on success, one reference each. */
static status_t run_block(run_t *run, const graph_block_t *block, slot_t *results)
{
    status_t status = run_all(run, block);
    if (status != STATUS_OK) {
        clear_block(run, block);
        return status;
    }
    for (int i = 0; i < block->n_results; i++) {
        value_t value = block->results[i];
        if (value < 0)
            results[i] = (slot_t){.datum = datum_retain(run->none)};
        else
            results[i] = copy_slot(&run->slots[value]);
    }
    clear_block(run, block);
    return STATUS_OK;
}

/* ---- the whole ---- */

/* *out_info: of a tensor, else NULL. */
static status_t check_kind(run_t *run, value_t value, const datum_t *datum,
                           const tensor_info_t **out_info)
{
    const graph_type_t *type = graph_value_type(run->graph, value);
    datum_kind_t kind = datum_kind(datum);
    bool is_number = kind == DATUM_INT || kind == DATUM_FLOAT;
    *out_info = kind == DATUM_TENSOR ? tensor_info(datum_as_tensor(datum)) : NULL;
    if (type->kind != TYPE_TENSOR || kind == DATUM_TENSOR || is_number ||
        (type->is_optional && kind == DATUM_NONE))
        return STATUS_OK;
    FAIL(run->ctx, STATUS_INVALID_ARGUMENT, "%s: input %s is of kind %s, must be a tensor",
         run->name, graph_value_name(run->graph, value), datum_kind_name(kind));
}

static status_t check_inputs(run_t *run, int first, int n_in, datum_t *const *in)
{
    const graph_block_t *body = graph_body(run->graph);
    TRY(context_get(run->ctx, (size_t)n_in * sizeof *run->infos, "infos of inputs", &run->infos));
    for (int i = 0; i < n_in; i++)
        TRY(in[i] == NULL ? context_null(run->ctx, run->name, "an input")
                          : check_kind(run, body->params[first + i], in[i], &run->infos[i]));
    return graph_check_inputs(run->ctx, run->graph, n_in, run->infos);
}

/* An mkldnn input of which views are written runs as a dense tensor, under each of its names. */
static status_t bind_dense(run_t *run, int first, int n_in, int input)
{
    const value_t *params = graph_body(run->graph)->params + first;
    datum_t *given = run->slots[params[input]].datum;
    if (!is_blocked(given) || !alias_is_viewed(run->alias, params[input])) return STATUS_OK;
    if (run->dense == NULL)
        TRY(context_get_zeroed(run->ctx, (size_t)n_in * sizeof *run->dense, "inputs of a run",
                               &run->dense));
    const tensor_t *tensor = datum_as_tensor(given);
    datum_t *dense = datum_retain(given);
    status_t status = make_dense(run->ctx, &dense);
    run->n_dense = n_in;
    for (int i = 0; i < n_in && status == STATUS_OK; i++) {
        slot_t *slot = &run->slots[params[i]];
        if (!is_blocked(slot->datum) || datum_as_tensor(slot->datum) != tensor) continue;
        run->dense[i] = datum_retain(dense);
        datum_release(slot->datum);
        slot->datum = datum_retain(dense);
    }
    datum_release(dense);
    return status;
}

/* What was written into those goes back into the caller's tensors. */
static status_t give_back(run_t *run, datum_t *const *in)
{
    for (int i = 0; i < run->n_dense; i++)
        if (run->dense[i] != NULL)
            TRY(tensor_copy(run->ctx, datum_as_tensor(in[i]), datum_as_tensor(run->dense[i])));
    return STATUS_OK;
}

static status_t bind_inputs(run_t *run, module_t *self, int n_in, datum_t *const *in)
{
    context_t *ctx = run->ctx;
    const graph_block_t *body = graph_body(run->graph);
    REQUIRE(ctx, body->n_results <= METHOD_MAX_OUTPUTS, "%s: returns %d values, %d are the most",
            run->name, body->n_results, METHOD_MAX_OUTPUTS);
    int first = 0;
    if (body->n_params > 0 && graph_value_type(run->graph, body->params[0])->kind == TYPE_MODULE) {
        REQUIRE(ctx, self != NULL, "%s: takes a module as its first input, given none", run->name);
        run->slots[body->params[0]].module = self;
        first = 1;
    }
    REQUIRE(ctx, n_in == body->n_params - first, "%s: given %d inputs, takes %d", run->name, n_in,
            body->n_params - first);
    TRY(check_inputs(run, first, n_in, in));
    for (int i = 0; i < n_in; i++) run->slots[body->params[first + i]].datum = datum_retain(in[i]);
    for (int i = 0; i < n_in; i++) TRY(bind_dense(run, first, n_in, i));
    return STATUS_OK;
}

static status_t run_body(run_t *run, datum_t *const *in, int *n_out, datum_t **out)
{
    const graph_block_t *body = graph_body(run->graph);
    slot_t results[METHOD_MAX_OUTPUTS] = {{0}};
    TRY(run_block(run, body, results));
    status_t status = give_back(run, in);
    for (int i = 0; i < body->n_results; i++) {
        if (results[i].datum == NULL)
            status = context_fail(run->ctx, STATUS_UNSUPPORTED,
                                  "%s: result %d is a module, which cannot be returned", run->name,
                                  i);
    }
    for (int i = 0; i < body->n_results; i++) {
        if (status == STATUS_OK)
            out[i] = results[i].datum;
        else
            clear_slot(&results[i]);
    }
    if (status == STATUS_OK) *n_out = body->n_results;
    return status;
}

static status_t prepare(run_t *run)
{
    context_t *ctx = run->ctx;
    size_t n = (size_t)graph_n_values(run->graph);
    TRY(context_get_zeroed(ctx, n * sizeof *run->slots, "values of a run", &run->slots));
    TRY(lifetimes_of(ctx, run->graph, &run->lifetimes));
    TRY(alias_of(ctx, run->graph, &run->alias));
    int most = run->lifetimes->most_operands;
    size_t bytes = (size_t)(most > 2 ? most : 2) * sizeof(datum_t *);
    TRY(context_get_zeroed(ctx, bytes, "operands of a run", &run->in));
    TRY(context_get_zeroed(ctx, bytes, "results of a run", &run->out));
    int n_live = run->program == NULL ? 0 : program_most_inputs(run->program);
    TRY(context_get(ctx, (size_t)n_live * sizeof *run->live_in, "inputs of regions",
                    &run->live_in));
    return datum_none(ctx, &run->none);
}

static void clear_run(run_t *run)
{
    context_t *ctx = run->ctx;
    datum_release(run->none);
    context_put(ctx, run->infos);
    for (int i = 0; i < run->n_dense; i++) datum_release(run->dense[i]);
    context_put(ctx, run->dense);
    context_put(ctx, run->out);
    context_put(ctx, run->in);
    context_put(ctx, run->live_in);
    context_put(ctx, run->slots);
}

static status_t run_whole(run_t *run, module_t *self, int n_in, datum_t *const *in, int *n_out,
                          datum_t **out)
{
    status_t status = prepare(run);
    if (status == STATUS_OK) status = bind_inputs(run, self, n_in, in);
    if (status == STATUS_OK) status = run_body(run, in, n_out, out);
    clear_run(run);
    return status;
}

status_t graph_run(context_t *ctx, const graph_t *graph, module_t *self, int n_in,
                   datum_t *const *in, int *n_out, datum_t **out)
{
    if (graph == NULL) return context_null(ctx, "graph_run", "the graph");
    run_t run = {.ctx = ctx, .graph = graph, .name = graph_name(graph)};
    return run_whole(&run, self, n_in, in, n_out, out);
}

status_t run_program(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out)
{
    run_t run = {.ctx = ctx,
                 .graph = program->graph,
                 .name = graph_name(program->graph),
                 .program = program};
    return run_whole(&run, self, n_in, in, n_out, out);
}

status_t run_known(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                   datum_t *const *known, const run_limits_t *limits, datum_t **out)
{
    run_t run = {.ctx = ctx,
                 .graph = graph,
                 .name = graph_name(graph),
                 .is_limited = true,
                 .limits = *limits};
    status_t status = prepare(&run);
    int n = graph_n_values(graph);
    for (int i = 0; i < n && status == STATUS_OK; i++) run.slots[i].datum = datum_retain(known[i]);
    if (status == STATUS_OK) status = run_node(&run, node);
    for (int i = 0; i < node->n_outputs && status == STATUS_OK; i++)
        out[i] = datum_retain(run.slots[node->outputs[i]].datum);
    for (int i = 0; i < n && run.slots != NULL; i++) clear_slot(&run.slots[i]);
    clear_run(&run);
    return status;
}
