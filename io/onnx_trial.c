/* One node in all trials.
 *
 * The import function runs at trial 0, then at the others, where it has to make the same calls. It
 * is begun again with fewer shortcuts where it does not: what changes nothing at one size is made
 * anyway, and a constant whose shape follows a size is calculated by the graph. */
#include "io/onnx_node_impl.h"
#include "io/onnx_trial_impl.h"
#include "tensor/interrupt_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <stdio.h>
#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- running ---- */

static status_t run_first(onnx_node_t *node, int first_item)
{
    onnx_t *onnx = node->onnx;
    onnx_cut_items(onnx, first_item);
    onnx_cut_calls(onnx, onnx->first_call);
    onnx->trial = 0;
    node->asked = 0;
    for (int i = 0; i < node->n_out; i++) node->out[i] = ITEM_NONE;
    onnx_node_t given = *node; /* its inputs are the next trial's, too */
    status_t status = node->op->import(&given);
    memcpy(node->out, given.out, sizeof node->out);
    node->asked = given.asked;
    return status;
}

static bool same_outputs(const onnx_node_t *a, const onnx_node_t *b)
{
    for (int i = 0; i < a->n_out; i++)
        if (a->out[i] != b->out[i]) return false;
    return true;
}

/* What comes of another trial: it ends, or the node is begun again, or a size is fixed. */
static status_t run_trial(onnx_node_t *node, int trial, bool *out_again)
{
    onnx_t *onnx = node->onnx;
    onnx_node_t other = *node;
    for (int i = 0; i < other.n_out; i++) other.out[i] = ITEM_NONE;
    onnx->trial = trial;
    onnx->next_call = onnx->first_call;
    onnx->differs = onnx->has_forced = false;
    scope_attempt(onnx->ctx);
    status_t status = node->op->import(&other);
    bool is_ok = status == STATUS_OK, is_forgiven = !is_ok && !interrupt_is_final(status);
    char why[ONNX_MAX_REASON];
    snprintf(why, sizeof why, "%.300s", context_error(onnx->ctx));
    if (is_ok) onnx->differs = onnx->next_call != onnx->n_calls || !same_outputs(node, &other);
    onnx->trial = 0;
    status = scope_attempt_end(onnx->ctx, status, is_forgiven);
    if (!is_ok && !is_forgiven) return status;
    *out_again = onnx->has_forced || (onnx->differs && !onnx->is_literal);
    if (onnx->differs && onnx->is_literal)
        onnx_fix(onnx, trial, node->proto, "other sizes make it something else");
    else if (!is_ok && !*out_again)
        onnx_end_trial(onnx, trial, node->proto, why);
    onnx->is_literal |= onnx->differs;
    return STATUS_OK;
}

/* ---- doubts ---- */

