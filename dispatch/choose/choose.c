/* Chooses formats: creates a primitive for each candidate, rejects reference implementations by
 * name, compares estimated times. */
#include "dispatch/choose/choose_impl.h"

#include <string.h>

#define MAX_PAIRS (CANDIDATES_MAX * CANDIDATES_MAX + 1)

double choose_padded_share(const tensor_info_t *info)
{
    if (info->format.kind != FORMAT_TAG || info->rank < 2) return 1.0;
    int64_t padded[TENSOR_MAX_RANK];
    format_padded_sizes(&info->format, info->sizes, padded);
    return (double)padded[1] / (double)info->sizes[1];
}

bool choose_is_plain(const format_t *format, const tensor_info_t *info)
{
    format_t plain = format_plain(info->rank);
    return format_same(format, &plain, info->sizes);
}

static bool is_better(const choice_t *choice, const choice_t *best)
{
    if (best->primitive == NULL) return true;
    if (best->packs_again) return !choice->packs_again;
    return choice->total < 0.95 * best->total;
}

status_t choose_best(context_t *ctx, const search_t *search, int n, const candidate_t *candidates,
                     choice_t *out_best)
{
    choice_t best = {0};
    for (int i = 0; i < n; i++) {
        choice_t choice = {0};
        const status_t status = search->try_one(ctx, search, &candidates[i], &choice);
        if (status == STATUS_UNSUPPORTED) continue;
        const bool is_taken = status == STATUS_OK && is_better(&choice, &best);
        onednn_release(is_taken || status != STATUS_OK ? best.primitive : choice.primitive);
        if (status != STATUS_OK) return status;
        if (is_taken) best = choice;
        if (candidates[i].is_own && !choice.packs_again) break;
    }
    *out_best = best;
    if (best.primitive != NULL) return STATUS_OK;
    return prepared_decline(search->prepared, "onednn: only reference implementations are left");
}

/* Sets the format of post-op operands that have the result's shape: the result's format, or
 * row-major if oneDNN has not chosen the result's format yet. */
static void format_operands(onednn_problem_t *problem, tensor_info_t *operands)
{
    const tensor_info_t *dst = problem->dst;
    for (int i = 0; i < problem->n_post; i++) {
        const tensor_info_t *operand = problem->post[i].operand;
        if (operand == NULL || !shape_equal(operand->rank, operand->sizes, dst->rank, dst->sizes))
            continue;
        operands[i] = *dst;
        operands[i].dtype = operand->dtype;
        if (dst->format.kind == FORMAT_ANY) operands[i].format = format_plain(dst->rank);
        problem->post[i].operand = &operands[i];
    }
}

/* True if a post-op divides and the result has padding: oneDNN also divides in the padding, 0 by 0,
 * which is NaN. */
static bool divides_padding(const onednn_problem_t *problem, const tensor_info_t *dst)
{
    bool divides = false;
    for (int i = 0; i < problem->n_post; i++)
        divides |= problem->post[i].kind == ONEDNN_POST_BINARY &&
                   problem->post[i].algorithm == ONEDNN_BINARY_DIV;
    int64_t padded[TENSOR_MAX_RANK];
    format_padded_sizes(&dst->format, dst->sizes, padded);
    return divides && !shape_equal(dst->rank, dst->sizes, dst->rank, padded);
}

static status_t query_formats(context_t *ctx, const onednn_problem_t *problem, choice_t *choice)
{
    TRY(onednn_query(ctx, choice->primitive, ONEDNN_ARGUMENT_SRC, &choice->src));
    TRY(onednn_query(ctx, choice->primitive, ONEDNN_ARGUMENT_DST, &choice->dst));
    if (problem->weight == NULL) return STATUS_OK;
    return onednn_query(ctx, choice->primitive, ONEDNN_ARGUMENT_WEIGHT, &choice->weight);
}

/* Reads the formats that oneDNN has chosen for a primitive. Returns UNSUPPORTED, with a note, if it
 * is a reference implementation, has formats that no tag describes, or divides in the padding. */
static status_t look_at(context_t *ctx, prepared_t *prepared, const onednn_problem_t *problem,
                        const candidate_t *pair, choice_t *choice)
{
    const char *implementation = onednn_implementation(choice->primitive);
    char src[FORMAT_TEXT_MAX], dst[FORMAT_TEXT_MAX];
    format_text(&pair->src, src);
    format_text(&pair->dst, dst);
    if (onednn_is_reference(implementation)) {
        prepared_note(prepared, "onednn: %s to %s would run the reference %s", src, dst,
                      implementation);
        return STATUS_UNSUPPORTED;
    }
    status_t status = query_formats(ctx, problem, choice);
    if (status == STATUS_UNSUPPORTED)
        prepared_note(prepared, "onednn: %s to %s with %s uses formats that no tag describes", src,
                      dst, implementation);
    if (status != STATUS_OK) return status;
    return divides_padding(problem, &choice->dst) ? STATUS_UNSUPPORTED : STATUS_OK;
}

