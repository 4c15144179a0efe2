/* The operator expand_depthwise(x, expand, expand_bias, weight, bias): a convolution of 1 by 1 that
 * makes K channels of C, an activation, and a convolution that has a window of its own for each of
 * these, with one pass over the source. A pass makes it of two conv2d where that takes less time.
 *
 * x       [N][C][H][W]     any layout; f32, f64
 * expand  [K][C][1][1], expand_bias [K] or none
 * weight  [K][1][R][S], bias [K] or none
 * out     [N][K][P][Q]     as of conv2d of the K channels */
#ifndef TESSERA_OPS_CONV_EXPAND_DEPTHWISE_IMPL_H
#define TESSERA_OPS_CONV_EXPAND_DEPTHWISE_IMPL_H

#include "ops/conv/conv.h"

/* What becomes of the K channels. */
typedef enum expand_activation {
    EXPAND_NONE,
    EXPAND_RELU,
    EXPAND_RELU6,
    EXPAND_SILU,
    EXPAND_HARDSWISH,
    EXPAND_ACTIVATIONS
} expand_activation_t;

typedef struct expand_depthwise_attrs {
    conv_attrs_t conv; /* of the second: stride, padding, extra_padding, post */
    int activation;    /* expand_activation_t */
} expand_depthwise_attrs_t;

/* The activation that a post-op is; EXPAND_ACTIVATIONS: none of them. */
expand_activation_t expand_activation_of(const post_op_t *op);

#endif
