/* Convolutions: attributes, inference and kernels that several operators share, including those of
 * integers (ops/quantized). Operand 0 is x, operand 1 the weight.
 *
 * The folder ops/conv contains convolutions, transposed convolutions, their gradients, fusions
 * (with a norm before, or a depthwise convolution after), and the folding of norms into weights. */
#ifndef TESSERA_OPS_CONV_CONV_IMPL_H
#define TESSERA_OPS_CONV_CONV_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/conv/conv.h"
#include "ops/conv/planes_impl.h"

/* Attributes of conv2d_backward_data(grad, weight), the gradient of x, and of
 * conv2d_backward_weight(x, grad), the gradients of weight and bias. The windows are those of the
 * forward operator. The padding after x follows from the sizes. */
typedef struct conv_backward_attrs {
    int64_t stride[3];
    int64_t padding[3]; /* before each dimension */
    int64_t dilation[3];
    int64_t groups;
    int64_t size[3]; /* spatial sizes of the result: those of x, or of the weight */
    int algorithm;   /* conv_algorithm_t */
    bool bias;       /* conv2d_backward_weight: also the gradient of the bias */
} conv_backward_attrs_t;

/* Names of conv_algorithm_t. */
extern const char *const conv_algorithm_names[];

/* Fields of conv_attrs_t, for n spatial dimensions. */
#define CONV_FIELDS(n)                                                                             \
    FIELD_OR(conv_attrs_t, ATTR_ARRAY, stride, n, 1), FIELD_ARRAY(conv_attrs_t, padding, n, 0),    \
        FIELD_ARRAY(conv_attrs_t, extra_padding, n, 0),                                            \
        FIELD_OR(conv_attrs_t, ATTR_ARRAY, dilation, n, 1),                                        \
        FIELD_OR(conv_attrs_t, ATTR_INT, groups, 0, 1)

/* Checks ranks, channels, groups and windows, and infers a result of the given dtype. */
status_t conv_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out);

/* For specifications: the sum of (x - x_zero) * (weight - weight_zero) over the window of an
 * element of the result. x and weight are operands 0 and 1. */
double conv_spec_sum(const spec_call_t *call, const conv_attrs_t *attrs, double x_zero,
                     double weight_zero, const int64_t *index);

/* The weight with one more dimension, for the groups: [G][K/G][C/G].. */
tensor_info_t conv_group_weight(const tensor_info_t *weight, int64_t groups);

/* Kernels of conv_depthwise.c, conv_pointwise.c, conv_rows.c and conv_taps.c. */
extern const kernel_t conv_depthwise, conv_groups, conv_pointwise, conv_strassen, conv_rows;
extern const kernel_t conv_taps;
extern const kernel_t conv_taps_blocks;

/* Kernel of conv_tiling.c, for transposed convolutions. */
extern const kernel_t conv_transpose_tiling;

/* conv_pointwise for batch_norm_conv2d, and the operands of the norm, which follow the bias. */
enum { CONV_NORM_WEIGHT = 3, CONV_NORM_BIAS, CONV_NORM_MEAN, CONV_NORM_VAR, CONV_NORM_OPERANDS };
extern const kernel_t conv_pointwise_normed;

/* Upper bound of the activation's results: infinity or 6. */
float conv_norm_highest(int activation);

/* Called by `prepare` of a kernel that can compute some rows of images at a time. */
void conv_set_rows(const op_call_t *call, prepared_t *prepared, const kernel_rows_t *rows);

/* Number of elements of the padded x that windows cover in spatial dimension i. */
int64_t conv_reach(const op_call_t *call, int i);

/* Sets strides, dilations and padding of the problem. Returns the number of multiply-adds for one
 * element of the result. */
double conv_set_windows(const op_call_t *call, onednn_problem_t *problem);

#endif
