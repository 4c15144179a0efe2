/* Functions that gradient rules share. A rule is in the file of its operator. Operators that only
 * rules use, such as conv2d_backward_data, are in ops.def with the others. */
#ifndef TESSERA_OPS_GRADIENT_IMPL_H
#define TESSERA_OPS_GRADIENT_IMPL_H

#include "kernels/elementwise/rows_impl.h"
#include "ops/ops_impl.h"

/* A rule without a gradient: the function is constant between steps, like floor and sign. */
extern const gradient_t gradient_zero;

/* A rule for identity and changes of layout: the gradient of the input is that of the result. */
extern const gradient_t gradient_same;
/* A rule that reshapes the gradient of the result to the sizes of input 0. */
extern const gradient_t gradient_reshape;

/* Emit operators with one or two operands. */
value_t emit_unary(emitter_t *emitter, const opdef_t *op, value_t x);
value_t emit_binary(emitter_t *emitter, const opdef_t *op, value_t a, value_t b);
/* x times a number, plus a number. */
value_t emit_mul(emitter_t *emitter, value_t x, double factor);
value_t emit_add(emitter_t *emitter, value_t x, double term);
value_t emit_cast(emitter_t *emitter, value_t x, dtype_t dtype);
/* Casts bf16 and f16 to f32, for sums and products of many elements. Other dtypes are unchanged. */
value_t emit_widen(emitter_t *emitter, value_t x);
/* The sum of two gradients; either may be VALUE_NONE. */
value_t emit_sum(emitter_t *emitter, value_t a, value_t b);

/* binary_backward: the gradient of an operand of a function with two operands. */
value_t emit_binary_backward(emitter_t *emitter, binary_slope_t function, value_t grad, value_t a,
                             value_t b);

/* Zeros in the dtype and sizes of `info`; s64 numbers 0, 1, 2, ... along one dimension of it. */
value_t emit_zeros(emitter_t *emitter, const tensor_info_t *info);
value_t emit_count(emitter_t *emitter, const tensor_info_t *info, int dim);
/* Pads x with zeros; `before` and `after` have one number for each dimension. */
value_t emit_pad(emitter_t *emitter, value_t x, const int64_t *before, const int64_t *after);
/* Concatenates values along dim. */
value_t emit_concat(emitter_t *emitter, int n, const value_t *values, int64_t dim);

/* condition ? a : b */
value_t emit_where(emitter_t *emitter, value_t condition, value_t a, value_t b);

/* gather_elements, and scatter with `reduction`, along dim. */
value_t emit_gather_elements(emitter_t *emitter, value_t x, int64_t dim, value_t index);
value_t emit_scatter(emitter_t *emitter, value_t x, int64_t dim, value_t index, value_t src,
                     scatter_reduction_t reduction);
/* gather_nd and scatter_nd: slices at tuples of indices. */
value_t emit_gather_nd(emitter_t *emitter, value_t x, value_t index);
value_t emit_scatter_nd(emitter_t *emitter, value_t x, value_t index, value_t src,
                        scatter_reduction_t reduction);
/* The gradient of a gather along dim: adds slices of grad at their indices. x has `size` slices. */
value_t emit_gather_backward(emitter_t *emitter, value_t grad, value_t index, int64_t dim,
                             int64_t size);

/* Operators with one operand and a list of integers as attribute: reshape, permute, flip. */
value_t emit_ints(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *values);
/* Reductions over n dimensions, such as sum and mean. */
value_t emit_reduce(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *dims,
                    bool keepdim);
/* The result of a reduction of x, or its gradient: emit_keepdim restores reduced dimensions with
 * size 1, emit_repeat repeats it along them to the sizes of x. */
value_t emit_keepdim(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x);
value_t emit_repeat(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x);

/* x, reshaped to the sizes of `like`. */
value_t emit_reshape_like(emitter_t *emitter, value_t x, value_t like);

/* Elements [start, end) along a dimension. */
value_t emit_slice(emitter_t *emitter, value_t x, int64_t dim, int64_t start, int64_t end);

/* The gradient of a bias over channels, dimension 1: the sum over all others. */
value_t emit_bias_gradient(emitter_t *emitter, value_t grad, value_t bias);

/* The gradient of an operand that was broadcast and promoted: grad, summed over the dimensions that
 * the operand was repeated along, in the operand's sizes and dtype. It can be grad itself. */
value_t emit_unbroadcast(emitter_t *emitter, value_t grad, value_t operand);

#endif
