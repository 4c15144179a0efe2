/* The loops of adjoint_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/shape/adjoint_impl.h"
#include "kernels/vector_impl.h"

#define SUM(name, type)                                                                            \
    static void name(const adjoint_sum_t *sum, int64_t i, const type *grad, type *out)             \
    {                                                                                              \
        const int64_t inner = sum->inner;                                                          \
        for (int64_t j = 0; j < inner; j++) out[j] = 0;                                            \
        for (int64_t t = sum->starts[i]; t < sum->starts[i + 1]; t++) {                            \
            const type *row = grad + sum->taps[t].index * inner;                                   \
            const type weight = (type)sum->taps[t].weight;                                         \
            for (int64_t j = 0; j < inner; j++) out[j] += weight * row[j];                         \
        }                                                                                          \
    }

SUM(sum_f32, float)
SUM(sum_f64, double)

void KERNEL_NAME(adjoint)(const adjoint_sum_t *sum, int64_t first, int64_t last)
{
    for (int64_t row = first; row < last; row++) {
        const int64_t from = row / sum->x * sum->grad * sum->inner, to = row * sum->inner;
        if (sum->is_wide)
            sum_f64(sum, row % sum->x, (const double *)sum->from + from, (double *)sum->to + to);
        else
            sum_f32(sum, row % sum->x, (const float *)sum->from + from, (float *)sum->to + to);
    }
}
