#include <math.h>

#include "graph/passes/fold_impl.h"
#include "tensor/context_impl.h"

/* batch_norm(x) = (x - mean) / sqrt(var + epsilon) * weight + bias, for each channel. Behind a
 * linear its channels are those of the linear only where the rank is 2. */

enum { WEIGHT = 1, BIAS, MEAN, VARIANCE, N_OPERANDS };

static int operand(const graph_t *graph, const graph_node_t *node)
{
    (void)graph;
    return rewrite_is_op(node, "batch_norm") ? 0 : -1;
}

/* An operand's channels; `absent` where it is left out. */
static status_t read_operand(context_t *ctx, const graph_t *graph, const graph_node_t *node, int i,
                             int64_t n, double absent, double **out_values, const char **out_reason)
{
    value_t value = i < node->n_inputs ? node->inputs[i] : GRAPH_NONE;
    if (value == GRAPH_NONE) {
        if (i == MEAN || i == VARIANCE) *out_reason = "it has no running statistics";
        double *values;
        TRY(context_get(ctx, (size_t)n * sizeof *values, "channels", &values));
        for (int64_t k = 0; k < n; k++) values[k] = absent;
        *out_values = values;
        return STATUS_OK;
    }
    const datum_t *datum = graph_constant(graph, value);
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) {
        *out_reason = "its parameters are not all constant";
        return STATUS_OK;
    }
    if (tensor_numel(datum_as_tensor(datum)) != n) {
        *out_reason = "its channels are not those of the operator before it";
        return STATUS_OK;
    }
    return fold_read(ctx, datum_as_tensor(datum), out_values);
}

static status_t affine(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                       const fold_anchor_t *anchor, double *scale, double *shift,
                       const char **out_reason)
{
    static const double absent[N_OPERANDS] = {0.0, 1.0, 0.0, 0.0, 1.0};
    const double *epsilon = rewrite_attr(node, NULL, ATTR_FLOAT);
    double *values[N_OPERANDS] = {NULL};
    status_t status = STATUS_OK;
    if (anchor->is_linear && anchor->rank != 2)
        *out_reason =
            "behind a linear of rank other than 2 the channels are not the last dimension";
    for (int i = WEIGHT; i < N_OPERANDS && *out_reason == NULL && status == STATUS_OK; i++)
        status = read_operand(ctx, graph, node, i, anchor->n_channels, absent[i], &values[i],
                              out_reason);
    if (status == STATUS_OK && *out_reason == NULL) {
        for (int64_t k = 0; k < anchor->n_channels; k++) {
            double variance = values[VARIANCE][k] + (epsilon != NULL ? *epsilon : 0.0);
            scale[k] = values[WEIGHT][k] / sqrt(variance);
            shift[k] = values[BIAS][k] - values[MEAN][k] * scale[k];
        }
    }
    for (int i = WEIGHT; i < N_OPERANDS; i++) context_put(ctx, values[i]);
    return status;
}

status_t pass_fold_batch_norm(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                              graph_t **out_graph)
{
    static const fold_rule_t rule = {"fold_batch_norm", operand, affine};
    (void)options;
    return fold_graph(ctx, graph, &rule, out_graph);
}
