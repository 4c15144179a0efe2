/* Elements of grouped formats (tensor/grouped_impl.h). */
#ifndef TESSERA_TENSOR_CONVERT_GROUPED_IMPL_H
#define TESSERA_TENSOR_CONVERT_GROUPED_IMPL_H

#include "tensor/grouped_impl.h"
#include "tensor/tensor_impl.h"

/* Widens to row-major f32 elements. */
void grouped_unpack(context_t *ctx, const grouped_t *grouped, const void *bytes, float *out_rows);

/* Widens one row. */
void grouped_unpack_row(const grouped_t *grouped, const void *bytes, int64_t row, float *out_row);

/* Makes a tensor whose bytes grouped_pack fills in, a number of blocks at a time. Errors as in
 * tensor_grouped. */
status_t grouped_make(context_t *ctx, const grouping_t *grouping, int rank, const int64_t *sizes,
                      grouped_t *out_grouped, void **out_bytes, tensor_t **out_tensor);

/* Packs rows [first, first + n) from the arrays of tensor_grouped, which contain these rows only.
 * first is a multiple of GROUPED_ROWS, and so is n unless the rows are the last ones. */
void grouped_pack(const grouped_t *grouped, int64_t first, int64_t n, const void *codes,
                  const void *scales, const void *offsets, void *bytes);

/* True if the format is grouped. */
static inline bool grouped_is(const tensor_info_t *info)
{
    return info->format.kind == FORMAT_GROUPED;
}

#endif
