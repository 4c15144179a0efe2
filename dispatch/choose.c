/* Choosing formats: describe candidates, look at the implementation's name, compare by estimate. */
#include "dispatch/choose_impl.h"

#include <string.h>

/* ---- elementwise functions and post-ops in oneDNN's terms ---- */

/* Left to our own loops: exp, which is infinite for NaN, log, of which few digits are right near 1,
 * and softplus, of which none are below -8. */
bool choose_eltwise(eltwise_t eltwise, double alpha, double beta, onednn_post_op_t *out_op)
{
    static const struct {
        eltwise_t eltwise;
        onednn_algorithm_t algorithm;
    } names[] = {
        {ELTWISE_RELU, ONEDNN_ELTWISE_RELU},
        {ELTWISE_LEAKY_RELU, ONEDNN_ELTWISE_RELU},
        {ELTWISE_ELU, ONEDNN_ELTWISE_ELU},
        {ELTWISE_CLAMP, ONEDNN_ELTWISE_CLIP},
        {ELTWISE_SIGMOID, ONEDNN_ELTWISE_SIGMOID},
        {ELTWISE_TANH, ONEDNN_ELTWISE_TANH},
        {ELTWISE_GELU, ONEDNN_ELTWISE_GELU_ERF},
        {ELTWISE_GELU_TANH, ONEDNN_ELTWISE_GELU_TANH},
        {ELTWISE_SILU, ONEDNN_ELTWISE_SWISH},
        {ELTWISE_HARDSWISH, ONEDNN_ELTWISE_HARDSWISH},
        {ELTWISE_HARDSIGMOID, ONEDNN_ELTWISE_HARDSIGMOID},
        {ELTWISE_SQRT, ONEDNN_ELTWISE_SQRT},
        {ELTWISE_ABS, ONEDNN_ELTWISE_ABS},
        {ELTWISE_SQUARE, ONEDNN_ELTWISE_SQUARE},
        {ELTWISE_LINEAR, ONEDNN_ELTWISE_LINEAR},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].eltwise != eltwise) continue;
        *out_op = (onednn_post_op_t){.kind = ONEDNN_POST_ELTWISE,
                                     .algorithm = names[i].algorithm,
                                     .alpha = (float)alpha,
                                     .beta = (float)beta};
        if (eltwise == ELTWISE_RELU) out_op->alpha = 0.0f;
        if (eltwise == ELTWISE_SILU) out_op->alpha = 1.0f;
        if (eltwise == ELTWISE_HARDSWISH) {
            out_op->alpha = 1.0f / 6.0f;
            out_op->beta = 0.5f;
        }
        return true;
    }
    return false;
}

static const onednn_algorithm_t binaries[] = {
    [POST_ADD] = ONEDNN_BINARY_ADD,     [POST_SUB] = ONEDNN_BINARY_SUB,
    [POST_MUL] = ONEDNN_BINARY_MUL,     [POST_DIV] = ONEDNN_BINARY_DIV,
    [POST_MAXIMUM] = ONEDNN_BINARY_MAX, [POST_MINIMUM] = ONEDNN_BINARY_MIN};

/* An operand of the result's shape is seen as the result is. Of those that broadcast oneDNN takes
 * one element, or one for each channel (of products, for each column), seen with ones in
 * front; others it takes too, but where channels are last it reads wrong ones of theirs. */
static status_t describe_operand(const op_call_t *call, prepared_t *prepared, int index,
                                 const onednn_problem_t *problem, tensor_info_t *out_info)
{
    const tensor_info_t *dst = problem->dst;
    const tensor_info_t *operand = call->in[index], *out = &call->out[0];
    if (shape_equal(operand->rank, operand->sizes, out->rank, out->sizes)) {
        prepared->in[index] = prepared->out[0];
        prepared->in[index].dtype = operand->dtype;
        *out_info = *dst;
        out_info->dtype = operand->dtype;
        return STATUS_OK;
    }
    bool is_joined = !shape_equal(dst->rank, dst->sizes, out->rank, out->sizes);
    bool is_last = is_joined || problem->kind == ONEDNN_MATMUL || dst->rank < 2;
    int channel = is_last ? dst->rank - 1 : 1;
    int from = channel - (dst->rank - operand->rank);
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < dst->rank; d++) sizes[d] = 1;
    if (from >= 0) sizes[channel] = operand->sizes[from];
    *out_info = info_dense(operand->dtype, dst->rank, sizes);
    if (info_numel(out_info) != info_numel(operand))
        return prepared_decline(prepared, "onednn: post-op operand %s", info_brief(operand));
    prepared->in[index] = info_dense(operand->dtype, operand->rank, operand->sizes);
    return STATUS_OK;
}

