/* Functions of float arrays, such as activations: dst[i] = f(src[i]). src and dst may be the same
 * array. NaN stays NaN.
 *
 * The folder kernels/elementwise contains the functions of one and two elements, their slopes,
 * and the loops over rows that call them. */
#ifndef TESSERA_KERNELS_ELEMENTWISE_FUNCTIONS_IMPL_H
#define TESSERA_KERNELS_ELEMENTWISE_FUNCTIONS_IMPL_H

#include <stdint.h>

#include "kernels/isa_impl.h"

/* a and b are the function's parameters. Errors are a few units in the last place. */
typedef enum function {
    FUNCTION_SIGMOID,   /* 1 / (1 + exp(-x)) */
    FUNCTION_SILU,      /* x sigmoid(x) */
    FUNCTION_GELU,      /* x / 2 (1 + erf(x / sqrt(2))) */
    FUNCTION_GELU_TANH, /* x sigmoid(sqrt(8 / pi) (x + 0.044715 x^3)) */
    FUNCTION_RELU,
    FUNCTION_CLAMP,       /* min(max(x, a), b), with a <= b */
    FUNCTION_LEAKY_RELU,  /* x > 0 ? x : a x */
    FUNCTION_HARDSIGMOID, /* clamp(a x + b, 0, 1) */
    FUNCTION_HARDSWISH,   /* x clamp(x + 3, 0, 6) / 6 */
    FUNCTION_LINEAR,      /* a x + b */
    FUNCTION_ABS,
    FUNCTION_NEG,
    FUNCTION_RECIPROCAL,
    FUNCTION_SQRT,
    FUNCTION_EXP,
    FUNCTION_LOG,
    FUNCTION_SOFTPLUS, /* log(1 + exp(x)) */
    FUNCTION_ERF,
    FUNCTION_COUNT
} function_t;

/* Computes a function. isa_has(isa) must be true. */
void functions_run(function_t function, isa_t isa, float a, float b, int64_t n, const float *src,
                   float *dst);

/* Loops of one ISA: explicit vectors (functions_loops.c), and loops that the compiler vectorises
 * (plain_functions_loops.c). */
typedef void functions_loop_t(function_t function, int64_t n, const float *src, float *dst);
typedef void plain_functions_loop_t(function_t function, float a, float b, int64_t n,
                                    const float *src, float *dst);
ISA_EXTERN(functions_loop_t, functions);
ISA_EXTERN(plain_functions_loop_t, plain_functions);

#endif
