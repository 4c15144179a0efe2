/* Pooling: attributes, inference and plans that pooling operators and their gradients share.
 *
 * The folder ops/pool contains max and average pooling, windowed and adaptive, max pooling with
 * indices, and the gradients of these. */
#ifndef TESSERA_OPS_POOL_POOL_IMPL_H
#define TESSERA_OPS_POOL_POOL_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/pool/indices_impl.h"
#include "ops/gradient_impl.h"

/* Flags of opdef_t.variant. Windowed max pooling has none. */
enum { POOL_AVERAGE = 1, POOL_ADAPTIVE = 2, VARIANT_max = 0, VARIANT_avg = POOL_AVERAGE };

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

/* Attribute fields for n spatial dimensions, of structs that begin with pool_attrs_t. */
#define POOL_FIELDS(n)                                                                             \
    FIELD_OR(pool_attrs_t, ATTR_ARRAY, kernel, n, 0),                                              \
        FIELD_OR(pool_attrs_t, ATTR_ARRAY, stride, n, 0),                                          \
        FIELD_ARRAY(pool_attrs_t, padding, n, 0), FIELD_ARRAY(pool_attrs_t, extra_padding, n, 0),  \
        FIELD_BOOL(pool_attrs_t, ceil_mode, 0), FIELD_OR(pool_attrs_t, ATTR_ARRAY, dilation, n, 1)
#define POOL_COUNT_INCLUDE_PAD FIELD_BOOL(pool_attrs_t, count_include_pad, 0)

/* Infers out[0]. The attributes begin with pool_attrs_t, and their first field is `kernel`. */
status_t pool_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

/* pool_infer for adaptive_attrs_t. pool_read_adaptive makes these attributes from a caller's
 * array. */
status_t pool_infer_adaptive(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);
status_t pool_read_adaptive(context_t *ctx, const opdef_t *op, int n, const int64_t *output_size,
                            adaptive_attrs_t *out_attrs);

/* True if averages count elements of the padding; attrs as in pool_axes. */
bool pool_counts_padding(const opdef_t *op, const void *attrs);

/* Describes three axes. Axes that x lacks come first and have size 1. attrs is pool_attrs_t;
 * adaptive pooling does not read it. */
void pool_axes(const opdef_t *op, const void *attrs, const tensor_info_t *x,
               const tensor_info_t *out, pool_axis_t *out_axes);

/* The format in which our own kernels read x: the format of x if it is plain, channels last or
 * blocks of channels; otherwise plain. If the bytes of x have several of these formats, as for
 * [2,1,5,5], the first of them. */
format_t pool_format(const tensor_info_t *x);

/* Sets a plan for operands that all have `format`. pooled: the result of the forward operator. */
status_t pool_prepare(context_t *ctx, const op_call_t *call, const tensor_info_t *x,
                      const tensor_info_t *pooled, const format_t *format, prepared_t *prepared,
                      pool_plan_t *out_plan);

/* Attributes of backward operators: those of the forward operator, and the spatial sizes of its
 * input. Averages need these sizes, because the input is not an operand. */
typedef struct pool_backward_attrs {
    pool_attrs_t windows;
    ints_t input_size;
} pool_backward_attrs_t;

/* The operator for the gradient of x: from (x, grad) for maxima, from (grad) for averages. */
const opdef_t *pool_backward_op(const opdef_t *forward, int n_spatial);

#endif
