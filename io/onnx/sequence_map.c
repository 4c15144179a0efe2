/* SequenceMap of sequences whose tensors are all items: imports the body once for each position. */
#include "io/onnx/flow_impl.h"

/* Imports the body for each position of the sequences. n is their length. */
static status_t map_known(onnx_node_t *node, Onnx__GraphProto *body, int n, item_t *items)
{
    onnx_t *onnx = node->onnx;
    for (int at = 0; at < n; at++) {
        const int n_bound = onnx->n_bound, outer_bound = onnx->first_bound;
        status_t status = STATUS_OK;
        item_t results[OP_MAX_OUTPUTS];
        onnx->first_bound = n_bound;
        for (int i = 0; i < node->n_in && status == STATUS_OK; i++) {
            int n_items = n;
            const item_t *listed;
            const char *name = body->input[i]->name;
            item_t item = node->in[i];
            if (onnx_is_listed(onnx, item, &n_items, &listed)) item = listed[at];
            if (name != NULL && *name != '\0') status = onnx_bind(onnx, name, item);
        }
        onnx->first_bound = outer_bound;
        TRY(status);
        TRY(onnx_import_block(node, body, n_bound, node->n_out, results));
        for (int i = 0; i < node->n_out; i++) items[i * n + at] = results[i];
    }
    onnx->proto = node->proto;
    for (int i = 0; i < node->n_out; i++)
        TRY(onnx_sequence(node, DTYPE_NONE, n, &items[i * n], &node->out[i]));
    return STATUS_OK;
}

/* Requires a sequence as input 0 and sequences or tensors as others. No input may be left out. */
static status_t check_inputs(const onnx_node_t *node)
{
    const onnx_t *onnx = node->onnx;
    TRY(onnx_check_inputs(node, 0, node->n_in));
    for (int i = 0; i < node->n_in; i++) {
        if (i == 0 && !onnx->items[node->in[i]].is_sequence)
            FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is not a sequence", i);
        if (onnx->items[node->in[i]].is_optional || onnx->items[node->in[i]].is_none)
            FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is an optional", i);
    }
    return STATUS_OK;
}

/* *out_n is the length of the first sequence if the tensors of all sequences are items, else -1. */
static status_t count_items(const onnx_node_t *node, int *out_n)
{
    onnx_t *onnx = node->onnx;
    const item_t *items;
    int n = 0;
    *out_n = -1;
    for (int i = 0; i < node->n_in; i++) {
        if (!onnx->items[node->in[i]].is_sequence) continue;
        const bool is_listed = onnx_is_listed(onnx, node->in[i], &n, &items);
        if (i > 0 && is_listed && *out_n >= 0 && n < *out_n)
            FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "sequences of %d and of %d tensors", *out_n,
                 n);
        if (!is_listed) {
            *out_n = -1;
            return STATUS_OK;
        }
        if (i == 0) *out_n = n;
    }
    return STATUS_OK;
}

status_t onnx_map_known(onnx_node_t *node, Onnx__GraphProto *body, bool *out_is_known)
{
    onnx_t *onnx = node->onnx;
    item_t *items = NULL;
    int n = 0;
    TRY(check_inputs(node));
    TRY(count_items(node, &n));
    *out_is_known = n >= 0;
    if (n < 0) return STATUS_OK;
    TRY(context_get(onnx->ctx, (size_t)(node->n_out * n + 1) * sizeof *items, "items", &items));
    FINISH(map_known(node, body, n, items), context_put(onnx->ctx, items));
}
