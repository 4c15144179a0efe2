/* Operators that take elements by an index tensor, or put them there. */
#include "io/onnx_node_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include "ops/indexing.h"

status_t onnx_import_gather_elements(onnx_node_t *node)
{
    int axis = 0;
    onnx_call_t call;
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    onnx_call(node, "gather_elements", &call);
    onnx_set_int(&call, "dim", axis);
    return onnx_emit(&call, 2, node->in, &node->out[0]);
}

status_t onnx_import_gather_nd(onnx_node_t *node)
{
    int64_t batch_dims = 0;
    onnx_call_t call;
    if (node->opset >= 12) TRY(onnx_attr_int(node, "batch_dims", 0, &batch_dims));
    onnx_call(node, "gather_nd", &call);
    onnx_set_int(&call, "batch_dims", batch_dims);
    return onnx_emit(&call, 2, node->in, &node->out[0]);
}

/* Opset 16 has sums and products, 18 the others. */
static status_t read_reduction(onnx_node_t *node, int *out_reduction)
{
    static const char *const names[] = {"none", "add", "mul",
                                        "max",  "min", NULL}; /* as scatter_reduction_t */
    static const char *const first_names[] = {"none", "add", "mul", NULL};
    *out_reduction = SCATTER_NONE;
    if (node->opset < 16) return STATUS_OK;
    return onnx_attr_name(node, "reduction", node->opset >= 18 ? names : first_names, SCATTER_NONE,
                          out_reduction);
}

/* ScatterElements, and Scatter as it was called before. */
status_t onnx_import_scatter(onnx_node_t *node)
{
    int axis = 0, reduction = 0;
    onnx_call_t call;
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    TRY(read_reduction(node, &reduction));
    onnx_call(node, "scatter", &call);
    onnx_set_int(&call, "dim", axis);
    onnx_set_int(&call, "reduction", reduction);
    return onnx_emit(&call, 3, node->in, &node->out[0]);
}

status_t onnx_import_scatter_nd(onnx_node_t *node)
{
    int reduction = 0;
    onnx_call_t call;
    TRY(read_reduction(node, &reduction));
    onnx_call(node, "scatter_nd", &call);
    onnx_set_int(&call, "reduction", reduction);
    return onnx_emit(&call, 3, node->in, &node->out[0]);
}

#endif
