#include "kernels/quantized/quantize_impl.h"

#include <math.h>

const quantize_loops_t *quantize_loops(void)
{
    static const quantize_loops_t *const tables[ISA_COUNT] = ISA_TABLE(quantize_loops);
    return tables[isa_best()];
}

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

/* The loops round only floats below 2^22, so zeros larger than FAR are processed in double. */
#define FAR (1 << 21)

static bool any_far(int64_t n, const int32_t *zero, int64_t step)
{
    bool is_far = false;
    for (int64_t i = 0; i < (step == 0 ? 1 : n); i++)
        is_far = is_far || zero[i * step] > FAR || zero[i * step] < -FAR;
    return is_far;
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
    else
        quantize_loops()->divide(n, x, scale, zero, step, low, high, out);
}

void quantize_multiply(int64_t n, const int32_t *x, const requantize_t *how, int32_t *out)
{
    const int64_t step = how->step;
    int32_t low, high;
    quantize_range(how->dtype, &low, &high);
    if (any_far(n, how->zero, step))
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = i * step;
            const float number = quantize_shifted(x[i], how->bias[at], how->multiplier[at],
                                                  how->shift[at]);
            out[i] = (int32_t)quantize_spec((double)number, how->zero[at], how->dtype);
        }
    else
        quantize_loops()->multiply(n, x, how, low, high, out);
    if (how->relu) quantize_loops()->keep_positive(n, how->zero, step, high, out);
}

bool quantize_undo_bytes(int64_t n, dtype_t dtype, const void *x, float scale, int32_t zero,
                         float *out)
{
    if (dtype_size(dtype) != 1 || zero > FAR || zero < -FAR) return false;
    quantize_loops()->undo_bytes(n, dtype == DTYPE_S8, x, scale, zero, out);
    return true;
}
