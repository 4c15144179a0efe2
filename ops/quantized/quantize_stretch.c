#include "ops/quantized/quantize_impl.h"

#include <math.h>

#include "tensor/simd_impl.h"

/* 1.5 * 2^23: adding and subtracting it rounds a float below 2^22 half to even. */
#define ROUNDING 12582912.0f

void quantize_range(dtype_t dtype, int32_t *out_low, int32_t *out_high)
{
    const bool is_unsigned = dtype_is_unsigned(dtype);
    const int32_t span = dtype_size(dtype) == 1 ? 0xff : 0xffff;
    *out_low = is_unsigned ? 0 : -(span / 2) - 1;
    *out_high = is_unsigned ? span : span / 2;
}

double quantize_spec(double quotient, double zero, dtype_t dtype)
{
    int32_t low, high;
    quantize_range(dtype, &low, &high);
    double value = nearbyint((double)(float)quotient) + zero;
    if (!(value > low)) return low;
    return value < high ? value : high;
}

/* Saturates, then rounds: the bounds are integers. NaN becomes the lower bound. */
static inline int32_t settle(float value, int32_t zero, int32_t low, int32_t high)
{
    const float least = (float)(low - zero), most = (float)(high - zero);
    value = value > least ? value : least;
    value = value < most ? value : most;
    return (int32_t)((value + ROUNDING) - ROUNDING) + zero;
}

/* Larger zeros would exceed the range of ROUNDING; they are processed in double. */
#define FAR (1 << 21)

static bool any_far(int64_t n, const int32_t *zero, int64_t step)
{
    bool is_far = false;
    for (int64_t i = 0; i < (step == 0 ? 1 : n); i++)
        is_far = is_far || zero[i * step] > FAR || zero[i * step] < -FAR;
    return is_far;
}

#define EACH(n) _Pragma("omp simd") for (int64_t i = 0; i < (n); i++)

FOR_EACH_ISA static void divide_by_one(int64_t n, const float *x, float scale, int32_t zero,
                                       int32_t low, int32_t high, int32_t *out)
{
    EACH(n) out[i] = settle(x[i] / scale, zero, low, high);
}

FOR_EACH_ISA static void divide_by_each(int64_t n, const float *x, const float *scale,
                                        const int32_t *zero, int32_t low, int32_t high,
                                        int32_t *out)
{
    EACH(n) out[i] = settle(x[i] / scale[i], zero[i], low, high);
}

void quantize_divide(int64_t n, const float *x, const float *scale, const int32_t *zero,
                     int64_t step, dtype_t dtype, int32_t *out)
{
    int32_t low, high;
    quantize_range(dtype, &low, &high);
    if (any_far(n, zero, step))
        for (int64_t i = 0; i < n; i++)
            out[i] = (int32_t)quantize_spec((double)(x[i] / scale[i * step]), zero[i * step],
                                            dtype);
    else if (step == 0)
        divide_by_one(n, x, *scale, *zero, low, high, out);
    else
        divide_by_each(n, x, scale, zero, low, high, out);
}

static inline float biased(int32_t x, int32_t bias)
{
    return (float)(int32_t)((uint32_t)x + (uint32_t)bias);
}

/* Rounds the product before it adds the shift. */
static inline float shifted(int32_t x, int32_t bias, float multiplier, float shift)
{
    const float product = biased(x, bias) * multiplier;
    return product + shift;
}

FOR_EACH_ISA static void multiply_by_one(int64_t n, const int32_t *x, float multiplier, float shift,
                                         int32_t bias, int32_t zero, int32_t low, int32_t high,
                                         int32_t *out)
{
    EACH(n) out[i] = settle(shifted(x[i], bias, multiplier, shift), zero, low, high);
}

FOR_EACH_ISA static void multiply_by_each(int64_t n, const int32_t *x, const requantize_t *how,
                                          int32_t low, int32_t high, int32_t *out)
{
    const float *multiplier = how->multiplier, *shift = how->shift;
    const int32_t *bias = how->bias, *zero = how->zero;
    EACH(n) out[i] = settle(shifted(x[i], bias[i], multiplier[i], shift[i]), zero[i], low, high);
}

/* Raises the integers of negative numbers to that of 0. */
FOR_EACH_ISA static void keep_positive(int64_t n, const int32_t *zero, int64_t step, int32_t high,
                                       int32_t *out)
{
    EACH(n)
    {
        const int32_t own = zero[i * step], least = own < high ? own : high;
        out[i] = out[i] > least ? out[i] : least;
    }
}

void quantize_multiply(int64_t n, const int32_t *x, const requantize_t *how, int32_t *out)
{
    const int64_t step = how->step;
    int32_t low, high;
    quantize_range(how->dtype, &low, &high);
    if (any_far(n, how->zero, step))
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = i * step;
            const float number = shifted(x[i], how->bias[at], how->multiplier[at], how->shift[at]);
            out[i] = (int32_t)quantize_spec((double)number, how->zero[at], how->dtype);
        }
    else if (step == 0)
        multiply_by_one(n, x, *how->multiplier, *how->shift, *how->bias, *how->zero, low, high,
                        out);
    else
        multiply_by_each(n, x, how, low, high, out);
    if (how->relu) keep_positive(n, how->zero, step, high, out);
}

/* The difference of two s32 is exact in double. */
FOR_EACH_ISA static void undo_by_one(int64_t n, const int32_t *x, float scale, int32_t zero,
                                     float *out)
{
    EACH(n) out[i] = (float)((double)x[i] - (double)zero) * scale;
}

FOR_EACH_ISA static void undo_by_each(int64_t n, const int32_t *x, const float *scale,
                                      const int32_t *zero, float *out)
{
    EACH(n) out[i] = (float)((double)x[i] - (double)zero[i]) * scale[i];
}

void quantize_undo(int64_t n, const int32_t *x, const float *scale, const int32_t *zero,
                   int64_t step, float *out)
{
    if (step == 0)
        undo_by_one(n, x, *scale, *zero, out);
    else
        undo_by_each(n, x, scale, zero, out);
}

FOR_EACH_ISA static void undo_unsigned(int64_t n, const uint8_t *x, float scale, int32_t zero,
                                       float *out)
{
    EACH(n) out[i] = (float)(x[i] - zero) * scale;
}

FOR_EACH_ISA static void undo_signed(int64_t n, const int8_t *x, float scale, int32_t zero,
                                     float *out)
{
    EACH(n) out[i] = (float)(x[i] - zero) * scale;
}

bool quantize_undo_bytes(int64_t n, dtype_t dtype, const void *x, float scale, int32_t zero,
                         float *out)
{
    if (dtype_size(dtype) != 1 || zero > FAR || zero < -FAR) return false;
    if (dtype == DTYPE_S8)
        undo_signed(n, x, scale, zero, out);
    else
        undo_unsigned(n, x, scale, zero, out);
    return true;
}

FOR_EACH_ISA static void store_bytes(int64_t n, const int32_t *x, uint8_t *out)
{
    EACH(n) out[i] = (uint8_t)x[i];
}

FOR_EACH_ISA static void store_words(int64_t n, const int32_t *x, uint16_t *out)
{
    EACH(n) out[i] = (uint16_t)x[i];
}

void quantize_store(int64_t n, const int32_t *x, dtype_t dtype, void *out)
{
    if (dtype_size(dtype) == 1)
        store_bytes(n, x, out);
    else
        store_words(n, x, out);
}
