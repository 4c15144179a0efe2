/* Functions of many floats by themselves, as post-ops are: dst[i] = f(src[i]), src may be dst.
 * Within some units in the last place of the exact value; NaN stays NaN. */
#ifndef TESSERA_KERNELS_ELEMENTWISE_FUNCTIONS_IMPL_H
#define TESSERA_KERNELS_ELEMENTWISE_FUNCTIONS_IMPL_H

#include <stdint.h>

#include "kernels/isa_impl.h"

typedef enum function {
    FUNCTION_SIGMOID,   /* 1 / (1 + exp(-x)) */
    FUNCTION_SILU,      /* x sigmoid(x) */
    FUNCTION_GELU,      /* x / 2 (1 + erf(x / sqrt(2))) */
    FUNCTION_GELU_TANH, /* x sigmoid(sqrt(8 / pi) (x + 0.044715 x^3)) */
    FUNCTION_COUNT
} function_t;

/* By an instruction set that isa_has. */
void functions_run(function_t function, isa_t isa, int64_t n, const float *src, float *dst);

/* Loops of one instruction set. */
typedef void functions_loop_t(function_t function, int64_t n, const float *src, float *dst);
ISA_EXTERN(functions_loop_t, functions);

#endif
