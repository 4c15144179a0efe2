#include <string.h>

#include "dispatch/post_impl.h"
#include "dispatch/select_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/analysis/weights_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "ops/conv/conv_impl.h"
#include "tensor/context_impl.h"

/* Computes a batch norm inside a convolution, if the convolution is the next node and the only
 * reader of the norm's result. Formats must have been chosen, and our own kernel must support both:
 *
 *   %n = batch_norm(%x, %s, %t, %m, %v) post=["relu"] : f32[1,128,28,28]@aBcd16b
 *   %y = conv2d(%n, %w, %b) : f32[1,32,28,28]@aBcd16b
 *
 * becomes
 *
 *   %y = batch_norm_conv2d(%x, %w, %b, %s, %t, %m, %v) activation="relu" : f32[1,32,28,28]@aBcd16b
 * */

typedef struct fusing {
    context_t *ctx;
    const graph_t *graph;
    const alias_t *alias;
    const opdef_t *op;
    const graph_node_t **norms; /* [values of the graph]: for a convolution's result, the batch norm
                                   before it, or NULL */
    bool *is_gone;              /* [values of the graph]: results of these batch norms */
    bool *is_converted;         /* [values of the graph]: results of reorders */
    const graph_node_t *before; /* the previous node, ignoring constants */
    int n_found;
} fusing_t;

/* The activation that equals the post-ops of the norm. False if there is none. */
static bool find_activation(const post_ops_t *post, int *out_activation)
{
    float lower = 0.0f, upper = 0.0f;
    *out_activation = BATCH_NORM_NONE;
    if (post->n == 0) return true;
    if (post->n > 1 || !post_is_clamp(&post->op[0], &lower, &upper) || lower != 0.0f) return false;
    *out_activation = BATCH_NORM_RELU;
    if (upper == conv_norm_highest(BATCH_NORM_RELU)) return true;
    *out_activation = BATCH_NORM_RELU6;
    return upper == conv_norm_highest(BATCH_NORM_RELU6);
}

static bool set_attrs(const fusing_t *fusing, const graph_node_t *conv, const graph_node_t *norm,
                      batch_norm_conv_attrs_t *out_attrs)
{
    attrs_init(&fusing->op->attrs, out_attrs);
    out_attrs->conv = *(const conv_attrs_t *)conv->attrs;
    out_attrs->conv.algorithm = CONV_DIRECT;
    out_attrs->epsilon = *(const double *)rewrite_attr(norm, "epsilon", ATTR_FLOAT);
    return find_activation(rewrite_post(norm), &out_attrs->activation);
}

/* Lists the operands of the fused operator, in its order. Returns their number. */
static int join_inputs(const graph_node_t *conv, const graph_node_t *norm, value_t *inputs)
{
    int n = 0;
    inputs[n++] = norm->inputs[0];
    for (int i = 1; i < CONV_NORM_WEIGHT; i++) inputs[n++] = conv->inputs[i];
    for (int i = 1; i < norm->n_inputs; i++) inputs[n++] = norm->inputs[i];
    for (int i = CONV_NORM_WEIGHT; i < conv->n_inputs; i++) inputs[n++] = conv->inputs[i];
    return n;
}

/* Checks whether our own kernel supports the fused call in the chosen formats. */
static status_t is_taken(const fusing_t *fusing, const graph_node_t *conv,
                         const batch_norm_conv_attrs_t *attrs, int n, const value_t *inputs,
                         bool *out_is)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[OP_MAX_INPUTS];
    const graph_type_t *out = graph_value_type(fusing->graph, conv->outputs[0]);
    prepared_t *prepared = NULL;
    *out_is = false;
    if (!type_is_static(out) || out->info.layout != LAYOUT_MKLDNN) return STATUS_OK;
    for (int i = 0; i < n; i++) {
        const graph_type_t *type = inputs[i] < 0 ? NULL
                                                 : graph_value_type(fusing->graph, inputs[i]);
        if (type != NULL && !type_is_static(type)) return STATUS_OK;
        infos[i] = type != NULL ? &type->info : &absent;
    }
    status_t status = select_fixed(fusing->ctx, fusing->op, attrs, n, infos,
                                   weights_of(fusing->graph, conv), LAYOUT_MKLDNN,
                                   &out->info.format, NULL, &prepared);
    *out_is = status == STATUS_OK;
    prepared_release(prepared);
    return status == STATUS_UNSUPPORTED ? STATUS_OK : status;
}

