/* Declarations that fully connected layers and their gradients share. */
#ifndef TESSERA_OPS_LINEAR_LINEAR_IMPL_H
#define TESSERA_OPS_LINEAR_LINEAR_IMPL_H

#include "dispatch/post_impl.h"
#include "dispatch/prepared_impl.h"
#include "kernels/linear/rows_gradient_impl.h"
#include "kernels/linear/rows_product_impl.h"

/* Attributes of linear_backward_weight(x, grad), which returns the gradient of the weight.
 * linear_backward_data(grad, weight), which returns the gradient of x, has no attributes. */
typedef struct linear_backward_attrs {
    bool bias; /* return the gradient of the bias, too */
} linear_backward_attrs_t;

/* Kernel for an x of few rows (ops/linear/linear_stream.c). */
extern const kernel_t linear_stream;

/* Measures the error of linear_stream if the f32 weight [outputs][inputs] is trimmed to 3 bytes per
 * element (tensor/convert/trim_impl.h): the largest error divided by the largest result, for random
 * x in
 * [-1, 1). Infinity if trimming makes an element infinite. In linear_trim_error.c. */
status_t linear_trim_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                           double *out_error);

/* Kernels for an x of many rows, direct and with Strassen's algorithm
 * (ops/linear/linear_product.c). */
extern const kernel_t linear_product, linear_strassen;

/* Kernel for a weight in a grouped format and any number of rows (ops/linear/linear_grouped.c). */
extern const kernel_t linear_grouped;

/* linear_settle_post checks the post-ops for kernels that apply them to finished elements: a sum
 * must come first, and operands must have the result's shape. linear_find_finish returns the
 * argument `user` of linear_apply, which is a function for product_t. */
typedef struct linear_finish {
    const post_ops_t *post;
    const float *operands[POST_MAX]; /* one for each post-op; NULL if it has none */
    int64_t n_outputs;
} linear_finish_t;

status_t linear_settle_post(const op_call_t *call, prepared_t *prepared);
linear_finish_t linear_find_finish(const prepared_t *prepared, void *const *in);
void linear_apply(const void *user, int64_t row, int64_t column, int64_t n, float *values);

/* Kernel for an x of few rows and a weight that is trained (ops/linear/linear_rows.c). */
extern const kernel_t linear_rows;

/* Returns true if rows_product_run supports the format of the weight. `results` is the weight's
 * dimension that becomes the result's: 0 in the forward layer, 1 for the gradient of x. */
bool linear_rows_fit(const tensor_info_t *weight, int results);
axis_t linear_rows_axis(const tensor_info_t *weight, int dim);

/* linear_gradient_fits returns true if rows_gradient_run can compute the gradient of a weight in
 * this format. linear_gradient_run calls it; the caller sets the rows and the destination. */
bool linear_gradient_fits(const tensor_info_t *weight);
void linear_gradient_run(const context_t *ctx, const tensor_info_t *weight,
                         rows_gradient_t *gradient);

/* Chooses a oneDNN primitive for x as rows of a matrix, and the format of the weight. The caller
 * passes the primitive on to `prepared`, or releases it. */
status_t linear_choose_matrix(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                              const onednn_problem_t *base, double flops,
                              onednn_primitive_t **out_primitive);

/* Describes a row-major matrix for oneDNN. */
tensor_info_t linear_matrix(dtype_t dtype, int64_t rows, int64_t columns);

/* Declines blocked formats of the weight to which oneDNN cannot reorder; older versions lack
 * some. */
status_t linear_check_blocks(context_t *ctx, prepared_t *prepared, const tensor_info_t *weight);

#endif
