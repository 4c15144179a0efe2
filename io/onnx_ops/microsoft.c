/* Quantised operators of com.microsoft, composed of other operators. Results equal ONNX Runtime's.
 * "Zero" means zero point. */
#include "io/onnx/node_impl.h"
#include "io/onnx_ops/attention_impl.h"
#include "io/onnx_ops/quantized_impl.h"
#include "tensor/tensor_impl.h"

/* ---- elementwise ---- */

/* A tensor, its scale and its zero are adjacent inputs; a triple has 3 inputs. */
enum { INTEGERS, SCALE, ZERO, TRIPLE };

static item_t input_or_none(const onnx_node_t *node, int input)
{
    return onnx_has(node, input) ? node->in[input] : ITEM_NONE;
}

static status_t as_float(onnx_node_t *node, item_t x, item_t *out)
{
    return onnx_cast(node, x, DTYPE_F32, out);
}

/* The zero at an input; if it is absent, 0 in the dtype of x. */
static status_t read_zero(onnx_node_t *node, int input, item_t *out)
{
    *out = input_or_none(node, input);
    if (*out != ITEM_NONE) return STATUS_OK;
    TRY(onnx_integer(node->onnx, 0, out));
    return onnx_cast(node, *out, onnx_input_info(node, 0).dtype, out);
}

/* x times (the operand's scale / the result's scale). */
static status_t emit_scaled(onnx_node_t *node, int first, item_t x, item_t scale, item_t *out)
{
    item_t ratio, numbers;
    TRY(onnx_binary(node, "div", node->in[first + SCALE], scale, &ratio));
    TRY(as_float(node, x, &numbers));
    return onnx_binary(node, "mul", ratio, numbers, out);
}

/* Checks that a, b and the three scales are present. Zeros are optional. */
static status_t check_operands(onnx_node_t *node)
{
    static const int needed[] = {0, 1, 3, 4, 6};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        TRY(onnx_check_inputs(node, needed[i], needed[i] + 1));
    return STATUS_OK;
}

/* As in ONNX Runtime, the zeros form one f32 constant, which is added first:
 * zero - (ratio_a * a_zero + ratio_b * b_zero). */
status_t onnx_import_qlinear_add(onnx_node_t *node)
{
    TRY(check_operands(node));
    const item_t scale = node->in[6];
    item_t a, b, fixed, one, zeros[3];
    for (int i = 0; i < 3; i++) TRY(read_zero(node, i < 2 ? TRIPLE * i + ZERO : 7, &zeros[i]));
    TRY(onnx_number(node->onnx, 1.0, &one));
    TRY(as_float(node, one, &one));
    TRY(emit_scaled(node, 0, zeros[0], scale, &a));
    TRY(emit_scaled(node, 3, zeros[1], scale, &b));
    TRY(onnx_binary(node, "add", a, b, &b));
    TRY(as_float(node, zeros[2], &fixed));
    TRY(onnx_binary(node, "sub", fixed, b, &fixed));
    TRY(emit_scaled(node, 0, node->in[0], scale, &a));
    TRY(emit_scaled(node, 3, node->in[3], scale, &b));
    TRY(onnx_binary(node, "add", fixed, a, &a));
    TRY(onnx_binary(node, "add", a, b, &a));
    return quantized_emit(node, "quantize", a, one, ITEM_NONE, 0,
                          onnx_info(node->onnx, zeros[2])->dtype, &node->out[0]);
}

/* An operand minus its zero, as s32. */
static status_t emit_centered(onnx_node_t *node, item_t x, item_t zero, item_t *out)
{
    TRY(onnx_cast(node, x, DTYPE_S32, out));
    if (zero == ITEM_NONE) return STATUS_OK;
    TRY(onnx_cast(node, zero, DTYPE_S32, &zero));
    return onnx_binary(node, "sub", *out, zero, out);
}

