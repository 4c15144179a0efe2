/* What convolutions of numbers and of integers share: attributes, sizes, weights in groups.
 * Operands 0 and 1 are x and the weight. */
#ifndef TESSERA_OPS_CONV_IMPL_H
#define TESSERA_OPS_CONV_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/layers.h"

/* Fields of conv_attrs_t, over n spatial dimensions. */
#define CONV_FIELDS(n)                                                                             \
    {"stride", ATTR_ARRAY, true, offsetof(conv_attrs_t, stride), n, 1, NULL},                      \
        {"padding", ATTR_ARRAY, false, offsetof(conv_attrs_t, padding), n, 0, NULL},               \
        {"extra_padding", ATTR_ARRAY, false, offsetof(conv_attrs_t, extra_padding), n, 0, NULL},   \
        {"dilation", ATTR_ARRAY, true, offsetof(conv_attrs_t, dilation), n, 1, NULL},              \
    {                                                                                              \
        "groups", ATTR_INT, true, offsetof(conv_attrs_t, groups), 0, 1, NULL                       \
    }

/* Checks ranks, channels, groups and windows, and gives the result, of a dtype. */
status_t conv_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out);

/* The weight with its groups apart: [G][K/G][C/G].. */
tensor_info_t conv_group_weight(const tensor_info_t *weight, int64_t groups);

/* Elements of a padded input, in spatial dimension i, that windows touch. */
int64_t conv_reach(const op_call_t *call, int i);

/* Strides, dilations and padding of the problem; gives the multiply-adds of an output element. */
double conv_set_windows(const op_call_t *call, onednn_problem_t *problem);

#endif
