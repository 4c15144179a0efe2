/* If: where the condition is known, and the same in all trials, the nodes of the one block stand in
 * place of the If. Else both become blocks of an `if`:
 *
 *   IF cond
 *   calls of then_branch
 *   YIELD results
 *   calls of else_branch
 *   YIELD results
 */
#include "io/onnx_flow_impl.h"
#include "io/onnx_trial_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

static bool read_condition(const onnx_node_t *node)
{
    return onnx_read_bool(node->onnx, node->in[0]);
}

/* A sequence, or what may be none, of either block. */
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
    status_t status = STATUS_OK;
    for (onnx->trial = 0; onnx->trial < onnx->n_trials && status == STATUS_OK; onnx->trial++) {
        const tensor_info_t info[2] = {onnx_element_info(onnx, first),
                                       onnx_element_info(onnx, second)};
        const tensor_info_t element = onnx_join_elements(&info[0], &info[1]);
        status = onnx_set_element(onnx, *out, &element);
    }
    onnx->trial = 0;
    return status;
}

/* Dimensions in which the blocks give different sizes in any trial. */
static status_t find_open(onnx_node_t *node, int output, item_t first, item_t second, bool *is_open)
{
    onnx_t *onnx = node->onnx;
    status_t status = STATUS_OK;
    for (onnx->trial = 0; onnx->trial < onnx->n_trials && status == STATUS_OK; onnx->trial++) {
        const tensor_info_t *a = onnx_info(onnx, first), *b = onnx_info(onnx, second);
        char brief[INFO_TEXT_MAX];
        if (onnx->is_over[onnx->trial]) continue;
        if (a->dtype != b->dtype || a->rank != b->rank)
            status = context_fail(onnx->ctx, STATUS_UNSUPPORTED, "output %d is %s or %s", output,
                                  info_text(a, brief), info_brief(b));
        for (int d = 0; d < a->rank && status == STATUS_OK; d++)
            is_open[d] = is_open[d] || a->sizes[d] != b->sizes[d];
    }
    onnx->trial = 0;
    return status;
}

/* What is either of both, in every trial. A size that the blocks do not share depends on the
 * condition, as sizes depend on elements elsewhere. */
static status_t join(onnx_node_t *node, int output, item_t first, item_t second, item_t *out)
{
    onnx_t *onnx = node->onnx;
    const int first_data = onnx->n_data;
    bool is_open[TENSOR_MAX_RANK] = {false};
    if (onnx_is_special(onnx, first) || onnx_is_special(onnx, second))
        return join_special(node, output, first, second, out);
    TRY(find_open(node, output, first, second, is_open));
    for (onnx->trial = 0; onnx->trial < onnx->n_trials; onnx->trial++) {
        if (onnx->is_over[onnx->trial]) continue;
        const tensor_info_t *a = onnx_info(onnx, first);
        tensor_info_t info = info_dense(a->dtype, a->rank, a->sizes);
        int data = first_data;
        for (int d = 0; d < info.rank; d++)
            if (is_open[d]) info.sizes[d] = -1;
        TRY(onnx_stand_in(onnx, &data, &info));
        TRY(onnx->trial == 0 ? onnx_value(onnx, NULL, &info, out)
                             : onnx_set_info(onnx, *out, &info));
    }
    onnx->trial = 0;
    return STATUS_OK;
}

/* A block that may be refused, as one that is right for other sizes than these: then nothing of it
 * is left, and *out_why, which the caller puts back, says why. */
static status_t try_block(onnx_node_t *node, Onnx__GraphProto *graph, item_t *results,
                          char **out_why)
{
    onnx_t *onnx = node->onnx;
    const int n_items = onnx->n_items, n_calls = onnx->n_calls, n_bound = onnx->n_bound;
    const char *data_reason = onnx->data_reason;
    bool is_over[ONNX_MAX_TRIALS];
    memcpy(is_over, onnx->is_over, sizeof is_over);
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
    onnx->data_reason = data_reason;
    memcpy(onnx->is_over, is_over, sizeof is_over);
    return STATUS_OK;
}

/* What stands for the results of a block that was refused: an error where they are asked for. */
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

/* These stand-ins are what the other block's results are, in every trial. */
static status_t copy_infos(onnx_t *onnx, int n, const item_t *from, const item_t *to)
{
    status_t status = STATUS_OK;
    for (int i = 0; i < n; i++) {
        onnx->items[to[i]].is_sequence = onnx->items[from[i]].is_sequence;
        onnx->items[to[i]].is_optional = onnx_is_special(onnx, from[i]) &&
                                         !onnx->items[from[i]].is_sequence;
        onnx->items[to[i]].info = onnx->items[from[i]].info;
        const bool is_special = onnx_is_special(onnx, from[i]);
        for (onnx->trial = 0; onnx->trial < onnx->n_trials && status == STATUS_OK; onnx->trial++) {
            if (is_special) {
                status = onnx_set_info(onnx, to[i], onnx_info(onnx, from[i]));
                continue;
            }
            const tensor_info_t *info = onnx_info(onnx, from[i]);
            const tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
            if (onnx->trial == 0)
                onnx->items[to[i]].info = dense;
            else
                status = onnx_set_info(onnx, to[i], &dense);
        }
    }
    onnx->trial = 0;
    return status;
}