status_t onnx_import_qlinear_mul(onnx_node_t *node)
{
    item_t a, b, multiplier, zero;
    TRY(check_operands(node));
    TRY(read_zero(node, 7, &zero));
    TRY(emit_centered(node, node->in[0], input_or_none(node, 2), &a));
    TRY(emit_centered(node, node->in[3], input_or_none(node, 5), &b));
    TRY(onnx_binary(node, "mul", a, b, &a));
    TRY(quantized_multiplier(node, 1, 4, 6, &multiplier));
    return quantized_requantize(node, a, multiplier, ITEM_NONE, zero, 0, &node->out[0]);
}

static status_t emit_numbers(onnx_node_t *node, int first, item_t *out)
{
    return quantized_emit(node, "dequantize", node->in[first], node->in[first + SCALE],
                          input_or_none(node, first + ZERO), 0, DTYPE_NONE, out);
}

/* Quantises x with the scale at input `scale` and the zero at input `scale` + 1. */
static status_t emit_integers(onnx_node_t *node, item_t x, int scale, dtype_t dtype, item_t *out)
{
    return quantized_emit(node, "quantize", x, node->in[scale], input_or_none(node, scale + 1), 0,
                          dtype, out);
}

/* Inputs: x, its scale and zero; the result's scale and zero. node->op->own names the function. */
status_t onnx_import_qlinear_unary(onnx_node_t *node)
{
    item_t x;
    onnx_call_t call;
    TRY(emit_numbers(node, 0, &x));
    onnx_call(node, node->op->own, &call);
    if (onnx_has_attr(node, "alpha") || node->op->own[0] == 'l') { /* own is leaky_relu */
        double alpha = 0.01;
        TRY(onnx_attr_float(node, "alpha", 0.01, &alpha));
        onnx_set_float(&call, "negative_slope", alpha);
    }
    TRY(onnx_emit(&call, 1, &x, &x));
    return emit_integers(node, x, 3, onnx_input_info(node, 0).dtype, &node->out[0]);
}

/* Inputs: x, its scale and zero; the result's scale and zero. Before opset 13, one softmax covers
 * the axis and all dimensions after it. */
status_t onnx_import_qlinear_softmax(onnx_node_t *node)
{
    const tensor_info_t info = onnx_input_info(node, 0);
    int64_t opset = 0, sizes[2];
    int axis = 0;
    item_t x;
    TRY(onnx_attr_int(node, "opset", 13, &opset));
    TRY(onnx_dim(node, "axis", info.rank, opset < 13 ? 1 : -1, &axis));
    TRY(emit_numbers(node, 0, &x));
    sizes[0] = onnx_product(node, axis, info.sizes);
    sizes[1] = onnx_product(node, info.rank - axis, &info.sizes[axis]);
    if (opset < 13) TRY(onnx_reshape(node, x, 2, sizes, &x));
    TRY(onnx_op(node, "softmax", ONNX_ATTRS(SET("dim", opset < 13 ? 1 : axis)), 1, &x, &x));
    if (opset < 13) TRY(onnx_reshape(node, x, info.rank, info.sizes, &x));
    return emit_integers(node, x, 3, info.dtype, &node->out[0]);
}

/* Inputs: condition; x, its scale and zero; y, its scale and zero; the result's scale and zero. */
status_t onnx_import_qlinear_where(onnx_node_t *node)
{
    item_t in[3] = {node->in[0]};
    for (int i = 0; i < 2; i++) {
        TRY(emit_numbers(node, 1 + i * TRIPLE, &in[1 + i]));
        TRY(emit_integers(node, in[1 + i], 7, onnx_input_info(node, 1).dtype, &in[1 + i]));
    }
    return onnx_op(node, "where", NULL, 3, in, &node->out[0]);
}

/* ---- pooling and concatenation ---- */

static status_t refuse_channels_last(onnx_node_t *node)
{
    bool channels_last = false;
    TRY(onnx_attr_bool(node, "channels_last", false, &channels_last));
    if (channels_last) FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "channels_last 1");
    return STATUS_OK;
}

/* A size as an item that can be multiplied by f32 numbers. */
static status_t make_float(onnx_node_t *node, int64_t size, item_t *out)
{
    if (!sym_is(size)) return onnx_number(node->onnx, (double)size, out);
    TRY(onnx_vector(node->onnx, NULL, 1, &size, out));
    TRY(onnx_reshape(node, *out, 0, NULL, out));
    return as_float(node, *out, out);
}

