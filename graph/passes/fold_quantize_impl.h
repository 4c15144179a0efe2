/* For pass `fold_quantize`: constants that an integer convolution applies to its sums. */
#ifndef TESSERA_GRAPH_PASSES_FOLD_QUANTIZE_IMPL_H
#define TESSERA_GRAPH_PASSES_FOLD_QUANTIZE_IMPL_H

#include "graph/passes/pass_impl.h"

/* A quantized value: integers, scale and zero. VALUE_NONE: no such operand, scale 1, zero 0. */
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

/* Per-channel bias and multiplier of the sums; factor for the addend; integer in x that represents
 * 0. */
typedef struct fold_sums {
    float *bias, *multiplier;
    double addend_scale;
    int x_zero;
} fold_sums_t;

/* Number of output channels; 0 if the weight is not a constant. */
int64_t fold_conv_channels(const fold_conv_t *conv);

/* Computes the sums' constants. bias and multiplier have an entry per channel, or are NULL. False
 * if a number is not a constant or not representable in f32. */
bool fold_conv_sums(const fold_conv_t *conv, fold_sums_t *out_sums);

/* True if larger numbers have larger integers; false if the scale is unknown or not above 0.
 * objects: the module that each value is, as from attribute_objects, for scales that are
 * attributes; NULL: only constants are known. */
bool fold_may_order(const graph_t *graph, module_t *const *objects, value_t scale);

#endif
