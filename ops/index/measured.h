/* Operators whose result sizes depend on elements of their operands. The rules for all operators
 * are in ops.h.
 *
 * A graph knows these sizes only at run time. So it runs these operators, and all operators that
 * read their results, outside of its memory plans. If the sizes are constants, a graph uses the
 * operator without `_by` in its name, such as reshape. */
#ifndef TESSERA_OPS_INDEX_MEASURED_H
#define TESSERA_OPS_INDEX_MEASURED_H

#include "dispatch/dispatch.h"

/* The indices of all elements that are not 0, in row-major order, like torch.nonzero. NaN is not 0.
 *
 * x    has rank r; if r is 0, x has one element, whose index has 0 numbers
 * out  s64 [n][r] */
status_t op_nonzero(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_nonzero);

/* Reshapes to sizes from a tensor, s64 or s32 [r]; one size may be -1. With copies_zeros, size 0
 * means the size of x in that dimension, as in ONNX Reshape. The elements are copied. */
status_t op_reshape_by(context_t *ctx, const tensor_t *x, const tensor_t *sizes, bool copies_zeros,
                       tensor_t **out) TESSERA_API(op_reshape_by);

/* Broadcasts x to a shape from a tensor, s64 or s32 [r], like ONNX Expand: x and the shape
 * broadcast with each other, so a 1 in the shape keeps the size of x. The elements are copied. */
status_t op_expand_by(context_t *ctx, const tensor_t *x, const tensor_t *sizes, tensor_t **out)
    TESSERA_API(op_expand_by);

/* x[.., start:end:step, ..] along dim, like Python slices; step may be negative. start and end are
 * s64 or s32 tensors with one element. If start is NULL, the slice begins at the first element, or
 * at the last if step is negative; if end is NULL, it ends at the opposite end. */
status_t op_slice_by(context_t *ctx, const tensor_t *x, const tensor_t *start, const tensor_t *end,
                     int64_t dim, int64_t step, tensor_t **out) TESSERA_API(op_slice_by);

/* The numbers start, start + delta, ... before limit, like ONNX Range and torch.arange. The
 * operands have one element each, and the same dtype: f32, f64, s32 or s64. */
status_t op_range(context_t *ctx, const tensor_t *start, const tensor_t *limit,
                  const tensor_t *delta, tensor_t **out) TESSERA_API(op_range);

#endif
