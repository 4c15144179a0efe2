/* Loops of gradients of functions of one operand, compiled once for each ISA (isa_impl.h): each
 * line of unary_slopes.def becomes a function of numbers, which the loop of its type inlines. */
#include <tgmath.h>

#include "kernels/elementwise/rows_impl.h"
#include "kernels/scalar_functions_impl.h"
#include "kernels/vector_impl.h"

/* ---- terms of the expressions ---- */

#define HALF ((element_t)0.5)
#define LN_2 ((element_t)0.69314718055994530942)
#define LN_10 ((element_t)2.30258509299404568402)
#define SELU_SCALE ((element_t)1.0507009873554804934193349852946)
#define SELU_ALPHA ((element_t)1.6732632423543772848170429916717)
#define TWO_BY_ROOT_PI ((element_t)1.1283791670955125739)

#define EXP(x) _Generic((x), float : scalar_exp, double : exp)(x)
#define SIGMOID(x) (1 / (1 + EXP(-(x))))

/* Derivative of gelu: Phi(x) + x phi(x). Phi is the distribution function of the normal
 * distribution, phi its density. */
#define GELU_SLOPE(suffix, type)                                                                   \
    static inline type gelu_slope_##suffix(type x)                                                 \
    {                                                                                              \
        const type density = (type)0.39894228040143267794 * EXP(-(type)0.5 * x * x);               \
        return (type)0.5 * erfc(-x * (type)0.70710678118654752440) + x * density;                  \
    }                                                                                              \
                                                                                                   \
    /* gelu_tanh is x sigmoid(u) with u = k (x + 0.044715 x^3). */                                 \
    static inline type gelu_tanh_slope_##suffix(type x)                                            \
    {                                                                                              \
        const type k = (type)1.5957691216057307117597842374, square = x * x;                       \
        const type bounded = square < 400 ? square : 400;                                          \
        const type s = SIGMOID(k * x * (1 + (type)0.044715 * square));                             \
        return s + s * (1 - s) * k * x * (1 + (type)0.134145 * bounded);                           \
    }                                                                                              \
                                                                                                   \
    static inline type silu_slope_##suffix(type x)                                                 \
    {                                                                                              \
        const type s = SIGMOID(x);                                                                 \
        return s * (1 + x * (1 - s));                                                              \
    }                                                                                              \
                                                                                                   \
    /* mish is x t, t = tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2). Above 20 its slope \
     * is 1. */                                                                                    \
    static inline type mish_slope_##suffix(type x)                                                 \
    {                                                                                              \
        const type bounded = x > 20 ? 20 : x;                                                      \
        const type e = EXP(bounded), n = e * (e + 2), t = n / (n + 2);                             \
        return t + bounded * 4 * e * (e + 1) / ((n + 2) * (n + 2));                                \
    }

GELU_SLOPE(f32, float)
GELU_SLOPE(f64, double)

#define BY_WIDTH(function, x) _Generic((x), float : function##_f32, double : function##_f64)(x)
#define GELU(x) BY_WIDTH(gelu_slope, x)
#define GELU_TANH(x) BY_WIDTH(gelu_tanh_slope, x)
#define SILU(x) BY_WIDTH(silu_slope, x)
#define MISH(x) BY_WIDTH(mish_slope, x)

/* ---- loops ---- */

/* A loop over rows, which run_ inlines with constant steps in the common case. A step of 0 occurs
 * if the gradient was expanded. `omp simd` allows vectors although the result may be the memory of
 * an operand. */
#define LOOP(suffix, type)                                                                         \
    KERNEL_INLINE void steps_##suffix(const elementwise_rows_t *rows, int64_t g_step,              \
                                      int64_t v_step, type (*value)(type, type, type, type))       \
    {                                                                                              \
        const type a = (type)rows->alpha, b = (type)rows->beta;                                    \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const type *g = (const type *)rows->in[0] + row * rows->row_step[0];                   \
            const type *v = (const type *)rows->in[1] + row * rows->row_step[1];                   \
            type *out = (type *)rows->out + row * rows->out_row_step;                              \
            _Pragma("omp simd") for (int64_t i = 0; i < rows->n; i++)                              \
                out[i] = value(g[i * g_step], v[i * v_step], a, b);                                \
        }                                                                                          \
    }                                                                                              \
    KERNEL_INLINE void run_##suffix(const elementwise_rows_t *rows,                                \
                                    type (*value)(type, type, type, type))                         \
    {                                                                                              \
        if (rows->step[0] != 0 && rows->step[1] != 0)                                              \
            steps_##suffix(rows, 1, 1, value);                                                     \
        else                                                                                       \
            steps_##suffix(rows, rows->step[0], rows->step[1], value);                             \
    }

LOOP(f32, float)
LOOP(f64, double)

#define FUNCTION(name, suffix, type, gradient)                                                     \
    KERNEL_INLINE type value_##name##_##suffix(type g, type v, type a, type b)                     \
    {                                                                                              \
        typedef type element_t;                                                                    \
        (void)v, (void)a, (void)b;                                                                 \
        return (element_t)(gradient);                                                              \
    }                                                                                              \
    static void name##_##suffix(const elementwise_rows_t *rows)                                    \
    {                                                                                              \
        run_##suffix(rows, value_##name##_##suffix);                                               \
    }

#define SLOPE(name, reads, gradient)                                                               \
    FUNCTION(name, f32, float, gradient)                                                           \
    FUNCTION(name, f64, double, gradient)
#include "kernels/elementwise/unary_slopes.def"
#undef SLOPE

const unary_slopes_loops_t KERNEL_NAME(unary_slopes_loops) = {{
#define SLOPE(name, reads, gradient) [UNARY_SLOPE_##name] = {.f32 = name##_f32, .f64 = name##_f64},
#include "kernels/elementwise/unary_slopes.def"
#undef SLOPE
}};
