/* What convolutions of numbers and of integers share: attributes, sizes, weights in groups.
 * Operands 0 and 1 are x and the weight. */
#ifndef TESSERA_OPS_CONV_CONV_IMPL_H
#define TESSERA_OPS_CONV_CONV_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/conv/conv.h"
#include "ops/conv/planes_impl.h"

/* The gradient of the source, conv2d_backward_data(grad, weight), and those of weight and bias,
 * conv2d_backward_weight(x, grad). Windows are the forward operator's; what they read outside of
 * the source is 0, so that padding behind follows from the sizes. */
typedef struct conv_backward_attrs {
    int64_t stride[3];
    int64_t padding[3]; /* before each dimension */
    int64_t dilation[3];
    int64_t groups;
    int64_t size[3]; /* spatial sizes of the result: of the source; of a window */
    int algorithm;   /* conv_algorithm_t */
    bool bias;       /* conv2d_backward_weight: gives that of the bias, too */
} conv_backward_attrs_t;

/* Names of conv_algorithm_t. */
extern const char *const conv_algorithm_names[];

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

/* The kernels of conv_depthwise.c, conv_pointwise.c, conv_rows.c and conv_taps.c. */
extern const kernel_t conv_depthwise, conv_groups, conv_pointwise, conv_strassen, conv_rows;
extern const kernel_t conv_taps;

/* That of conv_tiling.c, for transposed convolutions. */
extern const kernel_t conv_transpose_tiling;

/* conv_pointwise for batch_norm_conv2d, whose operands of the norm stand behind the bias. */
enum { CONV_NORM_WEIGHT = 3, CONV_NORM_BIAS, CONV_NORM_MEAN, CONV_NORM_VAR, CONV_NORM_OPERANDS };
extern const kernel_t conv_pointwise_normed;

/* The greatest number that the activation leaves. */
float conv_norm_highest(int activation);

/* Elements of a padded input, in spatial dimension i, that windows touch. */
int64_t conv_reach(const op_call_t *call, int i);

/* Strides, dilations and padding of the problem; gives the multiply-adds of an output element. */
double conv_set_windows(const op_call_t *call, onednn_problem_t *problem);

#endif
