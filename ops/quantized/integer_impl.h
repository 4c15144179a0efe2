/* Sums of products of 8-bit integers: helpers that convolution and matmul of integers share. */
#ifndef TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H
#define TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/quantized/integer_impl.h"

/* integer_zero (below) for specifications. */
double integer_zero_at(const spec_call_t *call, int operand, int64_t i);

/* Element i of a zero-point operand, which has one element for all i or one for each; 0 if
 * absent. */
int32_t integer_zero(const prepared_t *prepared, void *const *in, int operand, int64_t i);

/* Zero points of the n outputs of a weight packed as s8 (128 less for u8). Returns false if all are
 * 0. */
bool integer_zeros(const prepared_t *prepared, void *const *in, int operand, int zero_operand,
                   int64_t n, int32_t *out);

/* Number to add to a zero point of this dtype when its tensor is converted to u8. */
static inline int32_t integer_shift(dtype_t dtype)
{
    return dtype == DTYPE_S8 ? 128 : 0;
}

/* Describes a primitive that computes exact s32 sums of n_terms products; *out_weight is the weight
 * in the format that it needs. UNSUPPORTED if oneDNN has none. Most implementations are not exact:
 * without 8-bit dot products they saturate pairs of products to 16 bits, and many round sums to
 * f32. */
status_t integer_describe(context_t *ctx, prepared_t *prepared, const onednn_problem_t *problem,
                          double n_terms, onednn_primitive_t **out_primitive,
                          tensor_info_t *out_weight);

#endif
