/* Normalisation: batch, layer, RMS, group and instance norms, and local response normalisation. The
 * rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_NORM_NORM_H
#define TESSERA_OPS_NORM_NORM_H

#include "dispatch/dispatch.h"

/* (x - mean[c]) / sqrt(var[c] + epsilon) * weight[c] + bias[c] for each channel c (dimension 1). A
 * NULL weight counts as 1, a NULL bias as 0. Rank 2 to 5. */
status_t op_batch_norm(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                       const tensor_t *bias, const tensor_t *running_mean,
                       const tensor_t *running_var, double epsilon, tensor_t **out)
    TESSERA_API(op_batch_norm);

/* op_batch_norm with the mean and variance of x itself, over all dimensions but the channels.
 * Returns both, too. The variance is sum((x - mean)^2) / n for n elements in a channel. Mean and
 * variance are f64 if x is f64, else f32.
 * INVALID_ARGUMENT: x has fewer than two elements per channel. */
status_t op_batch_norm_training(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                                const tensor_t *bias, double epsilon, tensor_t **out,
                                tensor_t **out_mean, tensor_t **out_variance)
    TESSERA_API(op_batch_norm_training);

/* Normalizes over the last n_dims dimensions; weight and bias have the sizes of these dimensions,
 * or are NULL. */
status_t op_layer_norm(context_t *ctx, const tensor_t *x, int n_dims, const tensor_t *weight,
                       const tensor_t *bias, double epsilon, tensor_t **out)
    TESSERA_API(op_layer_norm);

/* x / sqrt(mean of x^2 + epsilon) * weight, over the last n_dims dimensions. PyTorch's default
 * epsilon depends on the dtype: FLT_EPSILON for f32. */
status_t op_rms_norm(context_t *ctx, const tensor_t *x, int n_dims, const tensor_t *weight,
                     double epsilon, tensor_t **out) TESSERA_API(op_rms_norm);

/* x [N][C][..]: normalizes each group of C / num_groups channels, with all dimensions after them,
 * to mean 0 and variance 1. Then multiplies by weight [C] and adds bias [C]; both may be NULL.
 * op_instance_norm: each channel is a group, as in PyTorch's instance_norm with use_input_stats. */
status_t op_group_norm(context_t *ctx, const tensor_t *x, int64_t num_groups,
                       const tensor_t *weight, const tensor_t *bias, double epsilon, tensor_t **out)
    TESSERA_API(op_group_norm);
status_t op_instance_norm(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                          const tensor_t *bias, double epsilon, tensor_t **out)
    TESSERA_API(op_instance_norm);

/* x / (k + alpha / size * sum of squares over `size` channels around that of x)^beta. */
status_t op_lrn(context_t *ctx, const tensor_t *x, int64_t size, double alpha, double beta,
                double k, tensor_t **out) TESSERA_API(op_lrn);

#endif
