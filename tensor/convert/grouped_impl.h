/* Elements of grouped formats (tensor/grouped_impl.h). */
#ifndef TESSERA_TENSOR_CONVERT_GROUPED_IMPL_H
#define TESSERA_TENSOR_CONVERT_GROUPED_IMPL_H

#include "tensor/grouped_impl.h"
#include "tensor/tensor_impl.h"

/* Widens to row-major f32 elements. */
void grouped_unpack(context_t *ctx, const grouped_t *grouped, const void *bytes, float *out_rows);

/* Widens one row. */
void grouped_unpack_row(const grouped_t *grouped, const void *bytes, int64_t row, float *out_row);

/* True if the format is grouped. */
static inline bool grouped_is(const tensor_info_t *info)
{
    return info->format.kind == FORMAT_GROUPED;
}

#endif