bool choose_tells_apart(const post_ops_t *post)
{
    onednn_post_op_t a, b;
    for (int i = 0; i < post->n; i++)
        for (int k = 0; k < i; k++) {
            const post_op_t *one = &post->op[k], *other = &post->op[i];
            if (one->kind == POST_ELTWISE && other->kind == POST_ELTWISE &&
                choose_eltwise(one->eltwise, one->alpha, one->beta, &a) &&
                choose_eltwise(other->eltwise, other->alpha, other->beta, &b) &&
                a.algorithm == b.algorithm && (a.alpha != b.alpha || a.beta != b.beta))
                return false;
        }
    return true;
}

status_t choose_post_ops(const op_call_t *call, prepared_t *prepared, onednn_problem_t *problem,
                         tensor_info_t *out_operands)
{
    const post_ops_t *post = attrs_post(&call->op->attrs, call->attrs);
    int operand = call->op->n_operands;
    problem->n_post = post->n;
    if (!choose_tells_apart(post))
        return prepared_decline(prepared, "onednn: mixes up two post-ops of one function");
    for (int i = 0; i < post->n; i++) {
        const post_op_t *op = &post->op[i];
        onednn_post_op_t *out = &problem->post[i];
        switch (op->kind) {
        case POST_SUM:
            prepared->sum_operand = operand++;
            prepared->in[prepared->sum_operand] = prepared->out[0];
            *out = (onednn_post_op_t){.kind = ONEDNN_POST_SUM};
            break;
        case POST_ELTWISE:
            if (!choose_eltwise(op->eltwise, op->alpha, op->beta, out))
                return prepared_decline(prepared, "onednn: no post-op %s",
                                        eltwise_name(op->eltwise));
            break;
        default:
            *out = (onednn_post_op_t){.kind = ONEDNN_POST_BINARY,
                                      .algorithm = binaries[op->kind],
                                      .operand = &out_operands[i]};
            TRY(describe_operand(call, prepared, operand++, problem, &out_operands[i]));
            break;
        }
    }
    return STATUS_OK;
}

/* ---- estimates: only their order matters ---- */

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Share of peak that an implementation reaches, by measurement of the zoo's layers: kernels for an
 * older instruction set than the machine's have fewer registers to block in. */
static double efficiency(const char *implementation)
{
    const unsigned isa = onednn_isa();
    double share = 0.9;
    if (onednn_is_reference(implementation)) return 0.001;
    if (has(implementation, "wino")) share = 1.7; /* of what direct convolution would do */
    if (!has(implementation, "brgemm") && has(implementation, "gemm")) share = 0.5;
    if (has(implementation, "avx2") && onednn_isa_has(isa, ONEDNN_ISA_AVX512)) share *= 0.7;
    if (has(implementation, "sse41") && onednn_isa_has(isa, ONEDNN_ISA_AVX)) share *= 0.4;
    return share;
}

/* Vectors of 16 floats. */
static bool is_wide(unsigned isa)
{
    return onednn_isa_has(isa, ONEDNN_ISA_AVX512) || onednn_isa_has(isa, ONEDNN_ISA_SVE_512);
}

static double peak_flops_per_ns(const context_t *ctx)
{
    const unsigned isa = onednn_isa();
    double per_core = is_wide(isa) ? 110.0 : onednn_isa_has(isa, ONEDNN_ISA_AVX2) ? 80.0 : 20.0;
    return per_core * context_threads(ctx);
}

double choose_cost(const context_t *ctx, const char *implementation, double flops, double bytes)
{
    double compute = flops / (peak_flops_per_ns(ctx) * efficiency(implementation));
    double memory = bytes / 40.0;
    if (flops == 0.0) memory /= efficiency(implementation);
    return 1000.0 + (compute > memory ? compute : memory);
}

double choose_reorder_cost(const context_t *ctx, const tensor_info_t *from, const tensor_info_t *to)
{
    (void)ctx;
    if (format_same(&from->format, &to->format, from->sizes)) return 0.0;
    return 2000.0 + (double)(info_bytes(from) + info_bytes(to)) / 12.0;
}

