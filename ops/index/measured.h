/* Operators whose result has sizes that elements of their operands say. The rules for all operators
 * are in ops.h.
 *
 * They run where their operands are known, so a graph calls them one by one: neither they nor what
 * reads their results is part of a plan. With sizes that are constants a graph has the operator of
 * the same name without `_by` instead. */
#ifndef TESSERA_OPS_INDEX_MEASURED_H
#define TESSERA_OPS_INDEX_MEASURED_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* The indices of all elements that are not 0 (NaN is not), in row-major order, as torch.nonzero:
 *
 * x    of rank r; of rank 0: taken as of rank 1, but indices have no dimension
 * out  s64 [n][r] */
status_t op_nonzero(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_nonzero);

/* x as op_reshape would have it: sizes is s64 or s32 [r], of which one may be -1. With copies_zeros
 * a 0 is the size of x in that dimension, as in ONNX Reshape. The elements are copied. */
status_t op_reshape_by(context_t *ctx, const tensor_t *x, const tensor_t *sizes, bool copies_zeros,
                       tensor_t **out) TESSERA_API(op_reshape_by);

/* x broadcast together with a shape, s64 or s32 [r]: sizes 1 of either grow to the other's, as
 * ONNX Expand. The elements are copied. */
status_t op_expand_by(context_t *ctx, const tensor_t *x, const tensor_t *sizes, tensor_t **out)
    TESSERA_API(op_expand_by);

/* x[.., start:end:step, ..] along dim, with a step of any sign, as Python slices. start and end
 * have one element each, s64 or s32; NULL: from the first one on, to the last one, in the direction
 * of the step. */
status_t op_slice_by(context_t *ctx, const tensor_t *x, const tensor_t *start, const tensor_t *end,
                     int64_t dim, int64_t step, tensor_t **out) TESSERA_API(op_slice_by);

/* start, start + delta, ... as long as they are before limit, as ONNX Range and torch.arange: [n].
 * One element each, of one dtype: f32, f64, s32 or s64. */
status_t op_range(context_t *ctx, const tensor_t *start, const tensor_t *limit,
                  const tensor_t *delta, tensor_t **out) TESSERA_API(op_range);

TESSERA_END

#endif
