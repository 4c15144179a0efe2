/* Loops of gradients of functions of two operands, compiled once for each ISA (isa_impl.h). */
#include <tgmath.h>

#include "kernels/elementwise/rows_impl.h"
#include "kernels/vector_impl.h"

/* Avoids pow for the most common exponents, 1 and 2. */
#define POWER(x, e) ((e) == 1 ? (x) : (e) == 2 ? (x) * (x) : pow(x, e))

/* A loop over rows, which run_ inlines with constant steps in common cases. `omp simd` allows
 * vectors although the result may be the memory of an operand. */
#define LOOP(suffix, type)                                                                         \
    KERNEL_INLINE void steps_##suffix(const elementwise_rows_t *rows, int64_t g_step,              \
                                      int64_t a_step, int64_t b_step,                              \
                                      type (*value)(type, type, type))                             \
    {                                                                                              \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const type *g = (const type *)rows->in[0] + row * rows->row_step[0];                   \
            const type *a = (const type *)rows->in[1] + row * rows->row_step[1];                   \
            const type *b = (const type *)rows->in[2] + row * rows->row_step[2];                   \
            type *out = (type *)rows->out + row * rows->out_row_step;                              \
            _Pragma("omp simd") for (int64_t i = 0; i < rows->n; i++)                              \
                out[i] = value(g[i * g_step], a[i * a_step], b[i * b_step]);                       \
        }                                                                                          \
    }                                                                                              \
    KERNEL_INLINE void run_##suffix(const elementwise_rows_t *rows,                                \
                                    type (*value)(type, type, type))                               \
    {                                                                                              \
        const int64_t *step = rows->step;                                                          \
        if (step[0] != 0 && step[1] != 0 && step[2] != 0)                                          \
            steps_##suffix(rows, 1, 1, 1, value);                                                  \
        else if (step[0] != 0 && step[1] != 0)                                                     \
            steps_##suffix(rows, 1, 1, 0, value);                                                  \
        else                                                                                       \
            steps_##suffix(rows, step[0], step[1], step[2], value);                                \
    }

LOOP(f32, float)
LOOP(f64, double)

#define FUNCTION(name, suffix, type, gradient)                                                     \
    KERNEL_INLINE type value_##name##_##suffix(type g, type a, type b)                             \
    {                                                                                              \
        return (type)(gradient);                                                                   \
    }                                                                                              \
    static void name##_##suffix(const elementwise_rows_t *rows)                                    \
    {                                                                                              \
        run_##suffix(rows, value_##name##_##suffix);                                               \
    }
#define SLOPE(name, gradient)                                                                      \
    FUNCTION(name, f32, float, gradient)                                                           \
    FUNCTION(name, f64, double, gradient)

SLOPE(pow_base, b == 0 ? 0 : g * (b * POWER(a, b - 1)))
SLOPE(pow_exponent, a == 0 && b >= 0 ? 0 : g * (pow(a, b) * log(a)))
SLOPE(maximum, a < b ? 0 : a == b ? g / 2 : g)
SLOPE(minimum, a > b ? 0 : a == b ? g / 2 : g)
SLOPE(prelu, a > 0 ? g : g * b)

const binary_slopes_loops_t KERNEL_NAME(binary_slopes_loops) = {
    {[BINARY_SLOPE_POW_BASE] = {.f32 = pow_base_f32, .f64 = pow_base_f64},
     [BINARY_SLOPE_POW_EXPONENT] = {.f32 = pow_exponent_f32, .f64 = pow_exponent_f64},
     [BINARY_SLOPE_MAXIMUM] = {.f32 = maximum_f32, .f64 = maximum_f64},
     [BINARY_SLOPE_MINIMUM] = {.f32 = minimum_f32, .f64 = minimum_f64},
     [BINARY_SLOPE_PRELU] = {.f32 = prelu_f32, .f64 = prelu_f64}}};
