/* Functions shared by the import functions of quantised operators. "Zero" means zero point. An
 * absent zero or bias is ITEM_NONE. */
#ifndef TESSERA_IO_ONNX_OPS_QUANTIZED_IMPL_H
#define TESSERA_IO_ONNX_OPS_QUANTIZED_IMPL_H

#include "io/onnx/node_impl.h"

/* Converts a scale, zero or bias of shape [], [n], [1,n] or [n,1] to [] or [n]. UNSUPPORTED for
 * other shapes; the message contains `what`. */
status_t quantized_vector(onnx_node_t *node, item_t x, const char *what, item_t *out);

/* UNSUPPORTED if an input has several elements. */
status_t quantized_need_one(onnx_node_t *node, int input, const char *what);

/* The zero at an input; ITEM_NONE if all its elements are known to be 0. */
status_t quantized_zero(onnx_node_t *node, int input, const char *what, item_t *out);

/* If x and a known weight [outputs][inputs] are both dequantized, transposes the weight to
 * [inputs][outputs], the order that integer products need. */
status_t quantized_columns(onnx_node_t *node, item_t x, item_t *weight);

/* Emits quantize or dequantize. `dtype` is that of quantize's result; DTYPE_NONE: the zero's. */
status_t quantized_emit(onnx_node_t *node, const char *op, item_t x, item_t scale, item_t zero,
                        int dim, dtype_t dtype, item_t *out);

/* (x + bias) * multiplier + zero, in the dtype of zero. */
status_t quantized_requantize(onnx_node_t *node, item_t x, item_t multiplier, item_t bias,
                              item_t zero, int dim, item_t *out);

/* a * b / c of the scales at these inputs, in f32. */
status_t quantized_multiplier(onnx_node_t *node, int a, int b, int c, item_t *out);

/* The product of a and the weight at input b, with the zero at input b_zero. */
status_t quantized_matmul(onnx_node_t *node, item_t a, item_t a_zero, int b, int b_zero,
                          item_t *out);

#endif
