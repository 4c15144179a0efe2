/* Narrow types: integers below 8 bits, and 8-bit floats. No dtype represents them, so the import
 * widens them (int4 to s8, uint4 to u8, floats to f32). onnx_item_t.narrow is their ONNX type. */
#ifndef TESSERA_IO_ONNX_NARROW_IMPL_H
#define TESSERA_IO_ONNX_NARROW_IMPL_H

#include "io/onnx/node_impl.h"

typedef struct onnx_narrow {
    int type; /* TensorProto data type */
    const char *name;
    dtype_t dtype; /* dtype after widening */
    int bits;
    double least, most; /* smallest and largest finite value */
    /* The remaining fields are for floats. */
    int mantissa, exponent; /* number of bits */
    int bias;
    bool has_infinity, has_nan;
    bool is_unsigned_zero; /* types with suffix "uz": the code of -0 means NaN */
} onnx_narrow_t;

/* The description of a narrow type; NULL for any other type. */
const onnx_narrow_t *onnx_narrow_of(int64_t data_type);

/* The dtype that the import uses for an ONNX element type. *out_narrow is the type if it is narrow,
 * else 0. UNSUPPORTED names the type. */
status_t onnx_dtype_wide(context_t *ctx, int64_t data_type, dtype_t *out_dtype, int *out_narrow);

/* Returns an ONNX type if it is narrow, else 0. */
static inline int onnx_narrow_type(int64_t data_type)
{
    const onnx_narrow_t *narrow = onnx_narrow_of(data_type);
    return narrow != NULL ? narrow->type : 0;
}

/* onnx_narrow_bytes: size of n packed elements. onnx_narrow_widen: unpacks and widens them. */
size_t onnx_narrow_bytes(const onnx_narrow_t *type, size_t n);
void onnx_narrow_widen(const onnx_narrow_t *type, size_t n, const uint8_t *bytes, void *out);

/* Rounds to values that the type can represent; the result has the wide dtype. Floats that are too
 * large become the largest value if `saturates`, else infinity or NaN. */
status_t onnx_narrow_round(onnx_node_t *node, int narrow, item_t x, bool saturates, item_t *out);

#endif
