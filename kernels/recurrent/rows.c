#include "kernels/recurrent/rows_impl.h"

const recurrent_loops_t *recurrent_loops(void)
{
    static const recurrent_loops_t *const tables[ISA_COUNT] = ISA_TABLE(recurrent_loops);
    return tables[isa_best()];
}
