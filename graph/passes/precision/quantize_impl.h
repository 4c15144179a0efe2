/* Choosing the values that are computed as 8-bit integers. Used by `quantize` and by the
 * calibration before it. */
#ifndef TESSERA_GRAPH_PASSES_PRECISION_QUANTIZE_IMPL_H
#define TESSERA_GRAPH_PASSES_PRECISION_QUANTIZE_IMPL_H

#include "graph/passes/pass_impl.h"

/* The integers that represent a value: number = scale * (integer - zero). */
typedef struct quantize_site {
    bool is_wanted; /* a node reads the value as integers */
    int n_reads;    /* number of uses as integers */
    value_t same;   /* another value that must have the same scale, or VALUE_NONE */
    double low, high;
    dtype_t dtype; /* u8 */
    float scale;
    int32_t zero;
} quantize_site_t;

/* All arrays are indexed by value. A node is identified by its first output. */
typedef struct quantize_sites {
    quantize_site_t *items; /* [graph_n_values] */
    bool *has_range;        /* [graph_n_values] */
    bool *is_product;       /* [graph_n_values]: result of an integer product */
    bool *is_on_integers;   /* [graph_n_values]: result of a move or an addition of integers */
} quantize_sites_t;

/* Finds the products that `quantize` computes on integers, and the values that they read, using the
 * ranges in the options. Without ranges, every value counts as having one. quantize_clear frees the
 * arrays. */
status_t quantize_find(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       quantize_sites_t *out_sites);
void quantize_clear(context_t *ctx, quantize_sites_t *sites);

/* The value whose site holds the scale of a group of values with the same scale. */
value_t quantize_group(const quantize_sites_t *sites, value_t value);

/* True if a node reads this input as integers. */
bool quantize_reads(const quantize_sites_t *sites, const graph_node_t *node, int input);

/* The dimension of a product's weight with one scale for each index: that of the outputs. */
int quantize_weight_dim(const graph_node_t *product);

/* Quantizes an f32 weight to s8. Each index of dim has its own scale, so that its largest magnitude
 * becomes 127. The caller releases both results. */
status_t quantize_weight(context_t *ctx, const tensor_t *weight, int dim, tensor_t **out_integers,
                         tensor_t **out_scales);

#endif
