/* Folds per-channel affine operators into the weight and bias of the operator before them:
 *
 *   factor[k] * (bias[k] - mean[k] + sum(c,r,s) x * weight[k][c][r][s]) + shift[k]
 *
 * An anchor is a convolution, a transposed convolution or a linear layer whose weight is computed
 * from constants. A pass defines which nodes are affine, the conditions for folding, and the
 * operands. fold_graph adds fold_weight and fold_bias before the anchor; it also folds chains of
 * affine nodes. Constant propagation then computes the new weight and bias.
 *
 * The folder graph/passes/fold contains the passes that join operators: several operators become
 * one, or an operator moves into the weight, the post-ops or the loop of a neighbour. */
#ifndef TESSERA_GRAPH_PASSES_FOLD_FOLD_IMPL_H
#define TESSERA_GRAPH_PASSES_FOLD_FOLD_IMPL_H

#include "graph/passes/pass_impl.h"

typedef struct fold_anchor {
    const graph_node_t *node;
    value_t weight, bias; /* old values; weight before layout conversions */
    dtype_t dtype;        /* dtype of the weight */
    int64_t n_channels;   /* K */
    int64_t groups;       /* for a transposed conv, whose weight is [C][K/G][..]; else 1 */
    int rank;             /* rank of the output; 0: unknown (linear) */
    int channel_from_end; /* the output's channel dimension, counted from the last one (0) */
    bool is_transposed;
    bool is_linear;
} fold_anchor_t;

/* Operands of fold_bias that come from a node: new values, or VALUE_NONE. attrs: epsilon, and the
 * attributes of the anchor. */
typedef struct fold_operands {
    value_t scale, shift, mean, variance;
    fold_attrs_t attrs;
} fold_operands_t;

typedef struct fold_rule {
    const char *pass;
    const char *suffix; /* suffix for the names of folded values */

    /* Index of the operand to fold into its producer; -1 for nodes that are not affine. */
    int (*operand)(const graph_t *graph, const graph_node_t *node);

    /* Sets *out_reason if folding the node into the anchor is not legal. */
    status_t (*check)(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                      const fold_anchor_t *anchor, const char **out_reason);

    /* Adds nodes that compute the operands before the anchor, and sets `operands`. */
    status_t (*write)(rewrite_t *rewrite, const graph_node_t *node, const fold_anchor_t *anchor,
                      fold_operands_t *operands);
} fold_rule_t;

/* Runs a folding pass. */
status_t fold_graph(context_t *ctx, const graph_t *graph, const fold_rule_t *rule,
                    graph_t **out_graph);

/* The constant that a value is, directly or after layout conversions; NULL for other values. */
const datum_t *fold_constant(const graph_t *graph, value_t value);

/* The elements of a number or tensor, in row-major order, as doubles. The caller frees *out_values
 * with context_put. *out_values is NULL for other data. */
status_t fold_read(context_t *ctx, const datum_t *datum, double **out_values, int64_t *out_n);

/* The new value of a constant. A constant that follows the anchor is moved before it. */
status_t fold_bring(rewrite_t *rewrite, value_t value, value_t *out_value);

/* Applies an operator to a new value and replaces the value by the result. attrs: "end=1", or
 * "". */
status_t fold_apply(rewrite_t *rewrite, const char *op, const char *attrs, value_t *value);

#endif
