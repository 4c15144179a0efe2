#include "kernels/pool_impl.h"

void pool_max_line(isa_t isa, const pool_line_t *line)
{
    const pool_loop_t loops[ISA_COUNT] = {
        [ISA_PORTABLE] = pool_portable, [ISA_AVX2] = pool_avx2, [ISA_AVX512] = pool_avx512};
    loops[isa](line);
}
