/* Gradients of graphs: copies the graph, then appends the nodes that the gradient rules of its
 * operators add. */
#include "train/graph_grad_impl.h"

#include <string.h>

#include "dispatch/emitter_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Arguments of graph_grad. The new graph returns the values `more`, then the gradients of `loss`
 * with respect to `wrt`. */
typedef struct grad_asked {
    int loss, n_more, n_wrt;
    const value_t *more, *wrt;
} grad_asked_t;

typedef struct grad_builder {
    emitter_t emitter; /* first member, because rules get its address */
    context_t *ctx;
    const graph_t *from;
    const alias_t *alias;
    graph_builder_t *to;
    const char *path; /* path of the node whose rule runs */
    value_t *map;     /* [values of from] their copies in the new graph */
    value_t *grad;    /* [values of from] their gradients, in the new graph */
    bool *is_tracked; /* [values of from] */
    bool *is_written; /* [values of the new graph] some node writes it in place */
    tensor_info_t number;
} grad_builder_t;

/* ---- the emitter: adds nodes ---- */

static grad_builder_t *builder_of(const emitter_t *emitter)
{
    return (grad_builder_t *)(uintptr_t)emitter;
}

static status_t add_node(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
                         const value_t *in, int n_out, value_t *out_values)
{
    grad_builder_t *grads = builder_of(emitter);
    const int n_copied = graph_n_values(grads->from);
    for (int i = 0; i < n_in; i++)
        if (in[i] >= 0 && in[i] < n_copied && grads->is_written[in[i]])
            FAIL(grads->ctx, STATUS_UNSUPPORTED,
                 "graph_grad: the gradient at %s needs %s of a value that is written in place, "
                 "which is not supported",
                 grads->path != NULL ? grads->path : "the module itself", op->name);
    graph_add_op_n(grads->to, op, attrs, n_in, in, grads->path, n_out, out_values);
    return STATUS_OK; /* the builder records failures */
}

static status_t add_constant(emitter_t *emitter, tensor_t *tensor, value_t *out_value)
{
    grad_builder_t *grads = builder_of(emitter);
    const bool is_number = tensor->info.is_number;
    datum_t *datum = NULL;
    double number = 0.0;
    status_t status = STATUS_OK;
    if (is_number) {
        status = tensor_item(grads->ctx, tensor, &number);
        if (status == STATUS_OK) status = datum_float(grads->ctx, number, &datum);
    } else {
        status = datum_tensor(grads->ctx, tensor, &datum);
    }
    tensor_drop(tensor);
    TRY(status);
    *out_value = is_number ? graph_add_literal(grads->to, datum)
                           : graph_add_constant(grads->to, datum, NULL);
    datum_release(datum);
    return STATUS_OK;
}

static const tensor_info_t *info_of(const emitter_t *emitter, value_t value)
{
    grad_builder_t *grads = builder_of(emitter);
    const graph_type_t *type = graph_builder_type(grads->to, value);
    if (type->kind == TYPE_TENSOR && type->has_info) return &type->info;
    grads->number = info_dense(DTYPE_F64, 0, NULL);
    return &grads->number;
}

static const emitter_class_t emitter_class = {add_node, add_constant, info_of};

/* ---- the copy ---- */

static void copy_params(grad_builder_t *grads)
{
    const graph_block_t *body = graph_body(grads->from);
    for (int i = 0; i < body->n_params; i++)
        grads->map[body->params[i]] = graph_add_param(
            grads->to, rewrite_name(grads->from, body->params[i]),
            graph_value_type(grads->from, body->params[i]));
}

