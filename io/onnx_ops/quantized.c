/* ONNX's quantised operators. */
#include "io/onnx_ops/quantized_impl.h"

#include <stdio.h>

#include "graph/ir/rewrite_impl.h"
#include "io/onnx/narrow_impl.h"
#include "tensor/tensor_impl.h"

/* ---- scales and zeros ---- */

status_t quantized_vector(onnx_node_t *node, item_t x, const char *what, item_t *out)
{
    *out = x;
    if (x == ITEM_NONE) return STATUS_OK;
    const tensor_info_t info = *onnx_info(node->onnx, x);
    const int64_t n = onnx_numel(node, &info);
    int n_ones = 0;
    if (info.rank <= 1) return STATUS_OK;
    for (int d = 0; d < info.rank; d++) n_ones += sym_equal(node->onnx->ctx, info.sizes[d], 1);
    if (n_ones < info.rank - 1)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "%s is %s, one dimension is supported", what,
             onnx_brief(node, &info));
    return onnx_reshape(node, x, 1, &n, out);
}

status_t quantized_need_one(onnx_node_t *node, int input, const char *what)
{
    const tensor_info_t info = onnx_input_info(node, input);
    if (!sym_equal(node->onnx->ctx, onnx_numel(node, &info), 1))
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "%s is %s, one is supported", what,
             onnx_brief(node, &info));
    return STATUS_OK;
}

/* True if all elements of a zero are known to be 0. */
static status_t is_nothing(onnx_node_t *node, item_t zero, bool *out_is)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_t *known = onnx_tensor_of(node->onnx, zero);
    char *bytes = NULL;
    *out_is = false;
    if (known == NULL) return STATUS_OK;
    size_t n = info_bytes(tensor_info(known));
    TRY(context_get(ctx, n + 1, "zeros", &bytes));
    status_t status = tensor_read(ctx, known, bytes, n + 1);
    bool is_nothing = status == STATUS_OK;
    for (size_t i = 0; i < n && is_nothing; i++) is_nothing = bytes[i] == 0;
    context_put(ctx, bytes);
    *out_is = is_nothing;
    return status;
}

status_t quantized_zero(onnx_node_t *node, int input, const char *what, item_t *out)
{
    bool is_left_out = true;
    *out = ITEM_NONE;
    if (!onnx_has(node, input)) return STATUS_OK;
    TRY(quantized_vector(node, node->in[input], what, out));
    TRY(is_nothing(node, *out, &is_left_out));
    if (is_left_out) *out = ITEM_NONE;
    return STATUS_OK;
}

static status_t flip(onnx_node_t *node, item_t x, item_t *out)
{
    item_t number;
    TRY(onnx_integer(node->onnx, 128, &number));
    TRY(onnx_binary(node, "bitwise_xor", x, number, out));
    return onnx_cast(node, *out, DTYPE_S8, out);
}

/* Converts a known u8 weight and its zero to s8 by subtracting 128 from both. */
static status_t read_weight(onnx_node_t *node, int weight, int zero, item_t *out_weight,
                            item_t *out_zero)
{
    *out_weight = node->in[weight];
    if (!onnx_knows(node, weight) || onnx_input_info(node, weight).dtype != DTYPE_U8 ||
        (onnx_has(node, zero) && !onnx_knows(node, zero)))
        return quantized_zero(node, zero, "the weight's zero", out_zero);
    bool is_left_out = false;
    TRY(flip(node, node->in[weight], out_weight));
    if (onnx_has(node, zero)) {
        TRY(quantized_vector(node, node->in[zero], "the weight's zero", out_zero));
    } else {
        TRY(onnx_integer(node->onnx, 0, out_zero));
        TRY(onnx_cast(node, *out_zero, DTYPE_U8, out_zero));
    }
    TRY(flip(node, *out_zero, out_zero));
    TRY(is_nothing(node, *out_zero, &is_left_out));
    if (is_left_out) *out_zero = ITEM_NONE;
    return STATUS_OK;
}

