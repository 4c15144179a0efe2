#include "kernels/random/dropout_impl.h"

const dropout_loops_t *dropout_rows(isa_t isa)
{
    static const dropout_loops_t *const tables[ISA_COUNT] = ISA_TABLE(dropout_loops);
    return tables[isa];
}