static status_t copy_node(grad_builder_t *grads, const graph_node_t *node)
{
    context_t *ctx = grads->ctx;
    const graph_type_t *types[OP_MAX_OUTPUTS];
    const char *names[OP_MAX_OUTPUTS];
    value_t outputs[OP_MAX_OUTPUTS], *inputs = NULL;
    const bool is_plain = node->kind == NODE_OP || node->kind == NODE_CONSTANT ||
                          node->kind == NODE_GETATTR;
    if (!is_plain || node->n_outputs > OP_MAX_OUTPUTS)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "graph_grad: %s has a node \"%s\", only operators, constants and attributes are "
             "supported",
             graph_name(grads->from), node->name != NULL ? node->name : "if or loop");
    TRY(context_get(ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs of a node", &inputs));
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = node->inputs[i] < 0 ? VALUE_NONE : grads->map[node->inputs[i]];
    for (int i = 0; i < node->n_outputs; i++) {
        types[i] = graph_value_type(grads->from, node->outputs[i]);
        names[i] = rewrite_name(grads->from, node->outputs[i]);
    }
    graph_add_node(grads->to, node, inputs, types, names, outputs);
    for (int i = 0; i < node->n_outputs; i++) grads->map[node->outputs[i]] = outputs[i];
    context_put(ctx, inputs);
    return STATUS_OK;
}

static bool is_floating(const graph_t *graph, value_t value)
{
    const graph_type_t *type = graph_value_type(graph, value);
    return type->kind == TYPE_TENSOR && type->has_info && dtype_is_floating(type->info.dtype);
}

/* True if gradients may pass through a value. This includes values of unknown dtype; if a gradient
 * reaches such a value, graph_grad fails. */
static bool may_pass(const graph_t *graph, value_t value)
{
    const graph_type_t *type = graph_value_type(graph, value);
    if (type->kind == TYPE_TENSOR && type->has_info) return dtype_is_floating(type->info.dtype);
    return type->kind == TYPE_TENSOR || type->kind == TYPE_UNKNOWN;
}

static void track_node(grad_builder_t *grads, const graph_node_t *node)
{
    bool is_tracked = false;
    if (node->kind != NODE_OP || node->op->gradient == &gradient_zero) return;
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0) is_tracked |= grads->is_tracked[node->inputs[i]];
    for (int i = 0; i < node->n_outputs; i++)
        grads->is_tracked[node->outputs[i]] |= is_tracked &&
                                               may_pass(grads->from, node->outputs[i]);
}

static void note_written(grad_builder_t *grads)
{
    const int n = graph_n_values(grads->from);
    for (value_t v = 0; v < n; v++) {
        const value_t new_value = grads->map[v];
        if (new_value >= 0 && new_value < n && alias_is_mutated(grads->alias, v))
            grads->is_written[new_value] = true;
    }
}

/* ---- gradients ---- */

/* Fails if the sizes of a value are not known, because gradient rules need them. */
static status_t check_known(const grad_builder_t *grads, const graph_node_t *node, value_t value)
{
    const graph_type_t *type = value >= 0 ? graph_value_type(grads->from, value) : NULL;
    if (type == NULL || (type->kind != TYPE_TENSOR && type->kind != TYPE_UNKNOWN) ||
        type_is_static(type))
        return STATUS_OK;
    FAIL(grads->ctx, STATUS_UNSUPPORTED,
         "graph_grad: a gradient reaches %s at %s, the dtype and sizes of %%%s must be known there",
         node->op->name, node->path != NULL ? node->path : "the module itself",
         graph_value_name(grads->from, value));
}

static status_t check_node(const grad_builder_t *grads, const graph_node_t *node)
{
    for (int i = 0; i < node->n_inputs; i++) TRY(check_known(grads, node, node->inputs[i]));
    for (int i = 0; i < node->n_outputs; i++) TRY(check_known(grads, node, node->outputs[i]));
    return STATUS_OK;
}

