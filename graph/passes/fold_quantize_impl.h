/* What a convolution of integers does to its sums, found of constants: for pass `fold_quantize`. */
#ifndef TESSERA_GRAPH_PASSES_FOLD_QUANTIZE_IMPL_H
#define TESSERA_GRAPH_PASSES_FOLD_QUANTIZE_IMPL_H

#include "graph/passes/pass_impl.h"

/* Integers with their scale and zero; VALUE_NONE: no such operand, scale 1, zero 0. */
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

/* For each channel bias and multiplier of sums, and what the addend is multiplied with; the integer
 * that is number 0 in x. */
typedef struct fold_sums {
    float *bias, *multiplier;
    double addend_scale;
    int x_zero;
} fold_sums_t;

/* Output channels of the weight; 0: it is no constant. */
int64_t fold_conv_channels(const fold_conv_t *conv);

/* Bias and multiplier have room for as many channels, or are NULL. False: some number is no
 * constant, or none that f32 has. */
bool fold_conv_sums(const fold_conv_t *conv, fold_sums_t *out_sums);

/* Whether larger numbers have larger integers: false for a scale that is not above 0, and for one
 * that is not known. objects: the module that each value is, as attribute_objects gives them, for
 * scales that are attributes; NULL: only constants are known. */
bool fold_may_order(const graph_t *graph, module_t *const *objects, value_t scale);

#endif
