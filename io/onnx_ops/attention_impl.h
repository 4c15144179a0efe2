/* Shared functions of importers of attention. Heads are [N][heads][T][D], as the operator needs. */
#ifndef TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H
#define TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* Reshapes [N][T][E] to [N][heads][T][E / heads], and back. */
status_t onnx_split_heads(onnx_node_t *node, item_t x, int64_t n_heads, item_t *out);
status_t onnx_join_heads(onnx_node_t *node, item_t x, item_t *out);

/* From the sizes of x [N][..][T][..], as s64: 0 to T - 1 [N][1][T][1], and T [N][1][1][1]. */
status_t onnx_count_rows(onnx_node_t *node, item_t x, item_t *out_rows, item_t *out_count);

/* Concatenates parts along dim. */
status_t onnx_concat(onnx_node_t *node, int n, const item_t *parts, int dim, item_t *out);

/* Attention; `all` is [N][T][Q + K + V]: query, key and value of each position side by side. `mask`
 * (ones and zeros) and `scores` (terms added to the scores) are the node's input numbers, or -1. */
status_t onnx_attend_packed(onnx_node_t *node, item_t all, const int64_t *sizes, int mask,
                            int scores);

#endif
#endif
