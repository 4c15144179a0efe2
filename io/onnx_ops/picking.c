/* Operators that select elements by their values. */
#include "io/onnx/node_impl.h"

#include <math.h>

/* Without the attribute `axis`, x is flattened. */
static status_t set_dims(onnx_node_t *node, onnx_call_t *call, bool *out_has_axis)
{
    int axis = 0;
    *out_has_axis = onnx_has_attr(node, "axis");
    if (!*out_has_axis) return STATUS_OK;
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    onnx_set_ints(call, "dims", 1, (int64_t[]){axis});
    return STATUS_OK;
}

status_t onnx_import_compress(onnx_node_t *node)
{
    bool has_axis = false;
    onnx_call_t call;
    onnx_call(node, "compress", &call);
    TRY(set_dims(node, &call, &has_axis));
    return onnx_emit(&call, 2, node->in, &node->out[0]);
}

/* ONNX's inverse indices are always a vector. */
status_t onnx_import_unique(onnx_node_t *node)
{
    bool has_axis = false, is_sorted = true;
    int64_t n = 0;
    tensor_info_t x = onnx_input_info(node, 0);
    item_t out[4];
    onnx_call_t call;
    TRY(onnx_attr_bool(node, "sorted", true, &is_sorted));
    onnx_call(node, "unique", &call);
    onnx_set_int(&call, "sorted", is_sorted);
    TRY(set_dims(node, &call, &has_axis));
    TRY(onnx_emit_n(&call, 1, node->in, 4, out));
    n = onnx_numel(node, &x);
    if (!has_axis && onnx_wants(node, 2)) TRY(onnx_reshape(node, out[2], 1, &n, &out[2]));
    for (int i = 0; i < node->n_out && i < 4; i++) node->out[i] = out[i];
    return STATUS_OK;
}

/* Limits are numbers or tensors with one element. Without max_output_boxes, no box is selected. */
status_t onnx_import_nms(onnx_node_t *node)
{
    int64_t most = 0, is_center = 0;
    double overlap = 0, score = -(double)INFINITY;
    int n = 0;
    TRY(onnx_input_ints(node, 2, "max_output_boxes_per_class", 1, &n, &most));
    TRY(onnx_input_floats(node, 3, "iou_threshold", 1, &n, &overlap));
    TRY(onnx_input_floats(node, 4, "score_threshold", 1, &n, &score));
    TRY(onnx_attr_int(node, "center_point_box", 0, &is_center));
    return onnx_op(node, "nms",
                   ONNX_ATTRS(SET("max_per_class", sym_max(node->onnx->ctx, most, 0)),
                              SET_FLOAT("iou_threshold", overlap),
                              SET_FLOAT("score_threshold", score),
                              SET("is_center", is_center != 0)),
                   2, node->in, &node->out[0]);
}
