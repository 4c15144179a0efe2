/* Loops of functions of two operands, compiled once for each ISA (isa_impl.h): each function of
 * binary.def becomes a function of two numbers, which the loop of its type inlines. */
#include <tgmath.h>

#include "kernels/elementwise/rows_impl.h"
#include "kernels/vector_impl.h"

/* ---- integers: overflow wraps around; callers exclude division by 0 ---- */

static int64_t quotient_s64(int64_t x, int64_t y)
{
    if (y == 0) return 0;
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static uint64_t quotient_u64(uint64_t x, uint64_t y)
{
    return y == 0 ? 0 : x / y;
}

static int64_t rest_s64(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}

static uint64_t rest_u64(uint64_t x, uint64_t y)
{
    return y == 0 ? 0 : x % y;
}

static bool differs_in_sign(int64_t rest, int64_t y)
{
    return rest != 0 && (rest < 0) != (y < 0);
}

static int64_t floor_quotient_s64(int64_t x, int64_t y)
{
    int64_t quotient = quotient_s64(x, y);
    return differs_in_sign(rest_s64(x, y), y) ? quotient - 1 : quotient;
}

static int64_t floor_remainder_s64(int64_t x, int64_t y)
{
    int64_t rest = rest_s64(x, y);
    return differs_in_sign(rest, y) ? rest + y : rest;
}

/* Computes the power by repeated squaring. */
static uint64_t power_u64(uint64_t base, uint64_t exponent)
{
    uint64_t power = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) power *= base;
        base *= base;
    }
    return power;
}

/* With a negative exponent, the power is 0 unless the base is 1 or -1. */
static int64_t power_s64(int64_t base, int64_t exponent)
{
    if (exponent >= 0) return (int64_t)power_u64((uint64_t)base, (uint64_t)exponent);
    return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
}

static int64_t right_shift_s64(int64_t x, int64_t y)
{
    return x >> ((uint64_t)y < 64 ? y : 63);
}

static uint64_t right_shift_u64(uint64_t x, uint64_t y)
{
    return y < 64 ? x >> y : 0;
}

/* ---- floating-point numbers: Python's floor division ---- */

#define DIVISION(suffix, type)                                                                     \
    static type floor_remainder_##suffix(type x, type y)                                           \
    {                                                                                              \
        type rest = fmod(x, y);                                                                    \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;                               \
    }                                                                                              \
                                                                                                   \
    /* (x - rest) / y is an integer, apart from rounding errors. */                                \
    static type floor_quotient_##suffix(type x, type y)                                            \
    {                                                                                              \
        if (y == 0) return x / y;                                                                  \
        type rest = fmod(x, y), quotient = (x - rest) / y;                                         \
        if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;                                     \
        if (quotient == 0) return copysign((type)0, x / y);                                        \
        type whole = floor(quotient);                                                              \
        return quotient - whole > (type)0.5 ? whole + 1 : whole;                                   \
    }

DIVISION(f32, float)
DIVISION(f64, double)

#define BY_SIGN(function, x) _Generic((x), int64_t : function##_s64, uint64_t : function##_u64)
#define BY_TYPE(function, x, of_u64)                                                               \
    _Generic((x), float                                                                            \
             : function##_f32, double                                                              \
             : function##_f64, int64_t                                                             \
             : function##_s64, uint64_t                                                            \
             : of_u64)
#define NEVER(x, y) ((void)(x), (void)(y), 0)
#define QUOTIENT(x, y) BY_SIGN(quotient, x)(x, y)
#define REMAINDER(x, y) BY_SIGN(rest, x)(x, y)
#define POWER(x, y) BY_SIGN(power, x)(x, y)
#define RIGHT_SHIFT(x, y) BY_SIGN(right_shift, x)(x, y)
#define FLOOR_QUOTIENT(x, y) BY_TYPE(floor_quotient, x, quotient_u64)(x, y)
#define FLOOR_REMAINDER(x, y) BY_TYPE(floor_remainder, x, rest_u64)(x, y)

/* ---- loops ---- */

#define NUMBER(type) type
#define TRUTH(type) bool

/* A loop over rows, which run_ inlines with constant steps. An operand with step 0 is read before
 * the loop. `omp simd` allows vectors although the result may be the memory of an operand. */
