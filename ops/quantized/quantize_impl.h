/* Conversion of elements to integers and back, in chunks, for all quantized operators. */
#ifndef TESSERA_OPS_QUANTIZED_QUANTIZE_IMPL_H
#define TESSERA_OPS_QUANTIZED_QUANTIZE_IMPL_H

#include "tensor/dtype.h"

/* Maximum number of elements in a chunk, and size of the callers' buffers. */
#define QUANTIZE_CHUNK 512

/* Returns the smallest and the largest integer of s8, u8, s16 or u16. */
void quantize_range(dtype_t dtype, int32_t *out_low, int32_t *out_high);

/* Rounds the quotient x / scale to f32, then half to even; adds zero and saturates to the range of
 * a dtype. This is the executable specification. */
double quantize_spec(double quotient, double zero, dtype_t dtype);

/* Computes round(x / scale) + zero, saturated. Scales and zeros are `step` elements apart; step 0
 * means that all elements share one. */
void quantize_divide(int64_t n, const float *x, const float *scale, const int32_t *zero,
                     int64_t step, dtype_t dtype, int32_t *out);

/* The result is round((x + bias) * multiplier + shift) + zero; with relu, at least zero. */
typedef struct requantize {
    const float *multiplier, *shift;
    const int32_t *bias, *zero;
    int64_t step;
    dtype_t dtype;
    bool relu;
} requantize_t;
void quantize_multiply(int64_t n, const int32_t *x, const requantize_t *how, int32_t *out);

/* Computes (x - zero) * scale in f32. */
void quantize_undo(int64_t n, const int32_t *x, const float *scale, const int32_t *zero,
                   int64_t step, float *out);

/* The same for s8 or u8 with one scale and zero. Returns false without computing anything for other
 * dtypes, or if the zero is too large. */
bool quantize_undo_bytes(int64_t n, dtype_t dtype, const void *x, float scale, int32_t zero,
                         float *out);

/* Stores integers as a dtype of 8 or 16 bits; they must be in its range. */
void quantize_store(int64_t n, const int32_t *x, dtype_t dtype, void *out);

#endif