/* True if the weight is already packed, in another format than the choice needs. */
static bool packs_again(const op_call_t *call, const onednn_problem_t *problem,
                        const choice_t *choice)
{
    if (!call->keep_formats || call->out_format == NULL || problem->weight == NULL) return false;
    const tensor_info_t *packed = call->in[1], *wanted = &choice->weight;
    return packed->layout == LAYOUT_MKLDNN && packed->format.kind == FORMAT_TAG &&
           shape_equal(packed->rank, packed->sizes, wanted->rank, wanted->sizes) &&
           !format_same(&packed->format, &wanted->format, packed->sizes);
}

/* Creates the primitive for one pair of formats. Returns UNSUPPORTED, with a note, if oneDNN only
 * has a reference implementation for it. */
static status_t try_pair(context_t *ctx, const search_t *search, const candidate_t *pair,
                         choice_t *out_choice)
{
    const op_call_t *call = search->call;
    prepared_t *prepared = search->prepared;
    const onednn_problem_t *base = search->problem;
    onednn_problem_t problem = *base;
    tensor_info_t src = base->src[0], dst = *base->dst;
    char src_text[FORMAT_TEXT_MAX], dst_text[FORMAT_TEXT_MAX];
    src.format = pair->src;
    dst.format = pair->dst;
    problem.src = &src;
    problem.dst = &dst;
    tensor_info_t operands[POST_MAX];
    format_operands(&problem, operands);
    choice_t choice = {.is_proposed = pair->dst.kind == FORMAT_ANY};
    status_t status = onednn_describe(ctx, &problem, &choice.primitive);
    if (status == STATUS_UNSUPPORTED)
        prepared_note(prepared, "onednn: %s for %s to %s", onednn_refusal(ctx),
                      format_text(&pair->src, src_text), format_text(&pair->dst, dst_text));
    if (status != STATUS_OK) return status;
    status = look_at(ctx, prepared, &problem, pair, &choice);
    TRY_OR(status, onednn_release(choice.primitive));
    const char *implementation = onednn_implementation(choice.primitive);
    double share = choose_padded_share(&choice.src) *
                   (search->flops > 0.0 ? choose_padded_share(&choice.dst) : 1.0);
    double bytes = (double)info_bytes(&choice.src) + (double)info_bytes(&choice.dst);
    double weight = problem.weight != NULL ? (double)info_bytes(&choice.weight) : 0.0;
    choice.cost = cost_layer(ctx, implementation, search->flops * share, bytes, weight) +
                  cost_windows(ctx, implementation, &problem);
    choice.total = choice.cost + cost_reorder(call->in[0], &choice.src);
    choice.packs_again = packs_again(call, base, &choice);
    *out_choice = choice;
    return STATUS_OK;
}

/* The result's format if the source has the same bytes in it, else the source's own format.
 * Example: with 16 channels, blocks of 16 and channels last are the same bytes, but oneDNN has no
 * kernel that reads one and writes the other. */
static format_t given_format(const op_call_t *call)
{
    const format_t own = info_tag(call->in[0]), *out = call->out_format;
    const bool is_same = call->keep_formats && out != NULL && out->kind == FORMAT_TAG &&
                         out->rank == own.rank && format_same(&own, out, call->in[0]->sizes);
    return is_same ? *out : own;
}

static candidate_t pair(format_t src, format_t dst, bool is_own)
{
    return (candidate_t){.src = src, .dst = dst, .is_own = is_own};
}

/* Lists all pairs of candidates in which source and result have the same bytes as in their own
 * formats: 88 channels of one pixel are the same in blocks of 8, channels last and row-major. The
 * first of these pairs for which the weight is already packed is chosen. */
static int list_names(const op_call_t *call, const onednn_problem_t *problem, candidate_t *pairs)
{
    const format_t own = info_tag(call->in[0]);
    format_t candidates[CANDIDATES_MAX];
    const int n_candidates = candidates_list(problem->dst->rank, candidates);
    int n = 0;
    for (int i = 0; i < n_candidates; i++)
        for (int j = 0; j < n_candidates; j++)
            if (format_same(&own, &candidates[i], call->in[0]->sizes) &&
                format_same(call->out_format, &candidates[j], problem->dst->sizes))
                pairs[n++] = pair(candidates[i], candidates[j], true);
    return n;
}

