#include "kernels/loss/exponentials_impl.h"

double exponentials_run(isa_t isa, int64_t n, double largest, const double *x, float *scratch,
                        double *out)
{
    static exponentials_loop_t *const loops[ISA_COUNT] = ISA_TABLE(exponentials);
    return loops[isa](n, largest, x, scratch, out);
}
