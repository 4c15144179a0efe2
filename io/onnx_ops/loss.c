/* Losses. Our operators compute the same, but have another default of ignore_index. */
#include "io/onnx/node_impl.h"
#include "ops/loss/loss_impl.h"

/* No label. If the node has no ignore_index, all rows count, and labels out of range are errors. */
#define NOTHING_IGNORED INT32_MIN

static status_t import_loss(onnx_node_t *node, const char *op_name, item_t x)
{
    static const char *const reductions[] = {"mean", "sum", "none", NULL};
    const item_t in[3] = {x, node->in[1], onnx_has(node, 2) ? node->in[2] : ITEM_NONE};
    cross_entropy_attrs_t attrs = {.ignore_index = NOTHING_IGNORED};
    onnx_call_t call;
    if (onnx_info(node->onnx, x)->rank < 2)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank %d, 2 or more is needed",
             onnx_info(node->onnx, x)->rank);
    TRY(onnx_attr_name(node, "reduction", reductions, LOSS_MEAN, &attrs.reduction));
    TRY(onnx_attr_int(node, "ignore_index", NOTHING_IGNORED, &attrs.ignore_index));
    onnx_call(node, op_name, &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    return onnx_emit(&call, 3, in, &node->out[0]);
}

status_t onnx_import_nll_loss(onnx_node_t *node)
{
    return import_loss(node, "nll_loss", node->in[0]);
}

/* If the log-probabilities are an output too, a separate operator computes them. */
status_t onnx_import_cross_entropy(onnx_node_t *node)
{
    item_t x;
    if (!onnx_wants(node, 1)) return import_loss(node, "cross_entropy", node->in[0]);
    TRY(onnx_op(node, "log_softmax", ONNX_ATTRS(SET("dim", 1)), 1, node->in, &x));
    node->out[1] = x;
    return import_loss(node, "nll_loss", x);
}
