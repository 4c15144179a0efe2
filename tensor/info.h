/* Metadata of a tensor: type, sizes, layout and format. */
#ifndef TESSERA_TENSOR_INFO_H
#define TESSERA_TENSOR_INFO_H

#include "tensor/format.h"
#include "tensor/shape.h"

typedef enum layout {
    LAYOUT_DENSE = 0, /* the format is FORMAT_STRIDED, and callers may read the elements */
    LAYOUT_MKLDNN     /* any format that oneDNN or a kernel reads; callers must convert it first */
} layout_t;

const char *layout_name(layout_t layout) TESSERA_API(layout_name);

typedef struct tensor_info {
    dtype_t dtype; /* DTYPE_NONE: an absent optional operand */
    layout_t layout;
    int rank;
    bool is_number; /* promoted like a Python number in PyTorch, see tensor_number */
    int64_t sizes[TENSOR_MAX_RANK];
    format_t format;
} tensor_info_t;

/* Info of a contiguous dense tensor. Sizes must be valid (shape_check). */
tensor_info_t info_dense(dtype_t dtype, int rank, const int64_t *sizes) TESSERA_API(info_dense);

/* Info of the same tensor in mkldnn layout with this format. */
tensor_info_t info_mkldnn(const tensor_info_t *info, const format_t *format)
    TESSERA_API(info_mkldnn);

int64_t info_numel(const tensor_info_t *info) TESSERA_API(info_numel);

/* Bytes from the start of the first element to the end of the last, padding included. */
size_t info_bytes(const tensor_info_t *info) TESSERA_API(info_bytes);

/* True if the elements are row-major without gaps; the layout may be dense or mkldnn. */
bool info_is_contiguous(const tensor_info_t *info) TESSERA_API(info_is_contiguous);

/* True if dtype, is_number, sizes and layout are equal and the formats have the same bytes. Absent
 * operands are equal. */
bool info_equal(const tensor_info_t *a, const tensor_info_t *b) TESSERA_API(info_equal);

uint64_t info_hash(const tensor_info_t *info, uint64_t seed) TESSERA_API(info_hash);

/* Text such as "f32[8,64,56,56]", "mkldnn f32[8,64,56,56]@aBcd16b", "f32[8,64]{1,8}", "none".
 * Returns out_text, which has INFO_TEXT_MAX bytes. */
#define INFO_TEXT_MAX 640
const char *info_text(const tensor_info_t *info, char *out_text) TESSERA_API(info_text);

#endif