int choose_candidates(int rank, format_t *out_formats)
{
    int n = 0;
    const bool has_16 = is_wide(onednn_isa());
    if (rank < 3 || rank > 5) {
        out_formats[n++] = format_plain(rank);
        return n;
    }
    out_formats[n++] = format_channel_blocks(rank, has_16 ? 16 : 8);
    out_formats[n++] = format_channels_last(rank);
    out_formats[n++] = format_channel_blocks(rank, has_16 ? 8 : 4);
    if (has_16) out_formats[n++] = format_channel_blocks(rank, 4);
    out_formats[n++] = format_plain(rank);
    return n;
}

/* ---- candidates ---- */

typedef struct pair {
    format_t src, dst;
    bool is_own; /* the input as it lies: taken at once if it is no reference */
} pair_t;

#define MAX_PAIRS 16

/* Work grows by the channels that blocks add. */
static double padded_share(const tensor_info_t *info)
{
    if (info->format.kind != FORMAT_TAG || info->rank < 2) return 1.0;
    int64_t padded[TENSOR_MAX_RANK];
    format_padded_sizes(&info->format, info->sizes, padded);
    return (double)padded[1] / (double)info->sizes[1];
}

typedef struct choice {
    onednn_primitive_t *primitive;
    tensor_info_t src, weight, dst;
    double cost, total;
    bool is_proposed; /* the formats are oneDNN's proposal */
} choice_t;

/* Operands of post-ops that have the result's shape come in its format; where oneDNN is to choose
 * that, plain. */
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

/* oneDNN divides padded lanes, too, 0 by 0: so what it divides may have none. */
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

/* Describes one pair; UNSUPPORTED with a note when it is not to be had, or only as a reference. */
static status_t try_pair(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         const onednn_problem_t *base, const pair_t *pair, double flops,
                         choice_t *out_choice)
{
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
        prepared_note(prepared, "onednn: no implementation for %s to %s",
                      format_text(&pair->src, src_text), format_text(&pair->dst, dst_text));
    if (status != STATUS_OK) return status;
    const char *implementation = onednn_implementation(choice.primitive);
    if (onednn_is_reference(implementation)) {
        prepared_note(prepared, "onednn: %s to %s is %s", format_text(&pair->src, src_text),
                      format_text(&pair->dst, dst_text), implementation);
        status = STATUS_UNSUPPORTED;
    }
    if (status == STATUS_OK)
        status = onednn_query(ctx, choice.primitive, ONEDNN_ARGUMENT_SRC, &choice.src);
    if (status == STATUS_OK)
        status = onednn_query(ctx, choice.primitive, ONEDNN_ARGUMENT_DST, &choice.dst);
    if (status == STATUS_OK && base->weight != NULL)
        status = onednn_query(ctx, choice.primitive, ONEDNN_ARGUMENT_WEIGHT, &choice.weight);
    if (status == STATUS_OK && divides_padding(&problem, &choice.dst)) {
        onednn_release(choice.primitive);
        return STATUS_UNSUPPORTED;
    }
    const char *fault = status == STATUS_OK ? onednn_fault(&problem, implementation, &choice.dst)
                                            : NULL;
    if (fault != NULL) {
        prepared_note(prepared, "onednn: %s to %s: %s %s", format_text(&pair->src, src_text),
                      format_text(&pair->dst, dst_text), implementation, fault);
        onednn_release(choice.primitive);
        return STATUS_UNSUPPORTED;
    }
    if (status == STATUS_UNSUPPORTED && !onednn_is_reference(implementation))
        prepared_note(prepared, "onednn: %s to %s by %s has formats that no tag describes",
                      format_text(&pair->src, src_text), format_text(&pair->dst, dst_text),
                      implementation);
    if (status != STATUS_OK) {
        onednn_release(choice.primitive);
        return status;
    }
    double share = padded_share(&choice.src) * (flops > 0.0 ? padded_share(&choice.dst) : 1.0);
    double bytes = (double)info_bytes(&choice.src) + (double)info_bytes(&choice.dst);
    choice.cost = choose_cost(ctx, implementation, flops * share, bytes);
    choice.total = choice.cost + choose_reorder_cost(ctx, call->in[0], &choice.src);
    *out_choice = choice;
    return STATUS_OK;
}

/* The formats of the call's source as one of ours, without gaps. */
static format_t own_format(const op_call_t *call)
{
    const tensor_info_t *info = call->in[0];
    if (info->format.kind == FORMAT_TAG) return info->format;
    format_t format = format_of_strides(info->rank, info->sizes, info->format.strides);
    return format.kind == FORMAT_TAG ? format : format_plain(info->rank);
}

