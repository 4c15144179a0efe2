#include <string.h>

#include "graph/passes/pass_impl.h"

/* Which convolutions gain was measured over the 3x3 layers of the zoo: all that oneDNN takes, 1.2
 * to 2.5 times. Whether it takes one is for its shape to say, when a plan is made. */

static bool is_all(const int64_t *values, int n, int64_t wanted)
{
    bool all = values != NULL;
    for (int i = 0; all && i < n; i++) all = values[i] == wanted;
    return all;
}

static bool gains(const graph_t *graph, const graph_node_t *node)
{
    if (!rewrite_is_op(node, "conv2d")) return false;
    const datum_t *weight = graph_constant(graph, node->inputs[1]);
    const int64_t *groups = rewrite_attr(node, "groups", ATTR_INT);
    const int *algorithm = rewrite_attr(node, "algorithm", ATTR_NAME);
    if (weight == NULL || datum_kind(weight) != DATUM_TENSOR || groups == NULL || *groups > 1 ||
        algorithm == NULL || *algorithm == CONV_WINOGRAD)
        return false;
    const tensor_t *tensor = datum_as_tensor(weight);
    return tensor_dtype(tensor) == DTYPE_F32 && tensor_rank(tensor) == 4 &&
           is_all(tensor_sizes(tensor) + 2, 2, 3) &&
           is_all(rewrite_attr(node, "stride", ATTR_ARRAY), 2, 1) &&
           is_all(rewrite_attr(node, "dilation", ATTR_ARRAY), 2, 1);
}

static status_t allow(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    if (!gains(rewrite->from, node)) return STATUS_OK;
    *out_done = true;
    conv_attrs_t attrs;
    memcpy(&attrs, node->attrs, sizeof attrs);
    attrs.algorithm = CONV_WINOGRAD;
    graph_node_t copy = *node;
    copy.attrs = &attrs;
    value_t inputs[OP_MAX_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    return rewrite_emit(rewrite, &copy, inputs, node->outputs);
}

status_t pass_allow_winograd(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                             graph_t **out_graph)
{
    (void)options;
    return rewrite_graph(ctx, graph, allow, NULL, out_graph);
}
