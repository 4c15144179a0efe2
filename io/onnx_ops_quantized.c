/* Integers that stand for numbers: ONNX's operators, and those of com.microsoft. */
#include "io/onnx_node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* ---- numbers to integers and back ---- */

/* QuantizeLinear and DequantizeLinear: x, scale, zero. A result of another dtype than the zero's is
 * asked for by output_dtype. */
status_t onnx_import_quantize(onnx_node_t *node)
{
    int64_t axis = 1, block_size = 0, type = 0;
    dtype_t dtype = DTYPE_NONE;
    bool is_quantize = node->op->own[0] == 'q';
    onnx_call_t call;
    TRY(onnx_attr_int(node, "axis", 1, &axis));
    TRY(onnx_attr_int(node, "block_size", 0, &block_size));
    TRY(onnx_attr_int(node, "output_dtype", 0, &type));
    if (is_quantize) onnx_attr_ignore(node, "saturate"); /* of 8-bit floats */
    if (type != 0) TRY(onnx_dtype(node->onnx->ctx, type, &dtype));
    onnx_call(node, node->op->own, &call);
    onnx_set_int(&call, "dim", axis);
    onnx_set_int(&call, "block_size", block_size);
    if (is_quantize) onnx_set_int(&call, "dtype", dtype);
    TRY(onnx_emit(&call, node->n_in, node->in, &node->out[0]));
    if (is_quantize || dtype == DTYPE_NONE) return STATUS_OK;
    return onnx_cast(node, node->out[0], dtype, &node->out[0]);
}

status_t onnx_import_dynamic_quantize(onnx_node_t *node)
{
    onnx_call_t call;
    onnx_call(node, "dynamic_quantize", &call);
    return onnx_emit_n(&call, 1, node->in, 3, node->out);
}

#endif
