/* Folding of what is affine for each channel into the weight and bias of the operator before it:
 *
 *   factor[k] * (bias[k] - mean[k] + sum(c,r,s) x * weight[k][c][r][s]) + shift[k]
 *
 * An anchor is a conv, a transposed conv or a linear whose weight is computed from constants. A
 * pass says which nodes are affine, when that is legal, and which values they bring; fold_graph
 * writes fold_weight and fold_bias in front of the anchor, for chains one behind the other, and
 * leaves it to constant propagation to run them. */
#ifndef TESSERA_GRAPH_PASSES_FOLD_IMPL_H
#define TESSERA_GRAPH_PASSES_FOLD_IMPL_H

#include "graph/passes/pass_impl.h"

typedef struct fold_anchor {
    const graph_node_t *node;
    value_t weight, bias; /* old values; the weight's before it was converted */
    dtype_t dtype;        /* of the weight */
    int64_t n_channels;   /* K */
    int64_t groups;       /* of a transposed conv, whose weight is [C][K/G][..]; else 1 */
    int rank;             /* of the output; 0: not known (linear) */
    int channel_from_end; /* where the channels stand in the output: 0 the last dimension */
    bool is_transposed;
    bool is_linear;
} fold_anchor_t;

/* What a node brings, as operands of fold_bias: values of the new graph, or VALUE_NONE; and the
 * attributes, which are the anchor's but for epsilon. */
typedef struct fold_operands {
    value_t scale, shift, mean, variance;
    fold_attrs_t attrs;
} fold_operands_t;

typedef struct fold_rule {
    const char *pass;
    const char *suffix; /* of the names of what is folded */

    /* The operand that is folded into what makes it, or -1 for nodes that are not affine. */
    int (*operand)(const graph_t *graph, const graph_node_t *node);

    /* Gives a reason where it is not legal to fold the node into the anchor. */
    status_t (*check)(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                      const fold_anchor_t *anchor, const char **out_reason);

    /* Adds what computes the operands in front of the anchor, and changes what they are. */
    status_t (*write)(rewrite_t *rewrite, const graph_node_t *node, const fold_anchor_t *anchor,
                      fold_operands_t *operands);
} fold_rule_t;

/* The whole pass. */
status_t fold_graph(context_t *ctx, const graph_t *graph, const fold_rule_t *rule,
                    graph_t **out_graph);

/* The constant that a value is, whatever layouts it was converted to; NULL for others. */
const datum_t *fold_constant(const graph_t *graph, value_t value);

/* The elements of a number or of a tensor of any layout in row-major order as doubles; put back
 * with context_put. *out_values is NULL, and so for what is neither. */
status_t fold_read(context_t *ctx, const datum_t *datum, double **out_values, int64_t *out_n);

/* The new value of such a constant. It is brought in front of the anchor if it stands behind. */
status_t fold_bring(rewrite_t *rewrite, value_t value, value_t *out_value);

/* Replaces a new value by what an operator of one operand makes of it. attrs: "end=1", or "". */
status_t fold_apply(rewrite_t *rewrite, const char *op, const char *attrs, value_t *value);

#endif
