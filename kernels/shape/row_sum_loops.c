/* The loops of row_sum_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/shape/row_sum_impl.h"
#include "kernels/vector_impl.h"

static int64_t end_of(const row_sum_t *sum, int64_t i, int64_t begin)
{
    return sum->starts != NULL ? sum->starts[i + 1] : begin + sum->n_taps;
}

/* Computes rows [first, last) of one plane. The taps of row `first` begin with tap number `begin`.
 * Rows of one element have their own loop. */
#define SUM(name, type)                                                                            \
    static void name(const row_sum_t *sum, int64_t first, int64_t last, int64_t begin,             \
                     const type *restrict from, type *restrict to)                                 \
    {                                                                                              \
        const row_sum_tap_t *taps = sum->taps;                                                     \
        const int64_t inner = sum->inner;                                                          \
        for (int64_t i = first, end; inner == 1 && i < last; i++, begin = end) {                   \
            type all = 0;                                                                          \
            end = end_of(sum, i, begin);                                                           \
            for (int64_t t = begin; t < end; t++)                                                  \
                all += (type)taps[t].weight * from[taps[t].index];                                 \
            *to++ = all;                                                                           \
        }                                                                                          \
        for (int64_t i = first, end; inner != 1 && i < last; i++, begin = end, to += inner) {      \
            end = end_of(sum, i, begin);                                                           \
            for (int64_t j = 0; begin == end && j < inner; j++) to[j] = 0;                         \
            for (int64_t t = begin; t < end; t++) {                                                \
                const type *row = from + taps[t].index * inner;                                    \
                const type weight = (type)taps[t].weight;                                          \
                for (int64_t j = 0; t == begin && j < inner; j++) to[j] = weight * row[j];         \
                for (int64_t j = 0; t > begin && j < inner; j++) to[j] += weight * row[j];         \
            }                                                                                      \
        }                                                                                          \
    }

SUM(sum_f32, float)
SUM(sum_f64, double)

void KERNEL_NAME(row_sum)(const row_sum_t *sum, int64_t first, int64_t last)
{
    for (int64_t row = first, next; row < last; row = next) {
        const int64_t outer = row / sum->n_to, i = row % sum->n_to, left = sum->n_to - i;
        const int64_t begin = sum->starts != NULL ? sum->starts[i] : i * sum->n_taps;
        const int64_t from = outer * sum->n_from * sum->inner, to = row * sum->inner;
        next = last - row < left ? last : row + left;
        if (sum->is_wide)
            sum_f64(sum, i, i + next - row, begin, (const double *)sum->from + from,
                    (double *)sum->to + to);
        else
            sum_f32(sum, i, i + next - row, begin, (const float *)sum->from + from,
                    (float *)sum->to + to);
    }
}
