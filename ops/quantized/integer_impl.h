/* Sums of products of integers of 8 bits: what convolution and matmul of integers share. */
#ifndef TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H
#define TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H

#include "dispatch/prepared_impl.h"

static inline bool integer_is_byte(dtype_t dtype)
{
    return dtype == DTYPE_S8 || dtype == DTYPE_U8;
}

/* Element i of s8 or u8. */
static inline int32_t integer_load(dtype_t dtype, const void *bytes, int64_t i)
{
    return dtype == DTYPE_S8 ? ((const int8_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
}

/* What follows so many bytes of scratch begins there. */
static inline size_t integer_align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* For specifications: as integer_zero. */
double integer_zero_at(const spec_call_t *call, int operand, int64_t i);

/* Zero i of an operand: one for all, one for each, or 0 where there is no such operand. */
int32_t integer_zero(const prepared_t *prepared, void *const *in, int operand, int64_t i);

/* n elements without their zero; step apart. */
void integer_center(dtype_t dtype, int64_t n, const void *x, int64_t step, int32_t zero,
                    int16_t *out);

/* The sums of n runs of `length` elements, step apart. */
void integer_sums(int64_t n, int64_t step, int64_t length, const int16_t *x, int32_t *out);

/* Adds n numbers, step apart. All sums wrap around. */
void integer_add(int64_t n, int64_t step, const int32_t *numbers, int32_t *sums);

/* Bytes of a weight that kernels/quantized/integer_impl.h reads. */
int64_t integer_packed(int64_t n_outputs, int64_t n_pairs);

/* Makes such a weight of s8, or of u8, which become s8 by taking 128 off. `place` says where
 * element i of an output lies, from its first one on, or -1 for a padded one. Outputs are `step`
 * apart. */
typedef int64_t (*integer_place_t)(const void *user, int64_t i);
void integer_pack(dtype_t dtype, int64_t n_outputs, int64_t n_pairs, int64_t step,
                  integer_place_t place, const void *user, const void *from, int8_t *to);

/* Bytes of its zeros, of which kernels/quantized/integer_impl.h reads whole blocks. */
size_t integer_zero_bytes(int64_t n_outputs);

/* The zeros of its n outputs, as the packed weight has them; false where all are 0. */
bool integer_zeros(const prepared_t *prepared, void *const *in, int operand, int zero_operand,
                   int64_t n, int32_t *out);

/* n bytes as u8: those of s8 plus 128. */
void integer_unsign(dtype_t dtype, int64_t n, const void *x, uint8_t *out);

/* What makes a zero of u8 of one of this dtype. */
static inline int32_t integer_shift(dtype_t dtype)
{
    return dtype == DTYPE_S8 ? 128 : 0;
}

/* Describes sums of n_terms products, to s32. UNSUPPORTED when oneDNN has no implementation whose
 * sums are exact: those of instruction sets without dot products of bytes saturate pairs of
 * products to 16 bits, and most round sums to floats of 24 bits on their way. Gives the format that
 * the weight is wanted in. */
status_t integer_describe(context_t *ctx, prepared_t *prepared, const onednn_problem_t *problem,
                          double n_terms, onednn_primitive_t **out_primitive,
                          tensor_info_t *out_weight);

#endif
