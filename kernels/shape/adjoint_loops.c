/* The loops of adjoint_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/shape/adjoint_impl.h"
#include "kernels/vector_impl.h"

/* One row: the sum of n rows of `inner` elements. */
#define SUM(name, type)                                                                            \
    static void name(int64_t n, const adjoint_tap_t *taps, int64_t inner, const type *from,        \
                     type *to)                                                                     \
    {                                                                                              \
        type sum = 0;                                                                              \
        for (int64_t t = 0; inner == 1 && t < n; t++)                                              \
            sum += (type)taps[t].weight * from[taps[t].index];                                     \
        for (int64_t j = 0; (inner == 1 || n == 0) && j < inner; j++) to[j] = sum;                 \
        for (int64_t t = 0; inner > 1 && t < n; t++) {                                             \
            const type *row = from + taps[t].index * inner;                                        \
            const type weight = (type)taps[t].weight;                                              \
            for (int64_t j = 0; t == 0 && j < inner; j++) to[j] = weight * row[j];                 \
            for (int64_t j = 0; t > 0 && j < inner; j++) to[j] += weight * row[j];                 \
        }                                                                                          \
    }

SUM(sum_f32, float)
SUM(sum_f64, double)

void KERNEL_NAME(adjoint)(const adjoint_sum_t *sum, int64_t first, int64_t last)
{
    int64_t outer = first / sum->n_to, i = first % sum->n_to;
    for (int64_t row = first; row < last; row++) {
        const int64_t begin = sum->starts != NULL ? sum->starts[i] : i * sum->n_taps;
        const int64_t n = sum->starts != NULL ? sum->starts[i + 1] - begin : sum->n_taps;
        const adjoint_tap_t *taps = sum->taps + begin;
        const int64_t from = outer * sum->n_from * sum->inner, to = row * sum->inner;
        if (sum->is_wide)
            sum_f64(n, taps, sum->inner, (const double *)sum->from + from, (double *)sum->to + to);
        else
            sum_f32(n, taps, sum->inner, (const float *)sum->from + from, (float *)sum->to + to);
        if (++i == sum->n_to) i = 0, outer++;
    }
}
