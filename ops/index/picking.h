/* Operators that select elements, so that the result's sizes depend on elements of the operands.
 * The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_INDEX_PICKING_H
#define TESSERA_OPS_INDEX_PICKING_H

#include "dispatch/dispatch.h"

/* The elements where the mask is true, as torch.masked_select.
 *
 * x     any dtype
 * mask  bool     x and mask broadcast
 * out   [n]      in row-major order of the broadcast shape */
status_t op_masked_select(context_t *ctx, const tensor_t *x, const tensor_t *mask, tensor_t **out)
    TESSERA_API(op_masked_select);

/* Slices along *dim where the condition is true, like numpy.compress. If dim is NULL, x is
 * flattened first.
 *
 * x          any dtype
 * condition  bool [m]    m is at most the size of dim; slices from m on are not selected
 * out        has x's sizes, but along dim the number of true elements */
status_t op_compress(context_t *ctx, const tensor_t *x, const tensor_t *condition,
                     const int64_t *dim, tensor_t **out) TESSERA_API(op_compress);

/* Each distinct element once, like torch.unique; or each distinct slice along *dim.
 *
 * x            any dtype; no two NaN are equal
 * sorted       true: ascending, and slices are compared element by element; false: in order of
 *              appearance
 * out_values   [n], or x's sizes with n along dim
 * out_indices  s64 [n]                     the first index of each value
 * out_inverse  s64, x's sizes, or [size]   the index in out_values of each element of x
 * out_counts   s64 [n]                     how often each value occurs
 *
 * The last three may be NULL. INVALID_ARGUMENT if slices have no elements. */
status_t op_unique(context_t *ctx, const tensor_t *x, const int64_t *dim, bool sorted,
                   tensor_t **out_values, tensor_t **out_indices, tensor_t **out_inverse,
                   tensor_t **out_counts) TESSERA_API(op_unique);

#endif
