/* Whether two descriptions are written alike: faster to tell than whether they mean the same bytes,
 * and what is asked again is mostly written the same. */
#ifndef TESSERA_TENSOR_INFO_IMPL_H
#define TESSERA_TENSOR_INFO_IMPL_H

#include "tensor/info.h"

/* All fields are equal, those that the kind of format does not use apart. So "ab" and "{8,1}" of
 * f32[4,8] are not identical, though format_same. */
bool format_identical(const format_t *a, const format_t *b);
bool info_identical(const tensor_info_t *a, const tensor_info_t *b);

/* Every size is known: none is -1. */
static inline bool info_is_sized(const tensor_info_t *info)
{
    for (int d = 0; d < info->rank; d++)
        if (info->sizes[d] < 0) return false;
    return true;
}

/* Equal for what is identical; info's is never 0. */
uint64_t format_identity_hash(const format_t *format, uint64_t seed);
uint64_t info_identity_hash(const tensor_info_t *info);

#endif
