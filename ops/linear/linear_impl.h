/* What fully connected layers and their gradients share. */
#ifndef TESSERA_OPS_LINEAR_LINEAR_IMPL_H
#define TESSERA_OPS_LINEAR_LINEAR_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/linear/rows_gradient_impl.h"
#include "kernels/linear/rows_product_impl.h"

/* Of linear_backward_weight(x, grad), which gives the gradient of the weight; that of the source is
 * linear_backward_data(grad, weight), without attributes. */
typedef struct linear_backward_attrs {
    bool bias; /* gives the gradient of the bias, too */
} linear_backward_attrs_t;

/* The kernel of few rows: ops/linear/linear_stream.c. */
extern const kernel_t linear_stream;

/* What the kernel of few rows loses with a weight [outputs][inputs] of f32 that is trimmed
 * (tensor/trim_impl.h): the largest difference of the results over the largest of them, on sources
 * of [-1, 1). Infinite where an element would be. In linear_trim_error.c. */
status_t linear_trim_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                           double *out_error);

/* The kernels of many rows, by sums and by Strassen's algorithm: ops/linear/linear_product.c. */
extern const kernel_t linear_product, linear_strassen;

/* The kernel of few rows with a weight that is trained: ops/linear/linear_rows.c. */
extern const kernel_t linear_rows;

/* Whether rows_product_run takes a weight in this format, with dimension `results` for results. */
bool linear_rows_fit(const tensor_info_t *weight, int results);
axis_t linear_rows_axis(const tensor_info_t *weight, int dim);

/* Whether rows_gradient_run makes the gradient of a weight in this format; and does so: the caller
 * sets the rows, and where tiles go. */
bool linear_gradient_fits(const tensor_info_t *weight);
void linear_gradient_run(const context_t *ctx, const tensor_info_t *weight,
                         rows_gradient_t *gradient);

/* The kernel on oneDNN: rows of a matrix, and the weight as oneDNN likes it. The caller gives the
 * primitive to `prepared`, or releases it. */
status_t linear_choose_matrix(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                              const onednn_problem_t *base, double flops,
                              onednn_primitive_t **out_primitive);

/* A plain matrix for oneDNN. */
tensor_info_t linear_matrix(dtype_t dtype, int64_t rows, int64_t columns);

/* Declines a weight in blocks that oneDNN cannot make: older versions lack names for some. */
status_t linear_check_blocks(context_t *ctx, prepared_t *prepared, const tensor_info_t *weight);

#endif