status_t quantized_columns(onnx_node_t *node, item_t x, item_t *weight)
{
    const onnx_noted_t *made = onnx_call_of(node->onnx, *weight, "dequantize");
    if (made == NULL || !made->is_known || onnx_call_of(node->onnx, x, "dequantize") == NULL)
        return STATUS_OK;
    const graph_node_t dequantize = {.kind = NODE_OP, .op = made->op, .attrs = made->attrs};
    const int64_t *block_size = rewrite_attr(&dequantize, "block_size", ATTR_INT);
    const int64_t *dim = rewrite_attr(&dequantize, "dim", ATTR_INT);
    const item_t integers = made->in[0], scale = made->in[1];
    const item_t zero = made->n_in > 2 ? made->in[2] : ITEM_NONE;
    const bool is_first = dim != NULL && (*dim == 0 || *dim == -2);
    item_t columns;
    if (block_size == NULL || *block_size != 0 || onnx_info(node->onnx, *weight)->rank != 2)
        return STATUS_OK;
    TRY(onnx_transposed(node, integers, &columns));
    node->onnx->items[columns].is_weight = true;
    TRY(quantized_emit(node, "dequantize", columns, scale, zero, is_first ? 1 : 0, DTYPE_NONE,
                       &columns));
    return onnx_permute(node, columns, 2, (int64_t[]){1, 0}, weight);
}

status_t quantized_emit(onnx_node_t *node, const char *op, item_t x, item_t scale, item_t zero,
                        int dim, dtype_t dtype, item_t *out)
{
    const item_t in[] = {x, scale, zero};
    onnx_call_t call;
    onnx_call(node, op, &call);
    onnx_set_int(&call, "dim", dim);
    if (op[0] == 'q') onnx_set_int(&call, "dtype", dtype);
    return onnx_emit(&call, 3, in, out);
}

status_t quantized_requantize(onnx_node_t *node, item_t x, item_t multiplier, item_t bias,
                              item_t zero, int dim, item_t *out)
{
    const item_t in[] = {x, multiplier, zero, bias};
    return onnx_op(node, "requantize", ONNX_ATTRS(SET("dim", dim)), 4, in, out);
}

status_t quantized_multiplier(onnx_node_t *node, int a, int b, int c, item_t *out)
{
    item_t scale;
    TRY(quantized_vector(node, node->in[b], "a scale", &scale));
    TRY(onnx_binary(node, "mul", node->in[a], scale, out));
    return onnx_binary(node, "div", *out, node->in[c], out);
}

/* ---- quantise and dequantise ---- */

/* Removes zero points that are 0, and converts u8 weights to s8, because integer matrix products
 * need both. */
static status_t simplify(onnx_node_t *node, bool is_quantize, int64_t block_size, dtype_t *dtype)
{
    const bool has_zero = onnx_has(node, 2);
    item_t zero = has_zero ? node->in[2] : ITEM_NONE;
    if (block_size != 0 || (has_zero && !onnx_knows(node, 2))) return STATUS_OK;
    if (is_quantize && has_zero && *dtype == DTYPE_NONE) *dtype = onnx_input_info(node, 2).dtype;
    if (has_zero && onnx_input_info(node, 2).rank > 1) return STATUS_OK;
    if (!is_quantize && onnx_input_info(node, 0).rank > 1)
        TRY(read_weight(node, 0, 2, &node->in[0], &zero));
    else
        TRY(quantized_zero(node, 2, "zero", &zero));
    if (has_zero || zero != ITEM_NONE) node->in[2] = zero;
    if (node->n_in < 3 && zero != ITEM_NONE) node->n_in = 3;
    return STATUS_OK;
}

/* Reshapes a scale or zero so that it broadcasts with x. It has shape [], or one element for each
 * index or block along the axis. */
