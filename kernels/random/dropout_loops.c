/* Loops of dropout_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/random/dropout_impl.h"
#include "kernels/random/generator_impl.h"
#include "kernels/vector_impl.h"

#define ROW(suffix, type)                                                                          \
    static void row_##suffix(const dropout_row_t *row, const type *x, type *out)                   \
    {                                                                                              \
        const uint64_t base = generator_mix((uint64_t)row->seed + GENERATOR_STEP);                 \
        const uint64_t step = (uint64_t)row->step * GENERATOR_STEP;                                \
        const uint64_t first = base + ((uint64_t)row->first + 1) * GENERATOR_STEP;                 \
        const uint64_t least = row->least;                                                         \
        const type scale = (type)row->scale;                                                       \
        const int64_t n = row->n;                                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                        \
        {                                                                                          \
            const uint64_t bits = generator_mix(first + (uint64_t)i * step) >> 11;                 \
            out[i] = bits >= least ? x[i] * scale : 0;                                             \
        }                                                                                          \
    }

ROW(f32, float)
ROW(f64, double)

const dropout_loops_t KERNEL_NAME(dropout_loops) = {row_f32, row_f64};
