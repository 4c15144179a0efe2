/* Element types, their scalar values, and PyTorch's type promotion. */
#ifndef TESSERA_TENSOR_DTYPE_H
#define TESSERA_TENSOR_DTYPE_H

#include "tensor/base/api.h"

typedef enum dtype {
    DTYPE_NONE = 0, /* dtype of an absent optional operand */
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_S8,
    DTYPE_U8,
    DTYPE_S16,
    DTYPE_U16,
    DTYPE_S32,
    DTYPE_U32,
    DTYPE_S64,
    DTYPE_U64,
    DTYPE_BOOL,
    DTYPE_COUNT
} dtype_t;

size_t dtype_size(dtype_t dtype) TESSERA_API(dtype_size);

/* Names: "f32", "s64", ... dtype_parse returns DTYPE_NONE for an unknown name. */
const char *dtype_name(dtype_t dtype) TESSERA_API(dtype_name);
dtype_t dtype_parse(const char *name) TESSERA_API(dtype_parse);

bool dtype_is_floating(dtype_t dtype) TESSERA_API(dtype_is_floating);
bool dtype_is_integral(dtype_t dtype) TESSERA_API(dtype_is_integral); /* false for bool */
bool dtype_is_unsigned(dtype_t dtype) TESSERA_API(dtype_is_unsigned); /* u8, u16, u32, u64 */

/* The dtype of the result when an operator combines these dtypes, as torch.promote_types.
 * DTYPE_NONE if there is none: u16, u32 and u64 combine only with themselves and with
 * floating-point types. */
dtype_t dtype_promote(dtype_t a, dtype_t b) TESSERA_API(dtype_promote);

/* Load and store one element as a number. A double cannot hold all integers above 2^53. An int64_t
 * holds a u64 with the same bits, so 2^64 - 1 becomes -1. Stores convert as PyTorch's casts do. A
 * floating-point number becomes an integer by truncation: if s32 or s64 cannot hold it, or if it is
 * NaN, it becomes the smallest number of s32 or s64; s8, u8, s16 and u16 take the low bits of the
 * conversion to s32, and u32 those of the conversion to s64. An integer becomes a smaller integer
 * by keeping the low bits. Any number becomes true as bool unless it is zero. For bf16 and f16, a
 * number is rounded once, to nearest, ties to even. */
double dtype_load(dtype_t dtype, const void *element) TESSERA_API(dtype_load);
void dtype_store(dtype_t dtype, void *element, double value) TESSERA_API(dtype_store);
int64_t dtype_load_integer(dtype_t dtype, const void *element) TESSERA_API(dtype_load_integer);
void dtype_store_integer(dtype_t dtype, void *element, int64_t value)
    TESSERA_API(dtype_store_integer);

/* Casts n elements. Strides are in elements. src and dst must not overlap. */
void dtype_cast(int64_t n, dtype_t src_dtype, const void *src, int64_t src_stride,
                dtype_t dst_dtype, void *dst, int64_t dst_stride) TESSERA_API(dtype_cast);

/* Largest rounding error of one operation, relative to the result; 0 for integers. */
double dtype_epsilon(dtype_t dtype) TESSERA_API(dtype_epsilon);

#endif
