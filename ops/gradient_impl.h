/* What rules of gradients have in common. Operators that only they need, as conv2d_backward_data,
 * stand in ops.def with the others; a rule stands in the file of its operator. */
#ifndef TESSERA_OPS_GRADIENT_IMPL_H
#define TESSERA_OPS_GRADIENT_IMPL_H

#include "ops/ops_impl.h"

/* Nothing passes: the function is constant between steps, as floor, sign and argmax. */
extern const gradient_t gradient_zero;

/* The gradient as it is: identity, and what changes the layout alone. */
extern const gradient_t gradient_same;
/* The same elements in other sizes: in those of input 0. */
extern const gradient_t gradient_reshape;

/* Operators of one and of two values. */
value_t emit_unary(emitter_t *emitter, const opdef_t *op, value_t x);
value_t emit_binary(emitter_t *emitter, const opdef_t *op, value_t a, value_t b);
/* x times a number, plus a number. */
value_t emit_mul(emitter_t *emitter, value_t x, double factor);
value_t emit_add(emitter_t *emitter, value_t x, double term);
value_t emit_cast(emitter_t *emitter, value_t x, dtype_t dtype);
/* bf16 and f16 in f32, in which rules compute sums, products and differences of many elements;
 * other dtypes as they are. */
value_t emit_widen(emitter_t *emitter, value_t x);
/* The sum of two gradients of which either may be VALUE_NONE. */
value_t emit_sum(emitter_t *emitter, value_t a, value_t b);

/* What binary_backward computes: the gradient of an operand of a function of two. */
typedef enum binary_backward {
    BACKWARD_POW_BASE,
    BACKWARD_POW_EXPONENT,
    BACKWARD_MAXIMUM, /* of its first operand */
    BACKWARD_MINIMUM,
    BACKWARD_PRELU /* of x; b is the weight, broadcast */
} binary_backward_t;
value_t emit_binary_backward(emitter_t *emitter, binary_backward_t function, value_t grad,
                             value_t a, value_t b);

/* Zeros of an info's dtype and sizes; s64 numbers 0, 1, 2, ... along one of its dimensions. */
value_t emit_zeros(emitter_t *emitter, const tensor_info_t *info);
value_t emit_count(emitter_t *emitter, const tensor_info_t *info, int dim);
/* Zeros before and after x, one number for each dimension. */
value_t emit_pad(emitter_t *emitter, value_t x, const int64_t *before, const int64_t *after);
/* Values joined along dim. */
value_t emit_concat(emitter_t *emitter, int n, const value_t *values, int64_t dim);

/* condition ? a : b */
value_t emit_where(emitter_t *emitter, value_t condition, value_t a, value_t b);

/* Elements at an index along dim, and put at one: gather_elements, and scatter with `reduction`. */
value_t emit_gather_elements(emitter_t *emitter, value_t x, int64_t dim, value_t index);
value_t emit_scatter(emitter_t *emitter, value_t x, int64_t dim, value_t index, value_t src,
                     scatter_reduction_t reduction);
/* The same of slices at tuples of indices: gather_nd, scatter_nd. */
value_t emit_gather_nd(emitter_t *emitter, value_t x, value_t index);
value_t emit_scatter_nd(emitter_t *emitter, value_t x, value_t index, value_t src,
                        scatter_reduction_t reduction);
/* Slices of grad added up where a gather along dim took them from x, whose size there is `size`. */
value_t emit_gather_backward(emitter_t *emitter, value_t grad, value_t index, int64_t dim,
                             int64_t size);

/* Operators of one value with one list of integers as attribute: reshape, permute, flip. */
value_t emit_ints(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *values);
/* Reductions over n dimensions, as sum and mean. */
value_t emit_reduce(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *dims,
                    bool keepdim);
/* What a reduction of x gave, or its gradient, with the dimensions that went at size 1; and
 * repeated along them, in x's sizes. */
value_t emit_keepdim(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x);
value_t emit_repeat(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x);

/* The value in other sizes, by reshape: as operand `like` has them. */
value_t emit_reshape_like(emitter_t *emitter, value_t x, value_t like);

/* Elements [start, end) along a dimension. */
value_t emit_slice(emitter_t *emitter, value_t x, int64_t dim, int64_t start, int64_t end);

/* The gradient of a bias over channels, dimension 1: the sum over all others. */
value_t emit_bias_gradient(emitter_t *emitter, value_t grad, value_t bias);

/* The gradient of an operand that was broadcast and promoted: summed up over what it was repeated
 * along, in its sizes and dtype. It may be the gradient itself. */
value_t emit_unbroadcast(emitter_t *emitter, value_t grad, value_t operand);

#endif
