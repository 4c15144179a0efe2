/* Compares infos field by field. This is faster than info_equal, and sufficient to recognise a
 * repeated call, whose infos usually have identical fields. */
#ifndef TESSERA_TENSOR_INFO_IMPL_H
#define TESSERA_TENSOR_INFO_IMPL_H

#include "tensor/info.h"

/* True if all fields that the kind of format uses are equal. For f32[4,8], the tag "ab" and the
 * strides {8,1} are the same format for format_same, but not identical. */
bool format_identical(const format_t *a, const format_t *b);
bool info_identical(const tensor_info_t *a, const tensor_info_t *b);

/* True if every size is known (none is -1). */
static inline bool info_is_sized(const tensor_info_t *info)
{
    for (int d = 0; d < info->rank; d++)
        if (info->sizes[d] < 0) return false;
    return true;
}

/* The format as a tag. The plain tag if the elements have gaps or overlap. */
format_t info_tag(const tensor_info_t *info);

/* Hashes that are equal for identical formats and infos. info_identity_hash is never 0. */
uint64_t format_identity_hash(const format_t *format, uint64_t seed);
uint64_t info_identity_hash(const tensor_info_t *info);

#endif
