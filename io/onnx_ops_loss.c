/* Losses, made of operators that are there for other ends. */
#include "io/onnx_node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* What a loss is made of. */
typedef struct loss {
    onnx_node_t *node;
    item_t target; /* s64; where it is ignored, 0 */
    item_t mask;   /* where it is ignored, or ITEM_NONE */
    item_t weight; /* of each target, or ITEM_NONE: all count alike */
} loss_t;

static status_t pick_where(onnx_node_t *node, item_t mask, item_t yes, item_t no, item_t *out)
{
    const item_t in[3] = {mask, yes, no};
    onnx_call_t call;
    onnx_call(node, "where", &call);
    return onnx_emit(&call, 3, in, out);
}

static status_t begin_loss(onnx_node_t *node, loss_t *loss)
{
    int64_t ignored = 0;
    item_t number;
    *loss = (loss_t){.node = node, .mask = ITEM_NONE, .weight = ITEM_NONE};
    TRY(onnx_cast(node, node->in[1], DTYPE_S64, &loss->target));
    if (!onnx_has_attr(node, "ignore_index")) return STATUS_OK;
    TRY(onnx_attr_int(node, "ignore_index", 0, &ignored));
    TRY(onnx_integer(node->onnx, ignored, &number));
    TRY(onnx_binary(node, "eq", loss->target, number, &loss->mask));
    TRY(onnx_integer(node->onnx, 0, &number));
    return pick_where(node, loss->mask, number, loss->target, &loss->target);
}

/* -x[n][target[n][..]][..] */
static status_t take_targets(const loss_t *loss, item_t x, item_t *out)
{
    onnx_node_t *node = loss->node;
    onnx_call_t call;
    item_t in[2] = {x, ITEM_NONE};
    onnx_call(node, "unsqueeze", &call);
    onnx_set_ints(&call, "dims", 1, (int64_t[]){1});
    TRY(onnx_emit(&call, 1, &loss->target, &in[1]));
    onnx_call(node, "gather_elements", &call);
    onnx_set_int(&call, "dim", 1);
    TRY(onnx_emit(&call, 2, in, out));
    onnx_call(node, "squeeze", &call);
    onnx_set_ints(&call, "dims", 1, (int64_t[]){1});
    TRY(onnx_emit(&call, 1, out, out));
    return onnx_unary(node, "neg", *out, out);
}

/* Classes may have weights; targets that are ignored have none. */
static status_t weigh(loss_t *loss, item_t picked)
{
    onnx_node_t *node = loss->node;
    onnx_call_t call;
    item_t zero;
    if (onnx_has(node, 2)) {
        const item_t in[2] = {node->in[2], loss->target};
        onnx_call(node, "gather", &call);
        onnx_set_int(&call, "dim", 0);
        TRY(onnx_emit(&call, 2, in, &loss->weight));
    }
    if (loss->mask == ITEM_NONE) return STATUS_OK;
    if (loss->weight == ITEM_NONE) {
        onnx_call(node, "full_like", &call);
        onnx_set_float(&call, "value", 1.0);
        TRY(onnx_emit(&call, 1, &picked, &loss->weight));
    }
    TRY(onnx_number(node->onnx, 0.0, &zero));
    return pick_where(node, loss->mask, zero, loss->weight, &loss->weight);
}

/* All elements in one number. */
static status_t reduce(onnx_node_t *node, const char *op_name, item_t x, item_t *out)
{
    onnx_call_t call;
    onnx_call(node, op_name, &call);
    return onnx_emit(&call, 1, &x, out);
}

static status_t import_loss(onnx_node_t *node, item_t x, item_t *out)
{
    enum { MEAN, SUM, NONE };
    static const char *const reductions[] = {"mean", "sum", "none", NULL};
    int reduction = MEAN;
    loss_t loss;
    item_t picked, total;
    if (onnx_info(node->onnx, x)->rank < 2)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank %d, 2 or more is needed",
             onnx_info(node->onnx, x)->rank);
    TRY(onnx_attr_name(node, "reduction", reductions, MEAN, &reduction));
    TRY(begin_loss(node, &loss));
    TRY(take_targets(&loss, x, &picked));
    TRY(weigh(&loss, picked));
    *out = picked;
    if (loss.weight != ITEM_NONE) TRY(onnx_binary(node, "mul", picked, loss.weight, out));
    if (reduction == NONE) return STATUS_OK;
    if (reduction == MEAN && loss.weight == ITEM_NONE) return reduce(node, "mean", *out, out);
    TRY(reduce(node, "sum", *out, out));
    if (reduction == SUM) return STATUS_OK;
    TRY(reduce(node, "sum", loss.weight, &total));
    return onnx_binary(node, "div", *out, total, out);
}

status_t onnx_import_nll_loss(onnx_node_t *node)
{
    return import_loss(node, node->in[0], &node->out[0]);
}

status_t onnx_import_cross_entropy(onnx_node_t *node)
{
    item_t x;
    onnx_call_t call;
    onnx_call(node, "log_softmax", &call);
    onnx_set_int(&call, "dim", 1);
    TRY(onnx_emit(&call, 1, node->in, &x));
    if (onnx_wants(node, 1)) node->out[1] = x;
    return import_loss(node, x, &node->out[0]);
}

#endif
