#include "kernels/elementwise/functions_impl.h"

void functions_run(function_t function, isa_t isa, int64_t n, const float *src, float *dst)
{
    static functions_loop_t *const loops[ISA_COUNT] = ISA_TABLE(functions);
    loops[isa](function, n, src, dst);
}
