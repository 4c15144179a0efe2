/* Elements of fewer bits than a byte, and floats of 8 bits. No tensor of ours has them: they are
 * widened at import (int4 to s8, uint4 to u8, floats to f32), and an item says what it was. */
#ifndef TESSERA_IO_ONNX_NARROW_IMPL_H
#define TESSERA_IO_ONNX_NARROW_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

typedef struct onnx_narrow {
    int type; /* of TensorProto */
    const char *name;
    dtype_t dtype; /* that it is widened to */
    int bits;
    double least, most; /* finite */
    /* Of floats: */
    int mantissa, exponent; /* bits */
    int bias;
    bool has_infinity, has_nan;
    bool is_unsigned_zero; /* "uz": the code of -0 is NaN */
} onnx_narrow_t;

/* NULL: it is of another kind. */
const onnx_narrow_t *onnx_narrow_of(int64_t data_type);

/* The dtype of an ONNX element type, widened; *out_narrow is 0 or the type. UNSUPPORTED names it.
 */
status_t onnx_dtype_wide(context_t *ctx, int64_t data_type, dtype_t *out_dtype, int *out_narrow);

/* The type if it is narrow, or 0. */
static inline int onnx_narrow_type(int64_t data_type)
{
    const onnx_narrow_t *narrow = onnx_narrow_of(data_type);
    return narrow != NULL ? narrow->type : 0;
}

/* Bytes of n elements as they are stored; and these elements, widened. */
size_t onnx_narrow_bytes(const onnx_narrow_t *type, size_t n);
void onnx_narrow_widen(const onnx_narrow_t *type, size_t n, const uint8_t *bytes, void *out);

/* Numbers as the type would have them, in its wide dtype. Of floats, those that are too large
 * become the largest, or NaN or infinity where it does not saturate. */
status_t onnx_narrow_round(onnx_node_t *node, int narrow, item_t x, bool saturates, item_t *out);

#endif
#endif
