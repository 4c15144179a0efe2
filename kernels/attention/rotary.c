#include "kernels/attention/rotary_impl.h"

static const rotary_loops_t *const tables[ISA_COUNT] = ISA_TABLE(rotary);

void rotary_turn(isa_t isa, bool is_interleaved, int64_t n, const float *x, const float *cos,
                 const float *sin, float *out)
{
    tables[isa]->turn(is_interleaved, n, x, cos, sin, out);
}