static status_t pass_node(grad_builder_t *grads, const graph_node_t *node, value_t *block,
                          bool *is_wanted)
{
    value_t *in = block, *in_grad = in + node->n_inputs, *out = in_grad + node->n_inputs;
    value_t *out_grad = out + node->n_outputs;
    bool has_grad = false;
    for (int i = 0; i < node->n_outputs; i++) {
        out[i] = grads->map[node->outputs[i]];
        out_grad[i] = grads->grad[node->outputs[i]];
        has_grad = has_grad || out_grad[i] != VALUE_NONE;
    }
    if (!has_grad) return STATUS_OK;
    TRY(check_node(grads, node));
    if (node->is_in_place)
        FAIL(grads->ctx, STATUS_UNSUPPORTED,
             "graph_grad: %s_ writes in place a value that others read, no gradient can pass it",
             node->op->name);
    for (int i = 0; i < node->n_inputs; i++) {
        const value_t old = node->inputs[i];
        in[i] = old < 0 ? VALUE_NONE : grads->map[old];
        is_wanted[i] = old >= 0 && grads->is_tracked[old];
    }
    const gradient_call_t call = {.emitter = &grads->emitter,
                                  .op = node->op,
                                  .attrs = node->attrs,
                                  .n_in = node->n_inputs,
                                  .in = in,
                                  .n_out = node->n_outputs,
                                  .out = out,
                                  .out_grad = out_grad,
                                  .is_wanted = is_wanted,
                                  .in_grad = in_grad};
    grads->path = node->path;
    TRY(gradient_pass(&call));
    for (int i = 0; i < node->n_inputs; i++) {
        if (!is_wanted[i] || in_grad[i] == VALUE_NONE) continue;
        value_t *grad = &grads->grad[node->inputs[i]];
        *grad = emit_sum(&grads->emitter, *grad, in_grad[i]);
    }
    return grads->emitter.status;
}

static status_t pass_all(grad_builder_t *grads)
{
    const graph_block_t *body = graph_body(grads->from);
    context_t *ctx = grads->ctx;
    for (int i = body->n_nodes - 1; i >= 0; i--) {
        const graph_node_t *node = body->nodes[i];
        const size_t n = 2 * ((size_t)node->n_inputs + (size_t)node->n_outputs);
        value_t *block = NULL;
        bool *is_wanted = NULL;
        bool is_tracked = false;
        for (int k = 0; k < node->n_outputs; k++) is_tracked |= grads->is_tracked[node->outputs[k]];
        if (node->kind != NODE_OP || !is_tracked) continue;
        TRY(context_get(ctx, n * sizeof *block, "values of a node", &block));
        status_t status = context_get(ctx, (size_t)node->n_inputs, "inputs of a node", &is_wanted);
        if (status == STATUS_OK) status = pass_node(grads, node, block, is_wanted);
        CONTEXT_PUT(ctx, is_wanted, block);
        TRY(status);
    }
    return STATUS_OK;
}

/* The gradient of the loss with respect to itself is 1. */
static status_t begin_gradients(grad_builder_t *grads, value_t loss)
{
    const graph_type_t *type = graph_value_type(grads->from, loss);
    tensor_t *one = NULL;
    value_t value = VALUE_NONE;
    TRY(tensor_full(grads->ctx, type->info.dtype, type->info.rank, type->info.sizes, 1.0, &one));
    scope_take(grads->ctx, one);
    TRY(add_constant(&grads->emitter, one, &value));
    grads->grad[loss] = value;
    return STATUS_OK;
}

static status_t finish(grad_builder_t *grads, const grad_asked_t *asked, int *out_results,
                       graph_t **out_graph)
{
    const graph_block_t *body = graph_body(grads->from);
    const int n_wrt = asked->n_wrt;
    const value_t *wrt = asked->wrt;
    value_t *results = NULL;
    int n = body->n_results;
    TRY(context_get(grads->ctx, (size_t)(n + asked->n_more + n_wrt) * sizeof *results, "results",
                    &results));
    for (int i = 0; i < n; i++)
        results[i] = body->results[i] < 0 ? VALUE_NONE : grads->map[body->results[i]];
    for (int i = 0; i < asked->n_more; i++) results[n++] = grads->map[asked->more[i]];
    for (int i = 0; i < n_wrt; i++) {
        const value_t grad = grads->grad[wrt[i]];
        out_results[i] = grad == VALUE_NONE ? -1 : n;
        if (grad != VALUE_NONE) results[n++] = grad;
    }
    FINISH(graph_finish(grads->to, n, results, out_graph), context_put(grads->ctx, results));
}

