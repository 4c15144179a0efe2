/* If. If the condition is known, the nodes of the selected block replace the node. Otherwise both
 * blocks become blocks of an `if`:
 *
 *   IF cond
 *   calls of then_branch
 *   YIELD results
 *   calls of else_branch
 *   YIELD results
 *
 * If the condition depends on sizes and a block is invalid for the current sizes, a guard fixes the
 * condition and only the selected block is imported. */
#include "io/onnx/flow_impl.h"

#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Joins the results of both blocks if one of them is a sequence or may be none. */
static status_t join_special(onnx_node_t *node, int output, item_t first, item_t second,
                             item_t *out)
{
    onnx_t *onnx = node->onnx;
    const onnx_item_t *a = &onnx->items[first], *b = &onnx->items[second];
    const bool is_none = a->is_none || b->is_none;
    if (a->is_sequence != b->is_sequence && !is_none)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "output %d is a sequence or a tensor", output);
    const bool is_sequence = a->is_none ? b->is_sequence : a->is_sequence;
    const bool is_optional = a->is_optional || b->is_optional || is_none;
    TRY(onnx_value(onnx, NULL, &(tensor_info_t){.dtype = DTYPE_NONE}, out));
    onnx->items[*out].is_sequence = is_sequence;
    onnx->items[*out].is_optional = is_optional;
    const tensor_info_t info[2] = {onnx_element_info(onnx, first), onnx_element_info(onnx, second)};
    const tensor_info_t element = onnx_join_elements(&info[0], &info[1]);
    onnx_set_element(onnx, *out, &element);
    return STATUS_OK;
}

/* Joins the results of both blocks. A size that differs between them, as in [2,N] and [3,N],
 * depends on the condition: it becomes a symbol without a hint. */
static status_t join(onnx_node_t *node, int output, item_t first, item_t second, item_t *out)
{
    onnx_t *onnx = node->onnx;
    if (onnx_is_special(onnx, first) || onnx_is_special(onnx, second))
        return join_special(node, output, first, second, out);
    const tensor_info_t *a = onnx_info(onnx, first), *b = onnx_info(onnx, second);
    if (a->dtype != b->dtype || a->rank != b->rank)
        FAIL(onnx->ctx, STATUS_UNSUPPORTED, "output %d is %s or %s", output, onnx_brief(node, a),
             onnx_brief(node, b));
    tensor_info_t info = info_dense(a->dtype, a->rank, a->sizes);
    for (int d = 0; d < info.rank; d++)
        if (!sym_knows_equal(onnx->ctx, a->sizes[d], b->sizes[d])) info.sizes[d] = -1;
    onnx_name_sizes(onnx, &info);
    return onnx_value(onnx, NULL, &info, out);
}

/* Imports a block that may be refused, for example because it is valid only for other sizes. After
 * a refusal, the block's items and calls are removed and *out_why is the message, which the caller
 * releases with context_put. */
static status_t try_block(onnx_node_t *node, Onnx__GraphProto *graph, item_t *results,
                          char **out_why)
{
    onnx_t *onnx = node->onnx;
    const int n_items = onnx->n_items, n_calls = onnx->n_calls, n_bound = onnx->n_bound;
    scope_attempt(onnx->ctx);
    status_t status = onnx_import_block(node, graph, n_bound, node->n_out, results);
    const bool is_refused = status == STATUS_UNSUPPORTED || status == STATUS_INVALID_ARGUMENT;
    if (is_refused && context_string(onnx->ctx, context_error(onnx->ctx), out_why) != STATUS_OK)
        return scope_attempt_end(onnx->ctx, STATUS_OUT_OF_MEMORY, false);
    status = scope_attempt_end(onnx->ctx, status, is_refused);
    if (!is_refused) return status;
    onnx_unbind(onnx, n_bound);
    onnx_cut_items(onnx, n_items);
    onnx_cut_calls(onnx, n_calls);
    return STATUS_OK;
}

/* Adds builtin `fail` for each result of a refused block. It reports an error if the block runs. */
static status_t add_failures(onnx_node_t *node, const char *why, item_t *results)
{
    onnx_t *onnx = node->onnx;
    for (int i = 0; i < node->n_out; i++) {
        int at = 0;
        char *message = NULL;
        onnx->proto = node->proto;
        TRY(context_string(onnx->ctx, why, &message));
        status_t status = onnx_note(
            onnx,
            &(onnx_noted_t){
                .kind = ONNX_CALL_BUILTIN, .builtin = "fail", .message = message, .n_out = 1},
            &at);
        if (status != STATUS_OK) {
            context_put(onnx->ctx, message);
            return status;
        }
        TRY(onnx_value(onnx, NULL, &(tensor_info_t){.dtype = DTYPE_NONE}, &results[i]));
        onnx->items[results[i]].call = at;
        onnx->calls[at].out[0] = results[i];
    }
    return STATUS_OK;
}

