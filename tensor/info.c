#include "tensor/info.h"

#include <stdio.h>
#include <string.h>

#include "tensor/hash_impl.h"

const char *layout_name(layout_t layout)
{
    switch (layout) {
    case LAYOUT_DENSE: return "dense";
    case LAYOUT_MKLDNN: return "mkldnn";
    }
    return "unknown";
}

tensor_info_t info_dense(dtype_t dtype, int rank, const int64_t *sizes)
{
    INVARIANT(rank >= 0 && rank <= TENSOR_MAX_RANK);
    tensor_info_t info = {.dtype = dtype, .layout = LAYOUT_DENSE, .rank = rank};
    info.format.kind = FORMAT_STRIDED;
    info.format.rank = (uint8_t)rank;
    if (rank > 0) memcpy(info.sizes, sizes, (size_t)rank * sizeof *sizes);
    shape_strides(rank, info.sizes, info.format.strides);
    return info;
}

tensor_info_t info_mkldnn(const tensor_info_t *info, const format_t *format)
{
    tensor_info_t result = *info;
    result.layout = LAYOUT_MKLDNN;
    result.format = *format;
    return result;
}

int64_t info_numel(const tensor_info_t *info)
{
    int64_t numel = 0;
    bool fits = shape_numel(info->rank, info->sizes, &numel);
    INVARIANT(fits);
    (void)fits;
    return numel;
}

size_t info_bytes(const tensor_info_t *info)
{
    int64_t elements = 0;
    if (info->format.kind == FORMAT_ANY) {
        elements = info_numel(info);
    } else {
        bool fits = format_elements(&info->format, info->sizes, &elements);
        INVARIANT(fits);
        (void)fits;
    }
    return (size_t)elements * dtype_size(info->dtype);
}

bool info_is_contiguous(const tensor_info_t *info)
{
    if (info->format.kind == FORMAT_ANY) return false;
    format_t plain = format_plain(info->rank);
    return format_same(&info->format, &plain, info->sizes);
}

bool info_equal(const tensor_info_t *a, const tensor_info_t *b)
{
    if (a->dtype != b->dtype) return false;
    if (a->dtype == DTYPE_NONE) return true;
    return a->layout == b->layout && a->is_number == b->is_number &&
           shape_equal(a->rank, a->sizes, b->rank, b->sizes) &&
           format_same(&a->format, &b->format, a->sizes);
}

uint64_t info_hash(const tensor_info_t *info, uint64_t seed)
{
    uint64_t hash = hash_mix(seed + 1, (uint64_t)info->dtype);
    if (info->dtype == DTYPE_NONE) return hash;
    unsigned traits = (unsigned)info->rank << 8 | (unsigned)info->layout << 1 | info->is_number;
    hash = hash_mix(hash, traits);
    for (int d = 0; d < info->rank; d++) hash = hash_mix(hash, (uint64_t)info->sizes[d]);
    return format_hash(&info->format, info->sizes, hash);
}

const char *info_text(const tensor_info_t *info, char *out_text)
{
    char sizes[TENSOR_MAX_RANK * 20 + 3], format[FORMAT_TEXT_MAX];
    bool is_mkldnn = info->layout == LAYOUT_MKLDNN;
    bool has_format = info->dtype != DTYPE_NONE && (is_mkldnn || !info_is_contiguous(info));
    bool has_sizes = info->dtype != DTYPE_NONE;
    snprintf(out_text, INFO_TEXT_MAX, "%s%s%s%s%s", has_sizes && is_mkldnn ? "mkldnn " : "",
             dtype_name(info->dtype),
             has_sizes ? shape_text(info->rank, info->sizes, sizes, sizeof sizes) : "",
             has_format && is_mkldnn ? "@" : "",
             has_format ? format_text(&info->format, format) : "");
    return out_text;
}
