/* Where a graph of f32 is computed on integers of 8 bits: what pass `quantize`, and who measures
 * before it, have in common. */
#ifndef TESSERA_GRAPH_PASSES_QUANTIZE_IMPL_H
#define TESSERA_GRAPH_PASSES_QUANTIZE_IMPL_H

#include "graph/passes/pass_impl.h"

/* What stands for a value: number = scale * (integer - zero). */
typedef struct quantize_site {
    bool is_wanted; /* a node reads the value as integers */
    int n_reads;    /* uses as integers */
    value_t same;   /* another value that has to have the same scale, or VALUE_NONE */
    double low, high;
    dtype_t dtype; /* u8 */
    float scale;
    int32_t zero;
} quantize_site_t;

/* By value. A product on integers, and an operator whose result has to be integers, is known by its
 * first output. */
typedef struct quantize_sites {
    quantize_site_t *items; /* [graph_n_values] */
    bool *has_range;        /* [graph_n_values] */
    bool *is_product;       /* [graph_n_values]: a product of integers gives the value */
    bool *is_on_integers;   /* [graph_n_values]: a move or an addition between integers does */
} quantize_sites_t;

/* Finds the products that `quantize` makes of integers, and what they read, of the ranges in the
 * options; where these have none, of those that every value may get. quantize_clear puts the arrays
 * back. */
status_t quantize_find(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       quantize_sites_t *out_sites);
void quantize_clear(context_t *ctx, quantize_sites_t *sites);

/* The value whose site has the scale of all those that have to have one scale. */
value_t quantize_group(const quantize_sites_t *sites, value_t value);

/* Whether a node reads its input as integers. */
bool quantize_reads(const quantize_sites_t *sites, const graph_node_t *node, int input);

/* The dimension of a product's weight that has a scale for each index: that of the outputs. */
int quantize_weight_dim(const graph_node_t *product);

/* A weight of f32 as s8, with a scale for each index of dim: the largest magnitude is 127. The
 * caller drops both. */
status_t quantize_weight(context_t *ctx, const tensor_t *weight, int dim, tensor_t **out_integers,
                         tensor_t **out_scales);

#endif