/* The results of builtin `fail` get the types of the other block's results. */
static void copy_infos(onnx_t *onnx, int n, const item_t *from, const item_t *to)
{
    for (int i = 0; i < n; i++) {
        const bool is_special = onnx_is_special(onnx, from[i]);
        const tensor_info_t *info = onnx_info(onnx, from[i]);
        onnx->items[to[i]].is_sequence = onnx->items[from[i]].is_sequence;
        onnx->items[to[i]].is_optional = is_special && !onnx->items[from[i]].is_sequence;
        onnx->items[to[i]].info = is_special ? *info
                                             : info_dense(info->dtype, info->rank, info->sizes);
    }
}

/* Imports both blocks. may_fail: one of them may be refused, because it may never run. */
static status_t import_blocks(onnx_node_t *node, Onnx__GraphProto *const *graphs, bool may_fail,
                              item_t results[2][OP_MAX_OUTPUTS], int *ends)
{
    onnx_t *onnx = node->onnx;
    const int first_item = onnx->n_items;
    char *why[2] = {NULL, NULL};
    status_t status = STATUS_OK;
    for (int b = 0; b < 2 && status == STATUS_OK; b++) {
        status = !may_fail || (b == 1 && why[0] != NULL)
                     ? onnx_import_block(node, graphs[b], onnx->n_bound, node->n_out, results[b])
                     : try_block(node, graphs[b], results[b], &why[b]);
        if (status == STATUS_OK && why[b] != NULL) status = add_failures(node, why[b], results[b]);
        if (status == STATUS_OK) status = onnx_yield(node, node->n_out, results[b], &ends[b]);
        onnx_forget(onnx, first_item);
    }
    for (int b = 0; b < 2 && status == STATUS_OK; b++)
        if (why[b] != NULL) copy_infos(onnx, node->n_out, results[1 - b], results[b]);
    CONTEXT_PUT(onnx->ctx, why[0], why[1]);
    return status;
}

/* Imports both blocks as an `if`. may_fail: a refused block becomes an error at run time. */
static status_t import_both(onnx_node_t *node, Onnx__GraphProto *const *graphs, bool may_fail)
{
    onnx_t *onnx = node->onnx;
    item_t results[2][OP_MAX_OUTPUTS];
    int at = 0, ends[2];
    onnx->proto = node->proto;
    TRY(onnx_note(
        onnx,
        &(onnx_noted_t){.kind = ONNX_CALL_IF, .n_in = 1, .in = node->in, .n_out = node->n_out},
        &at));
    TRY(import_blocks(node, graphs, may_fail, results, ends));
    onnx->calls[at].end = onnx->calls[ends[0]].end = ends[1];
    for (int i = 0; i < node->n_out; i++) {
        TRY(join(node, i, results[0][i], results[1][i], &node->out[i]));
        onnx->items[node->out[i]].call = at;
        onnx->calls[at].out[i] = node->out[i];
    }
    return STATUS_OK;
}

static status_t import_one(onnx_node_t *node, Onnx__GraphProto *const *graphs, bool is_true)
{
    return onnx_import_block(node, graphs[is_true ? 0 : 1], node->onnx->n_bound, node->n_out,
                             node->out);
}

/* Imports an If whose condition depends on sizes: both blocks if both are valid for the current
 * sizes. */
static status_t import_by_size(onnx_node_t *node, Onnx__GraphProto *const *graphs,
                               int64_t condition)
{
    onnx_t *onnx = node->onnx;
    const int n_items = onnx->n_items, n_calls = onnx->n_calls, n_bound = onnx->n_bound;
    scope_attempt(onnx->ctx);
    status_t status = import_both(node, graphs, false);
    const bool is_refused = status == STATUS_UNSUPPORTED || status == STATUS_INVALID_ARGUMENT;
    status = scope_attempt_end(onnx->ctx, status, is_refused);
    if (!is_refused) return status;
    onnx_unbind(onnx, n_bound);
    onnx_cut_items(onnx, n_items);
    onnx_cut_calls(onnx, n_calls);
    return import_one(node, graphs, !sym_equal(onnx->ctx, condition, 0));
}

status_t onnx_import_if(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    Onnx__GraphProto *graphs[2];
    const onnx_item_t *item = &onnx->items[node->in[0]];
    TRY(onnx_read_block(node, "then_branch", &graphs[0]));
    TRY(onnx_read_block(node, "else_branch", &graphs[1]));
    const tensor_info_t cond = onnx_input_info(node, 0);
    int64_t numel = 1;
    for (int d = 0; d < cond.rank; d++) numel = sym_multiply(onnx->ctx, numel, cond.sizes[d]);
    if (cond.dtype != DTYPE_BOOL || (!onnx_is_late(node, numel) && !sym_equal(onnx->ctx, numel, 1)))
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "the condition is %s, one bool is needed",
             onnx_brief(node, &cond));
    if (item->known != NULL) return import_one(node, graphs, onnx_read_bool(onnx, node->in[0]));
    const bool is_by_size = item->symbols != NULL && !item->is_live &&
                            sym_hint(onnx->ctx, item->symbols[0]) != SYM_NONE;
    return is_by_size ? import_by_size(node, graphs, item->symbols[0])
                      : import_both(node, graphs, true);
}
