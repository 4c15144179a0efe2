/* Translates elementwise functions and post-ops to those of oneDNN. */
#include "dispatch/choose/choose_impl.h"
#include "dispatch/post_impl.h"

/* The table omits functions that oneDNN computes badly: exp returns infinity for NaN, log loses
 * most digits near 1, softplus loses all digits below -8. */
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

/* oneDNN computes relu and clamps as the maximum or minimum of x and a bound, which returns the
 * bound if x is NaN. Its sigmoid limits x in the same way, so sigmoid of NaN is 0. Its gelu of an
 * infinity is NaN or infinite, depending on the version. */
bool choose_is_exact(const post_op_t *op)
{
    switch (op->kind) {
    case POST_MAXIMUM:
    case POST_MINIMUM: return false;
    case POST_ELTWISE: break;
    default: return true;
    }
    switch (op->eltwise) {
    case ELTWISE_RELU:
    case ELTWISE_CLAMP:
    case ELTWISE_GELU:
    case ELTWISE_SIGMOID:
    case ELTWISE_HARDSIGMOID: return false;
    case ELTWISE_LEAKY_RELU: return op->alpha != 0.0;
    default: return true;
    }
}

static const onednn_algorithm_t binaries[] = {
    [POST_ADD] = ONEDNN_BINARY_ADD,     [POST_SUB] = ONEDNN_BINARY_SUB,
    [POST_MUL] = ONEDNN_BINARY_MUL,     [POST_DIV] = ONEDNN_BINARY_DIV,
    [POST_MAXIMUM] = ONEDNN_BINARY_MAX, [POST_MINIMUM] = ONEDNN_BINARY_MIN};

/* Describes a post-op's operand to oneDNN. An operand of the result's shape has the result's
 * format. An operand that broadcasts may be a single element, or have one element per channel (per
 * column of a matrix product): [17] for [2,17,5,5] is described as [1,17,1,1]. Other shapes such as
 * [5,5] are declined: oneDNN accepts them, but with channels last it reads wrong elements. */
static status_t describe_operand(const op_call_t *call, prepared_t *prepared, int index,
                                 const onednn_problem_t *problem, tensor_info_t *out_info)
{
    const tensor_info_t *dst = problem->dst;
    const tensor_info_t *operand = call->in[index], *out = &call->out[0];
    if (operand->dtype == DTYPE_F16) /* oneDNN's kernels misread f16 operands */
        return prepared_decline(prepared, "onednn: post-op operand %s", info_brief(operand));
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
    post_ops_t post = *attrs_post(&call->op->attrs, call->attrs);
    int operand = call->op->n_operands, n_exact = 0;
    while (n_exact < post.n && choose_is_exact(&post.op[n_exact])) n_exact++;
    if (n_exact < post.n) post_leave(prepared, n_exact);
    problem->n_post = post.n = n_exact;
    if (!choose_tells_apart(&post))
        return prepared_decline(prepared, "onednn: confuses two post-ops of the same function");
    for (int i = 0; i < post.n; i++) {
        const post_op_t *op = &post.op[i];
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
