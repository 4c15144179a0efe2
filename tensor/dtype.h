/* Element types, their scalar values, and PyTorch's rules of promotion between them. */
#ifndef TESSERA_TENSOR_DTYPE_H
#define TESSERA_TENSOR_DTYPE_H

#include "tensor/api.h"

TESSERA_BEGIN

typedef enum dtype {
    DTYPE_NONE = 0, /* no tensor: an optional operand left out */
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

/* "f32", "s64", ...; and back, DTYPE_NONE when unknown. */
const char *dtype_name(dtype_t dtype) TESSERA_API(dtype_name);
dtype_t dtype_parse(const char *name) TESSERA_API(dtype_parse);

bool dtype_is_floating(dtype_t dtype) TESSERA_API(dtype_is_floating);
bool dtype_is_integral(dtype_t dtype) TESSERA_API(dtype_is_integral); /* bool is not */
bool dtype_is_unsigned(dtype_t dtype) TESSERA_API(dtype_is_unsigned); /* u8, u16, u32, u64 */

/* The type two tensors of equal standing meet in, as torch.promote_types. DTYPE_NONE where there is
 * none: u16, u32 and u64 meet themselves and floating types only. */
dtype_t dtype_promote(dtype_t a, dtype_t b) TESSERA_API(dtype_promote);

/* One element as a number. Integers above 2^53 lose bits in the double form only; the integer form
 * of a u64 is its bits, so 2^64 - 1 is -1 there. Stores convert as PyTorch's casts: floating to
 * integral truncates (NaN and what s32 or s64 cannot hold give their smallest number; s8, u8, s16
 * and u16 are the low bits of s32, u32 those of s64), integral to smaller integral keeps the low
 * bits, to bool tests against zero, to bf16 and f16 rounds to nearest even by way of f32. */
double dtype_load(dtype_t dtype, const void *element) TESSERA_API(dtype_load);
void dtype_store(dtype_t dtype, void *element, double value) TESSERA_API(dtype_store);
int64_t dtype_load_integer(dtype_t dtype, const void *element) TESSERA_API(dtype_load_integer);
void dtype_store_integer(dtype_t dtype, void *element, int64_t value)
    TESSERA_API(dtype_store_integer);

/* Casts n elements, `src_stride` and `dst_stride` in elements. src and dst do not overlap. */
void dtype_cast(int64_t n, dtype_t src_dtype, const void *src, int64_t src_stride,
                dtype_t dst_dtype, void *dst, int64_t dst_stride) TESSERA_API(dtype_cast);

/* Largest rounding error of one operation relative to the result; 0 for integers. */
double dtype_epsilon(dtype_t dtype) TESSERA_API(dtype_epsilon);

TESSERA_END

#endif
