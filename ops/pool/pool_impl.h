/* Windows of pooling, and what its operators and their gradients share. */
#ifndef TESSERA_OPS_POOL_POOL_IMPL_H
#define TESSERA_OPS_POOL_POOL_IMPL_H

#include "dispatch/prepared_impl.h"
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

static inline bool pool_is_average(const opdef_t *op)
{
    return (op->variant & POOL_AVERAGE) != 0;
}

static inline bool pool_is_adaptive(const opdef_t *op)
{
    return (op->variant & POOL_ADAPTIVE) != 0;
}

/* Fields of attributes that begin with pool_attrs_t, over n spatial dimensions. */
#define POOL_FIELDS(n)                                                                             \
    {"kernel", ATTR_ARRAY, true, offsetof(pool_attrs_t, kernel), n, 0, NULL},                      \
        {"stride", ATTR_ARRAY, true, offsetof(pool_attrs_t, stride), n, 0, NULL},                  \
        {"padding", ATTR_ARRAY, false, offsetof(pool_attrs_t, padding), n, 0, NULL},               \
        {"extra_padding", ATTR_ARRAY, false, offsetof(pool_attrs_t, extra_padding), n, 0, NULL},   \
        {"ceil_mode", ATTR_BOOL, false, offsetof(pool_attrs_t, ceil_mode), 0, 0, NULL},            \
    {                                                                                              \
        "dilation", ATTR_ARRAY, true, offsetof(pool_attrs_t, dilation), n, 1, NULL                 \
    }
#define POOL_COUNT_INCLUDE_PAD                                                                     \
    {                                                                                              \
        "count_include_pad", ATTR_BOOL, false, offsetof(pool_attrs_t, count_include_pad), 0, 0,    \
            NULL                                                                                   \
    }

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

/* The same by adaptive_attrs_t. And these, of a caller's numbers. */
status_t pool_infer_adaptive(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);
status_t pool_read_adaptive(context_t *ctx, const opdef_t *op, int n, const int64_t *output_size,
                            adaptive_attrs_t *out_attrs);

window_t pool_window(const axis_t *axis, int64_t q);

/* Whether averages divide by the elements of padding too; attrs as those of pool_axes. */
bool pool_counts_padding(const opdef_t *op, const void *attrs);

/* What the sum over a window of three axes is divided by; 1 where nothing is under it. */
double pool_divisor(const window_t *windows, bool counts_padding);

/* Three axes, those that the call lacks in front. attrs are pool_attrs_t; adaptive windows have
 * none. */
void pool_axes(const opdef_t *op, const void *attrs, const tensor_info_t *x,
               const tensor_info_t *out, axis_t *out_axes);

/* The format in which kernels of our own take x: plain, channels last or blocks of channels, if x
 * lies so, else plain. Where x lies in two of these, as [2,1,5,5] in the first two, the first. */
format_t pool_format(const tensor_info_t *x);

/* How kernels of our own walk: over n_outer times in_plane elements of x, out_plane of what it is
 * pooled to; an element is `block` channels side by side, one of plain tensors. */
typedef struct pool_plan {
    axis_t axes[3];
    bool is_average, counts_padding;
    int64_t n_outer, block, in_plane, out_plane;
} pool_plan_t;

/* Fills a plan; takes all inputs and gives the output in the format that x and pooled have then. */
status_t pool_prepare(context_t *ctx, const op_call_t *call, const tensor_info_t *x,
                      const tensor_info_t *pooled, const format_t *format, prepared_t *prepared,
                      pool_plan_t *out_plan);

/* Runs the statement behind it for each element under a window: `at` is its number in a plane. */
#define POOL_FOR_TAPS(axes, w, at)                                                                 \
    for (int64_t t_ = 0; t_ < (w)[0].count; t_++)                                                  \
        for (int64_t r_ = 0; r_ < (w)[1].count; r_++)                                              \
            for (int64_t s_ = 0,                                                                   \
                         at = (axes)[2].in * ((axes)[1].in * ((w)[0].first + t_ * (w)[0].step) +   \
                                              (w)[1].first + r_ * (w)[1].step) +                   \
                              (w)[2].first;                                                        \
                 s_ < (w)[2].count; s_++, at += (w)[2].step)

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
