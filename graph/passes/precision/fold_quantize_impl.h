/* For pass fold_quantize: computes the constants that an integer convolution applies to its
 * sums. */
#ifndef TESSERA_GRAPH_PASSES_PRECISION_FOLD_QUANTIZE_IMPL_H
#define TESSERA_GRAPH_PASSES_PRECISION_FOLD_QUANTIZE_IMPL_H

#include "graph/passes/pass_impl.h"

/* A quantized value: integers, scale and zero. VALUE_NONE means scale 1 or zero 0. */
typedef struct fold_pair {
    value_t integers, scale, zero;
} fold_pair_t;

/* result = (x * weight + bias) + addend, then relu. */
typedef struct fold_conv {
    const graph_t *graph;
    fold_pair_t x, weight, addend, result;
    value_t bias;
    bool has_addend, has_relu;
} fold_conv_t;

/* Constants applied to the sums: bias and multiplier of each channel, and the factor of the addend.
 * Also the integer that represents 0 in x. */
typedef struct fold_sums {
    float *bias, *multiplier;
    double addend_scale;
    int x_zero;
} fold_sums_t;

/* Number of output channels; 0 if the weight is not a constant. */
int64_t fold_conv_channels(const fold_conv_t *conv);

/* Computes fold_sums_t. Its bias and multiplier have one element for each channel, or are NULL (not
 * wanted). False if a number is not constant or does not fit f32. */
bool fold_conv_sums(const fold_conv_t *conv, fold_sums_t *out_sums);

/* True if larger numbers have larger integers: the scale is known and above 0.
 * objects: from attribute_objects, to read scales that are attributes; NULL: only constants are
 * known. */
bool fold_may_order(const graph_t *graph, module_t *const *objects, value_t scale);

#endif