static int list_pairs(const op_call_t *call, const onednn_problem_t *problem, candidate_t *pairs)
{
    const tensor_info_t *src = call->in[0];
    const format_t own = given_format(call), any = {.kind = FORMAT_ANY};
    const int src_rank = src->rank, dst_rank = problem->dst->rank;
    format_t candidates[CANDIDATES_MAX];
    int n = 0, n_candidates = candidates_list(dst_rank, candidates);
    bool prefers = call->op->preference == OP_PREFERS;
    bool enters_plain = prefers && src_rank > 2 && choose_is_plain(&own, src);
    if (call->per_op && call->layout == LAYOUT_MKLDNN) {
        pairs[n++] = pair(any, any, true);
        return n;
    }
    if (src_rank != dst_rank) { /* a linear layer on flattened dimensions */
        pairs[n++] = pair(own, format_plain(dst_rank), true);
        if (!call->keep_formats && call->layout == LAYOUT_MKLDNN)
            pairs[n++] = pair(any, format_plain(dst_rank), false);
        return n;
    }
    if (call->keep_formats) {
        if (call->out_format != NULL) {
            pairs[n++] = pair(own, *call->out_format, true);
            n += list_names(call, problem, pairs + n);
        } else if (!enters_plain || call->layout == LAYOUT_DENSE) /* results are not blocked */
            pairs[n++] = pair(own, own, true);
        else
            for (int i = 0; i < n_candidates; i++) pairs[n++] = pair(own, candidates[i], false);
        return n;
    }
    pairs[n++] = pair(own, own, !enters_plain || call->layout == LAYOUT_DENSE);
    if (call->layout == LAYOUT_DENSE) { /* fallbacks, as oneDNN may only have a reference
                                           implementation for these strides */
        format_t last = format_channels_last(src_rank), plain = format_plain(src_rank);
        pairs[n++] = pair(last, last, false);
        pairs[n++] = pair(plain, plain, false);
        return n;
    }
    if (enters_plain) {
        n = 0;
        pairs[n++] = pair(own, candidates[0], false);
    }
    for (int i = 0; i < n_candidates; i++) {
        pairs[n++] = pair(candidates[i], candidates[i], false);
        if (i == 0) pairs[n++] = pair(any, any, false);
    }
    return n;
}

tensor_info_t choose_as_dense(const tensor_info_t *info)
{
    tensor_info_t dense = *info;
    int64_t strides[TENSOR_MAX_RANK];
    format_strides(&info->format, info->sizes, strides);
    dense.layout = LAYOUT_DENSE;
    dense.format = (format_t){.kind = FORMAT_STRIDED, .rank = (uint8_t)info->rank};
    memcpy(dense.format.strides, strides, (size_t)info->rank * sizeof *strides);
    return dense;
}

/* Sets the infos of post-op operands of the result's shape to the result's. */
static void take_operands(const op_call_t *call, prepared_t *prepared, const choice_t *choice)
{
    const tensor_info_t *out = &prepared->out[0];
    for (int i = call->op->n_operands; i < call->n_in; i++) {
        const tensor_info_t *operand = call->in[i];
        if (!shape_equal(operand->rank, operand->sizes, out->rank, out->sizes)) continue;
        prepared->in[i] = *out;
        prepared->in[i].dtype = operand->dtype;
        if (choice->is_proposed && i != prepared->sum_operand)
            prepared->in[i] = info_dense(operand->dtype, operand->rank, operand->sizes);
    }
}

static void take_choice(const op_call_t *call, prepared_t *prepared,
                        const onednn_problem_t *problem, const choice_t *choice)
{
    bool is_dense = call->layout == LAYOUT_DENSE;
    prepared->in[0] = is_dense ? choose_as_dense(&choice->src) : choice->src;
    prepared->out[0] = is_dense ? choose_as_dense(&choice->dst) : choice->dst;
    if (problem->weight != NULL) prepared->in[1] = choice->weight;
    take_operands(call, prepared, choice);
    prepared->cost_ns = choice->cost;
    prepared_take_primitive(prepared, choice->primitive);
}

status_t choose_formats(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                        onednn_problem_t *problem, double flops)
{
    candidate_t pairs[MAX_PAIRS];
    const search_t search = {call, prepared, problem, flops, try_pair, ONEDNN_INFERENCE};
    choice_t best;
    TRY(choose_best(ctx, &search, list_pairs(call, problem, pairs), pairs, &best));
    take_choice(call, prepared, problem, &best);
    return STATUS_OK;
}
