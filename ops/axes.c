#include "ops/axes_impl.h"

bool axes_find(const tensor_info_t *info, axis_t out_axes[TENSOR_MAX_RANK])
{
    const format_t *format = &info->format;
    int64_t padded[TENSOR_MAX_RANK], step = 1;
    if (format->kind != FORMAT_TAG) return false;
    for (int d = 0; d < info->rank; d++) out_axes[d] = (axis_t){info->sizes[d], 1, 0, 0};
    for (int i = format->n_blocks - 1; i >= 0; i--) {
        axis_t *axis = &out_axes[format->block_dims[i]];
        if (axis->block != 1) return false;
        axis->block = format->block_sizes[i];
        axis->inner = step;
        step *= axis->block;
    }
    format_padded_sizes(format, info->sizes, padded);
    for (int i = info->rank - 1; i >= 0; i--) {
        const int d = format->order[i];
        out_axes[d].outer = step;
        step *= padded[d] / out_axes[d].block;
    }
    return true;
}