static status_t spread(onnx_node_t *node, item_t part, int64_t axis, int64_t block_size,
                       item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t x = onnx_input_info(node, 0), info = *onnx_info(node->onnx, part);
    int64_t sizes[TENSOR_MAX_RANK + 1];
    int dim = 0;
    *out = part;
    if (block_size == 0 && sym_equal(ctx, onnx_numel(node, &info), 1))
        return onnx_reshape(node, part, 0, NULL, out);
    bool fits = shape_dim(x.rank, axis, &dim) && block_size >= 0 && block_size <= INT32_MAX &&
                info.rank == (block_size > 0 ? x.rank : 1);
    for (int d = 0; d < x.rank && fits; d++) {
        const int64_t n = d == dim && block_size > 0 ? sym_divide_up(ctx, x.sizes[d], block_size)
                                                     : x.sizes[d];
        if (block_size > 0 || d == dim)
            fits = sym_equal(ctx, info.sizes[block_size > 0 ? d : 0], n);
    }
    if (!fits)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "scale %s, x %s, axis %lld: one for each of a dimension or of its blocks",
             onnx_brief(node, &info), onnx_brief(node, &x), (long long)axis);
    if (block_size == 0) {
        for (int d = 0; d < x.rank; d++) sizes[d] = d == dim ? info.sizes[0] : 1;
        return onnx_reshape(node, part, x.rank, sizes, out);
    }
    for (int d = 0; d <= x.rank; d++)
        sizes[d] = d <= dim ? info.sizes[d] : d == dim + 1 ? 1 : info.sizes[d - 1];
    TRY(onnx_reshape(node, part, x.rank + 1, sizes, out));
    sizes[dim + 1] = block_size;
    TRY(onnx_expand(node, *out, x.rank + 1, sizes, out));
    for (int d = 0; d < x.rank; d++)
        sizes[d] = d == dim ? sym_multiply(ctx, info.sizes[d], block_size) : info.sizes[d];
    TRY(onnx_reshape(node, *out, x.rank, sizes, out));
    return onnx_slice(node, *out, dim, 0, x.sizes[dim], 1, out);
}

/* Quantizes to floats of 8 bits or fewer, or dequantizes them: (x - zero) * scale, or x / scale
 * rounded to the type. */
static status_t quantize_floats(onnx_node_t *node, bool is_quantize, int narrow, int64_t axis,
                                int64_t block_size)
{
    item_t x = node->in[0], scale, zero;
    bool saturates = true;
    if (is_quantize) TRY(onnx_attr_bool(node, "saturate", true, &saturates));
    TRY(spread(node, node->in[1], axis, block_size, &scale));
    if (!is_quantize) {
        const dtype_t dtype = onnx_info(node->onnx, scale)->dtype;
        if (onnx_has(node, 2)) {
            TRY(spread(node, node->in[2], axis, block_size, &zero));
            TRY(onnx_binary(node, "sub", x, zero, &x));
        }
        TRY(onnx_cast(node, x, dtype, &x));
        return onnx_binary(node, "mul", x, scale, &node->out[0]);
    }
    TRY(onnx_binary(node, "div", x, scale, &x));
    if (onnx_has(node, 2)) {
        TRY(spread(node, node->in[2], axis, block_size, &zero));
        TRY(onnx_binary(node, "add", x, zero, &x));
    }
    return onnx_narrow_round(node, narrow, x, saturates, &node->out[0]);
}

/* Emits quantize or dequantize. Integers of fewer than 8 bits are clamped afterwards. */
static status_t quantize_integers(onnx_node_t *node, bool is_quantize, int narrow, dtype_t dtype,
                                  int64_t axis, int64_t block_size)
{
    onnx_call_t call;
    if (is_quantize) onnx_attr_ignore(node, "saturate"); /* for floats only */
    TRY(simplify(node, is_quantize, block_size, &dtype));
    onnx_call(node, node->op->own, &call);
    onnx_set_int(&call, "dim", axis);
    onnx_set_int(&call, "block_size", block_size);
    if (is_quantize) onnx_set_int(&call, "dtype", dtype);
    TRY(onnx_emit(&call, node->n_in, node->in, &node->out[0]));
    if (!is_quantize || narrow == 0) return STATUS_OK;
    return onnx_narrow_round(node, narrow, node->out[0], true, &node->out[0]);
}

/* Casts x and the scale to the dtype in which they are divided. */
static status_t read_precision(onnx_node_t *node)
{
    int64_t type = 0;
    dtype_t dtype = DTYPE_NONE;
    TRY(onnx_attr_int(node, "precision", 0, &type));
    if (type == 0) return STATUS_OK;
    TRY(onnx_dtype(node->onnx->ctx, type, &dtype));
    TRY(onnx_cast(node, node->in[0], dtype, &node->in[0]));
    return onnx_cast(node, node->in[1], dtype, &node->in[1]);
}

