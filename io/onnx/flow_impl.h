/* Blocks of nodes, which If, Loop and Scan have. */
#ifndef TESSERA_IO_ONNX_FLOW_IMPL_H
#define TESSERA_IO_ONNX_FLOW_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* The block of nodes that an attribute of the node is. */
status_t onnx_read_block(onnx_node_t *node, const char *name, Onnx__GraphProto **out_graph);

/* Imports a block of nodes; its results. Its names from the n_bound-th on go. */
status_t onnx_import_block(onnx_node_t *node, Onnx__GraphProto *graph, int n_bound, int n_results,
                           item_t *results);

/* Notes the end of a block. */
status_t onnx_yield(onnx_node_t *node, int n_results, item_t *results, int *out_call);

/* Values that a block made, from first_item on, are nobody's behind it. */
void onnx_forget(onnx_t *onnx, int first_item);

/* The tensor at a place of a sequence, and a sequence with one more tensor before a place
 * (ITEM_NONE: behind the last one); as the graph finds them. */
status_t onnx_sequence_item(onnx_node_t *node, item_t list, item_t place, item_t *out);
status_t onnx_sequence_insert(onnx_node_t *node, item_t list, item_t tensor, item_t place,
                              item_t *out);

/* A tensor as `like`, but with size 0 in its first dimension. ITEM_NONE where another size of
 * `like` depends on elements. */
status_t onnx_empty(onnx_node_t *node, item_t like, item_t *out);

/* SequenceMap where all sequences are known; else *out_is_known is false. */
status_t onnx_map_known(onnx_node_t *node, Onnx__GraphProto *body, bool *out_is_known);

/* The element of a known item of one bool. */
bool onnx_read_bool(const onnx_t *onnx, item_t item);

#endif
#endif
