/* What the importers of attention share. Heads are [N][heads][T][D], as the operator takes them. */
#ifndef TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H
#define TESSERA_IO_ONNX_OPS_ATTENTION_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* [N][T][E] -> [N][heads][T][E / heads], and back. */
status_t onnx_split_heads(onnx_node_t *node, item_t x, int64_t n_heads, item_t *out);
status_t onnx_join_heads(onnx_node_t *node, item_t x, item_t *out);

/* Rows of x [N][..][T][..], made of its sizes alone, s64: 0, 1, 2, .. as [N][1][T][1]; and T, as
 * [N][1][1][1]. */
status_t onnx_count_rows(onnx_node_t *node, item_t x, item_t *out_rows, item_t *out_count);

/* Parts behind each other along dim. */
status_t onnx_concat(onnx_node_t *node, int n, const item_t *parts, int dim, item_t *out);

/* Attention of queries, keys and values side by side, [N][T][Q + K + V], with the attributes of the
 * node; a mask of 1 and 0, and what is added to scores, are inputs, -1 for none. */
status_t onnx_attend_packed(onnx_node_t *node, item_t all, const int64_t *sizes, int mask,
                            int scores);

#endif
#endif
