#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "kernels/isa_impl.h"
#include "ops/conv/expand_depthwise_impl.h"
#include "tensor/context_impl.h"

/* Fuses a 1x1 convolution with the depthwise convolution that is its only reader, if this is
 * estimated to be faster on this machine:
 *
 *   %e = conv2d(%x, %v, %a) post=["clamp(0,6)"]                              f32[1,96,112,112]
 *   %y = conv2d(%e, %w, %b) padding=[1,1] groups=96 post=["clamp(0,6)"]
 *
 * becomes
 *
 *   %y = expand_depthwise(%x, %v, %a, %w, %b) padding=[1,1] activation="relu6" post=["clamp(0,6)"]
 *
 * The weights must be constants, because they are packed once. */

/* Cost of waiting for all threads between two operators, and of reading data that other threads
 * have written. Measured on MobileNetV2 with small images. */
#define JOIN_NS 7000.0

typedef struct fusing {
    context_t *ctx;
    const graph_t *graph;
    const alias_t *alias;
    const graph_node_t **firsts; /* [values of the graph]: for the result of a second convolution,
                                    the first convolution */
    bool *is_between;            /* [values of the graph]: result of a first convolution */
    int n_found;
} fusing_t;

enum { X, WEIGHT, BIAS, N_OPERANDS };

/* ---- shapes ---- */

static const tensor_info_t *info_of(const fusing_t *fusing, value_t value)
{
    const graph_type_t *type = value < 0 ? NULL : graph_value_type(fusing->graph, value);
    const bool is_known = type != NULL && type->kind == TYPE_TENSOR && type->has_info &&
                          type_is_static(type);
    return is_known ? &type->info : NULL;
}

static bool is_f32(const tensor_info_t *info)
{
    return info != NULL && info->dtype == DTYPE_F32;
}

static bool is_conv(const fusing_t *fusing, const graph_node_t *node)
{
    if (!rewrite_is_op(node, "conv2d") || node->n_inputs != N_OPERANDS || node->is_in_place)
        return false;
    for (int i = WEIGHT; i <= BIAS; i++)
        if (node->inputs[i] >= 0 && graph_constant(fusing->graph, node->inputs[i]) == NULL)
            return false;
    return is_f32(info_of(fusing, node->inputs[X])) &&
           is_f32(info_of(fusing, node->inputs[WEIGHT])) &&
           is_f32(info_of(fusing, node->outputs[0]));
}

static bool is_expanding(const fusing_t *fusing, const graph_node_t *node)
{
    if (!is_conv(fusing, node)) return false;
    const conv_attrs_t *attrs = node->attrs;
    const tensor_info_t *weight = info_of(fusing, node->inputs[WEIGHT]);
    for (int i = 0; i < 2; i++)
        if (attrs->stride[i] != 1 || attrs->padding[i] != 0 || attrs->extra_padding[i] != 0 ||
            weight->sizes[2 + i] != 1)
            return false;
    const bool has_activation = attrs->post.n == 1 &&
                                expand_activation_of(&attrs->post.op[0]) != EXPAND_ACTIVATIONS;
    return attrs->groups == 1 && (attrs->post.n == 0 || has_activation) &&
           !alias_is_mutated(fusing->alias, node->inputs[X]);
}

static bool is_depthwise(const fusing_t *fusing, const graph_node_t *node)
{
    if (!is_conv(fusing, node)) return false;
    const conv_attrs_t *attrs = node->attrs;
    const tensor_info_t *weight = info_of(fusing, node->inputs[WEIGHT]);
    return attrs->groups > 1 && attrs->groups == weight->sizes[0] && weight->sizes[1] == 1 &&
           info_of(fusing, node->inputs[X])->sizes[1] == attrs->groups && attrs->dilation[0] == 1 &&
           attrs->dilation[1] == 1;
}

static expand_depthwise_attrs_t join_attrs(const graph_node_t *first, const graph_node_t *second)
{
    const conv_attrs_t *one = first->attrs, *other = second->attrs;
    expand_depthwise_attrs_t attrs = {.activation = EXPAND_NONE};
    for (int i = 0; i < 2; i++) {
        attrs.conv.stride[i] = other->stride[i];
        attrs.conv.padding[i] = other->padding[i];
        attrs.conv.extra_padding[i] = other->extra_padding[i];
    }
    if (one->post.n == 1) attrs.activation = (int)expand_activation_of(&one->post.op[0]);
    attrs.conv.post = other->post;
    return attrs;
}

static void join_inputs(const graph_node_t *first, const graph_node_t *second, value_t *out_inputs)
{
    for (int i = 0; i < N_OPERANDS; i++) out_inputs[i] = first->inputs[i];
    for (int i = WEIGHT; i < N_OPERANDS; i++)
        out_inputs[N_OPERANDS - WEIGHT + i] = second->inputs[i];
}

/* ---- estimates ---- */

/* Estimates an operator on channel-blocked activations. *out_is_blocked: its kernel keeps that
 * format. */
