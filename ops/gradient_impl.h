/* Functions that gradient rules share. Each rule is in its operator's file. Some operators, such as
 * conv2d_backward_data, are emitted by rules only; ops.def contains them, too. */
#ifndef TESSERA_OPS_GRADIENT_IMPL_H
#define TESSERA_OPS_GRADIENT_IMPL_H

#include "kernels/elementwise/rows_impl.h"
#include "ops/ops_impl.h"

/* For piecewise constant functions, such as floor and sign: the gradient is 0. */
extern const gradient_t gradient_zero;

/* For identity and changes of layout: returns the gradient of the result unchanged. */
extern const gradient_t gradient_same;
/* Reshapes the gradient of the result to the sizes of input 0. */
extern const gradient_t gradient_reshape;

/* Emit operators with one or two operands. */
value_t emit_unary(emitter_t *emitter, const opdef_t *op, value_t x);
value_t emit_binary(emitter_t *emitter, const opdef_t *op, value_t a, value_t b);
/* x * factor, and x + term. */
value_t emit_mul(emitter_t *emitter, value_t x, double factor);
value_t emit_add(emitter_t *emitter, value_t x, double term);
value_t emit_cast(emitter_t *emitter, value_t x, dtype_t dtype);
/* Casts bf16 and f16 to f32, for sums and products of many elements. Other dtypes are unchanged. */
value_t emit_widen(emitter_t *emitter, value_t x);
/* The sum of two gradients; either may be VALUE_NONE. */
value_t emit_sum(emitter_t *emitter, value_t a, value_t b);

/* Emits binary_backward: the gradient of one operand of a function of two operands. */
value_t emit_binary_backward(emitter_t *emitter, binary_slope_t function, value_t grad, value_t a,
                             value_t b);

/* emit_zeros: zeros with the dtype and sizes of `info`. emit_count: s64 numbers 0, 1, 2, ... along
 * one dimension of `info`. */
value_t emit_zeros(emitter_t *emitter, const tensor_info_t *info);
value_t emit_count(emitter_t *emitter, const tensor_info_t *info, int dim);
/* Pads x with zeros; `before` and `after` have one number for each dimension. */
value_t emit_pad(emitter_t *emitter, value_t x, const int64_t *before, const int64_t *after);
/* Concatenates values along dim. */
value_t emit_concat(emitter_t *emitter, int n, const value_t *values, int64_t dim);

/* condition ? a : b */
value_t emit_where(emitter_t *emitter, value_t condition, value_t a, value_t b);

/* Emit gather_elements, and scatter with `reduction`, along dim. */
value_t emit_gather_elements(emitter_t *emitter, value_t x, int64_t dim, value_t index);
value_t emit_scatter(emitter_t *emitter, value_t x, int64_t dim, value_t index, value_t src,
                     scatter_reduction_t reduction);
/* Emit gather_nd and scatter_nd: slices at tuples of indices. */
value_t emit_gather_nd(emitter_t *emitter, value_t x, value_t index);
value_t emit_scatter_nd(emitter_t *emitter, value_t x, value_t index, value_t src,
                        scatter_reduction_t reduction);
/* The gradient of a gather along dim: adds the slices of grad to zeros at their indices. The result
 * has `size` slices. */
value_t emit_gather_backward(emitter_t *emitter, value_t grad, value_t index, int64_t dim,
                             int64_t size);

/* Emits an operator with one operand and a list of integers as attribute: reshape, permute,
 * flip. */
value_t emit_ints(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *values);
/* Emits a reduction over n dimensions, such as sum or mean. */
value_t emit_reduce(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *dims,
                    bool keepdim);
/* `reduced` is the result of a reduction of x, or the gradient of that result. emit_keepdim adds
 * the reduced dimensions with size 1. emit_repeat also repeats the elements along these, up to the
 * sizes of x. */
value_t emit_keepdim(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x);
value_t emit_repeat(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x);

/* x, reshaped to the sizes of `like`. */
value_t emit_reshape_like(emitter_t *emitter, value_t x, value_t like);

/* Elements [start, end) along a dimension. */
value_t emit_slice(emitter_t *emitter, value_t x, int64_t dim, int64_t start, int64_t end);

/* The gradient of a bias over channels (dimension 1): sums grad over all other dimensions. */
value_t emit_bias_gradient(emitter_t *emitter, value_t grad, value_t bias);

/* The gradient of an operand that was broadcast and promoted. Sums grad over the dimensions along
 * which the operand was repeated, then casts to the operand's dtype. May return grad itself. */
value_t emit_unbroadcast(emitter_t *emitter, value_t grad, value_t operand);

#endif
