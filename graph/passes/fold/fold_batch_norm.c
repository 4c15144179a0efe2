#include <math.h>

#include "graph/passes/fold/fold_impl.h"
#include "tensor/context_impl.h"

/* For each channel, batch_norm(x) = (x - mean) / sqrt(var + epsilon) * weight + bias. The channels
 * of a linear layer's result are those of the norm only if the result's rank is 2. For other ranks
 * the norm is folded if all channels have equal parameters. */

enum { WEIGHT = 1, BIAS, MEAN, VARIANCE, N_OPERANDS };

static int operand(const graph_t *graph, const graph_node_t *node)
{
    (void)graph;
    return rewrite_is_op(node, "batch_norm") ? 0 : -1;
}

static double epsilon_of(const graph_node_t *node)
{
    return *(const double *)rewrite_attr(node, "epsilon", ATTR_FLOAT);
}

static bool has_own_channels(const fold_anchor_t *anchor)
{
    return anchor->is_linear && anchor->rank != 2;
}

static const char *check_values(const fold_anchor_t *anchor, int64_t n, const double *values,
                                double smallest)
{
    if (!has_own_channels(anchor) && n != anchor->n_channels)
        return "its number of channels differs from the operator before it";
    for (int64_t k = 0; k < n; k++) {
        if (!isfinite(values[k]) || !(values[k] > smallest))
            return "the folded constants are not finite";
        if (has_own_channels(anchor) && values[k] != values[0])
            return "after a linear of rank other than 2, its channels are not the last dimension";
    }
    return n > 0 ? NULL : "it has no channels";
}

static status_t check(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                      const fold_anchor_t *anchor, const char **out_reason)
{
    if (anchor->is_linear && anchor->rank == 0) *out_reason = "the rank is unknown";
    for (int i = WEIGHT; i < N_OPERANDS && *out_reason == NULL; i++) {
        double *values = NULL;
        int64_t n = 0;
        if (node->inputs[i] == VALUE_NONE) continue;
        TRY(fold_read(ctx, fold_constant(graph, node->inputs[i]), &values, &n));
        *out_reason = values == NULL ? "its parameters are not all constant"
                                     : check_values(anchor, n, values,
                                                    i == VARIANCE ? -epsilon_of(node) : -INFINITY);
        context_put(ctx, values);
    }
    return STATUS_OK;
}

/* Writes the operand; after a linear layer whose result's rank is not 2, only its first element,
 * because all are equal. */
static status_t write_operand(rewrite_t *rewrite, const graph_node_t *node, int i,
                              const fold_anchor_t *anchor, value_t *out_value)
{
    if (node->inputs[i] == VALUE_NONE) return STATUS_OK;
    TRY(fold_bring(rewrite, node->inputs[i], out_value));
    const datum_t *datum = fold_constant(rewrite->from, node->inputs[i]);
    if (!has_own_channels(anchor) || tensor_numel(datum_as_tensor(datum)) == 1) return STATUS_OK;
    return fold_apply(rewrite, "slice", "end=1", out_value);
}

static status_t write(rewrite_t *rewrite, const graph_node_t *node, const fold_anchor_t *anchor,
                      fold_operands_t *operands)
{
    operands->attrs.epsilon = epsilon_of(node);
    TRY(write_operand(rewrite, node, WEIGHT, anchor, &operands->scale));
    TRY(write_operand(rewrite, node, BIAS, anchor, &operands->shift));
    TRY(write_operand(rewrite, node, MEAN, anchor, &operands->mean));
    return write_operand(rewrite, node, VARIANCE, anchor, &operands->variance);
}

status_t pass_fold_batch_norm(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                              graph_t **out_graph)
{
    static const fold_rule_t rule = {"fold_batch_norm", ".bn_folded", operand, check, write};
    (void)options;
    return fold_graph(ctx, graph, &rule, out_graph);
}
