/* Chooses formats for gradients: creates a primitive for each candidate, rejects reference
 * implementations by name, compares estimated times. Candidates are formats of the forward
 * operator's source and result. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"

#define MAX_FORMATS 16

/* ---- descriptions ---- */

status_t choose_describe_backward(context_t *ctx, const onednn_problem_t *forward,
                                  onednn_propagation_t propagation,
                                  onednn_primitive_t **out_primitive)
{
    onednn_primitive_t *hint = NULL;
    onednn_problem_t training = *forward, backward = *forward;
    tensor_info_t any = *forward->weight;
    any.format = (format_t){.kind = FORMAT_ANY};
    training.propagation = ONEDNN_TRAINING;
    training.weight = &any;
    TRY(onednn_describe(ctx, &training, &hint));
    backward.propagation = propagation;
    backward.forward = hint;
    backward.dst = backward.bias = NULL;
    backward.diff_dst = forward->dst;
    if (propagation == ONEDNN_BACKWARD_DATA) {
        backward.n_src = 0;
        backward.src = NULL;
        backward.diff_src = forward->src;
    } else {
        backward.weight = NULL;
        backward.diff_weight = forward->weight;
        backward.diff_bias = forward->bias;
    }
    FINISH(onednn_describe(ctx, &backward, out_primitive), onednn_release(hint));
}

void choose_take_backward(prepared_t *prepared, onednn_propagation_t propagation,
                          onednn_primitive_t *primitive)
{
    prepared_take_primitive(prepared, primitive);
    const bool is_data = propagation == ONEDNN_BACKWARD_DATA; /* oneDNN takes the weight first */
    prepared->arguments[0] = is_data ? 1 : 0;
    prepared->arguments[1] = is_data ? 0 : 1;
    for (int o = 0; o < prepared->n_out; o++) prepared->arguments[2 + o] = (int8_t)(-1 - o);
    prepared->n_arguments = 2 + prepared->n_out;
}

/* ---- grouped weights ---- */

/* Removes dimension 0 or 1 from a tag; later dimensions move up by one. */
static format_t leave_out(const format_t *format, int gone)
{
    format_t result = {.kind = FORMAT_TAG, .rank = (uint8_t)(format->rank - 1)};
    int n = 0;
    for (int i = 0; i < format->rank; i++)
        if (format->order[i] != gone)
            result.order[n++] = (uint8_t)(format->order[i] > 0 ? format->order[i] - 1 : 0);
    result.n_blocks = format->n_blocks;
    for (int i = 0; i < format->n_blocks; i++) {
        const int d = format->block_dims[i];
        result.block_dims[i] = (uint8_t)(d > 0 ? d - 1 : 0);
        result.block_sizes[i] = format->block_sizes[i];
    }
    return result;
}

bool choose_join_groups(tensor_info_t *weight)
{
    const format_t *format = &weight->format;
    int64_t block[2] = {1, 1};
    int at[2] = {0, 0};
    if (format->kind != FORMAT_TAG) return false;
    for (int i = 0; i < format->n_blocks; i++)
        if (format->block_dims[i] < 2) block[format->block_dims[i]] *= format->block_sizes[i];
    for (int i = 0; i < format->rank; i++)
        if (format->order[i] < 2) at[format->order[i]] = i;
    const bool is_depthwise = weight->sizes[1] == 1 && block[1] == 1;
    const bool is_in_turn = at[1] == at[0] + 1 && block[0] == 1 && weight->sizes[1] % block[1] == 0;
    if (!is_depthwise && !is_in_turn) return false;
    weight->format = leave_out(format, is_depthwise ? 1 : 0);
    weight->sizes[1] *= weight->sizes[0];
    memmove(weight->sizes, weight->sizes + 1, (size_t)(weight->rank - 1) * sizeof *weight->sizes);
    weight->sizes[--weight->rank] = 0;
    return true;
}

/* ---- candidates ---- */

/* Lists candidates if the layout is dense. The gradient of a weight is row-major; a weight that is
 * read is packed in the format that oneDNN chooses. */
