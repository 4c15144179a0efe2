/* Windows of pooling, and what its operators and their gradients share. */
#ifndef TESSERA_OPS_POOL_IMPL_H
#define TESSERA_OPS_POOL_IMPL_H

#include "ops/gradient_impl.h"

/* The variants, to be combined; a maximum over windows has neither. */
enum { POOL_AVERAGE = 1, POOL_ADAPTIVE = 2, VARIANT_max = 0, VARIANT_avg = POOL_AVERAGE };

/* What an index of a maximum counts: elements of the channel's plane, as PyTorch; of the whole
 * tensor, as ONNX; of the whole tensor where the first spatial dimension of a plane runs fastest.
 */
enum { POOL_ORDER_PLANE, POOL_ORDER_TENSOR, POOL_ORDER_COLUMNS };

typedef struct adaptive_attrs {
    ints_t output_size;
} adaptive_attrs_t;

/* One spatial dimension; kernel 0 stands for adaptive windows. */
typedef struct axis {
    int64_t in, out, kernel, stride, dilation;
    int64_t padding, padded; /* before; and where the padding behind ends */
} axis_t;

/* The elements under a window, and their number with those of padding, for the divisor. */
typedef struct window {
    int64_t first, count, step, length;
} window_t;

/* The first output, by attributes that begin with pool_attrs_t and whose first field is `kernel`.
 */
status_t pool_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

window_t pool_window(const axis_t *axis, int64_t q);

/* Three axes, those that the call lacks in front. attrs are pool_attrs_t; adaptive windows have
 * none. */
void pool_axes(const opdef_t *op, const void *attrs, const tensor_info_t *x,
               const tensor_info_t *out, axis_t *out_axes);

/* Of formats with the same bytes the one whose name says how the result lies; plain if the channels
 * have neither blocks nor the last place. */
format_t pool_format(const tensor_info_t *x);

/* Attributes of backward operators: the forward's, and the spatial sizes of its input, which those
 * of averages do not have as an operand. */
typedef struct pool_backward_attrs {
    pool_attrs_t windows;
    ints_t input_size;
} pool_backward_attrs_t;

/* The operator that gives the gradient of x: of (x, grad) for a maximum, of (grad) for an average.
 */
const opdef_t *pool_backward_op(const opdef_t *forward, int n_spatial);

#endif
