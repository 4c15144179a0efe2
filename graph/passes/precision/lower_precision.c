#include <stdalign.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/passes/precision/precision_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/text_impl.h"

/* Computes f32 convolutions, linear layers and matmuls in the narrow dtype of the options (bf16),
 * with sums in f32. Operators after these become narrow, too, if all their inputs are narrow.
 * Readers of another dtype get casts; common_subexpressions merges equal casts, and
 * constant_propagation runs casts of weights. Biases, softmax, losses and all operators not listed
 * here stay f32. */

/* ---- kinds of operators ---- */

static const char *const following[] = {
    "relu",
    "relu6",
    "clamp",
    "leaky_relu",
    "elu",
    "celu",
    "selu",
    "gelu",
    "sigmoid",
    "tanh",
    "hardsigmoid",
    "hardswish",
    "silu",
    "softplus",
    "mish",
    "prelu",
    "add",
    "mul",
    "maximum",
    "minimum",
    "concat",
    "pad",
    "resize",
    "batch_norm",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    NULL,
};

static bool lists(const char *const *names, const char *name)
{
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

static const tensor_info_t *info_of(const graph_type_t *type)
{
    return type->kind == TYPE_TENSOR && type->has_info ? &type->info : NULL;
}

static bool has_dtype(const graph_type_t *type, dtype_t dtype)
{
    const tensor_info_t *info = info_of(type);
    return info != NULL && info->dtype == dtype;
}

/* True for a mean over height and width, which is pooling; other means are parts of norms. */
static bool is_pooling_mean(const graph_t *graph, const graph_node_t *node)
{
    if (!rewrite_is_op(node, "mean")) return false;
    const tensor_info_t *x = info_of(graph_value_type(graph, node->inputs[0]));
    const tensor_info_t *y = info_of(graph_value_type(graph, node->outputs[0]));
    if (x == NULL || y == NULL || x->rank < 4) return false;
    const bool keeps = y->rank == x->rank;
    if (!keeps && y->rank != 2) return false;
    for (int d = 2; keeps && d < y->rank; d++)
        if (y->sizes[d] != 1) return false;
    return y->sizes[0] == x->sizes[0] && y->sizes[1] == x->sizes[1];
}

static bool follows(const graph_t *graph, const graph_node_t *node)
{
    return (node->op->traits & TRAIT_VIEW) != 0 || lists(following, node->op->name) ||
           is_pooling_mean(graph, node);
}

static bool is_constant(const graph_t *graph, value_t value, int depth)
{
    const graph_node_t *node = value < 0 ? NULL : graph_producer(graph, value);
    if (value == VALUE_NONE) return true;
    if (node == NULL || depth == 0) return false;
    if (node->kind == NODE_CONSTANT) return true;
    if (node->kind != NODE_OP || node->is_in_place) return false;
    for (int i = 0; i < node->n_inputs; i++)
        if (!is_constant(graph, node->inputs[i], depth - 1)) return false;
    return true;
}

operand_role_t precision_role(const graph_node_t *node, int index)
{
    const int n_own = node->n_inputs - node->n_post_inputs;
    return index < n_own && index < node->op->n_operands ? node->op->operands[index].role
                                                         : ROLE_ACTIVATION;
}

/* True for an f32 product whose operands can be narrow, with sums in f32. A weight must be
 * constant, because any other weight would be cast in each run. */
static bool is_product(const graph_t *graph, const graph_node_t *node)
{
    if (rewrite_conv(node) == 0 && rewrite_conv_transpose(node) == 0 &&
        !rewrite_is_op(node, "linear") && !rewrite_is_op(node, "matmul"))
        return false;
    for (int i = 0; i < node->n_inputs; i++) {
        const operand_role_t role = precision_role(node, i);
        if (role == ROLE_WEIGHT && !is_constant(graph, node->inputs[i], 16)) return false;
        if (i < 2 && (node->inputs[i] < 0 ||
                      !has_dtype(graph_value_type(graph, node->inputs[i]), DTYPE_F32)))
            return false;
    }
    return has_dtype(graph_value_type(graph, node->outputs[0]), DTYPE_F32);
}

bool precision_is_kept(const graph_node_t *node, const char *const *patterns)
{
    for (; patterns != NULL && *patterns != NULL && node->path != NULL; patterns++)
        if (text_matches(*patterns, node->path)) return true;
    return false;
}

bool precision_may_lower(const graph_t *graph, const alias_t *alias, const graph_node_t *node)
{
    if (node->kind != NODE_OP || node->is_in_place || !is_product(graph, node)) return false;
    bool is_written = alias_is_mutated(alias, node->outputs[0]);
    for (int i = 0; i < node->n_inputs; i++) {
        const value_t input = node->inputs[i];
        is_written |= input >= 0 && alias_is_mutated(alias, input);
        if (input >= 0 && graph_value_type(graph, input)->info.format.kind == FORMAT_GROUPED)
            return false;
    }
    return !is_written;
}

/* ---- values of the new graph ---- */

typedef struct lowering {
    const pass_options_t *options;
    const alias_t *alias;
} lowering_t;

/* True if an old f32 value is narrow in the new graph. */
static bool is_narrow(const rewrite_t *rewrite, value_t old)
{
    const lowering_t *lowering = rewrite->user;
    if (old < 0 || !has_dtype(graph_value_type(rewrite->from, old), DTYPE_F32)) return false;
    const value_t value = rewrite_value(rewrite, old);
    return value >= 0 &&
           has_dtype(graph_builder_type(rewrite->to, value), lowering->options->dtype);
}

value_t precision_cast(rewrite_t *rewrite, value_t value, dtype_t dtype, const char *path)
{
    alignas(16) char attrs[ATTRS_MAX];
    const opdef_t *cast = ops_find("cast");
    const graph_node_t node = {.kind = NODE_OP, .op = cast};
    attrs_init(&cast->attrs, attrs);
    *(dtype_t *)rewrite_attr_in(&node, attrs, "dtype", ATTR_DTYPE) = dtype;
    return graph_add_op(rewrite->to, cast, attrs, 1, &value, path);
}

static value_t wide(rewrite_t *rewrite, value_t old, const char *path)
{
    const value_t value = rewrite_value(rewrite, old);
    return is_narrow(rewrite, old) ? precision_cast(rewrite, value, DTYPE_F32, path) : value;
}

static value_t narrow(rewrite_t *rewrite, value_t old, const char *path)
{
    const lowering_t *lowering = rewrite->user;
    const value_t value = rewrite_value(rewrite, old);
    const bool is_wide = old >= 0 && !is_narrow(rewrite, old) &&
                         has_dtype(graph_value_type(rewrite->from, old), DTYPE_F32);
    return is_wide ? precision_cast(rewrite, value, lowering->options->dtype, path) : value;
}

/* ---- nodes ---- */

/* True for numbers, and for post-op operands that broadcast to the result. Both may have any
 * dtype. */
static bool is_small(const graph_t *graph, value_t value, const graph_node_t *node)
{
    const tensor_info_t *info = info_of(graph_value_type(graph, value));
    const tensor_info_t *result = info_of(graph_value_type(graph, node->outputs[0]));
    return info != NULL && result != NULL &&
           !shape_equal(info->rank, info->sizes, result->rank, result->sizes);
}

static status_t lower_product(rewrite_t *rewrite, const graph_node_t *node)
{
    value_t inputs[OP_MAX_INPUTS];
    const int n_own = node->n_inputs - node->n_post_inputs;
    INVARIANT(node->n_inputs <= OP_MAX_INPUTS);
    for (int i = 0; i < node->n_inputs; i++) {
        const operand_role_t role = precision_role(node, i);
        const bool stays = role == ROLE_BIAS || role == ROLE_STATE ||
                           (i >= n_own && is_small(rewrite->from, node->inputs[i], node));
        inputs[i] = stays ? wide(rewrite, node->inputs[i], node->path)
                          : narrow(rewrite, node->inputs[i], node->path);
    }
    return rewrite_emit(rewrite, node, inputs, node->outputs);
}

/* True if all f32 tensors that the node reads as activations have become narrow. Numbers have no
 * dtype of their own, and prelu's slope gets the dtype of its input. */
static bool reads_narrow(const rewrite_t *rewrite, const graph_node_t *node)
{
    int n_narrow = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        const value_t old = node->inputs[i];
        if (old < 0 || !has_dtype(graph_value_type(rewrite->from, old), DTYPE_F32)) continue;
        if (is_narrow(rewrite, old)) {
            n_narrow++;
            continue;
        }
        const tensor_info_t *info = info_of(graph_value_type(rewrite->from, old));
        if (precision_role(node, i) == ROLE_ACTIVATION && info->rank > 0) return false;
    }
    return n_narrow > 0;
}

