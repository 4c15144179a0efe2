/* Infers types again, also in loops.
 *
 * A fixed-point iteration: assumes at first that carried values keep the types that they have
 * before the loop. If an iteration of the loop disproves an assumption, drops the assumption and
 * starts again, until all assumptions hold. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"

typedef struct retyping {
    bool *varies; /* [n_values]: loop parameters whose type changes between iterations */
    bool keeps;   /* types that cannot be inferred stay unchanged */
    bool closes;  /* sized integers become constants */
    size_names_t names;
    bool is_wrong; /* an assumption failed, so the new graph is invalid */
} retyping_t;

static const graph_type_t *fallback(const rewrite_t *rewrite, value_t old)
{
    const retyping_t *retyping = rewrite->user;
    const graph_type_t *said = graph_value_type(rewrite->from, old);
    return retyping->keeps ? said : type_plain(said->kind);
}

static bool is_known(const graph_type_t *type)
{
    return type->kind != TYPE_UNKNOWN && (type->kind != TYPE_TENSOR || type->has_info);
}

/* Sets the types of outputs that could not be inferred. */
static void fall_back(rewrite_t *rewrite, const graph_node_t *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        value_t value = rewrite_value(rewrite, node->outputs[i]);
        if (value >= 0 && !is_known(graph_builder_type(rewrite->to, value)))
            graph_set_type(rewrite->to, value, fallback(rewrite, node->outputs[i]));
    }
}

/* True if the type of an input is incomplete, so that outputs cannot be inferred. */
static bool reads_unknown(const rewrite_t *rewrite, int n, const value_t *inputs)
{
    for (int i = 0; i < n; i++)
        if (!is_known(graph_builder_type(rewrite->to, inputs[i]))) return true;
    return false;
}

static void forget(rewrite_t *rewrite, const graph_node_t *node)
{
    for (int i = 0; i < node->n_outputs; i++)
        graph_set_type(rewrite->to, rewrite_value(rewrite, node->outputs[i]), NULL);
}

/* ---- blocks ---- */

static void add_params(rewrite_t *rewrite, const graph_node_t *loop, const value_t *inputs)
{
    const retyping_t *retyping = rewrite->user;
    const graph_block_t *body = loop->blocks[0];
    for (int i = 0; i < body->n_params; i++) {
        value_t old = body->params[i];
        const graph_type_t *type = fallback(rewrite, old);
        const graph_type_t *begin = graph_builder_type(rewrite->to, inputs[i + 1]);
        if (i > 0 && type_is_static(begin) && !retyping->varies[old]) type = begin;
        rewrite_map(rewrite, old,
                    graph_add_param(rewrite->to, graph_value_name(rewrite->from, old), type));
    }
}

/* Compares the types assumed for a loop's parameters with the types that an iteration yields. */
static void check_params(rewrite_t *rewrite, const graph_block_t *body, const value_t *results)
{
    retyping_t *retyping = rewrite->user;
    for (int i = 1; i < body->n_params; i++) {
        value_t param = rewrite_value(rewrite, body->params[i]);
        const graph_type_t *guess = graph_builder_type(rewrite->to, param);
        if (retyping->varies[body->params[i]] || !type_is_static(guess) ||
            type_equal(guess, graph_builder_type(rewrite->to, results[i])))
            continue;
        retyping->varies[body->params[i]] = retyping->is_wrong = true;
    }
}

static status_t retype_block(rewrite_t *rewrite, const graph_node_t *node,
                             const graph_block_t *block, const value_t *inputs)
{
    graph_block_begin(rewrite->to);
    if (node->kind == NODE_LOOP) add_params(rewrite, node, inputs);
    TRY(rewrite_nodes(rewrite, block));
    value_t *results = NULL;
    TRY(context_get(rewrite->ctx, (size_t)block->n_results * sizeof *results, "results of a block",
                    &results));
    for (int i = 0; i < block->n_results; i++)
        results[i] = rewrite_value(rewrite, block->results[i]);
    if (node->kind == NODE_LOOP) check_params(rewrite, block, results);
    graph_block_end(rewrite->to, block->n_results, results);
    context_put(rewrite->ctx, results);
    return STATUS_OK;
}

/* Adds the node with its sized integers computed for the new sizes. */
static status_t emit_sized(rewrite_t *rewrite, const graph_node_t *node, const value_t *inputs)
{
    const retyping_t *retyping = rewrite->user;
    const graph_type_t *first = graph_builder_type(rewrite->to, inputs[0]);
    graph_node_t sized = *node;
    void *attrs = NULL;
    size_left_t left = {.n = 0};
    TRY(context_get(rewrite->ctx, node->op->attrs.bytes, "attributes", &attrs));
    memcpy(attrs, node->attrs, node->op->attrs.bytes);
    status_t status = context_get(rewrite->ctx, (size_t)node->n_sized * sizeof *left.sized,
                                  "sized integers", &left.sized);
    if (status == STATUS_OK && !retyping->keeps)
        status = graph_space(rewrite->ctx, graph_builder_graph(rewrite->to), &left.space);
    if (status == STATUS_OK && !retyping->keeps)
        status = size_fill(rewrite->ctx, &retyping->names, node,
                           type_is_static(first) ? &first->info : NULL, attrs, &left);
    sized.attrs = attrs;
    if (retyping->closes) {
        sized.n_sized = left.n;
        sized.sized = left.sized;
    }
    if (status == STATUS_OK) status = rewrite_emit(rewrite, &sized, inputs, node->outputs);
    CONTEXT_PUT(rewrite->ctx, left.sized, attrs);
    return status;
}

