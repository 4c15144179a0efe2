#include <math.h>

#include "graph/passes/fold/fold_impl.h"
#include "tensor/context_impl.h"

/* Folds x + c, c + x, x - c, c - x, x * c, c * x and x / c into the operator that computes x. c is
 * a number, or one element per channel: [K,1,1] or [1,K,1,1] (2-D conv), [K] or [1,K] (linear). */

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
    if (fold_constant(graph, node->inputs[1]) != NULL) return 0;
    if (fold_constant(graph, node->inputs[0]) != NULL && kind != SCALE_DIV) return 1;
    return -1;
}

/* True if type promotion with the constant keeps the result's dtype. fold_graph has already
 * compared dtypes if the graph knows the result's type. */
static bool keeps_dtype(const tensor_t *constant, const fold_anchor_t *anchor)
{
    dtype_t dtype = tensor_dtype(constant);
    return tensor_rank(constant) == 0 || !dtype_is_floating(dtype) ||
           dtype_promote(dtype, anchor->dtype) == anchor->dtype;
}

static const char *check_tensor(const tensor_t *constant, const fold_anchor_t *anchor)
{
    int rank = tensor_rank(constant);
    const int64_t *sizes = tensor_sizes(constant);
    if (rank > (anchor->rank > 0 ? anchor->rank : 1)) return "the constant has a higher rank";
    if (!keeps_dtype(constant, anchor)) return "the constant has a wider dtype";
    for (int d = 0; d < rank; d++) {
        bool is_channel = rank - 1 - d == anchor->channel_from_end;
        if (sizes[d] != 1 && !(is_channel && sizes[d] == anchor->n_channels))
            return "the constant does not have one element per channel";
    }
    return NULL;
}

/* A divisor must have a finite reciprocal in f32. */
static const char *check_values(bool divides, int64_t n, const double *values)
{
    for (int64_t k = 0; k < n; k++)
        if (!isfinite(values[k]) || (divides && !isfinite((float)(1.0 / values[k]))))
            return "the folded constants are not finite";
    return NULL;
}

static status_t check(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                      const fold_anchor_t *anchor, const char **out_reason)
{
    const datum_t *datum = fold_constant(graph, node->inputs[1 - operand(graph, node)]);
    double *values = NULL;
    int64_t n = 0;
    if (datum_kind(datum) == DATUM_TENSOR)
        *out_reason = check_tensor(datum_as_tensor(datum), anchor);
    if (*out_reason != NULL) return STATUS_OK;
    TRY(fold_read(ctx, datum, &values, &n));
    *out_reason = values == NULL ? "the constant is not a number"
                                 : check_values(kind_of(node) == SCALE_DIV, n, values);
    context_put(ctx, values);
    return STATUS_OK;
}

/* Computes 1 / c, in f32 if c is narrower. */
static status_t invert(rewrite_t *rewrite, const datum_t *datum, value_t *value)
{
    bool is_tensor = datum_kind(datum) == DATUM_TENSOR;
    dtype_t dtype = is_tensor ? tensor_dtype(datum_as_tensor(datum)) : DTYPE_F32;
    if (dtype == DTYPE_F16 || dtype == DTYPE_BF16)
        TRY(fold_apply(rewrite, "cast", "dtype=f32", value));
    return fold_apply(rewrite, "reciprocal", "", value);
}

static status_t negative_one(rewrite_t *rewrite, value_t *out_value)
{
    datum_t *datum = NULL;
    TRY(datum_int(rewrite->ctx, -1, &datum));
    *out_value = graph_add_literal(rewrite->to, datum);
    datum_release(datum);
    return STATUS_OK;
}

static status_t write(rewrite_t *rewrite, const graph_node_t *node, const fold_anchor_t *anchor,
                      fold_operands_t *operands)
{
    (void)anchor;
    int at = operand(rewrite->from, node);
    value_t old = node->inputs[1 - at], constant = VALUE_NONE;
    TRY(fold_bring(rewrite, old, &constant));
    switch (kind_of(node)) {
    case SCALE_ADD: operands->shift = constant; return STATUS_OK;
    case SCALE_MUL: operands->scale = constant; return STATUS_OK;
    case SCALE_SUB:
        if (at == 0) {
            operands->mean = constant;
            return STATUS_OK;
        }
        operands->shift = constant;
        return negative_one(rewrite, &operands->scale);
    default:
        operands->scale = constant;
        return invert(rewrite, fold_constant(rewrite->from, old), &operands->scale);
    }
}

status_t pass_fold_scale(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                         graph_t **out_graph)
{
    static const fold_rule_t rule = {"fold_scale", ".folded", operand, check, write};
    (void)options;
    return fold_graph(ctx, graph, &rule, out_graph);
}
