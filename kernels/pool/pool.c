#include "kernels/pool/pool_impl.h"

void pool_max_line(isa_t isa, const pool_line_t *line)
{
    static pool_loop_t *const loops[ISA_COUNT] = ISA_TABLE(pool);
    loops[isa](line);
}