/* One of the blocks may be refused where the condition is not known: it may never be run. */
static status_t import_blocks(onnx_node_t *node, Onnx__GraphProto *const *graphs, bool is_known,
                              item_t results[2][OP_MAX_OUTPUTS], int *ends)
{
    onnx_t *onnx = node->onnx;
    const int first_item = onnx->n_items;
    char *why[2] = {NULL, NULL};
    status_t status = STATUS_OK;
    for (int b = 0; b < 2 && status == STATUS_OK; b++) {
        status = is_known || (b == 1 && why[0] != NULL)
                     ? onnx_import_block(node, graphs[b], onnx->n_bound, node->n_out, results[b])
                     : try_block(node, graphs[b], results[b], &why[b]);
        if (status == STATUS_OK && why[b] != NULL) status = add_failures(node, why[b], results[b]);
        if (status == STATUS_OK) status = onnx_yield(node, node->n_out, results[b], &ends[b]);
        onnx_forget(onnx, first_item);
    }
    for (int b = 0; b < 2 && status == STATUS_OK; b++)
        if (why[b] != NULL) status = copy_infos(onnx, node->n_out, results[1 - b], results[b]);
    context_put(onnx->ctx, why[0]);
    context_put(onnx->ctx, why[1]);
    return status;
}

static status_t import_both(onnx_node_t *node, Onnx__GraphProto *const *graphs)
{
    onnx_t *onnx = node->onnx;
    item_t results[2][OP_MAX_OUTPUTS];
    int at = 0, ends[2];
    onnx->proto = node->proto;
    TRY(onnx_note(
        onnx,
        &(onnx_noted_t){.kind = ONNX_CALL_IF, .n_in = 1, .in = node->in, .n_out = node->n_out},
        &at));
    TRY(import_blocks(node, graphs, onnx_knows(node, 0), results, ends));
    onnx->calls[at].end = onnx->calls[ends[0]].end = ends[1];
    for (int i = 0; i < node->n_out; i++) {
        TRY(join(node, i, results[0][i], results[1][i], &node->out[i]));
        onnx->items[node->out[i]].call = at;
        onnx->calls[at].out[i] = node->out[i];
    }
    return STATUS_OK;
}

/* Both ways may be taken, as sizes are. Where one of them holds for its sizes only, these are
 * fixed, and its nodes are imported alone. */
static status_t import_known(onnx_node_t *node, Onnx__GraphProto *const *graphs)
{
    onnx_t *onnx = node->onnx;
    int n_items = onnx->n_items, n_calls = onnx->n_calls, n_bound = onnx->n_bound;
    const char *data_reason = onnx->data_reason;
    bool is_over[ONNX_MAX_TRIALS];
    memcpy(is_over, onnx->is_over, sizeof is_over);
    scope_attempt(onnx->ctx);
    status_t status = import_both(node, graphs);
    bool is_forgiven = status == STATUS_UNSUPPORTED || status == STATUS_INVALID_ARGUMENT;
    status = scope_attempt_end(onnx->ctx, status, is_forgiven);
    if (!is_forgiven) return status;
    onnx_unbind(onnx, n_bound);
    onnx_cut_items(onnx, n_items);
    onnx_cut_calls(onnx, n_calls);
    onnx->data_reason = data_reason;
    memcpy(onnx->is_over, is_over, sizeof is_over);
    if (onnx_is_of_data(onnx, node->in[0]))
        onnx->data_reason = "the blocks of an If give what is not alike";
    TRY(onnx_check_data(onnx));
    onnx_fix_all(onnx, node->proto, "other sizes make it something else");
    return onnx_import_block(node, graphs[read_condition(node) ? 0 : 1], onnx->n_bound, node->n_out,
                             node->out);
}

status_t onnx_import_if(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    Onnx__GraphProto *graphs[2];
    TRY(onnx_read_block(node, "then_branch", &graphs[0]));
    TRY(onnx_read_block(node, "else_branch", &graphs[1]));
    tensor_info_t cond = onnx_input_info(node, 0);
    if (cond.dtype != DTYPE_BOOL || info_numel(&cond) != 1)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "the condition is %s, one bool is needed",
             info_brief(&cond));
    if (!onnx_knows(node, 0)) return import_both(node, graphs);
    if (!onnx_is_sure(onnx, node->in[0])) return import_known(node, graphs);
    return onnx_import_block(node, graphs[read_condition(node) ? 0 : 1], onnx->n_bound, node->n_out,
                             node->out);
}

#endif