/* What is calculated by these follows sizes as lines and quotients do. */
bool onnx_is_smooth(const opdef_t *op)
{
    static const char *const names[] = {"cast",    "add",    "sub",       "mul",       "div",
                                        "neg",     "floor",  "ceil",      "div_floor", "div_trunc",
                                        "gather",  "slice",  "concat",    "reshape",   "permute",
                                        "squeeze", "expand", "unsqueeze", "flatten",   "split"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

static bool is_comparison(const opdef_t *op)
{
    static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

static double element_of(const tensor_t *tensor, int64_t index)
{
    dtype_t dtype = tensor_info(tensor)->dtype;
    const char *bytes = tensor_bytes(tensor);
    return dtype_load(dtype, bytes + (size_t)index * dtype_size(dtype));
}

/* The least and the most that one element is in the trials. */
static void find_bounds(const onnx_t *onnx, const onnx_item_t *item, int64_t index,
                        double *out_least, double *out_most)
{
    *out_least = *out_most = element_of(item->known, index);
    for (int k = 1; k < onnx->n_trials; k++) {
        if (onnx->is_over[k] || item->knowns == NULL || item->knowns[k] == NULL) continue;
        double element = element_of(item->knowns[k], index);
        if (element < *out_least) *out_least = element;
        if (element > *out_most) *out_most = element;
    }
}

/* Few elements in a row, as many in every trial. */
static bool is_readable(const onnx_t *onnx, item_t index)
{
    const onnx_item_t *item = &onnx->items[index];
    int64_t numel = tensor_numel(item->known);
    for (int k = 0; k < onnx->n_trials; k++) {
        bool is_other = item->knowns != NULL && item->knowns[k] != NULL;
        const tensor_info_t *info = tensor_info(is_other ? item->knowns[k] : item->known);
        if (!info_is_contiguous(info) || info_numel(info) != numel) return false;
    }
    return numel <= ONNX_MAX_VARYING;
}

/* Elements that are sizes are held against numbers that no size is, as Equal(shape, -1) does; the
 * others are the same at all sizes. */
static bool is_clear(const onnx_t *onnx, item_t sizes, item_t numbers)
{
    const onnx_item_t *a = &onnx->items[sizes], *b = &onnx->items[numbers];
    int64_t n = tensor_numel(a->known), n_numbers = tensor_numel(b->known);
    if (onnx_varies(onnx, numbers) || !is_readable(onnx, sizes) || !is_readable(onnx, numbers) ||
        (n_numbers != n && n_numbers != 1))
        return false;
    for (int64_t i = 0; i < n; i++) {
        double least = 0, most = 0, number = element_of(b->known, n_numbers == 1 ? 0 : i);
        find_bounds(onnx, a, i, &least, &most);
        if (least != most && !(least >= 1 && number <= -1)) return false;
    }
    return true;
}

static bool is_clear_comparison(const onnx_t *onnx, const onnx_noted_t *call)
{
    return is_comparison(call->op) && call->n_in == 2 &&
           (is_clear(onnx, call->in[0], call->in[1]) || is_clear(onnx, call->in[1], call->in[0]));
}

/* Quotients, and what is left of them. */
static bool is_division(const opdef_t *op)
{
    return strncmp(op->name, "div", 3) == 0 || strcmp(op->name, "remainder") == 0 ||
           strcmp(op->name, "fmod") == 0;
}

/* Casts that leave little, and quotients and casts that are the same in all trials. */
static bool is_rough(const onnx_t *onnx, const onnx_noted_t *call)
{
    const bool is_cast = strcmp(call->op->name, "cast") == 0;
    if (!is_cast && !is_division(call->op)) return false;
    for (int i = 0; i < call->n_out; i++) {
        const item_t out = call->out[i];
        const dtype_t dtype = tensor_dtype(onnx->items[out].known);
        if ((is_cast && dtype_size(dtype) < 4) || !onnx_varies(onnx, out)) return true;
    }
    return false;
}

static bool has_doubtful_operand(const onnx_t *onnx, const onnx_noted_t *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != ITEM_NONE && onnx->items[call->in[i]].is_doubtful) return true;
    return false;
}

static bool is_doubtful_call(const onnx_t *onnx, const onnx_noted_t *call)
{
    bool varies = false;
    if (has_doubtful_operand(onnx, call)) return true;
    for (int i = 0; i < call->n_in; i++)
        varies |= call->in[i] != ITEM_NONE && onnx_varies(onnx, call->in[i]);
    if (!varies) return false;
    const bool is_by_number = is_division(call->op) && !onnx_varies(onnx, call->in[1]);
    if (onnx_is_smooth(call->op) || is_by_number) return is_rough(onnx, call);
    if (is_clear_comparison(onnx, call)) return false;
    /* Under a condition that holds at all sizes a choice is none. */
    return strcmp(call->op->name, "where") != 0 || onnx_varies(onnx, call->in[0]);
}

/* Known results that are calculated from what depends on elements. */
static void mark_data(onnx_t *onnx)
{
    for (int at = onnx->first_call; at < onnx->n_calls; at++) {
        const onnx_noted_t *call = &onnx->calls[at];
        bool is_data = false;
        for (int i = 0; i < call->n_in; i++)
            is_data |= call->in[i] != ITEM_NONE && onnx_is_of_data(onnx, call->in[i]);
        for (int i = 0; i < call->n_out && is_data && call->is_known; i++)
            onnx->items[call->out[i]].is_data = true;
    }
}

/* Known results that may be something else at sizes that no trial has. */
static status_t mark_doubts(onnx_t *onnx)
{
    for (int at = onnx->first_call; at < onnx->n_calls; at++) {
        const onnx_noted_t *call = &onnx->calls[at];
        bool is_proven = false;
        if (call->kind != ONNX_CALL_OP || !call->is_known || !is_doubtful_call(onnx, call))
            continue;
        if (!has_doubtful_operand(onnx, call)) TRY(onnx_is_proven(onnx, call, &is_proven));
        for (int i = 0; i < call->n_out && !is_proven; i++)
            onnx->items[call->out[i]].is_doubtful = true;
    }
    return STATUS_OK;
}

/* ---- the whole ---- */

static bool has_varying_input(const onnx_node_t *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (onnx_follows(node, i) ||
            (onnx_has(node, i) && node->onnx->items[node->in[i]].stands != NULL))
            return true;
    return false;
}

static bool has_doubtful_input(const onnx_node_t *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (onnx_has(node, i) && node->onnx->items[node->in[i]].is_doubtful) return true;
    return false;
}

static bool has_data_input(const onnx_node_t *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (onnx_has(node, i) && onnx_is_of_data(node->onnx, node->in[i])) return true;
    return false;
}

/* Few trials are left in which such sizes differ: what does not differ there says little. */
static void check_data_trials(onnx_t *onnx)
{
    enum { N_NEEDED = 3 };
    int n = 0;
    for (int k = onnx->first_data_trial; k < onnx->n_trials; k++) n += !onnx->is_over[k];
    if (onnx->n_data > 0 && n < N_NEEDED)
        onnx->data_reason = "hardly any size but those tried first fits";
}

status_t onnx_check_data(onnx_t *onnx)
{
    if (onnx->data_reason == NULL) return STATUS_OK;
    FAIL(onnx->ctx, STATUS_UNSUPPORTED, "a size depends on elements, and %s", onnx->data_reason);
}

status_t onnx_import_node(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    const int first_item = onnx->n_items, n_data = onnx->n_data;
    bool is_again = true;
    onnx->proto = node->proto;
    onnx->first_call = onnx->n_calls;
    onnx->is_literal = onnx->is_doubtful = false;
    memset(onnx->is_forced, 0, sizeof onnx->is_forced);
    while (is_again) {
        is_again = false;
        TRY(run_first(node, first_item));
        if (onnx->is_doubtful) {
            static const char why[] = "it depends on a comparison of sizes";
            onnx_fix_all(onnx, node->proto, why);
            if (has_data_input(node)) onnx->data_reason = why;
        }
        if (!has_varying_input(node) && onnx->n_data == n_data) break;
        for (int k = 1; k < onnx->n_trials && !is_again; k++)
            if (!onnx->is_over[k]) TRY(run_trial(node, k, &is_again));
        TRY(onnx_check_data(onnx));
    }
    mark_data(onnx);
    if (has_varying_input(node) || has_doubtful_input(node)) TRY(mark_doubts(onnx));
    onnx_fix_lost(onnx);
    check_data_trials(onnx);
    return onnx_check_data(onnx);
}

#endif
