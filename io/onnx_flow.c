/* Nodes with blocks of nodes in them: If.
 *
 * A block is imported node by node like the graph, into the same items and calls; its names go when
 * it ends. Where a condition is known, and the same in all trials, the nodes of the one block stand
 * in place of the If. Else both become blocks of an `if`:
 *
 *   IF cond
 *   calls of then_branch
 *   YIELD results
 *   calls of else_branch
 *   YIELD results */
#include "io/onnx_node_impl.h"
#include "io/onnx_trial_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- blocks ---- */

static status_t read_block(onnx_node_t *node, const char *name, Onnx__GraphProto **out_graph)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    if (attr == NULL || attr->g == NULL)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s is missing", name);
    *out_graph = attr->g;
    return STATUS_OK;
}

/* The results of a block of nodes, which has as many as the node has outputs. */
static status_t import_block(onnx_node_t *node, Onnx__GraphProto *graph, item_t *results)
{
    onnx_t *onnx = node->onnx;
    int n_bound = onnx->n_bound;
    if (graph->n_output != (size_t)node->n_out)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "block \"%.64s\" gives %zu results for %d outputs",
             graph->name != NULL ? graph->name : "", graph->n_output, node->n_out);
    for (size_t i = 0; i < graph->n_initializer; i++)
        TRY(onnx_add_initializer(onnx, graph->initializer[i]));
    for (size_t i = 0; i < graph->n_node; i++) TRY(onnx_add_node(onnx, graph->node[i]));
    for (int i = 0; i < node->n_out; i++) {
        const char *name = graph->output[i]->name != NULL ? graph->output[i]->name : "";
        results[i] = onnx_find(onnx, name);
        if (results[i] == ITEM_NONE)
            FAIL(onnx->ctx, STATUS_CORRUPT, "result \"%.64s\" is made by no node", name);
        if (onnx->items[results[i]].is_missing)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED,
                 "result \"%.64s\" is an output that is not supported", name);
    }
    onnx_unbind(onnx, n_bound);
    return STATUS_OK;
}

static status_t yield(onnx_node_t *node, item_t *results, int *out_call)
{
    node->onnx->proto = node->proto;
    return onnx_note(node->onnx,
                     &(onnx_noted_t){.kind = ONNX_CALL_YIELD, .n_in = node->n_out, .in = results},
                     out_call);
}

/* Values that a block made are nobody's behind it. */
static void forget(onnx_t *onnx, int first_item)
{
    for (int i = 0; i < first_item; i++)
        if (onnx->items[i].transposed >= first_item) onnx->items[i].transposed = ITEM_NONE;
}

/* ---- If ---- */

static bool read_condition(const onnx_node_t *node)
{
    const tensor_t *known = node->onnx->items[node->in[0]].known;
    return dtype_load(DTYPE_BOOL, tensor_bytes(known)) != 0;
}

/* What is either of both, in every trial. */
static status_t join(onnx_node_t *node, int output, item_t first, item_t second, item_t *out)
{
    onnx_t *onnx = node->onnx;
    for (onnx->trial = 0; onnx->trial < onnx->n_trials; onnx->trial++) {
        if (onnx->is_over[onnx->trial]) continue;
        const tensor_info_t *a = onnx_info(onnx, first), *b = onnx_info(onnx, second);
        tensor_info_t info = info_dense(a->dtype, a->rank, a->sizes);
        if (a->dtype != b->dtype || !shape_equal(a->rank, a->sizes, b->rank, b->sizes)) {
            char brief[INFO_TEXT_MAX];
            onnx->trial = 0;
            FAIL(onnx->ctx, STATUS_UNSUPPORTED, "output %d is %s or %s", output,
                 info_text(a, brief), info_brief(b));
        }
        TRY(onnx->trial == 0 ? onnx_value(onnx, NULL, &info, out)
                             : onnx_set_info(onnx, *out, &info));
    }
    onnx->trial = 0;
    return STATUS_OK;
}

static status_t import_both(onnx_node_t *node, Onnx__GraphProto *const *graphs)
{
    onnx_t *onnx = node->onnx;
    item_t results[2][OP_MAX_OUTPUTS];
    int at = 0, ends[2], first_item = onnx->n_items;
    onnx->proto = node->proto;
    TRY(onnx_note(
        onnx,
        &(onnx_noted_t){.kind = ONNX_CALL_IF, .n_in = 1, .in = node->in, .n_out = node->n_out},
        &at));
    for (int b = 0; b < 2; b++) {
        TRY(import_block(node, graphs[b], results[b]));
        TRY(yield(node, results[b], &ends[b]));
    }
    forget(onnx, first_item);
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
    scope_attempt(onnx->ctx);
    status_t status = import_both(node, graphs);
    bool is_forgiven = status == STATUS_UNSUPPORTED || status == STATUS_INVALID_ARGUMENT;
    status = scope_attempt_end(onnx->ctx, status, is_forgiven);
    if (!is_forgiven) return status;
    onnx_unbind(onnx, n_bound);
    onnx_cut_items(onnx, n_items);
    onnx_cut_calls(onnx, n_calls);
    onnx_fix_all(onnx, node->proto, "other sizes make it something else");
    return import_block(node, graphs[read_condition(node) ? 0 : 1], node->out);
}

status_t onnx_import_if(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    Onnx__GraphProto *graphs[2];
    TRY(read_block(node, "then_branch", &graphs[0]));
    TRY(read_block(node, "else_branch", &graphs[1]));
    tensor_info_t cond = onnx_input_info(node, 0);
    if (cond.dtype != DTYPE_BOOL || info_numel(&cond) != 1)
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "the condition is %s, one bool is needed",
             info_brief(&cond));
    if (!onnx_knows(node, 0)) return import_both(node, graphs);
    if (onnx_follows(node, 0) || onnx->items[node->in[0]].is_doubtful)
        return import_known(node, graphs);
    return import_block(node, graphs[read_condition(node) ? 0 : 1], node->out);
}

#endif
