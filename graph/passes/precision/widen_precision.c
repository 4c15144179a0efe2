#include "graph/passes/precision/precision_impl.h"
#include "graph/passes/precision/widen_impl.h"
#include "ops/ops.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/onednn/onednn.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Undoes lower_precision on processors without instructions for the narrow dtype: operators read
 * f32, casts between the two dtypes are removed, and this pass casts constants. Values written in
 * place, and inputs of nodes that are not operators, stay narrow. */

static bool has_dtype(const graph_type_t *type, dtype_t dtype)
{
    return type->kind == TYPE_TENSOR && type->has_info && type->info.dtype == dtype;
}

static bool was_narrow(const rewrite_t *rewrite, value_t old)
{
    return old >= 0 && has_dtype(graph_value_type(rewrite->from, old), DTYPE_BF16);
}

/* True if a value that was narrow is f32 in the new graph. */
static bool is_widened(const rewrite_t *rewrite, value_t old)
{
    if (!was_narrow(rewrite, old)) return false;
    const value_t value = rewrite_value(rewrite, old);
    return value >= 0 && has_dtype(graph_builder_type(rewrite->to, value), DTYPE_F32);
}

static value_t as_dtype(rewrite_t *rewrite, value_t old, dtype_t dtype, const char *path)
{
    const value_t value = rewrite_value(rewrite, old);
    if (!was_narrow(rewrite, old) || is_widened(rewrite, old) == (dtype == DTYPE_F32)) return value;
    return precision_cast(rewrite, value, dtype, path);
}

/* ---- nodes ---- */

/* Casts a constant to f32. All plans of the graph share the result. */
static status_t widen_tensor(context_t *ctx, const tensor_t *tensor, datum_t **out_datum)
{
    tensor_t *dense = NULL, *wide = NULL;
    TRY(to_dense(ctx, tensor, &dense));
    status_t status = tensor_cast(ctx, dense, DTYPE_F32, &wide);
    scope_take(ctx, dense);
    tensor_drop(dense);
    TRY(status);
    status = datum_tensor(ctx, wide, out_datum);
    scope_take(ctx, wide);
    tensor_drop(wide);
    return status;
}

static status_t widen_constant(rewrite_t *rewrite, const graph_node_t *node)
{
    datum_t *datum = NULL;
    TRY(widen_tensor(rewrite->ctx, datum_as_tensor(node->datum), &datum));
    const value_t old = node->outputs[0];
    rewrite_map(rewrite, old,
                graph_add_constant(rewrite->to, datum, rewrite_name(rewrite->from, old)));
    datum_release(datum);
    return STATUS_OK;
}

static status_t copy_as(rewrite_t *rewrite, const graph_node_t *node, dtype_t dtype)
{
    value_t *inputs;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs of a node",
                    &inputs));
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = as_dtype(rewrite, node->inputs[i], dtype, node->path);
    FINISH(dtype == DTYPE_F32 ? rewrite_emit(rewrite, node, inputs, node->outputs)
                              : rewrite_copy_with(rewrite, node, inputs),
           context_put(rewrite->ctx, inputs));
}

static bool is_written(const alias_t *alias, const graph_node_t *node)
{
    bool is_written = node->is_in_place;
    for (int i = 0; i < node->n_inputs; i++)
        is_written |= node->inputs[i] >= 0 && alias_is_mutated(alias, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        is_written |= alias_is_mutated(alias, node->outputs[i]);
    return is_written;
}

static status_t widen_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *const *alias = rewrite->user;
    bool has_narrow = false;
    for (int i = 0; i < node->n_inputs; i++) has_narrow |= was_narrow(rewrite, node->inputs[i]);
    *out_done = true;
    if (node->kind == NODE_CONSTANT && was_narrow(rewrite, node->outputs[0]) &&
        !is_written(*alias, node))
        return widen_constant(rewrite, node);
    const bool is_free = node->kind == NODE_OP && !is_written(*alias, node);
    if (is_free && rewrite_is_op(node, "cast") &&
        (has_narrow || has_dtype(graph_value_type(rewrite->from, node->inputs[0]), DTYPE_F32))) {
        const value_t wide = as_dtype(rewrite, node->inputs[0], DTYPE_F32, node->path);
        if (was_narrow(rewrite, node->outputs[0]) ||
            has_dtype(graph_value_type(rewrite->from, node->outputs[0]), DTYPE_F32)) {
            rewrite_map(rewrite, node->outputs[0], wide);
            return STATUS_OK;
        }
    }
    if (has_narrow) return copy_as(rewrite, node, is_free ? DTYPE_F32 : DTYPE_BF16);
    *out_done = false;
    return STATUS_OK;
}

static status_t narrow_results(rewrite_t *rewrite, const graph_block_t *block, value_t *results)
{
    for (int i = 0; i < block->n_results; i++)
        results[i] = as_dtype(rewrite, block->results[i], DTYPE_BF16, NULL);
    return STATUS_OK;
}

/* ---- pass ---- */

typedef struct finder {
    const graph_t *graph;
    bool has_product;
} finder_t;

static status_t find_product(void *user, const graph_node_t *node)
{
    finder_t *finder = user;
    const bool is_product = rewrite_conv(node) > 0 || rewrite_conv_transpose(node) > 0 ||
                            rewrite_is_op(node, "linear") || rewrite_is_op(node, "matmul");
    if (is_product && node->n_inputs > 1 && node->inputs[1] >= 0)
        finder->has_product |= has_dtype(graph_value_type(finder->graph, node->inputs[1]),
                                         DTYPE_BF16);
    return STATUS_OK;
}

bool widen_is_due(const graph_t *graph)
{
    finder_t finder = {graph, false};
    if (onednn_isa_has(onednn_isa(), ONEDNN_ISA_BF16)) return false;
    (void)rewrite_visit(graph_body(graph), find_product, &finder);
    return finder.has_product;
}

status_t widen_graph(context_t *ctx, const graph_t *graph, graph_t **out_graph)
{
    static const char *const passes[] = {"widen_precision", "common_subexpressions", "dead_code",
                                         NULL};
    if (!widen_is_due(graph)) return rewrite_nothing(graph, out_graph);
    return pass_run(ctx, graph, passes, NULL, out_graph);
}

status_t pass_widen_precision(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                              graph_t **out_graph)
{
    const alias_t *alias;
    (void)options;
    TRY(alias_of(ctx, graph, &alias));
    return rewrite_graph_to_end(ctx, graph, widen_node, narrow_results, &alias, out_graph);
}
