/* Reads int4, uint4, float8 and similar types, and rounds to them.
 *
 * A float is rounded to a multiple of a step. The step depends on the float's exponent e, which is
 * at least emin, the smallest normal exponent:
 *
 *   e = floor(log2(max(|x|, 2^emin)))    step = 2^(e - mantissa)    round(x / step) * step */
#include "io/onnx/narrow_impl.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor_impl.h"

#define TYPE(name) ONNX_##name, #name

/* Values that older versions of ONNX's schema lack. */
enum {
    ONNX_FLOAT8E4M3FN = 17,
    ONNX_FLOAT8E4M3FNUZ,
    ONNX_FLOAT8E5M2,
    ONNX_FLOAT8E5M2FNUZ,
    ONNX_UINT4,
    ONNX_INT4,
    ONNX_FLOAT4E2M1,
    ONNX_FLOAT8E8M0,
    ONNX_UINT2,
    ONNX_INT2
};

static const onnx_narrow_t types[] = {
    {TYPE(FLOAT8E4M3FN), DTYPE_F32, 8, -448, 448, 3, 4, 7, false, true, false},
    {TYPE(FLOAT8E4M3FNUZ), DTYPE_F32, 8, -240, 240, 3, 4, 8, false, true, true},
    {TYPE(FLOAT8E5M2), DTYPE_F32, 8, -57344, 57344, 2, 5, 15, true, true, false},
    {TYPE(FLOAT8E5M2FNUZ), DTYPE_F32, 8, -57344, 57344, 2, 5, 16, false, true, true},
    {TYPE(FLOAT4E2M1), DTYPE_F32, 4, -6, 6, 1, 2, 1, false, false, false},
    {TYPE(FLOAT8E8M0), DTYPE_F32, 8, 0, 0, 0, 8, 127, false, true, false},
    {TYPE(UINT4), DTYPE_U8, 4, 0, 15, 0, 0, 0, false, false, false},
    {TYPE(INT4), DTYPE_S8, 4, -8, 7, 0, 0, 0, false, false, false},
    {TYPE(UINT2), DTYPE_U8, 2, 0, 3, 0, 0, 0, false, false, false},
    {TYPE(INT2), DTYPE_S8, 2, -2, 1, 0, 0, 0, false, false, false},
};

const onnx_narrow_t *onnx_narrow_of(int64_t data_type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == data_type) return &types[i];
    return NULL;
}

status_t onnx_dtype_wide(context_t *ctx, int64_t data_type, dtype_t *out_dtype, int *out_narrow)
{
    const onnx_narrow_t *narrow = onnx_narrow_of(data_type);
    *out_narrow = narrow != NULL ? narrow->type : 0;
    if (narrow == NULL) return onnx_dtype(ctx, data_type, out_dtype);
    *out_dtype = narrow->dtype;
    return STATUS_OK;
}

/* ---- reading ---- */

static bool is_scale(const onnx_narrow_t *type)
{
    return type->mantissa == 0; /* a power of two without a sign */
}

static float decode_float(const onnx_narrow_t *type, unsigned code)
{
    const unsigned top = 1U << (type->bits - 1);
    if (is_scale(type)) return code == 0xff ? NAN : (float)ldexp(1.0, (int)code - type->bias);
    const unsigned rest = code & (top - 1), mantissa = rest & ((1U << type->mantissa) - 1);
    const int exponent = (int)(rest >> type->mantissa), last = (1 << type->exponent) - 1;
    const double sign = (code & top) != 0 ? -1.0 : 1.0;
    if (type->is_unsigned_zero && code == top) return NAN;
    if (type->has_infinity && exponent == last)
        return mantissa == 0 ? (float)(sign * (double)INFINITY) : NAN;
    if (type->has_nan && !type->is_unsigned_zero && !type->has_infinity && rest == top - 1)
        return NAN;
    const double fraction = mantissa + (exponent > 0 ? (double)(1 << type->mantissa) : 0.0);
    const int scale = (exponent > 0 ? exponent : 1) - type->bias - type->mantissa;
    return (float)(sign * ldexp(fraction, scale));
}

