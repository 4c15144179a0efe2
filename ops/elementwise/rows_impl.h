/* Loops over rows of broadcast_rows_t, one for each function and type: x, y and z are the operands'
 * elements in an expression, element_t their type. The result may lie where an operand lies: hence
 * simd, and not restrict. */
#ifndef TESSERA_OPS_ELEMENTWISE_ROWS_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_ROWS_IMPL_H

#include "ops/elementwise/broadcast_impl.h"
#include "tensor/simd_impl.h"

#define ROWS_EACH(n) _Pragma("omp simd") for (int64_t i = 0; i < (n); i++)

#define ROWS_UNARY(name, type, out_type, expr)                                                     \
    FOR_EACH_ISA static void name(const broadcast_rows_t *rows)                                    \
    {                                                                                              \
        typedef type element_t;                                                                    \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const element_t *p = (const element_t *)rows->in[0] + row * rows->row_step[0];         \
            out_type *o = (out_type *)rows->out + row * rows->out_row_step;                        \
            const int64_t step = rows->step[0];                                                    \
            ROWS_EACH(rows->n)                                                                     \
            {                                                                                      \
                const element_t x = p[i * step];                                                   \
                o[i] = (out_type)(expr);                                                           \
            }                                                                                      \
        }                                                                                          \
    }

#define ROWS_BINARY(name, type, out_type, expr)                                                    \
    FOR_EACH_ISA static void name(const broadcast_rows_t *rows)                                    \
    {                                                                                              \
        typedef type element_t;                                                                    \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const element_t *p = (const element_t *)rows->in[0] + row * rows->row_step[0];         \
            const element_t *q = (const element_t *)rows->in[1] + row * rows->row_step[1];         \
            out_type *o = (out_type *)rows->out + row * rows->out_row_step;                        \
            if (rows->step[0] != 0 && rows->step[1] != 0) {                                        \
                ROWS_EACH(rows->n)                                                                 \
                {                                                                                  \
                    const element_t x = p[i], y = q[i];                                            \
                    o[i] = (out_type)(expr);                                                       \
                }                                                                                  \
            } else if (rows->step[0] != 0) {                                                       \
                const element_t y = q[0];                                                          \
                ROWS_EACH(rows->n)                                                                 \
                {                                                                                  \
                    const element_t x = p[i];                                                      \
                    o[i] = (out_type)(expr);                                                       \
                }                                                                                  \
            } else {                                                                               \
                const element_t x = p[0];                                                          \
                const int64_t step = rows->step[1];                                                \
                ROWS_EACH(rows->n)                                                                 \
                {                                                                                  \
                    const element_t y = q[i * step];                                               \
                    o[i] = (out_type)(expr);                                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#endif
