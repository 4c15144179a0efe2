#include "tensor/info.h"

#include <stdio.h>
#include <string.h>

#include "tensor/hash_impl.h"
#include "tensor/info_impl.h"

const char *layout_name(layout_t layout)
{
    switch (layout) {
    case LAYOUT_DENSE: return "dense";
    case LAYOUT_MKLDNN: return "mkldnn";
    }
    return "unknown";
}

/* The result of functions for NULL. */
static const tensor_info_t absent = {.dtype = DTYPE_NONE};

format_t info_tag(const tensor_info_t *info)
{
    if (info->format.kind == FORMAT_TAG) return info->format;
    format_t format = format_of_strides(info->rank, info->sizes, info->format.strides);
    return format.kind == FORMAT_TAG ? format : format_plain(info->rank);
}

tensor_info_t info_dense(dtype_t dtype, int rank, const int64_t *sizes)
{
    if (rank < 0 || rank > TENSOR_MAX_RANK || (rank > 0 && sizes == NULL)) return absent;
    tensor_info_t info = {.dtype = dtype, .layout = LAYOUT_DENSE, .rank = rank};
    info.format.kind = FORMAT_STRIDED;
    info.format.rank = (uint8_t)rank;
    if (rank > 0) memcpy(info.sizes, sizes, (size_t)rank * sizeof *sizes);
    shape_strides(rank, info.sizes, info.format.strides);
    return info;
}

tensor_info_t info_mkldnn(const tensor_info_t *info, const format_t *format)
{
    if (info == NULL || format == NULL) return absent;
    tensor_info_t result = *info;
    result.layout = LAYOUT_MKLDNN;
    result.format = *format;
    return result;
}

int64_t info_numel(const tensor_info_t *info)
{
    int64_t numel = 0;
    if (info == NULL) return 0;
    bool fits = shape_numel(info->rank, info->sizes, &numel);
    INVARIANT(fits);
    (void)fits;
    return numel;
}

size_t info_bytes(const tensor_info_t *info)
{
    int64_t elements = 0;
    if (info == NULL) return 0;
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
    if (info == NULL || info->format.kind == FORMAT_ANY) return false;
    format_t plain = format_plain(info->rank);
    return format_same(&info->format, &plain, info->sizes);
}

bool info_equal(const tensor_info_t *a, const tensor_info_t *b)
{
    if (a == NULL) a = &absent;
    if (b == NULL) b = &absent;
    if (a->dtype != b->dtype) return false;
    if (a->dtype == DTYPE_NONE) return true;
    return a->layout == b->layout && a->is_number == b->is_number &&
           shape_equal(a->rank, a->sizes, b->rank, b->sizes) &&
           format_same(&a->format, &b->format, a->sizes);
}

uint64_t info_hash(const tensor_info_t *info, uint64_t seed)
{
    if (info == NULL) info = &absent;
    uint64_t hash = hash_mix(seed + 1, (uint64_t)info->dtype);
    if (info->dtype == DTYPE_NONE) return hash;
    unsigned traits = (unsigned)info->rank << 8 | (unsigned)info->layout << 1 | info->is_number;
    hash = hash_mix(hash, traits);
    for (int d = 0; d < info->rank; d++) hash = hash_mix(hash, (uint64_t)info->sizes[d]);
    return format_hash(&info->format, info->sizes, hash);
}

bool format_identical(const format_t *a, const format_t *b)
{
    if (a->kind != b->kind || a->rank != b->rank || a->n_blocks != b->n_blocks ||
        a->inner_rank != b->inner_rank)
        return false;
    if (a->kind == FORMAT_STRIDED)
        return memcmp(a->strides, b->strides, a->rank * sizeof *a->strides) == 0;
    if (memcmp(a->order, b->order, sizeof a->order) != 0 ||
        memcmp(a->block_dims, b->block_dims, sizeof a->block_dims) != 0 ||
        memcmp(a->block_sizes, b->block_sizes, sizeof a->block_sizes) != 0)
        return false;
    return a->kind == FORMAT_TAG || memcmp(a->words, b->words, sizeof a->words) == 0;
}

bool info_identical(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && a->layout == b->layout && a->rank == b->rank &&
           a->is_number == b->is_number &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) == 0 &&
           format_identical(&a->format, &b->format);
}

uint64_t format_identity_hash(const format_t *format, uint64_t seed)
{
    uint64_t hash = hash_mix(seed, (uint64_t)format->kind << 8 | format->rank);
    if (format->kind == FORMAT_TAG || format->kind == FORMAT_REGROUPED) {
        uint64_t order[(TENSOR_MAX_RANK + 7) / 8] = {0};
        memcpy(order, format->order, sizeof format->order);
        for (size_t i = 0; i < sizeof order / sizeof *order; i++) hash = hash_mix(hash, order[i]);
        for (int b = 0; b < format->n_blocks; b++)
            hash = hash_mix(hash, format->block_sizes[b] * 16u + format->block_dims[b]);
    }
    int n = format->kind == FORMAT_STRIDED ? format->rank
            : format->kind == FORMAT_TAG   ? 0
                                           : FORMAT_WORDS;
    for (int i = 0; i < n; i++) hash = hash_mix(hash, (uint64_t)format->words[i]);
    return hash;
}

uint64_t info_identity_hash(const tensor_info_t *info)
{
    uint64_t hash = hash_mix((uint64_t)info->dtype, (uint64_t)info->rank << 8 |
                                                        (uint64_t)info->layout << 1 |
                                                        info->is_number);
    for (int d = 0; d < info->rank; d++) hash = hash_mix(hash, (uint64_t)info->sizes[d]);
    return format_identity_hash(&info->format, hash) | 1;
}

const char *info_text(const tensor_info_t *info, char *out_text)
{
    char sizes[TENSOR_MAX_RANK * 20 + 3], format[FORMAT_TEXT_MAX];
    if (out_text == NULL) return "";
    if (info == NULL) info = &absent;
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
