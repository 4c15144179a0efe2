/* What is known of a tensor without its bytes: type, sizes, layout and format. */
#ifndef TESSERA_TENSOR_INFO_H
#define TESSERA_TENSOR_INFO_H

#include "tensor/format.h"
#include "tensor/shape.h"

TESSERA_BEGIN

typedef enum layout {
    LAYOUT_DENSE = 0, /* strides you can see; the format is FORMAT_STRIDED */
    LAYOUT_MKLDNN     /* opaque; the format is whatever suits oneDNN */
} layout_t;

const char *layout_name(layout_t layout) TESSERA_API(layout_name);

typedef struct tensor_info {
    dtype_t dtype; /* DTYPE_NONE: an optional operand that is absent */
    layout_t layout;
    int rank;
    bool is_number; /* a C or graph number: takes part in type promotion as PyTorch's numbers do */
    int64_t sizes[TENSOR_MAX_RANK];
    format_t format;
} tensor_info_t;

/* A contiguous dense tensor's. Sizes must have been checked. */
tensor_info_t info_dense(dtype_t dtype, int rank, const int64_t *sizes) TESSERA_API(info_dense);

/* The same tensor in another format, as mkldnn. */
tensor_info_t info_mkldnn(const tensor_info_t *info, const format_t *format)
    TESSERA_API(info_mkldnn);

int64_t info_numel(const tensor_info_t *info) TESSERA_API(info_numel);

/* Bytes from the first element to the end of the last, padding included. */
size_t info_bytes(const tensor_info_t *info) TESSERA_API(info_bytes);

/* Row-major without gaps, in either layout. */
bool info_is_contiguous(const tensor_info_t *info) TESSERA_API(info_is_contiguous);

/* Same type (numbers are a type of their own), sizes, layout and bytes; absent ones are equal. */
bool info_equal(const tensor_info_t *a, const tensor_info_t *b) TESSERA_API(info_equal);

uint64_t info_hash(const tensor_info_t *info, uint64_t seed) TESSERA_API(info_hash);

/* "f32[8,64,56,56]", "mkldnn f32[8,64,56,56]@aBcd16b", "f32[8,64]{1,8}"; "none". Gives out_text. */
#define INFO_TEXT_MAX 640
const char *info_text(const tensor_info_t *info, char *out_text) TESSERA_API(info_text);

TESSERA_END

#endif