#define LOOP(suffix, type, result)                                                                 \
    KERNEL_INLINE void steps_##suffix##_##result(const elementwise_rows_t *rows, int64_t x_step,   \
                                                 int64_t y_step,                                   \
                                                 result(type) (*value)(type, type))                \
    {                                                                                              \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const type *x = (const type *)rows->in[0] + row * rows->row_step[0];                   \
            const type *y = (const type *)rows->in[1] + row * rows->row_step[1];                   \
            const type x_0 = *x, y_0 = *y;                                                         \
            result(type) *out = (result(type) *)rows->out + row * rows->out_row_step;              \
            _Pragma("omp simd") for (int64_t i = 0; i < rows->n; i++)                              \
                out[i] = value(x_step != 0 ? x[i] : x_0, y_step != 0 ? y[i] : y_0);                \
        }                                                                                          \
    }                                                                                              \
    KERNEL_INLINE void run_##suffix##_##result(const elementwise_rows_t *rows,                     \
                                               result(type) (*value)(type, type))                  \
    {                                                                                              \
        if (rows->step[0] != 0 && rows->step[1] != 0)                                              \
            steps_##suffix##_##result(rows, 1, 1, value);                                          \
        else if (rows->step[0] != 0)                                                               \
            steps_##suffix##_##result(rows, 1, 0, value);                                          \
        else if (rows->step[1] != 0)                                                               \
            steps_##suffix##_##result(rows, 0, 1, value);                                          \
        else                                                                                       \
            steps_##suffix##_##result(rows, 0, 0, value);                                          \
    }

LOOP(f32, float, NUMBER)
LOOP(f64, double, NUMBER)
LOOP(s32, int32_t, NUMBER)
LOOP(s64, int64_t, NUMBER)
LOOP(u64, uint64_t, NUMBER)
LOOP(f32, float, TRUTH)
LOOP(f64, double, TRUTH)
LOOP(s64, int64_t, TRUTH)
LOOP(u64, uint64_t, TRUTH)

#define FUNCTION(name, suffix, type, result, expression)                                           \
    KERNEL_INLINE result(type) value_##name##_##suffix(type x, type y)                             \
    {                                                                                              \
        return (result(type))(expression);                                                         \
    }                                                                                              \
    static void name##_##suffix(const elementwise_rows_t *rows)                                    \
    {                                                                                              \
        run_##suffix##_##result(rows, value_##name##_##suffix);                                    \
    }

#define BINARY(name, result, floating, integral)                                                   \
    FUNCTION(name, f32, float, result, floating)                                                   \
    FUNCTION(name, f64, double, result, floating)                                                  \
    FUNCTION(name, s64, int64_t, result, integral)                                                 \
    FUNCTION(name, u64, uint64_t, result, integral)
#include "kernels/elementwise/binary.def"
#undef BINARY

FUNCTION(square, f32, float, NUMBER, ((void)y, x *x))
FUNCTION(square, f64, double, NUMBER, ((void)y, x *x))
FUNCTION(root, f32, float, NUMBER, ((void)y, sqrt(x)))
FUNCTION(root, f64, double, NUMBER, ((void)y, sqrt(x)))

/* Only these functions have s32 loops, because quantized networks seldom use others. */
FUNCTION(add, s32, int32_t, NUMBER, (uint32_t)x + (uint32_t)y)
FUNCTION(sub, s32, int32_t, NUMBER, (uint32_t)x - (uint32_t)y)
FUNCTION(mul, s32, int32_t, NUMBER, (uint32_t)x *(uint32_t)y)
FUNCTION(maximum, s32, int32_t, NUMBER, x > y ? x : y)
FUNCTION(minimum, s32, int32_t, NUMBER, x < y ? x : y)

const binary_loops_t KERNEL_NAME(binary_loops) = {
    .of =
        {
#define BINARY(name, result, floating, integral)                                                   \
    [BINARY_##name] = {name##_f32, name##_f64, name##_s64, name##_u64},
#include "kernels/elementwise/binary.def"
#undef BINARY
            [BINARY_square] = {.f32 = square_f32, .f64 = square_f64},
            [BINARY_root] = {.f32 = root_f32, .f64 = root_f64},
        },
    .s32 = {[BINARY_add] = add_s32,
            [BINARY_sub] = sub_s32,
            [BINARY_mul] = mul_s32,
            [BINARY_maximum] = maximum_s32,
            [BINARY_minimum] = minimum_s32},
};
