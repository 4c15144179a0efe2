#include "kernels/elementwise/functions_impl.h"

void functions_run(function_t function, isa_t isa, float a, float b, int64_t n, const float *src,
                   float *dst)
{
    static functions_loop_t *const loops[ISA_COUNT] = ISA_TABLE(functions);
    static plain_functions_loop_t *const plain_loops[ISA_COUNT] = ISA_TABLE(plain_functions);
    if (function <= FUNCTION_GELU_TANH)
        loops[isa](function, n, src, dst);
    else
        plain_loops[isa](function, a, b, n, src, dst);
}