size_t onnx_narrow_bytes(const onnx_narrow_t *type, size_t n)
{
    const size_t n_each = 8 / (size_t)type->bits;
    return n / n_each + (n % n_each != 0);
}

void onnx_narrow_widen(const onnx_narrow_t *type, size_t n, const uint8_t *bytes, void *out)
{
    const size_t bits = (size_t)type->bits, n_each = 8 / bits;
    const unsigned mask = (1U << bits) - 1, top = 1U << (bits - 1);
    float floats[256];
    for (unsigned code = 0; code <= mask && type->dtype == DTYPE_F32; code++)
        floats[code] = decode_float(type, code);
    for (size_t i = 0; i < n; i++) {
        const unsigned code = (unsigned)bytes[i / n_each] >> (i % n_each * bits) & mask;
        if (type->dtype == DTYPE_F32)
            memcpy((float *)out + i, &floats[code], sizeof *floats);
        else if (type->dtype == DTYPE_U8)
            ((uint8_t *)out)[i] = (uint8_t)code;
        else
            ((int8_t *)out)[i] = (int8_t)((int)code - ((code & top) != 0 ? (int)mask + 1 : 0));
    }
}

/* ---- rounding ---- */

static status_t clamp(onnx_node_t *node, item_t x, double least, double most, item_t *out)
{
    TRY(onnx_with_number(node, "maximum", x, least, out));
    return onnx_with_number(node, "minimum", *out, most, out);
}

/* round(x / step) * step. */
static status_t round_on_grid(onnx_node_t *node, const onnx_narrow_t *type, item_t x, item_t *out)
{
    item_t step, two;
    TRY(onnx_unary(node, "abs", x, &step));
    TRY(onnx_with_number(node, "maximum", step, ldexp(1.0, 1 - type->bias), &step));
    TRY(onnx_unary(node, "log2", step, &step));
    TRY(onnx_unary(node, "floor", step, &step));
    TRY(onnx_with_number(node, "sub", step, type->mantissa, &step));
    TRY(onnx_number(node->onnx, 2.0, &two));
    TRY(onnx_binary(node, "pow", two, step, &step));
    TRY(onnx_binary(node, "div", x, step, out));
    TRY(onnx_unary(node, "round", *out, out));
    return onnx_binary(node, "mul", *out, step, out);
}

/* Replaces values above the largest finite one with NaN, or with infinity of x's sign. */
static status_t overflow(onnx_node_t *node, const onnx_narrow_t *type, item_t x, item_t *out)
{
    item_t is_over;
    TRY(onnx_unary(node, "abs", x, &is_over));
    TRY(onnx_with_number(node, "gt", is_over, type->most, &is_over));
    TRY(onnx_with_number(node, "mul", x, type->has_infinity ? (double)INFINITY : (double)NAN, out));
    return onnx_op(node, "where", NULL, 3, (const item_t[]){is_over, *out, x}, out);
}

status_t onnx_narrow_round(onnx_node_t *node, int narrow, item_t x, bool saturates, item_t *out)
{
    const onnx_narrow_t *type = onnx_narrow_of(narrow);
    const bool goes_over = !saturates && type->has_nan;
    const double most = goes_over ? 2 * type->most : type->most;
    if (is_scale(type) && type->dtype == DTYPE_F32)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "numbers as %s", type->name);
    if (type->dtype != DTYPE_F32) {
        TRY(clamp(node, x, type->least, type->most, out));
    } else {
        TRY(onnx_cast(node, x, DTYPE_F32, &x));
        TRY(clamp(node, x, -most, most, out));
        TRY(round_on_grid(node, type, *out, out));
        if (goes_over) TRY(overflow(node, type, *out, out));
        if (type->is_unsigned_zero) TRY(onnx_with_number(node, "add", *out, 0.0, out));
    }
    TRY(onnx_cast(node, *out, type->dtype, out));
    node->onnx->items[*out].narrow = type->type;
    return STATUS_OK;
}
