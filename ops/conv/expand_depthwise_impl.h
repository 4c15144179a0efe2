/* The operator expand_depthwise(x, expand, expand_bias, weight, bias): a 1x1 convolution from C to
 * K channels, an activation, and a depthwise convolution, in one pass over x. A graph pass replaces
 * two conv2d with this operator if it is faster.
 *
 * x       [N][C][H][W]     any layout; f32, f64
 * expand  [K][C][1][1], expand_bias [K] or none
 * weight  [K][1][R][S], bias [K] or none
 * out     [N][K][P][Q]     as for conv2d of the K channels */
#ifndef TESSERA_OPS_CONV_EXPAND_DEPTHWISE_IMPL_H
#define TESSERA_OPS_CONV_EXPAND_DEPTHWISE_IMPL_H

#include "ops/conv/conv.h"

/* Activation of the K channels. */
typedef enum expand_activation {
    EXPAND_NONE,
    EXPAND_RELU,
    EXPAND_RELU6,
    EXPAND_SILU,
    EXPAND_HARDSWISH,
    EXPAND_ACTIVATIONS
} expand_activation_t;

typedef struct expand_depthwise_attrs {
    conv_attrs_t conv; /* the second one: stride, padding, extra_padding, post */
    int activation;    /* expand_activation_t */
} expand_depthwise_attrs_t;

/* The activation that is equal to a post-op; EXPAND_ACTIVATIONS if there is none. */
expand_activation_t expand_activation_of(const post_op_t *op);

#endif
