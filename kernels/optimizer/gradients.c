#include "kernels/optimizer/gradients_impl.h"

static const gradients_loops_t *const tables[ISA_COUNT] = ISA_TABLE(gradients_loops);

double gradients_sum_squares(int64_t n, const float *x)
{
    return tables[isa_best()]->sum_squares(n, x);
}

void gradients_scale(int64_t n, float factor, const float *from, float *to)
{
    tables[isa_best()]->scale(n, factor, from, to);
}