/* Integers are summed exactly over each image; the scale is then divided by their number. */
status_t onnx_import_qlinear_global_average_pool(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    int64_t dims[TENSOR_MAX_RANK];
    item_t sums, multiplier, number;
    TRY(refuse_channels_last(node));
    if (x.rank < 3)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank %d, 3 or more is needed",
             x.rank);
    for (int d = 2; d < x.rank; d++) dims[d - 2] = d;
    TRY(emit_centered(node, node->in[0], input_or_none(node, 2), &sums));
    TRY(onnx_op(node, "sum", ONNX_ATTRS(SET_INTS("dims", x.rank - 2, dims), SET("keepdim", true)),
                1, &sums, &sums));
    TRY(onnx_cast(node, sums, DTYPE_S32, &sums));
    TRY(make_float(node, onnx_product(node, x.rank - 2, &x.sizes[2]), &number));
    TRY(onnx_binary(node, "mul", node->in[3], number, &multiplier));
    TRY(onnx_binary(node, "div", node->in[1], multiplier, &multiplier));
    return quantized_requantize(node, sums, multiplier, ITEM_NONE, input_or_none(node, 4), 0,
                                &node->out[0]);
}

status_t onnx_import_qlinear_average_pool(onnx_node_t *node)
{
    const dtype_t dtype = onnx_input_info(node, 0).dtype;
    TRY(refuse_channels_last(node));
    TRY(emit_numbers(node, 0, &node->in[0]));
    TRY(onnx_import_average_pool(node));
    return emit_integers(node, node->out[0], 3, dtype, &node->out[0]);
}

/* Inputs: the result's scale and zero, then for each part a tensor, its scale and its zero. */
status_t onnx_import_qlinear_concat(onnx_node_t *node)
{
    item_t parts[OP_MAX_INPUTS];
    int axis = 0, n = (node->n_in - 2) / TRIPLE;
    if (n < 1 || node->n_in != 2 + n * TRIPLE)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%d inputs, 2 and threes are needed",
             node->n_in);
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 2).rank, 0, &axis));
    for (int i = 0; i < n; i++) {
        TRY(emit_numbers(node, 2 + i * TRIPLE, &parts[i]));
        TRY(emit_integers(node, parts[i], 0, onnx_input_info(node, 1).dtype, &parts[i]));
    }
    return onnx_op(node, "concat", ONNX_ATTRS(SET("dim", axis)), n, parts, &node->out[0]);
}

/* ---- products of matrices ---- */

/* Dequantises integer sums, and adds an f32 bias. */
static status_t emit_float(onnx_node_t *node, item_t sums, item_t scale, int bias, item_t *out)
{
    TRY(quantized_emit(node, "dequantize", sums, scale, ITEM_NONE, -1, DTYPE_NONE, out));
    if (!onnx_has(node, bias)) return STATUS_OK;
    return onnx_binary(node, "add", *out, node->in[bias], out);
}

/* Inputs: a, b, b's scale and zero, bias. a is quantised at run time, with a scale from the range
 * of its elements. */
status_t onnx_import_dynamic_quantize_matmul(onnx_node_t *node)
{
    item_t a[3], sums, scale;
    onnx_call_t call;
    onnx_call(node, "dynamic_quantize", &call);
    TRY(onnx_emit_n(&call, 1, node->in, 3, a));
    TRY(quantized_matmul(node, a[0], a[2], 1, 3, &sums));
    TRY(quantized_vector(node, node->in[2], "b's scale", &scale));
    TRY(onnx_binary(node, "mul", a[1], scale, &scale));
    return emit_float(node, sums, scale, 4, &node->out[0]);
}

