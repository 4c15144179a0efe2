/* Functions shared by the import functions of attention. Heads are [N][heads][T][D], as operator
 * scaled_dot_product_attention needs. */
#ifndef TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H
#define TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H

#include "io/onnx/node_impl.h"

/* Reshapes [N][T][E] to [N][heads][T][E / heads], and back. */
status_t onnx_split_heads(onnx_node_t *node, item_t x, int64_t n_heads, item_t *out);
status_t onnx_join_heads(onnx_node_t *node, item_t x, item_t *out);

/* For x [N][..][T][..]: the numbers 0 to T - 1 as s64 [N][1][T][1], and T as s64 [N][1][1][1]. */
status_t onnx_count_rows(onnx_node_t *node, item_t x, item_t *out_rows, item_t *out_count);

/* Emits attention. `all` is [N][T][Q + K + V]: query, key and value of each position are adjacent.
 * `mask` (ones and zeros) and `scores` (terms to add to the scores) are indices of the node's
 * inputs, or -1. */
status_t onnx_attend_packed(onnx_node_t *node, item_t all, const int64_t *sizes, int mask,
                            int scores);

#endif
