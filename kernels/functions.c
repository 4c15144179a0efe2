#include "kernels/functions_impl.h"

void functions_run(function_t function, isa_t isa, int64_t n, const float *src, float *dst)
{
    const functions_loop_t loops[ISA_COUNT] = {[ISA_PORTABLE] = functions_portable,
                                               [ISA_AVX2] = functions_avx2,
                                               [ISA_AVX512] = functions_avx512};
    loops[isa](function, n, src, dst);
}
