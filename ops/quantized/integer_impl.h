/* Sums of products of 8-bit integers: helpers that convolution and matmul of integers share. */
#ifndef TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H
#define TESSERA_OPS_QUANTIZED_INTEGER_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/quantized/integer_impl.h"

/* Like integer_zero, for specifications. */
double integer_zero_at(const spec_call_t *call, int operand, int64_t i);

/* Zero point i of an operand with one for all or one for each; 0 if the operand is absent. */
int32_t integer_zero(const prepared_t *prepared, void *const *in, int operand, int64_t i);

/* Zero points of the n outputs of the packed weight. Returns false if all are 0. */
bool integer_zeros(const prepared_t *prepared, void *const *in, int operand, int zero_operand,
                   int64_t n, int32_t *out);

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
