#include <string.h>

#include "graph/passes/fold_impl.h"
#include "tensor/context_impl.h"

/* x + c, c + x, x - c, c - x, x * c, c * x and x / c, where c is a number or a constant with one
 * element for each channel: [K,1,1] or [1,K,1,1] behind a 2-D conv, [K] or [1,K] behind a linear.
 */

typedef enum scale_kind { SCALE_NONE, SCALE_ADD, SCALE_SUB, SCALE_MUL, SCALE_DIV } scale_kind_t;

static scale_kind_t kind_of(const graph_node_t *node)
{
    if (node->n_inputs != 2) return SCALE_NONE;
    if (rewrite_is_op(node, "add")) return SCALE_ADD;
    if (rewrite_is_op(node, "sub")) return SCALE_SUB;
    if (rewrite_is_op(node, "mul")) return SCALE_MUL;
    return rewrite_is_op(node, "div") ? SCALE_DIV : SCALE_NONE;
}

static int operand(const graph_t *graph, const graph_node_t *node)
{
    scale_kind_t kind = kind_of(node);
    if (kind == SCALE_NONE || node->inputs[0] < 0 || node->inputs[1] < 0) return -1;
    if (graph_constant(graph, node->inputs[1]) != NULL) return 0;
    if (graph_constant(graph, node->inputs[0]) != NULL && kind != SCALE_DIV) return 1;
    return -1;
}

/* The constant may not change the result's dtype, as PyTorch promotes; where the graph knows the
 * result's type that has been compared already. */
static bool keeps_dtype(const tensor_t *constant, const fold_anchor_t *anchor)
{
    dtype_t dtype = tensor_dtype(constant);
    return tensor_rank(constant) == 0 || !dtype_is_floating(dtype) ||
           dtype_promote(dtype, tensor_dtype(anchor->weight)) == tensor_dtype(anchor->weight);
}

static const char *check_constant(const tensor_t *constant, const fold_anchor_t *anchor)
{
    int rank = tensor_rank(constant);
    const int64_t *sizes = tensor_sizes(constant);
    if (rank > (anchor->rank > 0 ? anchor->rank : 1)) return "the constant has a higher rank";
    if (!keeps_dtype(constant, anchor)) return "the constant has a wider dtype";
    for (int d = 0; d < rank; d++) {
        bool is_channel = rank - 1 - d == anchor->channel_from_end;
        if (sizes[d] != 1 && !(is_channel && sizes[d] == anchor->n_channels))
            return "the constant has elements that are not one for each channel";
    }
    return NULL;
}

/* One element, or one for each channel. */
static status_t read_constant(context_t *ctx, const datum_t *datum, const fold_anchor_t *anchor,
                              double **out_values, int64_t *out_n, const char **out_reason)
{
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_TENSOR) {
        const tensor_t *constant = datum_as_tensor(datum);
        *out_reason = check_constant(constant, anchor);
        if (*out_reason != NULL) return STATUS_OK;
        *out_n = tensor_numel(constant);
        return fold_read(ctx, constant, out_values);
    }
    if (kind != DATUM_INT && kind != DATUM_FLOAT && kind != DATUM_BOOL) {
        *out_reason = "the constant is no number";
        return STATUS_OK;
    }
    TRY(context_get(ctx, sizeof **out_values, "a number", out_values));
    **out_values = datum_as_float(datum);
    *out_n = 1;
    return STATUS_OK;
}

static status_t affine(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                       const fold_anchor_t *anchor, double *scale, double *shift,
                       const char **out_reason)
{
    scale_kind_t kind = kind_of(node);
    int at = operand(graph, node);
    double *values = NULL;
    int64_t n = 0;
    TRY(read_constant(ctx, graph_constant(graph, node->inputs[1 - at]), anchor, &values, &n,
                      out_reason));
    for (int64_t k = 0; k < anchor->n_channels && *out_reason == NULL; k++) {
        double c = values[n == 1 ? 0 : k];
        scale[k] = kind == SCALE_MUL ? c : kind == SCALE_DIV ? 1.0 / c : 1.0;
        shift[k] = kind == SCALE_ADD ? c : kind == SCALE_SUB ? -c : 0.0;
        if (kind == SCALE_SUB && at == 1) {
            scale[k] = -1.0;
            shift[k] = c;
        }
    }
    context_put(ctx, values);
    return STATUS_OK;
}

status_t pass_fold_scale(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                         graph_t **out_graph)
{
    static const fold_rule_t rule = {"fold_scale", operand, affine};
    (void)options;
    return fold_graph(ctx, graph, &rule, out_graph);
}