static int list_dense(const op_call_t *call, bool is_data, const onednn_problem_t *forward,
                      candidate_t *out)
{
    const int rank = call->in[0]->rank;
    const format_t any = {.kind = FORMAT_ANY}, plain = format_plain(rank);
    const format_t last = format_channels_last(rank), own = info_tag(call->in[0]);
    const format_t row_major = format_plain(forward->weight->rank);
    if (!is_data) {
        out[0] = (candidate_t){plain, plain, row_major, true};
        return 1;
    }
    out[0] = (candidate_t){own, own, any, true};
    out[1] = (candidate_t){last, last, any, false};
    out[2] = (candidate_t){plain, plain, any, false};
    return 3;
}

/* Lists the candidates whose formats have the same bytes as those of `given`: with 8 channels, for
 * example, blocks of 8 and channels last are the same bytes, but oneDNN may have a fast kernel for
 * only one of them. */
static int list_names(const onednn_problem_t *forward, const candidate_t *given, candidate_t *out)
{
    const tensor_info_t *src = forward->src, *dst = forward->dst;
    format_t candidates[CANDIDATES_MAX];
    const int n_candidates = candidates_list(src->rank, candidates);
    int n = 0;
    for (int i = 0; i < n_candidates; i++)
        for (int j = 0; j < n_candidates && n < MAX_FORMATS - 1; j++)
            if (format_same(&given->src, &candidates[i], src->sizes) &&
                format_same(&given->dst, &candidates[j], dst->sizes))
                out[n++] = (candidate_t){candidates[i], candidates[j], given->weight, true};
    return n;
}

/* Lists candidates if inputs must not be reordered. The format of output 0 may be prescribed. */
static int list_fixed(const op_call_t *call, bool is_data, const onednn_problem_t *forward,
                      candidate_t *out)
{
    const format_t any = {.kind = FORMAT_ANY}, own = info_tag(call->in[0]);
    const format_t *wanted = call->out_format;
    const bool is_said = wanted != NULL && wanted->rank == forward->weight->rank;
    if (is_data)
        out[0] = (candidate_t){wanted != NULL ? *wanted : own, own, any, true};
    else
        out[0] = (candidate_t){own, info_tag(call->in[1]), is_said ? *wanted : any, true};
    return 1 + list_names(forward, &out[0], out + 1);
}

static int list_formats(const op_call_t *call, bool is_data, const onednn_problem_t *forward,
                        candidate_t *out)
{
    const format_t any = {.kind = FORMAT_ANY};
    format_t candidates[CANDIDATES_MAX];
    int n = 0, n_candidates = candidates_list(call->in[0]->rank, candidates);
    if (call->layout == LAYOUT_DENSE) return list_dense(call, is_data, forward, out);
    if (call->per_op) {
        out[0] = (candidate_t){any, any, any, true};
        return 1;
    }
    if (call->keep_formats) return list_fixed(call, is_data, forward, out);
    const format_t own = info_tag(call->in[0]);
    const format_t grad = is_data ? own : info_tag(call->in[1]);
    const bool is_src_plain = choose_is_plain(&own, call->in[0]);
    if (!is_src_plain || !choose_is_plain(&grad, call->in[is_data ? 0 : 1]))
        out[n++] = (candidate_t){own, grad, any, true};
    else if (!is_data) /* a row-major source has few channels: read it directly */
        out[n++] = (candidate_t){own, candidates[0], any, false};
    for (int i = 0; i < n_candidates; i++) {
        out[n++] = (candidate_t){candidates[i], candidates[i], any, false};
        if (i == 0) out[n++] = (candidate_t){any, any, any, false};
    }
    const format_t plain = format_plain(call->in[0]->rank);
    out[n++] = (candidate_t){plain, plain, format_plain(forward->weight->rank), false};
    return n;
}

/* ---- comparing ---- */

/* Reads the formats that oneDNN has chosen for a primitive; a grouped weight keeps oneDNN's sizes
 * [G][K/G].. Returns UNSUPPORTED if choose_join_groups cannot join them for a gradient, or if the
 * gradient has another format than required. */