/* Inputs: a, b, their scales, their zeros, bias. */
status_t onnx_import_matmul_integer_to_float(onnx_node_t *node)
{
    item_t sums, scale, zero;
    TRY(quantized_need_one(node, 2, "a's scale"));
    if (onnx_has(node, 4)) TRY(quantized_need_one(node, 4, "a's zero"));
    TRY(quantized_zero(node, 4, "a's zero", &zero));
    TRY(quantized_matmul(node, node->in[0], zero, 1, 5, &sums));
    TRY(quantized_vector(node, node->in[3], "b's scale", &scale));
    TRY(onnx_binary(node, "mul", node->in[2], scale, &scale));
    return emit_float(node, sums, scale, 6, &node->out[0]);
}

/* Inputs: a, its scale and zero, b, its scale and zero, c (s32), the result's scale and zero.
 * Without the result's scale, the result is f32. */
status_t onnx_import_qgemm(onnx_node_t *node)
{
    bool transposes_a = false, transposes_b = false;
    double alpha = 1.0;
    item_t a = node->in[0], zero, sums, scale, number;
    TRY(onnx_attr_bool(node, "transA", false, &transposes_a));
    TRY(onnx_attr_bool(node, "transB", false, &transposes_b));
    TRY(onnx_attr_float(node, "alpha", 1.0, &alpha));
    TRY(quantized_need_one(node, 1, "a's scale"));
    TRY(quantized_need_one(node, 2, "a's zero"));
    if (onnx_has(node, 7)) TRY(quantized_need_one(node, 7, "the result's scale"));
    if (transposes_a) TRY(onnx_permute(node, a, 2, (int64_t[]){1, 0}, &a));
    if (transposes_b) TRY(onnx_transposed(node, node->in[3], &node->in[3]));
    TRY(quantized_zero(node, 2, "a's zero", &zero));
    TRY(quantized_matmul(node, a, zero, 3, 5, &sums));
    if (onnx_has(node, 6)) TRY(onnx_binary(node, "add", sums, node->in[6], &sums));
    TRY(quantized_vector(node, node->in[4], "b's scale", &scale));
    TRY(onnx_binary(node, "mul", node->in[1], scale, &scale));
    TRY(onnx_number(node->onnx, alpha, &number));
    if (alpha != 1.0) TRY(onnx_binary(node, "mul", scale, number, &scale));
    if (!onnx_has(node, 7)) return emit_float(node, sums, scale, 9, &node->out[0]);
    TRY(onnx_binary(node, "div", scale, node->in[7], &scale));
    return quantized_requantize(node, sums, scale, ITEM_NONE, input_or_none(node, 8), -1,
                                &node->out[0]);
}

/* Inputs: x, weight, bias (f32), x's scale, the weight's scale, mask, x's zero, the weight's zero,
 * past. */
status_t onnx_import_qattention(onnx_node_t *node)
{
    enum { X, WEIGHT, BIAS, X_SCALE, WEIGHT_SCALE, MASK, X_ZERO, WEIGHT_ZERO, PAST };
    const tensor_info_t weight = onnx_input_info(node, WEIGHT);
    item_t all, zero, scale;
    if (onnx_has(node, PAST))
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "keys and values of the past, input %d", PAST);
    if (weight.rank != 2 || !sym_divides(node->onnx->ctx, 3, weight.sizes[1]))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "weights %s, [E,3 E] is needed",
             onnx_brief(node, &weight));
    TRY(quantized_need_one(node, X_SCALE, "x's scale"));
    if (onnx_has(node, X_ZERO)) TRY(quantized_need_one(node, X_ZERO, "x's zero"));
    TRY(quantized_zero(node, X_ZERO, "x's zero", &zero));
    TRY(quantized_matmul(node, node->in[X], zero, WEIGHT, WEIGHT_ZERO, &all));
    TRY(quantized_vector(node, node->in[WEIGHT_SCALE], "the weight's scale", &scale));
    TRY(onnx_binary(node, "mul", node->in[X_SCALE], scale, &scale));
    TRY(emit_float(node, all, scale, BIAS, &all));
    const int64_t size = sym_divide(node->onnx->ctx, weight.sizes[1], 3);
    const int64_t sizes[] = {size, size, size};
    return onnx_attend_packed(node, all, sizes, MASK, -1);
}
