/* Elements to integers and back, a stretch at a time: what the operators of quantised tensors
 * share.
 */
#ifndef TESSERA_OPS_QUANTIZED_QUANTIZE_IMPL_H
#define TESSERA_OPS_QUANTIZED_QUANTIZE_IMPL_H

#include "tensor/dtype.h"

/* Elements of a stretch: what a caller's buffers hold. */
#define QUANTIZE_CHUNK 512

/* The smallest and the largest integer of s8, u8, s16 or u16. */
void quantize_range(dtype_t dtype, int32_t *out_low, int32_t *out_high);

/* x / scale rounded half to even, as f32 has it, plus zero, within the range of a dtype: the
 * executable specification. */
double quantize_spec(double quotient, double zero, dtype_t dtype);

/* Scales and zeros of a stretch are `step` elements apart: 0 for one that all share. */
void quantize_divide(int64_t n, const float *x, const float *scale, const int32_t *zero,
                     int64_t step, dtype_t dtype, int32_t *out);

/* (x + bias) * multiplier + shift, rounded, plus zero; at least zero where relu says so. */
typedef struct requantize {
    const float *multiplier, *shift;
    const int32_t *bias, *zero;
    int64_t step;
    dtype_t dtype;
    bool relu;
} requantize_t;
void quantize_multiply(int64_t n, const int32_t *x, const requantize_t *how, int32_t *out);

/* (x - zero) * scale, in f32. */
void quantize_undo(int64_t n, const int32_t *x, const float *scale, const int32_t *zero,
                   int64_t step, float *out);

/* The same of s8 or u8 with one scale and zero; false, and nothing done, for other dtypes and for
 * zeros that are far. */
bool quantize_undo_bytes(int64_t n, dtype_t dtype, const void *x, float scale, int32_t zero,
                         float *out);

/* Integers that fit into a dtype of 8 or 16 bits, stored there. */
void quantize_store(int64_t n, const int32_t *x, dtype_t dtype, void *out);

#endif