static status_t query_formats(context_t *ctx, const op_call_t *call, bool is_data, choice_t *choice)
{
    const int src = is_data ? ONEDNN_ARGUMENT_DIFF_SRC : ONEDNN_ARGUMENT_SRC;
    const int weight = is_data ? ONEDNN_ARGUMENT_WEIGHT : ONEDNN_ARGUMENT_DIFF_WEIGHT;
    TRY(onednn_query(ctx, choice->primitive, src, &choice->src));
    TRY(onednn_query(ctx, choice->primitive, ONEDNN_ARGUMENT_DIFF_DST, &choice->dst));
    TRY(onednn_query(ctx, choice->primitive, weight, &choice->weight));
    if (is_data) return STATUS_OK;
    tensor_info_t joined = choice->weight;
    if (joined.rank > call->in[0]->rank && !choose_join_groups(&joined)) return STATUS_UNSUPPORTED;
    bool is_wanted = call->out_format == NULL ||
                     format_same(call->out_format, &joined.format, joined.sizes);
    return is_wanted ? STATUS_OK : STATUS_UNSUPPORTED;
}

/* Blocked kernels reach 0.88 of their speed in channels last, measured on the convolutions of
 * ResNet-50 in training (627 ms against 563). Matrix products (brgemm, gemm) do not slow down. */
static double slowness(const char *implementation, const tensor_info_t *src)
{
    const format_t last = format_channels_last(src->rank);
    const bool is_last = src->rank > 2 && format_same(&src->format, &last, src->sizes);
    const bool is_product = strstr(implementation, "brg") != NULL ||
                            strstr(implementation, "gemm") != NULL;
    return is_last && !is_product ? 1.0 / 0.88 : 1.0;
}

/* Creates the primitive for one candidate. Returns UNSUPPORTED, with a note, if oneDNN only has a
 * reference implementation for it. */
static status_t try_formats(context_t *ctx, const search_t *search, const candidate_t *formats,
                            choice_t *out_choice)
{
    const op_call_t *call = search->call;
    prepared_t *prepared = search->prepared;
    const onednn_problem_t *forward = search->problem;
    const bool is_data = search->propagation == ONEDNN_BACKWARD_DATA;
    onednn_problem_t problem = *forward;
    tensor_info_t src = *forward->src, dst = *forward->dst, weight = *forward->weight;
    char src_text[FORMAT_TEXT_MAX], dst_text[FORMAT_TEXT_MAX];
    src.format = formats->src;
    dst.format = formats->dst;
    weight.format = formats->weight;
    problem.src = &src;
    problem.dst = &dst;
    problem.weight = &weight;
    choice_t choice = {0};
    format_text(&src.format, src_text);
    format_text(&dst.format, dst_text);
    status_t status = choose_describe_backward(ctx, &problem, search->propagation,
                                               &choice.primitive);
    if (status == STATUS_UNSUPPORTED)
        prepared_note(prepared, "onednn: %s for %s and %s", onednn_refusal(ctx), src_text,
                      dst_text);
    if (status != STATUS_OK) return status;
    const char *implementation = onednn_implementation(choice.primitive);
    status = onednn_is_reference(implementation) ? STATUS_UNSUPPORTED
                                                 : query_formats(ctx, call, is_data, &choice);
    if (status != STATUS_OK) {
        if (status == STATUS_UNSUPPORTED)
            prepared_note(
                prepared,
                "onednn: %s and %s would run %s, a reference or one whose weight has no tag",
                src_text, dst_text, implementation);
        onednn_release(choice.primitive);
        return status;
    }
    double share = choose_padded_share(&choice.src) * choose_padded_share(&choice.dst);
    double bytes = (double)info_bytes(&choice.src) + (double)info_bytes(&choice.dst);
    share *= slowness(implementation, &choice.src);
    choice.cost = cost_run(ctx, implementation, search->flops * share, bytes) +
                  cost_windows(ctx, implementation, &problem);
    choice.total = choice.cost + cost_reorder(call->in[0], is_data ? &choice.dst : &choice.src);
    if (!is_data) choice.total += cost_reorder(call->in[1], &choice.dst);
    *out_choice = choice;
    return STATUS_OK;
}

static void take_choice(const op_call_t *call, prepared_t *prepared,
                        onednn_propagation_t propagation, const choice_t *choice)
{
    tensor_info_t src = choice->src, dst = choice->dst, weight = choice->weight;
    if (weight.rank > call->in[0]->rank) choose_join_groups(&weight);
    if (call->layout == LAYOUT_DENSE) {
        src = choose_as_dense(&src);
        dst = choose_as_dense(&dst);
        if (propagation == ONEDNN_BACKWARD_WEIGHT) weight = choose_as_dense(&weight);
    }
    const bool is_data = propagation == ONEDNN_BACKWARD_DATA;
    prepared->in[0] = is_data ? dst : src;
    prepared->in[1] = is_data ? weight : dst;
    prepared->out[0] = is_data ? src : weight;
    prepared->cost_ns = choice->cost;
    choose_take_backward(prepared, propagation, choice->primitive);
}

