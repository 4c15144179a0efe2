#include <string.h>

#include "graph/passes/pass_impl.h"

/* Which convolutions gain was measured over the 3x3 layers of the zoo: all that oneDNN takes, 1.2
 * to 2.5 times. Whether it takes one is for its shape to say, when a plan is made. Where weights
 * are trained they are transformed in each call, which pays from results of 13 by 13 on: ResNet-50
 * gains at 56, 28 and 14, and loses at 7. */

#define LEAST_TRAINED 13  /* rows and columns of the result */
#define LEAST_CHANNELS 16 /* of the source: fewer would be padded to that */

static bool is_all(const int64_t *values, int n, int64_t wanted)
{
    bool all = values != NULL;
    for (int i = 0; all && i < n; i++) all = values[i] == wanted;
    return all;
}

static bool has_info(const graph_type_t *type)
{
    return type->kind == TYPE_TENSOR && type->has_info;
}

/* What is known of the weight, which is constant unless weights are trained; or NULL. */
static const tensor_info_t *weight_info(const graph_t *graph, const graph_node_t *node, bool trains)
{
    const datum_t *weight = graph_constant(graph, node->inputs[1]);
    if (weight != NULL && datum_kind(weight) == DATUM_TENSOR)
        return tensor_info(datum_as_tensor(weight));
    const graph_type_t *type = graph_value_type(graph, node->inputs[1]);
    const graph_type_t *result = graph_value_type(graph, node->outputs[0]);
    if (!trains || !has_info(type) || !has_info(result) || result->info.rank != 4 ||
        result->info.sizes[2] < LEAST_TRAINED || result->info.sizes[3] < LEAST_TRAINED ||
        type->info.rank != 4 || type->info.sizes[1] < LEAST_CHANNELS)
        return NULL;
    return &type->info;
}

static bool gains(const graph_t *graph, const graph_node_t *node, bool trains)
{
    if (!rewrite_is_op(node, "conv2d")) return false;
    const int64_t *groups = rewrite_attr(node, "groups", ATTR_INT);
    const int *algorithm = rewrite_attr(node, "algorithm", ATTR_NAME);
    if (groups == NULL || *groups > 1 || algorithm == NULL || *algorithm != CONV_DIRECT)
        return false;
    const tensor_info_t *weight = weight_info(graph, node, trains);
    return weight != NULL && weight->dtype == DTYPE_F32 && weight->rank == 4 &&
           is_all(weight->sizes + 2, 2, 3) &&
           is_all(rewrite_attr(node, "stride", ATTR_ARRAY), 2, 1) &&
           is_all(rewrite_attr(node, "dilation", ATTR_ARRAY), 2, 1);
}

static status_t allow(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const pass_options_t *const *options = rewrite->user;
    if (!gains(rewrite->from, node, (*options)->trains)) return STATUS_OK;
    *out_done = true;
    conv_attrs_t attrs;
    memcpy(&attrs, node->attrs, sizeof attrs);
    attrs.algorithm = (*options)->trains ? CONV_WINOGRAD_TRAINING : CONV_WINOGRAD;
    graph_node_t copy = *node;
    copy.attrs = &attrs;
    value_t inputs[OP_MAX_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    return rewrite_emit(rewrite, &copy, inputs, node->outputs);
}

status_t pass_allow_winograd(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                             graph_t **out_graph)
{
    return rewrite_graph(ctx, graph, allow, &options, out_graph);
}
