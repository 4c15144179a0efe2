#include "kernels/norm/batch_norm_impl.h"

const batch_loops_t *batch_loops(isa_t isa, bool is_f64)
{
    static const batch_loops_t *const f32[ISA_COUNT] = ISA_TABLE(batch_norm_f32);
    static const batch_loops_t *const f64[ISA_COUNT] = ISA_TABLE(batch_norm_f64);
    return is_f64 ? f64[isa] : f32[isa];
}
