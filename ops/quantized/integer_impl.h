/* Sums of products of 8-bit integers: helpers that convolution and matmul of integers share. */
#ifndef TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H
#define TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H

#include "dispatch/prepared_impl.h"

static inline bool integer_is_byte(dtype_t dtype)
{
    return dtype == DTYPE_S8 || dtype == DTYPE_U8;
}

/* Element i of an s8 or u8 buffer. */
static inline int32_t integer_load(dtype_t dtype, const void *bytes, int64_t i)
{
    return dtype == DTYPE_S8 ? ((const int8_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
}

/* Rounds an offset in scratch up to 64 bytes. */
static inline size_t integer_align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Like integer_zero, for specifications. */
double integer_zero_at(const spec_call_t *call, int operand, int64_t i);

/* Zero point i of an operand with one for all or one for each; 0 if the operand is absent. */
int32_t integer_zero(const prepared_t *prepared, void *const *in, int operand, int64_t i);

/* Subtracts the zero point from n elements, which are `step` apart. */
void integer_center(dtype_t dtype, int64_t n, const void *x, int64_t step, int32_t zero,
                    int16_t *out);

/* Sums of n runs of `length` elements; runs are `step` elements apart. */
void integer_sums(int64_t n, int64_t step, int64_t length, const int16_t *x, int32_t *out);

/* Adds n numbers, which are `step` apart, to n sums. All sums wrap around. */
void integer_add(int64_t n, int64_t step, const int32_t *numbers, int32_t *sums);

/* Bytes of a weight in the format of kernels/quantized/integer_impl.h. */
int64_t integer_packed(int64_t n_outputs, int64_t n_pairs);

/* Packs a weight of s8 or u8 in that format; u8 becomes s8 by subtracting 128. Outputs are `step`
 * apart. `place` returns the offset of element i in an output, or -1 for padding. */
typedef int64_t (*integer_place_t)(const void *user, int64_t i);
void integer_pack(dtype_t dtype, int64_t n_outputs, int64_t n_pairs, int64_t step,
                  integer_place_t place, const void *user, const void *from, int8_t *to);

/* Bytes of the zero points of n_outputs outputs, padded to full blocks. */
size_t integer_zero_bytes(int64_t n_outputs);

/* Zero points of the n outputs of the packed weight. Returns false if all are 0. */
bool integer_zeros(const prepared_t *prepared, void *const *in, int operand, int zero_operand,
                   int64_t n, int32_t *out);

/* Converts n bytes to u8; adds 128 to those of s8. */
void integer_unsign(dtype_t dtype, int64_t n, const void *x, uint8_t *out);

/* Amount to add to the zero point of a byte of this dtype when it becomes u8. */
static inline int32_t integer_shift(dtype_t dtype)
{
    return dtype == DTYPE_S8 ? 128 : 0;
}

/* Describes a primitive for exact s32 sums of n_terms products, and the weight in its format.
 * UNSUPPORTED if oneDNN has none: without dot products of bytes, implementations saturate pairs of
 * products to 16 bits, and most round sums to f32 in between. */
status_t integer_describe(context_t *ctx, prepared_t *prepared, const onednn_problem_t *problem,
                          double n_terms, onednn_primitive_t **out_primitive,
                          tensor_info_t *out_weight);

#endif
