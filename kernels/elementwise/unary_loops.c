/* Loops of functions of one operand, compiled once for each ISA (isa_impl.h): each function of
 * unary.def becomes a function of one number, which the loop of its type inlines. */
#include <float.h>
#include <tgmath.h>

#include "kernels/elementwise/rows_impl.h"
#include "kernels/vector_impl.h"

#define NEVER(x) ((void)(x), 0)
#define IS_NEGATIVE(x) _Generic((x), int64_t : (int64_t)(x) < 0, uint64_t : 0)
#define LARGEST(x) _Generic((x), float : FLT_MAX, double : DBL_MAX)

#define NUMBER(type) type
#define TRUTH(type) bool

/* A loop over rows, which run_ inlines with a constant step. `omp simd` allows vectors although the
 * result may be the memory of the operand. */
#define LOOP(suffix, type, result)                                                                 \
    KERNEL_INLINE void step_##suffix##_##result(const elementwise_rows_t *rows, int64_t step,      \
                                                result(type) (*value)(type))                       \
    {                                                                                              \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const type *x = (const type *)rows->in[0] + row * rows->row_step[0];                   \
            result(type) *out = (result(type) *)rows->out + row * rows->out_row_step;              \
            _Pragma("omp simd") for (int64_t i = 0; i < rows->n; i++) out[i] = value(x[i * step]); \
        }                                                                                          \
    }                                                                                              \
    KERNEL_INLINE void run_##suffix##_##result(const elementwise_rows_t *rows,                     \
                                               result(type) (*value)(type))                        \
    {                                                                                              \
        if (rows->step[0] != 0)                                                                    \
            step_##suffix##_##result(rows, 1, value);                                              \
        else                                                                                       \
            step_##suffix##_##result(rows, 0, value);                                              \
    }

LOOP(f32, float, NUMBER)
LOOP(f64, double, NUMBER)
LOOP(s64, int64_t, NUMBER)
LOOP(u64, uint64_t, NUMBER)
LOOP(f32, float, TRUTH)
LOOP(f64, double, TRUTH)
LOOP(s64, int64_t, TRUTH)
LOOP(u64, uint64_t, TRUTH)

#define FUNCTION(name, suffix, type, result, expression)                                           \
    KERNEL_INLINE result(type) value_##name##_##suffix(type x)                                     \
    {                                                                                              \
        return (result(type))(expression);                                                         \
    }                                                                                              \
    static void name##_##suffix(const elementwise_rows_t *rows)                                    \
    {                                                                                              \
        run_##suffix##_##result(rows, value_##name##_##suffix);                                    \
    }

#define UNARY(name, result, floating, integral)                                                    \
    FUNCTION(name, f32, float, result, floating)                                                   \
    FUNCTION(name, f64, double, result, floating)                                                  \
    FUNCTION(name, s64, int64_t, result, integral)                                                 \
    FUNCTION(name, u64, uint64_t, result, integral)
#include "kernels/elementwise/unary.def"
#undef UNARY

const unary_loops_t KERNEL_NAME(unary_loops) = {{
#define UNARY(name, result, floating, integral)                                                    \
    [UNARY_##name] = {name##_f32, name##_f64, name##_s64, name##_u64},
#include "kernels/elementwise/unary.def"
#undef UNARY
}};
