#include "kernels/norm/lrn_impl.h"

void lrn_gradient(isa_t isa, dtype_t dtype, const lrn_t *lrn, int64_t n_channels, void *x,
                  const void *grad, void *scale, void *term)
{
    static lrn_gradient_t *const f32[ISA_COUNT] = ISA_TABLE(lrn_gradient_f32);
    static lrn_gradient_t *const f64[ISA_COUNT] = ISA_TABLE(lrn_gradient_f64);
    (dtype == DTYPE_F64 ? f64 : f32)[isa](lrn, n_channels, x, grad, scale, term);
}
