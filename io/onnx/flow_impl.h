/* Blocks: the subgraphs that If, Loop and Scan have as attributes. */
#ifndef TESSERA_IO_ONNX_FLOW_IMPL_H
#define TESSERA_IO_ONNX_FLOW_IMPL_H

#include "io/onnx/node_impl.h"

/* Returns the block that an attribute of the node holds. */
status_t onnx_read_block(onnx_node_t *node, const char *name, Onnx__GraphProto **out_graph);

/* Imports a block whose inputs are bound. At the end, unbinds all names after the first n_bound. */
status_t onnx_import_block(onnx_node_t *node, Onnx__GraphProto *graph, int n_bound, int n_results,
                           item_t *results);

/* Records the end of a block. */
status_t onnx_yield(onnx_node_t *node, int n_results, item_t *results, int *out_call);

/* Call it at the end of a block, whose items are those from first_item on: older items no longer
 * refer to them. */
void onnx_forget(onnx_t *onnx, int first_item);

/* onnx_sequence_item: the tensor at a position of a sequence. onnx_sequence_insert: the sequence
 * with a tensor inserted at a position; ITEM_NONE: at the end. Both are computed in the graph. */
status_t onnx_sequence_item(onnx_node_t *node, item_t list, item_t place, item_t *out);
status_t onnx_sequence_insert(onnx_node_t *node, item_t list, item_t tensor, item_t place,
                              item_t *out);

/* Creates a tensor like `like`, but with size 0 in dimension 0. *out is ITEM_NONE if another size
 * of `like` depends on elements. */
status_t onnx_empty(onnx_node_t *node, item_t like, item_t *out);

/* Imports a SequenceMap if the tensors of its sequences are items (not elements of a list of the
 * graph). Otherwise *out_is_known is false. */
status_t onnx_map_known(onnx_node_t *node, Onnx__GraphProto *body, bool *out_is_known);

/* Reads a known item with one bool element. */
bool onnx_read_bool(const onnx_t *onnx, item_t item);

#endif