static bool may_follow(const rewrite_t *rewrite, const graph_node_t *node)
{
    const lowering_t *lowering = rewrite->user;
    if (node->kind != NODE_OP || node->is_in_place || !follows(rewrite->from, node)) return false;
    if (precision_is_kept(node, lowering->options->keep_f32)) return false;
    bool is_written = false;
    for (int i = 0; i < node->n_outputs; i++)
        is_written |= alias_is_mutated(lowering->alias, node->outputs[i]);
    return !is_written && reads_narrow(rewrite, node);
}

static status_t follow(rewrite_t *rewrite, const graph_node_t *node)
{
    value_t inputs[OP_MAX_INPUTS];
    INVARIANT(node->n_inputs <= OP_MAX_INPUTS);
    for (int i = 0; i < node->n_inputs; i++) {
        const bool is_slope = rewrite_is_op(node, "prelu") && i == 1;
        inputs[i] = is_slope ? narrow(rewrite, node->inputs[i], node->path)
                             : rewrite_value(rewrite, node->inputs[i]);
    }
    return rewrite_emit(rewrite, node, inputs, node->outputs);
}

static status_t copy_wide(rewrite_t *rewrite, const graph_node_t *node)
{
    value_t *inputs;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs of a node",
                    &inputs));
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = wide(rewrite, node->inputs[i], node->path);
    FINISH(rewrite_copy_with(rewrite, node, inputs), context_put(rewrite->ctx, inputs));
}

static status_t lower_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const lowering_t *lowering = rewrite->user;
    *out_done = true;
    if (precision_may_lower(rewrite->from, lowering->alias, node)) {
        if (!precision_is_kept(node, lowering->options->keep_f32))
            return lower_product(rewrite, node);
        pass_note(rewrite->ctx, "lower_precision", node, "it is kept in f32");
    }
    if (may_follow(rewrite, node)) return follow(rewrite, node);
    for (int i = 0; i < node->n_inputs; i++)
        if (is_narrow(rewrite, node->inputs[i])) return copy_wide(rewrite, node);
    *out_done = false;
    return STATUS_OK;
}

static status_t widen_results(rewrite_t *rewrite, const graph_block_t *block, value_t *results)
{
    for (int i = 0; i < block->n_results; i++) results[i] = wide(rewrite, block->results[i], NULL);
    return STATUS_OK;
}

status_t pass_lower_precision(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                              graph_t **out_graph)
{
    lowering_t lowering = {.options = options};
    if (options->dtype != DTYPE_BF16) return rewrite_nothing(graph, out_graph);
    TRY(alias_of(ctx, graph, &lowering.alias));
    return rewrite_graph_to_end(ctx, graph, lower_node, widen_results, &lowering, out_graph);
}
