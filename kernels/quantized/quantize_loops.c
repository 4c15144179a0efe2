/* Loops of quantize_impl.h, compiled once for each ISA (isa_impl.h), without contraction: a product
 * is rounded before something is added to it. */
#include "kernels/quantized/quantize_impl.h"
#include "kernels/vector_impl.h"

#include <math.h>

#define EACH(n) _Pragma("omp simd") for (int64_t i = 0; i < (n); i++)

/* Rounds a float below 2^22 half to even: adding 1.5 * 2^23 removes its fraction. */
KERNEL_INLINE int32_t nearest(float value)
{
    return (int32_t)((value + 12582912.0f) - 12582912.0f);
}

/* Saturates, then rounds; the bounds are integers, so the order does not matter. NaN becomes
 * `low`. */
KERNEL_INLINE int32_t settle(float value, int32_t zero, int32_t low, int32_t high)
{
    const float least = (float)(low - zero), most = (float)(high - zero);
    value = value > least ? value : least;
    value = value < most ? value : most;
    return nearest(value) + zero;
}

/* Each function with a `step` is compiled twice: for step 0, where parameters stay in registers,
 * and for step 1. */
KERNEL_INLINE void divide_by(int64_t n, const float *x, const float *scale, const int32_t *zero,
                             int64_t step, int32_t low, int32_t high, int32_t *out)
{
    const float scale_0 = *scale;
    const int32_t zero_0 = *zero;
    EACH(n)
    out[i] = settle(x[i] / (step == 0 ? scale_0 : scale[i]), step == 0 ? zero_0 : zero[i], low,
                    high);
}

static void divide(int64_t n, const float *x, const float *scale, const int32_t *zero, int64_t step,
                   int32_t low, int32_t high, int32_t *out)
{
    if (step == 0)
        divide_by(n, x, scale, zero, 0, low, high, out);
    else
        divide_by(n, x, scale, zero, 1, low, high, out);
}

KERNEL_INLINE void multiply_by(int64_t n, const int32_t *x, requantize_t how, int64_t step,
                               int32_t low, int32_t high, int32_t *out)
{
    const float multiplier_0 = *how.multiplier, shift_0 = *how.shift;
    const int32_t bias_0 = *how.bias, zero_0 = *how.zero;
    EACH(n)
    {
        const float number = quantize_shifted(x[i], step == 0 ? bias_0 : how.bias[i],
                                              step == 0 ? multiplier_0 : how.multiplier[i],
                                              step == 0 ? shift_0 : how.shift[i]);
        out[i] = settle(number, step == 0 ? zero_0 : how.zero[i], low, high);
    }
}

static void multiply(int64_t n, const int32_t *x, const requantize_t *how, int32_t low,
                     int32_t high, int32_t *out)
{
    if (how->step == 0)
        multiply_by(n, x, *how, 0, low, high, out);
    else
        multiply_by(n, x, *how, 1, low, high, out);
}

static void keep_positive(int64_t n, const int32_t *zero, int64_t step, int32_t high, int32_t *out)
{
    EACH(n)
    {
        const int32_t own = zero[i * step], least = own < high ? own : high;
        out[i] = out[i] > least ? out[i] : least;
    }
}

/* The difference of two s32 is exact in double. */
KERNEL_INLINE void undo_by(int64_t n, const int32_t *x, const float *scale, const int32_t *zero,
                           int64_t step, float *out)
{
    const float scale_0 = *scale;
    const double zero_0 = (double)*zero;
    EACH(n)
    out[i] = (float)((double)x[i] - (step == 0 ? zero_0 : (double)zero[i])) *
             (step == 0 ? scale_0 : scale[i]);
}

static void undo(int64_t n, const int32_t *x, const float *scale, const int32_t *zero, int64_t step,
                 float *out)
{
    if (step == 0)
        undo_by(n, x, scale, zero, 0, out);
    else
        undo_by(n, x, scale, zero, 1, out);
}

static void undo_bytes(int64_t n, bool is_signed, const void *x, float scale, int32_t zero,
                       float *out)
{
    const int8_t *s8 = x;
    const uint8_t *u8 = x;
    if (is_signed)
        EACH(n) out[i] = (float)(s8[i] - zero) * scale;
    else
        EACH(n) out[i] = (float)(u8[i] - zero) * scale;
}

static void store(int64_t n, const int32_t *x, size_t bytes, void *out)
{
    uint8_t *out_bytes = out;
    uint16_t *words = out;
    if (bytes == 1)
        EACH(n) out_bytes[i] = (uint8_t)x[i];
    else
        EACH(n) words[i] = (uint16_t)x[i];
}

static void widen(int64_t n, const float *x, float *least, float *most)
{
    float low = *least, high = *most;
#pragma omp simd reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *least = low;
    *most = high;
}

static void rescale(int64_t n, const float *x, const float *multiplier, const float *addend,
                    float addend_scale, bool relu, float *out)
{
    EACH(n) out[i] = x[i] * multiplier[i];
    if (addend != NULL) EACH(n) out[i] += addend_scale * addend[i];
    if (relu) EACH(n) out[i] = out[i] > 0.0f ? out[i] : 0.0f;
}

static float round_numbers(int64_t n, const float *x, float most, int16_t *out)
{
    float largest = 0.0f, nothing = 0.0f;
#pragma omp simd reduction(max : largest) reduction(+ : nothing)
    for (int64_t i = 0; i < n; i++) {
        const float size = x[i] < 0.0f ? -x[i] : x[i];
        largest = size > largest ? size : largest;
        nothing += x[i] * 0.0f;
    }
    const float inverse = most / largest;
    if (!(nothing == 0.0f) || !(inverse < INFINITY)) {
        memset(out, 0, (size_t)n * sizeof *out);
        return nothing;
    }
    EACH(n) out[i] = (int16_t)nearest(x[i] * inverse);
    return largest / most;
}

static void scale_numbers(int64_t n, const int32_t *x, const float *scale, float factor, float *out)
{
    EACH(n) out[i] = (float)x[i] * (scale[i] * factor);
}

const quantize_loops_t KERNEL_NAME(quantize_loops) = {
    .divide = divide,
    .multiply = multiply,
    .keep_positive = keep_positive,
    .undo = undo,
    .undo_bytes = undo_bytes,
    .store = store,
    .widen = widen,
    .rescale = rescale,
    .round = round_numbers,
    .scale = scale_numbers,
};
