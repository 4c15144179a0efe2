/* Loops of elementwise operators over rows of elements.
 *
 * These kernels compute each result element from the operands' elements at the same index:
 * functions of one, two and three tensors, and gradients. They are listed in unary.def, binary.def,
 * unary_slopes.def and the enumerations below. functions_impl.h has faster loops for
 * activations. */
#ifndef TESSERA_KERNELS_ELEMENTWISE_ROWS_IMPL_H
#define TESSERA_KERNELS_ELEMENTWISE_ROWS_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define ELEMENTWISE_OPERANDS 3

/* `rows` rows of `n` elements. Steps are in elements. Within a row, an operand's step is 1, or 0 if
 * all elements of the row use the same one; the result's step is 1. The result may be an operand
 * itself if both have the same steps; other overlaps are not allowed. */
typedef struct elementwise_rows {
    int64_t rows, n;
    const void *in[ELEMENTWISE_OPERANDS];
    int64_t step[ELEMENTWISE_OPERANDS], row_step[ELEMENTWISE_OPERANDS];
    void *out;
    int64_t out_row_step;
    double alpha, beta; /* parameters of the function, if it has any */
} elementwise_rows_t;

typedef void elementwise_loop_t(const elementwise_rows_t *rows);

/* The loops of a function, one for each type of operands; NULL if the type is not supported. */
typedef struct elementwise_loops {
    elementwise_loop_t *f32, *f64, *s64, *u64;
} elementwise_loops_t;

/* Functions of one operand: unary.def. */
typedef enum unary_function {
#define UNARY(name, result, floating, integral) UNARY_##name,
#include "kernels/elementwise/unary.def"
#undef UNARY
    UNARY_COUNT
} unary_function_t;

/* Functions of two operands: those of binary.def, and pow with exponent 2 or 0.5, which does not
 * read y. */
typedef enum binary_function {
#define BINARY(name, result, floating, integral) BINARY_##name,
#include "kernels/elementwise/binary.def"
#undef BINARY
    BINARY_square,
    BINARY_root,
    BINARY_COUNT
} binary_function_t;

/* Gradients of functions of one operand: those of unary_slopes.def. The operands are the gradient
 * of the result, and the function's input or result. */
typedef enum unary_slope {
#define SLOPE(name, reads, gradient) UNARY_SLOPE_##name,
#include "kernels/elementwise/unary_slopes.def"
#undef SLOPE
    UNARY_SLOPE_COUNT
} unary_slope_t;

/* Gradients of functions of two operands; g is the gradient of the result. */
typedef enum binary_slope {
    BINARY_SLOPE_POW_BASE,     /* d(a^b)/da: g b a^(b-1), 0 if b is 0 */
    BINARY_SLOPE_POW_EXPONENT, /* d(a^b)/db: g a^b log(a), 0 if a is 0 and b >= 0 */
    BINARY_SLOPE_MAXIMUM,      /* d max(a, b)/da: g if a > b, g / 2 if a = b */
    BINARY_SLOPE_MINIMUM,      /* d min(a, b)/da */
    BINARY_SLOPE_PRELU,        /* d(a > 0 ? a : b a)/da */
    BINARY_SLOPE_COUNT
} binary_slope_t;

/* These return the loops of an ISA; isa_has(isa) must be true. Gradients have loops for f32 and f64
 * only. */
const elementwise_loops_t *elementwise_unary(unary_function_t function, isa_t isa);
const elementwise_loops_t *elementwise_binary(binary_function_t function, isa_t isa);
const elementwise_loops_t *elementwise_unary_slope(unary_slope_t function, isa_t isa);
const elementwise_loops_t *elementwise_binary_slope(binary_slope_t function, isa_t isa);

/* The loop for s32 operands, without a cast to s64. NULL except for add, sub, mul, maximum and
 * minimum. */
elementwise_loop_t *elementwise_binary_s32(binary_function_t function, isa_t isa);

/* condition ? a : b, for elements of 1, 2, 4 or 8 bytes. Operand 0 is the bool condition. */
elementwise_loop_t *elementwise_select(size_t element_bytes, isa_t isa);

/* The loops of one ISA. */
typedef struct unary_loops {
    elementwise_loops_t of[UNARY_COUNT];
} unary_loops_t;
typedef struct binary_loops {
    elementwise_loops_t of[BINARY_COUNT];
    elementwise_loop_t *s32[BINARY_COUNT];
} binary_loops_t;
typedef struct unary_slopes_loops {
    elementwise_loops_t of[UNARY_SLOPE_COUNT];
} unary_slopes_loops_t;
typedef struct binary_slopes_loops {
    elementwise_loops_t of[BINARY_SLOPE_COUNT];
} binary_slopes_loops_t;
typedef struct select_loops {
    elementwise_loop_t *bytes_1, *bytes_2, *bytes_4, *bytes_8;
} select_loops_t;

ISA_EXTERN(const unary_loops_t, unary_loops);
ISA_EXTERN(const binary_loops_t, binary_loops);
ISA_EXTERN(const unary_slopes_loops_t, unary_slopes_loops);
ISA_EXTERN(const binary_slopes_loops_t, binary_slopes_loops);
ISA_EXTERN(const select_loops_t, select_loops);

#endif
