#include <string.h>

#include "graph/pass_impl.h"
#include "graph/passes/alias_impl.h"
#include "graph/run_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert.h"
#include "tensor/scope_impl.h"

/* Walks in order and asks the new graph what is constant there, so what was just computed feeds the
 * next. What is written somewhere, and what could not be run, stays as it is. */

#define MAX_BYTES ((size_t)64 << 20)

typedef struct propagation {
    alias_t alias;
    datum_t *none;
    int n_done;
} propagation_t;

/* ---- what may be run ---- */

static bool is_written(const propagation_t *propagation, const graph_node_t *node)
{
    bool written = false;
    for (int i = 0; i < node->n_inputs; i++)
        written |= alias_is_mutated(&propagation->alias, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        written |= alias_is_mutated(&propagation->alias, node->outputs[i]);
    return written;
}

static bool has_constant_inputs(const rewrite_t *rewrite, const graph_node_t *node)
{
    int n_constants = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        value_t value = rewrite_value(rewrite, node->inputs[i]);
        if (value == GRAPH_NONE) continue;
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

/* Bytes that a result may have: as many as the operands, which dead code frees then; for others
 * MAX_BYTES. */
static size_t limit_of(const rewrite_t *rewrite, const graph_node_t *node)
{
    size_t bytes = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        value_t value = rewrite_value(rewrite, node->inputs[i]);
        if (value != GRAPH_NONE) bytes += bytes_of(graph_builder_constant(rewrite->to, value));
    }
    return bytes > MAX_BYTES ? bytes : MAX_BYTES;
}

static bool is_huge(const rewrite_t *rewrite, const graph_node_t *node)
{
    int64_t limit = (int64_t)limit_of(rewrite, node);
    for (int i = 0; i < node->n_outputs; i++) {
        const graph_type_t *type = graph_value_type(rewrite->from, node->outputs[i]);
        if (type->kind != TYPE_TENSOR || !type->has_info) continue;
        int64_t bytes = (int64_t)dtype_size(type->info.dtype);
        for (int d = 0; d < type->info.rank; d++) {
            int64_t size = type->info.sizes[d] < 1 ? 1 : type->info.sizes[d];
            if (!shape_multiply(bytes, size, &bytes)) return true;
        }
        if (bytes > limit) return true;
    }
    return false;
}

static bool can_run(const rewrite_t *rewrite, const graph_node_t *node)
{
    if (node->kind != NODE_OP && node->kind != NODE_BUILTIN) return false;
    return node->n_outputs > 0 && !alias_has_effect(node) && has_constant_inputs(rewrite, node) &&
           !is_written(rewrite->user, node) && !is_huge(rewrite, node);
}

/* ---- running ---- */

/* A constant is contiguous, and in the layout that the graph says: dense unless it says mkldnn. */
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
    tensor_release(settled);
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
        in[i] = value == GRAPH_NONE ? propagation->none
                                    : graph_builder_constant(rewrite->to, value);
    }
    if (node->kind == NODE_BUILTIN)
        return run_builtin(rewrite->ctx, node->name, node->n_inputs, in, node->n_outputs, out);
    return run_op(rewrite->ctx, node->op, node->attrs, node->n_inputs, in, node->n_outputs, out);
}

static status_t add_constants(rewrite_t *rewrite, const graph_node_t *node, datum_t **out)
{
    for (int i = 0; i < node->n_outputs; i++) {
        if (bytes_of(out[i]) > limit_of(rewrite, node)) {
            pass_note(rewrite->ctx, "constant_propagation", node, "the result is too large");
            return STATUS_UNSUPPORTED;
        }
        TRY(settle(rewrite->ctx, graph_value_type(rewrite->from, node->outputs[i]), &out[i]));
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const char *name = graph_value_name(rewrite->from, node->outputs[i]);
        bool is_number = name == NULL || name[strspn(name, "0123456789")] == '\0';
        rewrite_map(rewrite, node->outputs[i],
                    graph_add_constant(rewrite->to, out[i], is_number ? NULL : name));
    }
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
    context_put(ctx, out);
    context_put(ctx, in);
    if (status == STATUS_OK) {
        ((propagation_t *)rewrite->user)->n_done++;
        *out_done = true;
    } else if (status != STATUS_OUT_OF_MEMORY) {
        /* It may stand in a branch that is never taken. */
        pass_note(ctx, "constant_propagation", node, context_error(ctx));
        context_clear_error(ctx);
        status = STATUS_OK;
    }
    return status;
}

/* ---- branches ---- */

static bool find_truth(const rewrite_t *rewrite, const graph_node_t *node, bool *out_truth)
{
    value_t value = rewrite_value(rewrite, node->inputs[0]);
    const datum_t *datum = value >= 0 ? graph_builder_constant(rewrite->to, value) : NULL;
    if (datum == NULL ||
        alias_is_mutated(&((propagation_t *)rewrite->user)->alias, node->inputs[0]))
        return false;
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_TENSOR) {
        const tensor_t *tensor = datum_as_tensor(datum);
        return tensor_numel(tensor) == 1 &&
               run_truth(rewrite->ctx, "if", datum, out_truth) == STATUS_OK;
    }
    if (kind != DATUM_BOOL && kind != DATUM_INT && kind != DATUM_FLOAT) return false;
    return run_truth(rewrite->ctx, "if", datum, out_truth) == STATUS_OK;
}

static status_t propagate(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    bool truth;
    if (node->kind == NODE_IF && find_truth(rewrite, node, &truth)) {
        *out_done = true;
        ((propagation_t *)rewrite->user)->n_done++;
        return rewrite_branch(rewrite, node, truth);
    }
    return can_run(rewrite, node) ? run_constant(rewrite, node, out_done) : STATUS_OK;
}

status_t pass_constant_propagation(context_t *ctx, const graph_t *graph,
                                   const pass_options_t *options, graph_t **out_graph)
{
    (void)options;
    propagation_t propagation = {.none = NULL};
    graph_t *result = NULL;
    scope_attempt(ctx); /* what cannot be run is left, and no failure of the scope */
    status_t status = alias_analyze(ctx, graph, &propagation.alias);
    if (status == STATUS_OK) status = datum_none(ctx, &propagation.none);
    if (status == STATUS_OK) status = rewrite_graph(ctx, graph, propagate, &propagation, &result);
    status = scope_attempt_end(ctx, status, false);
    datum_release(propagation.none);
    alias_clear(&propagation.alias);
    TRY(status);
    if (propagation.n_done > 0) {
        *out_graph = result;
        return STATUS_OK;
    }
    graph_release(result);
    return rewrite_nothing(graph, out_graph);
}
