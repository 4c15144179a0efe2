/* Max and average pooling over one to three spatial dimensions. A NaN in a window makes its maximum
 * NaN. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_POOL_POOL_H
#define TESSERA_OPS_POOL_POOL_H

#include "dispatch/dispatch.h"

typedef struct pool_attrs {
    int64_t kernel[3];
    int64_t stride[3];        /* 0: kernel */
    int64_t padding[3];       /* before and after, in each dimension */
    int64_t extra_padding[3]; /* more padding after */
    int64_t dilation[3];      /* 0: 1; PyTorch has it for maxima only */
    bool ceil_mode;
    bool count_include_pad; /* average pooling; PyTorch's default is true */
} pool_attrs_t;

status_t op_max_pool1d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool1d);
status_t op_max_pool2d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool2d);
status_t op_max_pool3d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_max_pool3d);

/* Also returns the s64 index of each maximum in its channel's plane: in a plane of 3 rows of 5
 * elements, the last element has index 14. The first of equal maxima counts, or the last NaN. The
 * index is -1 if the window contains no element. All tensors are dense. */
status_t op_max_pool1d_with_indices(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,
                                    tensor_t **out_values, tensor_t **out_indices)
    TESSERA_API(op_max_pool1d_with_indices);
status_t op_max_pool2d_with_indices(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,
                                    tensor_t **out_values, tensor_t **out_indices)
    TESSERA_API(op_max_pool2d_with_indices);
status_t op_max_pool3d_with_indices(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,
                                    tensor_t **out_values, tensor_t **out_indices)
    TESSERA_API(op_max_pool3d_with_indices);

status_t op_avg_pool1d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_avg_pool1d);
status_t op_avg_pool2d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_avg_pool2d);
status_t op_avg_pool3d(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_avg_pool3d);

/* output_size has one number for each spatial dimension. If all are 1, the pooling is global. */
status_t op_adaptive_avg_pool(context_t *ctx, const tensor_t *x, int n, const int64_t *output_size,
                              tensor_t **out) TESSERA_API(op_adaptive_avg_pool);
status_t op_adaptive_max_pool(context_t *ctx, const tensor_t *x, int n, const int64_t *output_size,
                              tensor_t **out) TESSERA_API(op_adaptive_max_pool);

/* Also returns the s64 indices of the maxima in their channel's plane, like torch.nn.functional's
 * adaptive_max_pool1d to 3d with return_indices. */
status_t op_adaptive_max_pool_with_indices(context_t *ctx, const tensor_t *x, int n,
                                           const int64_t *output_size, tensor_t **out_values,
                                           tensor_t **out_indices)
    TESSERA_API(op_adaptive_max_pool_with_indices);

#endif