static status_t estimate(const fusing_t *fusing, const opdef_t *op, const void *attrs, int n,
                         const value_t *inputs, double *out_ns, bool *out_is_blocked)
{
    const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const format_t blocks = format_channel_blocks(4, isa_lanes(isa_best()));
    const tensor_info_t x = info_mkldnn(info_of(fusing, inputs[X]), &blocks);
    const tensor_info_t *in[OP_MAX_INPUTS] = {&x};
    prepared_t *prepared = NULL;
    for (int i = WEIGHT; i < n; i++) in[i] = inputs[i] < 0 ? &absent : info_of(fusing, inputs[i]);
    TRY(select_for_weights(fusing->ctx, op, attrs, n, in, WEIGHT_CONSTANT, POLICY_AUTO, &prepared));
    *out_ns = prepared->cost_ns;
    *out_is_blocked = format_same(&prepared->in[X].format, &blocks, x.sizes) &&
                      format_same(&prepared->out[0].format, &blocks, prepared->out[0].sizes);
    prepared_release(prepared);
    return STATUS_OK;
}

static status_t pays(const fusing_t *fusing, const graph_node_t *first, const graph_node_t *second,
                     bool *out_pays)
{
    const expand_depthwise_attrs_t attrs = join_attrs(first, second);
    value_t inputs[2 * N_OPERANDS];
    double one = 0, other = 0, both = 0;
    bool is_blocked = false, unused;
    join_inputs(first, second, inputs);
    TRY(estimate(fusing, first->op, first->attrs, N_OPERANDS, first->inputs, &one, &unused));
    TRY(estimate(fusing, second->op, second->attrs, N_OPERANDS, second->inputs, &other, &unused));
    TRY(estimate(fusing, ops_find("expand_depthwise"), &attrs, 2 * N_OPERANDS - WEIGHT, inputs,
                 &both, &is_blocked));
    *out_pays = is_blocked && both < one + other + JOIN_NS;
    if (!*out_pays)
        pass_note(fusing->ctx, "fuse_expand_depthwise", second,
                  is_blocked ? "two separate operators are faster" : "no kernel does both");
    return STATUS_OK;
}

/* ---- rewriting ---- */

static status_t look(void *user, const graph_node_t *node)
{
    fusing_t *fusing = user;
    bool does_pay = false;
    if (!is_depthwise(fusing, node)) return STATUS_OK;
    const graph_node_t *first = rewrite_single_use(fusing->graph, node->inputs[X], "conv2d");
    if (first == NULL || !is_expanding(fusing, first)) return STATUS_OK;
    TRY(pays(fusing, first, node, &does_pay));
    if (!does_pay) return STATUS_OK;
    fusing->firsts[node->outputs[0]] = first;
    fusing->is_between[node->inputs[X]] = true;
    fusing->n_found++;
    return STATUS_OK;
}

static status_t fuse(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const fusing_t *fusing = rewrite->user;
    if (node->kind != NODE_OP || node->n_outputs != 1) return STATUS_OK;
    if (fusing->is_between[node->outputs[0]]) {
        *out_done = true;
        return STATUS_OK;
    }
    const graph_node_t *first = fusing->firsts[node->outputs[0]];
    if (first == NULL) return STATUS_OK;
    const expand_depthwise_attrs_t attrs = join_attrs(first, node);
    value_t inputs[2 * N_OPERANDS];
    graph_node_t fused = *node;
    join_inputs(first, node, inputs);
    fused.op = ops_find("expand_depthwise");
    fused.attrs = (void *)&attrs;
    fused.n_inputs = 2 * N_OPERANDS - WEIGHT;
    for (int i = 0; i < fused.n_inputs; i++) inputs[i] = rewrite_value(rewrite, inputs[i]);
    *out_done = true;
    return rewrite_emit(rewrite, &fused, inputs, node->outputs);
}

static status_t find_and_fuse(fusing_t *fusing, graph_t **out_graph)
{
    const size_t n = (size_t)graph_n_values(fusing->graph);
    TRY(alias_of(fusing->ctx, fusing->graph, &fusing->alias));
    TRY(context_get_zeroed(fusing->ctx, n * sizeof(*fusing->firsts), "values of a graph",
                           &fusing->firsts));
    TRY(context_get_zeroed(fusing->ctx, n * sizeof(*fusing->is_between), "values of a graph",
                           &fusing->is_between));
    TRY(rewrite_visit(graph_body(fusing->graph), look, fusing));
    if (fusing->n_found == 0) return rewrite_nothing(fusing->graph, out_graph);
    return rewrite_graph(fusing->ctx, fusing->graph, fuse, fusing, out_graph);
}

status_t pass_fuse_expand_depthwise(context_t *ctx, const graph_t *graph,
                                    const pass_options_t *options, graph_t **out_graph)
{
    (void)options;
    fusing_t fusing = {.ctx = ctx, .graph = graph};
    FINISH(find_and_fuse(&fusing, out_graph), CONTEXT_PUT(ctx, fusing.firsts, fusing.is_between));
}
