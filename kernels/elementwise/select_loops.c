/* Loops that select elements, compiled once for each ISA (isa_impl.h). They copy elements as
 * integers of the same size. */
#include "kernels/elementwise/rows_impl.h"
#include "kernels/vector_impl.h"

#define SELECT(name, type)                                                                         \
    static void name(const elementwise_rows_t *rows)                                               \
    {                                                                                              \
        const int64_t *step = rows->step, *row_step = rows->row_step;                              \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const uint8_t *condition = (const uint8_t *)rows->in[0] + row * row_step[0];           \
            const type *a = (const type *)rows->in[1] + row * row_step[1];                         \
            const type *b = (const type *)rows->in[2] + row * row_step[2];                         \
            type *out = (type *)rows->out + row * rows->out_row_step;                              \
            _Pragma("omp simd") for (int64_t i = 0; i < rows->n; i++)                              \
            {                                                                                      \
                const type x = a[i * step[1]], y = b[i * step[2]];                                 \
                out[i] = condition[i * step[0]] != 0 ? x : y;                                      \
            }                                                                                      \
        }                                                                                          \
    }

SELECT(bytes_1, uint8_t)
SELECT(bytes_2, uint16_t)
SELECT(bytes_4, uint32_t)
SELECT(bytes_8, uint64_t)

const select_loops_t KERNEL_NAME(select_loops) = {bytes_1, bytes_2, bytes_4, bytes_8};