static status_t build(grad_builder_t *grads, const grad_asked_t *asked, int *out_results,
                      graph_t **out_graph)
{
    const graph_block_t *body = graph_body(grads->from);
    for (int i = 0; i < asked->n_wrt; i++) grads->is_tracked[asked->wrt[i]] = true;
    copy_params(grads);
    for (int i = 0; i < body->n_nodes; i++) {
        TRY(copy_node(grads, body->nodes[i]));
        track_node(grads, body->nodes[i]);
    }
    note_written(grads);
    TRY(begin_gradients(grads, body->results[asked->loss]));
    TRY(pass_all(grads));
    return finish(grads, asked, out_results, out_graph);
}

static status_t check(context_t *ctx, const graph_t *graph, int loss, int n_wrt, const value_t *wrt)
{
    const graph_block_t *body = graph_body(graph);
    REQUIRE(ctx, loss >= 0 && loss < body->n_results && body->results[loss] >= 0,
            "graph_grad: result %d does not exist, %s has %d", loss, graph_name(graph),
            body->n_results);
    const graph_type_t *type = graph_value_type(graph, body->results[loss]);
    REQUIRE(ctx,
            type_is_static(type) && dtype_is_floating(type->info.dtype) &&
                info_numel(&type->info) == 1,
            "graph_grad: result %d of %s, must be a floating tensor of one element", loss,
            graph_name(graph));
    for (int i = 0; i < n_wrt; i++) {
        REQUIRE(ctx, wrt[i] >= 0 && wrt[i] < graph_n_values(graph),
                "graph_grad: value %d does not exist, %s has %d", (int)wrt[i], graph_name(graph),
                graph_n_values(graph));
        REQUIRE(ctx, is_floating(graph, wrt[i]),
                "graph_grad: %%%s of %s, must be a floating tensor with known sizes",
                graph_value_name(graph, wrt[i]), graph_name(graph));
    }
    return STATUS_OK;
}

static status_t grad(context_t *ctx, const graph_t *graph, const grad_asked_t *asked,
                     int *out_results, graph_t **out_graph)
{
    const size_t n = (size_t)graph_n_values(graph);
    grad_builder_t grads = {.emitter = {&emitter_class, ctx, STATUS_OK}, .ctx = ctx, .from = graph};
    char *block = NULL;
    TRY(alias_of(ctx, graph, &grads.alias));
    TRY(context_get_zeroed(ctx, n * (2 * sizeof(value_t) + 2), "gradients of a graph", &block));
    grads.map = (value_t *)(void *)block;
    grads.grad = grads.map + n;
    grads.is_tracked = (bool *)(grads.grad + n);
    grads.is_written = grads.is_tracked + n;
    for (size_t i = 0; i < n; i++) grads.map[i] = grads.grad[i] = VALUE_NONE;
    status_t status = graph_builder_create(ctx, graph_name(graph), &grads.to);
    if (status == STATUS_OK) status = build(&grads, asked, out_results, out_graph);
    graph_builder_destroy(grads.to);
    context_put(ctx, block);
    return status;
}

status_t graph_grad_after(context_t *ctx, const graph_t *graph, int loss, int n_more,
                          const value_t *more, int n_wrt, const value_t *wrt, int *out_results,
                          graph_t **out_graph)
{
    const grad_asked_t asked = {loss, n_more, n_wrt, more, wrt};
    TRY(check(ctx, graph, loss, n_wrt, wrt));
    return grad(ctx, graph, &asked, out_results, out_graph);
}

status_t graph_grad(context_t *ctx, const graph_t *graph, int loss, int n_wrt, const value_t *wrt,
                    int *out_results, graph_t **out_graph)
{
    TRY(context_output(ctx, "graph_grad", out_graph));
    if (graph == NULL) return context_null(ctx, "graph_grad", "graph");
    if (n_wrt > 0 && wrt == NULL) return context_null(ctx, "graph_grad", "wrt");
    if (n_wrt > 0 && out_results == NULL) return context_null(ctx, "graph_grad", "out_results");
    return graph_grad_after(ctx, graph, loss, 0, NULL, n_wrt, wrt, out_results, out_graph);
}
