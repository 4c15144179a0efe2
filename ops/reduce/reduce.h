/* Operators that combine elements along dimensions: sums, extremes, softmax, cumulative sums. The
 * rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_REDUCE_REDUCE_H
#define TESSERA_OPS_REDUCE_REDUCE_H

#include "dispatch/dispatch.h"

/* ---- reductions ----
 *
 * dims     the n dimensions to reduce; n = 0: all dimensions
 * keepdim  keeps the reduced dimensions, with size 1
 *
 * Sums of bf16 and f16 are rounded only once, to the dtype of the result. Long sums of f32 are
 * computed in f64, or in f64 from short sums in f32. Integers and bool are summed and multiplied as
 * s64. mean, norm, var and std need a floating dtype. */

status_t op_mean(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_mean);
status_t op_sum(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out) TESSERA_API(op_sum);
status_t op_prod(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_prod);
/* The largest and the smallest element; any dtype. The result is NaN if an element is NaN.
 * INVALID_ARGUMENT if a reduced dimension has no elements. */
status_t op_amax(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_amax);
status_t op_amin(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_amin);
/* op_any: true if some element is not zero; op_all: if every element is not zero. NaN is not zero.
 * The result is bool, or u8 if x is u8. */
status_t op_any(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out) TESSERA_API(op_any);
status_t op_all(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out) TESSERA_API(op_all);
/* log(sum(exp(x))), which overflows only if the result does. For integers, the result is f32. */
status_t op_logsumexp(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                      tensor_t **out) TESSERA_API(op_logsumexp);
/* sum(|x|^p)^(1/p), like torch.linalg.vector_norm. p = 0 counts the elements that are not zero;
 * infinity is the largest |x|, -infinity the smallest. INVALID_ARGUMENT if p is NaN, or if p is
 * negative or infinite and a reduced dimension has no elements. */
status_t op_norm(context_t *ctx, const tensor_t *x, double p, int n, const int64_t *dims,
                 bool keepdim, tensor_t **out) TESSERA_API(op_norm);
/* Variance of N elements, sum((x - mean)^2) / max(0, N - correction), and standard deviation, its
 * square root. PyTorch's default correction is 1. */
status_t op_var(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, int64_t correction,
                bool keepdim, tensor_t **out) TESSERA_API(op_var);
status_t op_std(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, int64_t correction,
                bool keepdim, tensor_t **out) TESSERA_API(op_std);

/* The s64 index of the largest or smallest element along *dim. If dim is NULL, the row-major index
 * among all elements. The first of equal elements counts. NaN is chosen before all numbers. bool is
 * not supported. INVALID_ARGUMENT if there are no elements. */
status_t op_argmax(context_t *ctx, const tensor_t *x, const int64_t *dim, bool keepdim,
                   tensor_t **out) TESSERA_API(op_argmax);
status_t op_argmin(context_t *ctx, const tensor_t *x, const int64_t *dim, bool keepdim,
                   tensor_t **out) TESSERA_API(op_argmin);

/* ---- along one dimension ---- */

status_t op_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_softmax);
status_t op_log_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_log_softmax);

/* Cumulative sums along dim: out[i] = sum of x[j] for j <= i. Integers are summed as s64. */
status_t op_cumsum(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_cumsum);
typedef struct cumsum_attrs {
    int64_t dim;
    bool exclusive; /* out[i] does not include x[i] */
    bool reverse;   /* sums from the end: out[i] = sum of x[j] for j >= i */
} cumsum_attrs_t;
status_t op_cumsum_attrs(context_t *ctx, const tensor_t *x, const cumsum_attrs_t *attrs,
                         tensor_t **out) TESSERA_API(op_cumsum_attrs);
/* Cumulative products along dim: op_cumsum with products instead of sums. */
status_t op_cumprod(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_cumprod);
status_t op_cumprod_attrs(context_t *ctx, const tensor_t *x, const cumsum_attrs_t *attrs,
                          tensor_t **out) TESSERA_API(op_cumprod_attrs);

#endif
