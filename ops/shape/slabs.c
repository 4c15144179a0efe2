#include "ops/shape/slabs_impl.h"

int64_t slabs_block(const format_t *format, int dim)
{
    int64_t block = 1;
    for (int b = 0; b < format->n_blocks; b++)
        if (format->block_dims[b] == dim) block *= format->block_sizes[b];
    return block;
}

size_t slabs_row_bytes(const tensor_info_t *info, int dim)
{
    int64_t padded[TENSOR_MAX_RANK];
    size_t bytes = dtype_size(info->dtype);
    format_padded_sizes(&info->format, info->sizes, padded);
    for (int i = info->rank - 1; i >= 0; i--) {
        int d = info->format.order[i];
        bytes *= (size_t)(padded[d] / slabs_block(&info->format, d));
        if (d == dim) break;
    }
    for (int b = 0; b < info->format.n_blocks; b++) bytes *= info->format.block_sizes[b];
    return bytes;
}
