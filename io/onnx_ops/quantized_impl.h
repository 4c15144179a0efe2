/* What the importers of quantised operators share. ITEM_NONE is a zero or a bias left out. */
#ifndef TESSERA_IO_ONNX_OPS_QUANTIZED_IMPL_H
#define TESSERA_IO_ONNX_OPS_QUANTIZED_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* A scale, zero or bias as [] or [n], which [1,n] and [n,1] are, too. UNSUPPORTED for others, with
 * the name of what it is. */
status_t quantized_vector(onnx_node_t *node, item_t x, const char *what, item_t *out);

/* UNSUPPORTED where an input has several elements. */
status_t quantized_need_one(onnx_node_t *node, int input, const char *what);

/* The zero at an input: none where it is known to be 0. */
status_t quantized_zero(onnx_node_t *node, int input, const char *what, item_t *out);

/* A known weight [outputs][inputs] that is dequantized becomes the transposed one of [inputs]
 * [outputs], as products of integers want it, if x is dequantized, too. */
status_t quantized_columns(onnx_node_t *node, item_t x, item_t *weight);

/* Operator quantize or dequantize; dtype is of what quantize gives, DTYPE_NONE: the zero's. */
status_t quantized_emit(onnx_node_t *node, const char *op, item_t x, item_t scale, item_t zero,
                        int dim, dtype_t dtype, item_t *out);

/* (x + bias) * multiplier + zero, of the zero's dtype. */
status_t quantized_requantize(onnx_node_t *node, item_t x, item_t multiplier, item_t bias,
                              item_t zero, int dim, item_t *out);

/* a * b / c of scales at these inputs, in f32. */
status_t quantized_multiplier(onnx_node_t *node, int a, int b, int c, item_t *out);

/* The product of a with the weight at an input, whose zero is at another. */
status_t quantized_matmul(onnx_node_t *node, item_t a, item_t a_zero, int b, int b_zero,
                          item_t *out);

#endif
#endif