static status_t look_at_conv(fusing_t *fusing, const graph_node_t *conv)
{
    const graph_node_t *norm = rewrite_single_use(fusing->graph, conv->inputs[0], "batch_norm");
    batch_norm_conv_attrs_t attrs;
    value_t inputs[OP_MAX_INPUTS];
    bool is = false;
    if (norm == NULL || norm != fusing->before || norm->is_in_place ||
        norm->n_inputs != 1 + CONV_NORM_OPERANDS - CONV_NORM_WEIGHT ||
        conv->n_inputs < CONV_NORM_WEIGHT || conv->n_inputs + norm->n_inputs > OP_MAX_INPUTS ||
        !set_attrs(fusing, conv, norm, &attrs))
        return STATUS_OK;
    const int n = join_inputs(conv, norm, inputs);
    /* a plan lets kernels read the tensor before a reorder, but this kernel needs blocks */
    if (fusing->is_converted[norm->inputs[0]]) {
        pass_note(fusing->ctx, "fuse_norm_conv", conv, "the input of the norm was reordered");
        return STATUS_OK;
    }
    for (int i = 0; i < n; i++)
        if (alias_is_mutated(fusing->alias, inputs[i])) return STATUS_OK;
    TRY(is_taken(fusing, conv, &attrs, n, inputs, &is));
    if (!is) {
        pass_note(fusing->ctx, "fuse_norm_conv", conv,
                  "no kernel computes this batch norm inside the convolution");
        return STATUS_OK;
    }
    fusing->norms[conv->outputs[0]] = norm;
    fusing->is_gone[norm->outputs[0]] = true;
    fusing->n_found++;
    return STATUS_OK;
}

static status_t look(void *user, const graph_node_t *node)
{
    fusing_t *fusing = user;
    if (node->kind == NODE_OP && graph_is_conversion(node->op))
        fusing->is_converted[node->outputs[0]] = true;
    if (rewrite_is_op(node, "conv2d") && !node->is_in_place && node->inputs[0] >= 0)
        TRY(look_at_conv(fusing, node));
    if (node->kind != NODE_CONSTANT) fusing->before = node;
    return STATUS_OK;
}

static status_t emit_fused(rewrite_t *rewrite, const fusing_t *fusing, const graph_node_t *conv,
                           const graph_node_t *norm)
{
    batch_norm_conv_attrs_t attrs;
    value_t inputs[OP_MAX_INPUTS];
    (void)set_attrs(fusing, conv, norm, &attrs);
    const int n = join_inputs(conv, norm, inputs);
    for (int i = 0; i < n; i++)
        if (inputs[i] >= 0) inputs[i] = rewrite_value(rewrite, inputs[i]);
    graph_node_t fused = *conv;
    fused.op = fusing->op;
    fused.attrs = &attrs;
    fused.kernel = NULL;
    fused.n_inputs = n;
    fused.inputs = inputs;
    return rewrite_emit(rewrite, &fused, inputs, conv->outputs);
}

static status_t fuse(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const fusing_t *fusing = rewrite->user;
    if (node->kind != NODE_OP || node->n_outputs != 1) return STATUS_OK;
    const graph_node_t *norm = fusing->norms[node->outputs[0]];
    *out_done = norm != NULL || fusing->is_gone[node->outputs[0]];
    return norm != NULL ? emit_fused(rewrite, fusing, node, norm) : STATUS_OK;
}

static status_t find_and_fuse(fusing_t *fusing, graph_t **out_graph)
{
    const size_t n = (size_t)graph_n_values(fusing->graph);
    TRY(alias_of(fusing->ctx, fusing->graph, &fusing->alias));
    TRY(context_get_zeroed(fusing->ctx, n * sizeof(*fusing->norms), "values of a graph",
                           &fusing->norms));
    TRY(context_get_zeroed(fusing->ctx, n * sizeof(*fusing->is_gone), "values of a graph",
                           &fusing->is_gone));
    TRY(context_get_zeroed(fusing->ctx, n * sizeof(*fusing->is_converted), "values of a graph",
                           &fusing->is_converted));
    TRY(rewrite_visit(graph_body(fusing->graph), look, fusing));
    if (fusing->n_found == 0) return rewrite_nothing(fusing->graph, out_graph);
    return rewrite_graph(fusing->ctx, fusing->graph, fuse, fusing, out_graph);
}

status_t pass_fuse_norm_conv(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                             graph_t **out_graph)
{
    (void)options;
    fusing_t fusing = {.ctx = ctx, .graph = graph, .op = ops_find("batch_norm_conv2d")};
    FINISH(find_and_fuse(&fusing, out_graph),
           CONTEXT_PUT(ctx, fusing.norms, fusing.is_gone, fusing.is_converted));
}