static bool is_plain(const format_t *format, const tensor_info_t *info)
{
    format_t plain = format_plain(info->rank);
    return format_same(format, &plain, info->sizes);
}

static int list_pairs(const op_call_t *call, const onednn_problem_t *problem, pair_t *pairs)
{
    const tensor_info_t *src = call->in[0];
    const format_t own = own_format(call), any = {.kind = FORMAT_ANY};
    const int src_rank = src->rank, dst_rank = problem->dst->rank;
    format_t candidates[5];
    int n = 0, n_candidates = choose_candidates(dst_rank, candidates);
    bool prefers = call->op->preference == OP_PREFERS;
    bool enters_plain = prefers && src_rank > 2 && is_plain(&own, src);
    if (call->per_op && call->layout == LAYOUT_MKLDNN) {
        pairs[n++] = (pair_t){any, any, true};
        return n;
    }
    if (src_rank != dst_rank) { /* linear over flattened dimensions */
        pairs[n++] = (pair_t){own, format_plain(dst_rank), true};
        if (!call->keep_formats && call->layout == LAYOUT_MKLDNN)
            pairs[n++] = (pair_t){any, format_plain(dst_rank), false};
        return n;
    }
    if (call->keep_formats) {
        if (call->out_format != NULL)
            pairs[n++] = (pair_t){own, *call->out_format, true};
        else if (!enters_plain)
            pairs[n++] = (pair_t){own, own, true};
        else
            for (int i = 0; i < n_candidates; i++) pairs[n++] = (pair_t){own, candidates[i], false};
        return n;
    }
    pairs[n++] = (pair_t){own, own, !enters_plain || call->layout == LAYOUT_DENSE};
    if (call->layout == LAYOUT_DENSE) { /* strides that only a reference takes */
        format_t last = format_channels_last(src_rank), plain = format_plain(src_rank);
        pairs[n++] = (pair_t){last, last, false};
        pairs[n++] = (pair_t){plain, plain, false};
        return n;
    }
    if (enters_plain) {
        n = 0;
        pairs[n++] = (pair_t){own, candidates[0], false};
    }
    for (int i = 0; i < n_candidates; i++) {
        pairs[n++] = (pair_t){candidates[i], candidates[i], false};
        if (i == 0) pairs[n++] = (pair_t){any, any, false};
    }
    return n;
}

/* The dense info whose elements lie as a plain tag says. */
static tensor_info_t as_dense(const tensor_info_t *info)
{
    tensor_info_t dense = *info;
    int64_t strides[TENSOR_MAX_RANK];
    format_strides(&info->format, info->sizes, strides);
    dense.layout = LAYOUT_DENSE;
    dense.format = (format_t){.kind = FORMAT_STRIDED, .rank = (uint8_t)info->rank};
    memcpy(dense.format.strides, strides, (size_t)info->rank * sizeof *strides);
    return dense;
}

/* What format_operands described. */
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
    prepared->in[0] = is_dense ? as_dense(&choice->src) : choice->src;
    prepared->out[0] = is_dense ? as_dense(&choice->dst) : choice->dst;
    if (problem->weight != NULL) prepared->in[1] = choice->weight;
    take_operands(call, prepared, choice);
    prepared->cost_ns = choice->cost;
    prepared_take_primitive(prepared, choice->primitive);
}

status_t choose_formats(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                        onednn_problem_t *problem, double flops)
{
    pair_t pairs[MAX_PAIRS];
    int n = list_pairs(call, problem, pairs);
    choice_t best = {0};
    status_t status = STATUS_OK;
    for (int i = 0; i < n; i++) {
        choice_t choice;
        status = try_pair(ctx, call, prepared, problem, &pairs[i], flops, &choice);
        if (status == STATUS_UNSUPPORTED) continue;
        if (status != STATUS_OK) break;
        if (best.primitive == NULL || choice.total < 0.95 * best.total) {
            onednn_release(best.primitive);
            best = choice;
        } else {
            onednn_release(choice.primitive);
        }
        if (pairs[i].is_own) break;
    }
    if (status != STATUS_OK && status != STATUS_UNSUPPORTED) {
        onednn_release(best.primitive);
        return status;
    }
    if (best.primitive == NULL)
        return prepared_decline(prepared, "onednn: only references are left");
    take_choice(call, prepared, problem, &best);
    return STATUS_OK;
}