static status_t retype_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const retyping_t *retyping = rewrite->user;
    bool is_call = node->kind == NODE_CALL && !retyping->keeps;
    bool is_inferred = node->kind == NODE_OP || node->kind == NODE_BUILTIN || is_call;
    if (!is_inferred && node->n_blocks == 0) return STATUS_OK;
    value_t *inputs = NULL;
    *out_done = true;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs of a node",
                    &inputs));
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    status_t status = node->n_sized > 0 ? emit_sized(rewrite, node, inputs)
                                        : rewrite_emit(rewrite, node, inputs, node->outputs);
    bool is_stale = is_call || (!retyping->keeps && reads_unknown(rewrite, node->n_inputs, inputs));
    if (status == STATUS_OK && (node->n_blocks > 0 || is_stale)) forget(rewrite, node);
    for (int b = 0; b < node->n_blocks && status == STATUS_OK; b++)
        status = retype_block(rewrite, node, node->blocks[b], inputs);
    if (status == STATUS_OK) fall_back(rewrite, node);
    context_put(rewrite->ctx, inputs);
    return status;
}

/* ---- retyping and resizing ---- */

static status_t retype(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                       retyping_t *retyping, graph_t **out_graph)
{
    graph_t *result = NULL;
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof *retyping->varies,
                           "types of loops", &retyping->varies));
    do {
        graph_release(result);
        result = NULL;
        retyping->is_wrong = false;
        TRY(rewrite_graph_typed(ctx, graph, retype_node, infos, retyping->closes, retyping,
                                &result));
    } while (retyping->is_wrong);
    *out_graph = result;
    return STATUS_OK;
}

bool graph_has_blocks(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_nodes; i++)
        if (body->nodes[i]->n_blocks > 0) return true;
    return false;
}

status_t graph_retype(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                      graph_t **out_graph)
{
    if (infos == NULL && !graph_has_blocks(graph)) return rewrite_nothing(graph, out_graph);
    retyping_t retyping = {.keeps = infos == NULL};
    FINISH(retype(ctx, graph, infos, &retyping, out_graph), context_put(ctx, retyping.varies));
}

status_t graph_resize(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                      bool keeps_names, graph_t **out_graph)
{
    const graph_block_t *body = graph_body(graph);
    int first = graph_first_input(graph), n = body->n_params - first;
    const tensor_info_t **in = NULL;
    TRY(context_get(ctx, (size_t)n * sizeof *in, "infos of inputs", &in));
    for (int i = 0; i < n; i++) in[i] = &infos[i];
    retyping_t retyping = {.closes = !keeps_names, .names = {graph, in}};
    status_t status = graph_check_guards(ctx, graph, in);
    if (status == STATUS_OK) status = retype(ctx, graph, infos, &retyping, out_graph);
    CONTEXT_PUT(ctx, retyping.varies, in);
    return status;
}

/* ---- closing ---- */

/* Sized integers become constants, with the values in the attributes. Integers that depend on an
 * operand of unknown sizes stay sized. */
static status_t close_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    if (node->n_sized == 0) return STATUS_OK;
    value_t *inputs = NULL;
    *out_done = true;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs of a node",
                    &inputs));
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    graph_node_t closed = *node;
    closed.n_sized = 0;
    FINISH(type_is_static(graph_builder_type(rewrite->to, inputs[0]))
               ? rewrite_copy_with(rewrite, &closed, inputs)
               : emit_sized(rewrite, node, inputs),
           context_put(rewrite->ctx, inputs));
}

status_t graph_close(context_t *ctx, const graph_t *graph, graph_t **out_graph)
{
    const graph_block_t *body = graph_body(graph);
    int first = graph_first_input(graph), n = body->n_params - first;
    const tensor_info_t **in = NULL;
    if (!graph_has_names(graph)) return rewrite_nothing(graph, out_graph);
    TRY(context_get(ctx, (size_t)n * sizeof *in, "infos of inputs", &in));
    for (int i = 0; i < n; i++) in[i] = &graph_value_type(graph, body->params[first + i])->info;
    retyping_t retyping = {.closes = true, .names = {graph, in}};
    FINISH(rewrite_graph_typed(ctx, graph, close_node, NULL, true, &retyping, out_graph),
           context_put(ctx, in));
}
