/* Runs nodes without blocks. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/analysis/weights_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/program/run_inside_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

status_t run_gather(run_t *run, const graph_node_t *node, int first)
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

void run_set_outputs(run_t *run, const graph_node_t *node)
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

/* The format that the layout pass chose for a node's output; NULL for none, and for conversions. */
static const format_t *chosen_format(const run_t *run, const graph_node_t *node)
{
    if (node->n_outputs == 0 || graph_is_conversion(node->op)) return NULL;
    const graph_type_t *type = graph_value_type(run->graph, node->outputs[0]);
    bool is_chosen = type_is_static(type) && type->info.layout == LAYOUT_MKLDNN &&
                     type->info.format.kind != FORMAT_ANY;
    return is_chosen ? &type->info.format : NULL;
}

/* Copies the attributes, and computes integers that depend on sizes. The caller frees the copy. */
static status_t size_attributes(run_t *run, const graph_node_t *node, void **out_attrs)
{
    const size_names_t names = {run->graph, run->infos};
    const datum_t *first = node->n_inputs > 0 ? run->in[0] : NULL;
    const tensor_info_t *info = NULL;
    if (first != NULL && datum_kind(first) == DATUM_TENSOR)
        info = tensor_info(datum_as_tensor(first));
    TRY(context_get(run->ctx, node->op->attrs.bytes, "attributes", out_attrs));
    memcpy(*out_attrs, node->attrs, node->op->attrs.bytes);
    return size_fill(run->ctx, &names, node, info, *out_attrs, NULL);
}

static bool writes_tensor(const run_t *run, const graph_node_t *node)
{
    return node->n_inputs > 0 && node->n_outputs == 1 && run->in[0] != NULL &&
           datum_kind(run->in[0]) == DATUM_TENSOR && chosen_format(run, node) == NULL;
}

static status_t run_op_node(run_t *run, const graph_node_t *node)
{
    context_t *ctx = run->ctx;
    void *sized = NULL;
    TRY(run_gather(run, node, 0));
    status_t status = node->n_sized > 0 ? size_attributes(run, node, &sized) : STATUS_OK;
    const void *attrs = sized != NULL ? sized : node->attrs;
    /* Observers see the in-place operator itself, so that a trace of this graph records it. */
    bool is_watched = false, shows_inputs = false;
    if (status == STATUS_OK && node->is_in_place && writes_tensor(run, node))
        status = dispatch_is_watched(ctx, &is_watched, &shows_inputs);
    dispatch_enter_module(ctx, node->path);
    if (status == STATUS_OK && is_watched)
        status = run_op_in_place(ctx, node, attrs, run->in, run->out);
    else if (status == STATUS_OK)
        status = run_op(ctx, node->op, attrs, node->n_inputs, run->in, weights_of(run->graph, node),
                        chosen_format(run, node), node->n_outputs, run->out);
    dispatch_leave_module(ctx, node->path);
    context_put(ctx, sized);
    TRY(status);
    if (node->is_in_place && !is_watched) {
        status = run_write_in_place(ctx, node, run->in[0], &run->out[0]);
        if (status != STATUS_OK) {
            for (int i = 0; i < node->n_outputs; i++) datum_release(run->out[i]);
            return status;
        }
    }
    run_set_outputs(run, node);
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
        TRY(run_gather(run, node, 0));
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
    REQUIRE(run->ctx, module != NULL, "setattr: \"%s\" of a value that is not a module",
            node->name);
    TRY(run_gather(run, node, 1));
    return attribute_set(run->ctx, module, node->name, run->in[0]);
}

/* Maximum of nested calls of methods. Without it, endless recursion would overflow the thread's
 * stack. */
enum { MAX_CALLS = 128 };
static const context_slot_t calls_slot = {sizeof(int), NULL, NULL};

static status_t call_method(context_t *ctx, module_t *module, const char *method, int n_in,
                            datum_t *const *in, int *n_out, datum_t **out)
{
    void *value = NULL;
    TRY(context_slot(ctx, &calls_slot, &value));
    int *depth = value;
    REQUIRE(ctx, *depth < MAX_CALLS, "call: \"%s\" of %s, methods call each other %d deep", method,
            module_type(module), MAX_CALLS);
    TRY(interrupt_count(ctx, "call"));
    ++*depth;
    status_t status = module_call(ctx, module, method, n_in, in, n_out, out);
    if (context_slot(ctx, &calls_slot, &value) == STATUS_OK) --*(int *)value;
    return status;
}

static status_t run_call(run_t *run, const graph_node_t *node)
{
    context_t *ctx = run->ctx;
    module_t *module = module_of(run, node);
    REQUIRE(ctx, module != NULL, "call: \"%s\" of a value that is not a module", node->name);
    TRY(run_gather(run, node, 1));
    const char *path = node->path != NULL ? node->path : run->slots[node->inputs[0]].path;
    datum_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    dispatch_enter_module(ctx, path);
    status_t status = call_method(ctx, module, node->name, node->n_inputs - 1, run->in, &n_out,
                                  out);
    dispatch_leave_module(ctx, path);
    TRY(status);
    if (n_out != node->n_outputs) {
        for (int i = 0; i < n_out; i++) datum_release(out[i]);
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "call: \"%s\" of %s returns %d values, the graph takes %d", node->name,
             module_type(module), n_out, node->n_outputs);
    }
    memcpy(run->out, out, (size_t)n_out * sizeof *out);
    run_set_outputs(run, node);
    return STATUS_OK;
}

/* Returns a snapshot of a constant, so that writing to the result does not change the graph. */
static status_t give_constant(run_t *run, datum_t *constant, datum_t **out_datum)
{
    if (datum_kind(constant) != DATUM_TENSOR) return datum_clone(run->ctx, constant, out_datum);
    const tensor_t *tensor = datum_as_tensor(constant);
    tensor_t *own = NULL;
    TRY(tensor_snapshot(run->ctx, tensor, &tensor->info, tensor->offset, &own));
    FINISH(datum_tensor(run->ctx, own, out_datum), tensor_drop(own));
}

static status_t run_constant(run_t *run, const graph_node_t *node)
{
    value_t value = node->outputs[0];
    datum_t **datum = &run->slots[value].datum;
    if (alias_is_mutated(run->alias, value)) return datum_clone(run->ctx, node->datum, datum);
    if (alias_is_returned(run->alias, value)) return give_constant(run, node->datum, datum);
    return attribute_copy(run->ctx, node->datum, datum);
}

status_t run_plain_node(run_t *run, const graph_node_t *node)
{
    switch (node->kind) {
    case NODE_OP: return run_op_node(run, node);
    case NODE_CONSTANT: return run_constant(run, node);
    case NODE_GETATTR: return run_getattr(run, node);
    case NODE_SETATTR: return run_setattr(run, node);
    case NODE_CALL: return run_call(run, node);
    case NODE_BUILTIN:
        TRY(run_gather(run, node, 0));
        TRY(run_builtin(run->ctx, node->name, node->n_inputs, run->in, node->n_outputs, run->out));
        run_set_outputs(run, node);
        return STATUS_OK;
    default: return STATUS_OK;
    }
}
