/* Shared functions of importers of attention. Heads are [N][heads][T][D], as the operator needs. */
#ifndef TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H
#define TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* Reshapes [N][T][E] to [N][heads][T][E / heads], and back. */
status_t onnx_split_heads(onnx_node_t *node, item_t x, int64_t n_heads, item_t *out);
status_t onnx_join_heads(onnx_node_t *node, item_t x, item_t *out);

/* Row numbers 0, 1, 2, .. of x [N][..][T][..] as s64 [N][1][T][1], and T as [N][1][1][1]. They are
 * computed from the sizes of x only. */
status_t onnx_count_rows(onnx_node_t *node, item_t x, item_t *out_rows, item_t *out_count);

/* Concatenates parts along dim. */
status_t onnx_concat(onnx_node_t *node, int n, const item_t *parts, int dim, item_t *out);

/* Attention of packed queries, keys and values [N][T][Q + K + V], with the attributes of the
 * node. `mask` (of 1 and 0) and `scores` (a number added to each score) are input numbers, -1 for
 * none. */
status_t onnx_attend_packed(onnx_node_t *node, item_t all, const int64_t *sizes, int mask,
                            int scores);

#endif
#endif