/* ---- the forward operator's weight ---- */

status_t choose_forward_format(context_t *ctx, const onednn_problem_t *forward,
                               format_t *out_format)
{
    onednn_primitive_t *primitive = NULL;
    onednn_problem_t problem = *forward;
    tensor_info_t weight = *forward->weight, settled;
    weight.format = (format_t){.kind = FORMAT_ANY};
    problem.propagation = ONEDNN_TRAINING;
    problem.weight = &weight;
    TRY(onednn_describe(ctx, &problem, &primitive));
    status_t status = onednn_is_reference(onednn_implementation(primitive))
                          ? STATUS_UNSUPPORTED
                          : onednn_query(ctx, primitive, ONEDNN_ARGUMENT_WEIGHT, &settled);
    if (status == STATUS_OK) *out_format = settled.format;
    onednn_release(primitive);
    return status;
}

status_t choose_forward_weight(context_t *ctx, prepared_t *prepared,
                               const onednn_problem_t *forward, onednn_propagation_t propagation,
                               bool is_said, onednn_primitive_t **primitive, tensor_info_t *weight)
{
    onednn_primitive_t *other = NULL;
    onednn_problem_t problem = *forward;
    tensor_info_t wanted = *weight;
    char text[FORMAT_TEXT_MAX];
    status_t status = choose_forward_format(ctx, forward, &wanted.format);
    if (status == STATUS_UNSUPPORTED) return STATUS_OK;
    TRY(status);
    if (format_same(&wanted.format, &weight->format, weight->sizes)) return STATUS_OK;
    format_text(&wanted.format, text);
    problem.weight = &wanted;
    status = choose_describe_backward(ctx, &problem, propagation, &other);
    if (status == STATUS_UNSUPPORTED) {
        prepared_note(prepared,
                      "onednn: no implementation for the forward operator's weight format %s",
                      text);
        return STATUS_OK;
    }
    TRY(status);
    const char *implementation = onednn_implementation(other);
    const bool is_alike = strcmp(implementation, onednn_implementation(*primitive)) == 0;
    if (!is_alike)
        prepared_note(prepared, "onednn: the forward operator's weight format %s would run %s",
                      text, implementation);
    if (is_said || !is_alike) {
        onednn_release(other);
        return STATUS_OK;
    }
    onednn_release(*primitive);
    *primitive = other;
    *weight = wanted;
    return STATUS_OK;
}

/* Uses the forward operator's weight format if possible (choose_forward_weight). Leaves grouped
 * gradients as they are, because choose_join_groups might not support another format. */
static status_t prefer_forward_weight(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                                      const onednn_problem_t *forward,
                                      onednn_propagation_t propagation, choice_t *choice)
{
    const bool is_data = propagation == ONEDNN_BACKWARD_DATA;
    const bool is_in_groups = choice->weight.rank > call->in[0]->rank;
    onednn_problem_t problem = *forward;
    if (call->layout == LAYOUT_DENSE || (!is_data && is_in_groups)) return STATUS_OK;
    problem.src = &choice->src;
    problem.dst = &choice->dst;
    return choose_forward_weight(ctx, prepared, &problem, propagation,
                                 !is_data && call->out_format != NULL, &choice->primitive,
                                 &choice->weight);
}

status_t choose_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         const onednn_problem_t *forward, onednn_propagation_t propagation,
                         double flops)
{
    candidate_t formats[MAX_FORMATS];
    const search_t search = {call, prepared, forward, flops, try_formats, propagation};
    const int n = list_formats(call, propagation == ONEDNN_BACKWARD_DATA, forward, formats);
    choice_t best;
    TRY(choose_best(ctx, &search, n, formats, &best));
    status_t status = prefer_forward_weight(ctx, call, prepared, forward, propagation, &best);
    if (status == STATUS_OK)
        take_choice(call, prepared, propagation, &best);
    else
        onednn_release(best.primitive);
    return status;
}
