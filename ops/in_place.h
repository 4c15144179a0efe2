/* Operators that write their result to operand 0, like PyTorch's functions with a trailing
 * underscore. The rules for all operators are in ops.h. elementwise.h declares the functions of one
 * tensor.
 *
 * Each computes the same as the function without the underscore. All operands are read before
 * anything is written, so every operand may be x or a view of x. x keeps its layout, sizes and
 * dtype. A floating result needs a floating x, and a bool x needs a bool result. A write to x
 * changes views of x, the tensor that x is a view of, and, if x is a weight, what later calls read
 * from packed copies of it. It does not change snapshots, such as results of op_to_mkldnn and
 * tensor_clone. A trace records these operators.
 *
 * INVALID_ARGUMENT  the result does not have x's sizes; x cannot hold the result's dtype; elements
 *                   of x share memory, as in results of op_expand */
#ifndef TESSERA_OPS_IN_PLACE_H
#define TESSERA_OPS_IN_PLACE_H

#include "ops/index/indexing.h"

/* ---- functions of several tensors: elementwise.h ---- */

status_t op_add_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_add_);
status_t op_sub_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_sub_);
status_t op_mul_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_mul_);
status_t op_div_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_div_);
status_t op_div_trunc_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_div_trunc_);
status_t op_div_floor_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_div_floor_);
status_t op_fmod_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_fmod_);
status_t op_remainder_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_remainder_);
status_t op_atan2_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_atan2_);
status_t op_hypot_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_hypot_);
status_t op_pow_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_pow_);
status_t op_maximum_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_maximum_);
status_t op_minimum_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_minimum_);
status_t op_eq_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_eq_);
status_t op_ne_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_ne_);
status_t op_lt_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_lt_);
status_t op_le_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_le_);
status_t op_gt_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_gt_);
status_t op_ge_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_ge_);
status_t op_logical_and_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_logical_and_);
status_t op_logical_or_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_logical_or_);
status_t op_logical_xor_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_logical_xor_);
status_t op_bitwise_and_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_and_);
status_t op_bitwise_or_(context_t *ctx, tensor_t *a, const tensor_t *b) TESSERA_API(op_bitwise_or_);
status_t op_bitwise_xor_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_xor_);
status_t op_bitwise_left_shift_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_left_shift_);
status_t op_bitwise_right_shift_(context_t *ctx, tensor_t *a, const tensor_t *b)
    TESSERA_API(op_bitwise_right_shift_);

/* The second operand is a C number. */
status_t op_add_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_add_scalar_);
status_t op_sub_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_sub_scalar_);
status_t op_mul_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_mul_scalar_);
status_t op_div_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_div_scalar_);
status_t op_pow_scalar_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_pow_scalar_);
status_t op_add_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_add_integer_);
status_t op_sub_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_sub_integer_);
status_t op_mul_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_mul_integer_);
status_t op_div_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_div_integer_);
status_t op_pow_integer_(context_t *ctx, tensor_t *x, int64_t value) TESSERA_API(op_pow_integer_);

/* ---- copies, fills and writes at indices: moving.h, indexing.h ---- */

/* Writes src to x: broadcasts it to x's sizes and casts it to x's dtype. x may have any dtype. */
status_t op_copy_(context_t *ctx, tensor_t *x, const tensor_t *src) TESSERA_API(op_copy_);
/* Sets all elements to value. */
status_t op_fill_(context_t *ctx, tensor_t *x, double value) TESSERA_API(op_fill_);
status_t op_masked_fill_(context_t *ctx, tensor_t *x, const tensor_t *mask, double value)
    TESSERA_API(op_masked_fill_);
status_t op_scatter_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                     const tensor_t *src, scatter_reduction_t reduction) TESSERA_API(op_scatter_);
status_t op_scatter_value_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                           double value, scatter_reduction_t reduction)
    TESSERA_API(op_scatter_value_);
status_t op_slice_scatter_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *src,
                           const tensor_t *start, const tensor_t *slots)
    TESSERA_API(op_slice_scatter_);
status_t op_index_add_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                       const tensor_t *src, double alpha) TESSERA_API(op_index_add_);
status_t op_index_copy_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                        const tensor_t *src) TESSERA_API(op_index_copy_);
status_t op_index_fill_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                        double value) TESSERA_API(op_index_fill_);

#endif