/* Inputs: x, scale, zero. output_dtype overrides the dtype of the zero. */
status_t onnx_import_quantize(onnx_node_t *node)
{
    int64_t axis = 1, block_size = 0, type = 0;
    int narrow = 0;
    dtype_t dtype = DTYPE_NONE;
    const bool is_quantize = node->op->own[0] == 'q';
    TRY(onnx_attr_int(node, "axis", 1, &axis));
    TRY(onnx_attr_int(node, "block_size", 0, &block_size));
    TRY(onnx_attr_int(node, "output_dtype", 0, &type));
    if (is_quantize) TRY(read_precision(node));
    if (is_quantize && onnx_has(node, 2)) narrow = node->onnx->items[node->in[2]].narrow;
    if (type != 0) TRY(onnx_dtype_wide(node->onnx->ctx, type, &dtype, &narrow));
    const onnx_narrow_t *of = is_quantize ? onnx_narrow_of(narrow) : NULL;
    const bool is_floating = is_quantize ? of != NULL && of->dtype == DTYPE_F32
                                         : dtype_is_floating(onnx_input_info(node, 0).dtype);
    TRY(is_floating ? quantize_floats(node, is_quantize, narrow, axis, block_size)
                    : quantize_integers(node, is_quantize, narrow, dtype, axis, block_size));
    if (is_quantize || dtype == DTYPE_NONE) return STATUS_OK;
    return onnx_cast(node, node->out[0], dtype, &node->out[0]);
}

status_t onnx_import_dynamic_quantize(onnx_node_t *node)
{
    onnx_call_t call;
    onnx_call(node, "dynamic_quantize", &call);
    return onnx_emit_n(&call, 1, node->in, 3, node->out);
}

/* ---- integer products ---- */

/* Emits a convolution. x, weight, x_zero and weight_zero are input numbers. */
static status_t emit_conv(onnx_node_t *node, int x, int weight, int x_zero, int weight_zero,
                          item_t *out)
{
    const tensor_info_t info = onnx_input_info(node, x);
    const tensor_info_t weight_info = onnx_input_info(node, weight);
    item_t in[4] = {node->in[x], ITEM_NONE, ITEM_NONE, ITEM_NONE};
    conv_attrs_t attrs;
    onnx_call_t call;
    char name[32];
    TRY(onnx_read_conv(node, &info, &weight_info, &attrs));
    TRY(quantized_zero(node, x_zero, "x's zero", &in[2]));
    TRY(read_weight(node, weight, weight_zero, &in[1], &in[3]));
    snprintf(name, sizeof name, "conv%dd_integer", info.rank - 2);
    onnx_call(node, name, &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    return onnx_emit(&call, 4, in, out);
}

status_t onnx_import_conv_integer(onnx_node_t *node)
{
    return emit_conv(node, 0, 1, 2, 3, &node->out[0]);
}

/* Inputs: x, its scale and zero, weight, its scale and zero, the result's scale and zero, bias. */
status_t onnx_import_qlinear_conv(onnx_node_t *node)
{
    item_t sums, multiplier, bias = onnx_has(node, 8) ? node->in[8] : ITEM_NONE;
    TRY(emit_conv(node, 0, 3, 2, 5, &sums));
    TRY(quantized_multiplier(node, 1, 4, 6, &multiplier));
    return quantized_requantize(node, sums, multiplier, bias, node->in[7], 1, &node->out[0]);
}

status_t quantized_matmul(onnx_node_t *node, item_t a, item_t a_zero, int b, int b_zero,
                          item_t *out)
{
    item_t in[4] = {a, ITEM_NONE, a_zero, ITEM_NONE};
    TRY(read_weight(node, b, b_zero, &in[1], &in[3]));
    return onnx_op(node, "matmul_integer", NULL, 4, in, out);
}

status_t onnx_import_matmul_integer(onnx_node_t *node)
{
    item_t zero;
    TRY(quantized_zero(node, 2, "a's zero", &zero));
    return quantized_matmul(node, node->in[0], zero, 1, 3, &node->out[0]);
}

/* Inputs: a, its scale and zero, b, its scale and zero, the result's scale and zero. */
status_t onnx_import_qlinear_matmul(onnx_node_t *node)
{
    item_t sums, multiplier, zero;
    TRY(quantized_need_one(node, 1, "a's scale"));
    TRY(quantized_need_one(node, 6, "the result's scale"));
    TRY(quantized_zero(node, 2, "a's zero", &zero));
    TRY(quantized_matmul(node, node->in[0], zero, 3, 5, &sums));
    TRY(quantized_multiplier(node, 1, 4, 6, &multiplier));
    return quantized_requantize(node, sums, multiplier, ITEM_NONE, node->in[7], -1, &node->out[0]);
}
