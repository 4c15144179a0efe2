/* Folding of what is affine for each channel into the weight and bias of the operator before it:
 *
 *   scale[k] * (bias[k] + sum(c,r,s) x * weight[k][c][r][s]) + shift[k]
 *
 * An anchor is a conv, a transposed conv or a linear whose weight is constant. A pass says which
 * nodes are affine; chains of them fold into one anchor. */
#ifndef TESSERA_GRAPH_PASSES_FOLD_IMPL_H
#define TESSERA_GRAPH_PASSES_FOLD_IMPL_H

#include "graph/pass_impl.h"

typedef struct fold_anchor {
    const graph_node_t *node;
    int64_t n_channels;   /* K */
    int64_t groups;       /* of a transposed conv, whose weight is [C][K/G][..]; else 1 */
    int rank;             /* of the output; 0: not known (linear) */
    int channel_from_end; /* where the channels stand in the output: 0 the last dimension */
    bool is_transposed;
    bool is_linear;
    const tensor_t *weight;
    const tensor_t *bias; /* or NULL */
} fold_anchor_t;

typedef struct fold_rule {
    const char *pass;

    /* The operand that is folded into what makes it, or -1 for nodes that are not affine. */
    int (*operand)(const graph_t *graph, const graph_node_t *node);

    /* Fills scale and shift, n_channels each, or gives a reason why that is not legal. */
    status_t (*affine)(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                       const fold_anchor_t *anchor, double *scale, double *shift,
                       const char **out_reason);
} fold_rule_t;

/* The whole pass. */
status_t fold_graph(context_t *ctx, const graph_t *graph, const fold_rule_t *rule,
                    graph_t **out_graph);

/* Elements of a tensor of any layout in row-major order as doubles; put back with context_put. */
status_t fold_read(context_t *ctx, const tensor_t *tensor, double **out_values);

#endif
