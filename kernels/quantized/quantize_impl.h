/* Conversion of elements to integers and back, in chunks, for all quantized operators.
 *
 * This folder holds loops over 8- and 16-bit integers: these conversions, and sums
 * of products (integer_impl.h). */
#ifndef TESSERA_KERNELS_QUANTIZED_QUANTIZE_IMPL_H
#define TESSERA_KERNELS_QUANTIZED_QUANTIZE_IMPL_H

#include "kernels/isa_impl.h"
#include "tensor/dtype.h"

/* Maximum number of elements in a chunk. Callers have buffers of this size. */
#define QUANTIZE_CHUNK 512

/* Returns the smallest and the largest integer of s8, u8, s16 or u16. */
void quantize_range(dtype_t dtype, int32_t *out_low, int32_t *out_high);

/* Rounds the quotient x / scale to f32, then half to even; adds zero and saturates to the range of
 * dtype. Specifications use it. */
double quantize_spec(double quotient, double zero, dtype_t dtype);

/* Computes round(x / scale) + zero, saturated. Scales and zeros are `step` elements apart; step 0
 * means that all elements share one. */
void quantize_divide(int64_t n, const float *x, const float *scale, const int32_t *zero,
                     int64_t step, dtype_t dtype, int32_t *out);

/* out = saturate(round((x + bias) * multiplier + shift) + zero); with relu, at least zero. */
typedef struct requantize {
    const float *multiplier, *shift;
    const int32_t *bias, *zero;
    int64_t step;
    dtype_t dtype;
    bool relu;
} requantize_t;
void quantize_multiply(int64_t n, const int32_t *x, const requantize_t *how, int32_t *out);

/* Computes (x - zero) * scale in f32, for s8 or u8 with one scale and zero. Returns false without
 * computing anything for other dtypes, or if the zero is too large. */
bool quantize_undo_bytes(int64_t n, dtype_t dtype, const void *x, float scale, int32_t zero,
                         float *out);

/* (x + bias) * multiplier + shift. x + bias wraps around. The product is rounded before shift is
 * added. */
static inline float quantize_shifted(int32_t x, int32_t bias, float multiplier, float shift)
{
    const float product = (float)(int32_t)((uint32_t)x + (uint32_t)bias) * multiplier;
    return product + shift;
}

/* Loops of one ISA. Arguments are as in the functions above. */
typedef struct quantize_loops {
    void (*divide)(int64_t n, const float *x, const float *scale, const int32_t *zero, int64_t step,
                   int32_t low, int32_t high, int32_t *out);
    void (*multiply)(int64_t n, const int32_t *x, const requantize_t *how, int32_t low,
                     int32_t high, int32_t *out);
    /* relu: raises integers below `zero`, which represents 0, to `zero`, or to `high` if that is
     * less. */
    void (*keep_positive)(int64_t n, const int32_t *zero, int64_t step, int32_t high, int32_t *out);
    /* Computes (x - zero) * scale in f32. */
    void (*undo)(int64_t n, const int32_t *x, const float *scale, const int32_t *zero, int64_t step,
                 float *out);
    void (*undo_bytes)(int64_t n, bool is_signed, const void *x, float scale, int32_t zero,
                       float *out);
    /* Stores integers in 1 or 2 bytes each. */
    void (*store)(int64_t n, const int32_t *x, size_t bytes, void *out);

    /* Widens the range [least, most] to contain x; ignores NaN. */
    void (*widen)(int64_t n, const float *x, float *least, float *most);
    /* out[i] = x[i] * multiplier[i] + addend_scale * addend[i], with relu at least 0. addend may be
     * NULL. */
    void (*rescale)(int64_t n, const float *x, const float *multiplier, const float *addend,
                    float addend_scale, bool relu, float *out);
    /* Scales x so that its largest absolute value becomes `most` <= 32767, and rounds. Returns the
     * scale of the integers; NaN if an element is not finite. If the scale would be too small, all
     * integers are 0. */
    float (*round)(int64_t n, const float *x, float most, int16_t *out);
    /* out[i] = x[i] * (scale[i] * factor) */
    void (*scale)(int64_t n, const int32_t *x, const float *scale, float factor, float *out);
} quantize_loops_t;
ISA_EXTERN(const quantize_loops_t, quantize_loops);

/* The loops of isa_best(). */
const quantize_loops_t *quantize_loops(void);

#endif
