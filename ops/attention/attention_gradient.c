/* Gradients of attention. The forward pass does not store the softmax weights, so they are
 * recomputed. */
#include <math.h>

#include "ops/attention/attention_impl.h"

enum { QUERY = ATTENTION_QUERY, KEY, VALUE, MASK };

/* State of the gradient rule. query and key have the dtype in which it computes. */
typedef struct backward {
    emitter_t *emitter;
    const gradient_call_t *call;
    double scale;
    tensor_info_t query, key; /* key: before repeat_heads */
} backward_t;

static value_t swap_last(emitter_t *emitter, value_t x)
{
    const int rank = emit_info(emitter, x)->rank;
    int64_t dims[TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
    return emit_ints(emitter, &op_def_permute, x, rank, dims);
}

/* Sets sizes [..][heads of key][n][L][E], where n query heads share one head of key. Returns their
 * number. */
static int split_heads(const backward_t *b, const tensor_info_t *x, int64_t n, int64_t *out_sizes)
{
    const int head = x->rank - 3;
    for (int d = 0; d < x->rank; d++) out_sizes[d > head ? d + 1 : d] = x->sizes[d];
    out_sizes[head] = b->key.sizes[head];
    out_sizes[head + 1] = n;
    return x->rank + 1;
}

static int64_t heads_for_one(const backward_t *b)
{
    const int head = b->query.rank - 3;
    if (head < 0 || b->key.sizes[head] == b->query.sizes[head]) return 1;
    return b->query.sizes[head] / b->key.sizes[head];
}

/* Repeats each head of key or value for all query heads that share it. */
static value_t repeat_heads(const backward_t *b, value_t x)
{
    const int64_t n = heads_for_one(b);
    tensor_info_t info = *emit_info(b->emitter, x);
    int64_t sizes[TENSOR_MAX_RANK + 1];
    if (n == 1 || info.rank == 0) return x;
    int rank = split_heads(b, &info, 1, sizes);
    x = emit_ints(b->emitter, &op_def_reshape, x, rank, sizes);
    rank = split_heads(b, &info, n, sizes);
    x = emit_ints(b->emitter, &op_def_expand, x, rank, sizes);
    info.sizes[info.rank - 3] *= n;
    return emit_ints(b->emitter, &op_def_reshape, x, info.rank, info.sizes);
}

/* Adds the gradients of repeated heads; reverses repeat_heads. */
static value_t add_heads(const backward_t *b, value_t grad)
{
    const int64_t n = heads_for_one(b);
    const tensor_info_t info = *emit_info(b->emitter, grad);
    const int64_t dim = info.rank - 2;
    int64_t sizes[TENSOR_MAX_RANK + 1];
    if (n == 1 || info.rank == 0) return grad;
    const int rank = split_heads(b, &info, n, sizes);
    grad = emit_ints(b->emitter, &op_def_reshape, grad, rank, sizes);
    return emit_reduce(b->emitter, &op_def_sum, grad, 1, &dim, false);
}

/* Sets the gradient of key or value from that of the repeated heads. */
static void give(const backward_t *b, int operand, value_t grad)
{
    const gradient_call_t *call = b->call;
    call->in_grad[operand] = emit_cast(b->emitter, add_heads(b, grad),
                                       emit_info(b->emitter, call->in[operand])->dtype);
}

/* Sets scores to -inf where a query does not attend to the key, and adds a floating mask. */
static value_t hide(const backward_t *b, value_t scores)
{
    emitter_t *e = b->emitter;
    const int rank = b->query.rank;
    const value_t mask = b->call->n_in > MASK ? b->call->in[MASK] : VALUE_NONE;
    const value_t never = emit_number(e, -INFINITY);
    if (((const attention_attrs_t *)b->call->attrs)->is_causal) {
        const int64_t queries[] = {b->query.sizes[rank - 2], 1};
        const int64_t keys[] = {1, b->key.sizes[rank - 2]};
        const tensor_info_t line = info_dense(DTYPE_S64, 2, queries);
        const tensor_info_t row = info_dense(DTYPE_S64, 2, keys);
        value_t seen = emit_binary(e, &op_def_le, emit_count(e, &row, 1), emit_count(e, &line, 0));
        scores = emit_where(e, seen, scores, never);
    }
    if (mask == VALUE_NONE) return scores;
    if (emit_info(e, mask)->dtype == DTYPE_BOOL) return emit_where(e, mask, scores, never);
    const value_t sum = emit_binary(e, &op_def_add, scores, mask);
    return emit_cast(e, sum, b->query.dtype);
}

/* With P the softmax weights, dO the gradient of the result and dP = dO V^T, the gradient of the
 * scores is P (dP - sum over keys of P dP). bf16 and f16 are computed in f32, because scores in 16
 * bits have too few digits for exp. */
static void attention_gradient_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const attention_attrs_t *attrs = call->attrs;
    if (attrs->window > 0 || attrs->softcap > 0.0) {
        emit_fail(e, STATUS_UNSUPPORTED, "%s: gradients with window %lld and softcap %g",
                  call->op->name, (long long)attrs->window, attrs->softcap);
        return;
    }
    const value_t zero = emit_number(e, 0.0), grad = emit_widen(e, call->out_grad[0]);
    const value_t query = emit_widen(e, call->in[QUERY]);
    value_t key = emit_widen(e, call->in[KEY]), value = emit_widen(e, call->in[VALUE]);
    backward_t b = {
        .emitter = e, .call = call, .query = *emit_info(e, query), .key = *emit_info(e, key)};
    if (b.query.rank == 0) return; /* an earlier emitter call failed */
    if (heads_for_one(&b) > 1 && b.query.rank == TENSOR_MAX_RANK) {
        emit_fail(e, STATUS_UNSUPPORTED,
                  "%s: heads that are shared and rank %d, gradients pass it to rank %d",
                  call->op->name, b.query.rank, TENSOR_MAX_RANK - 1);
        return;
    }
    b.scale = attention_scale(call->attrs, b.query.sizes[b.query.rank - 1]);
    key = repeat_heads(&b, key);
    value = repeat_heads(&b, value);
    value_t scores = emit_binary(e, &op_def_matmul, query, swap_last(e, key));
    scores = hide(&b, emit_mul(e, scores, b.scale));
    value_t weights = emit_unary(e, &op_def_softmax, scores);
    value_t hidden = emit_binary(e, &op_def_eq, scores, emit_number(e, -INFINITY));
    weights = emit_where(e, hidden, zero, weights);
    give(&b, VALUE, emit_binary(e, &op_def_matmul, swap_last(e, weights), grad));

    value_t of_scores = emit_binary(e, &op_def_matmul, grad, swap_last(e, value));
    of_scores = emit_binary(e, &op_def_softmax_backward, weights, of_scores);
    of_scores = emit_where(e, hidden, zero, of_scores);
    if (call->n_in > MASK && call->is_wanted[MASK])
        call->in_grad[MASK] = emit_unbroadcast(e, of_scores, call->in[MASK]);
    of_scores = emit_mul(e, of_scores, b.scale);
    call->in_grad[QUERY] = emit_cast(e, emit_binary(e, &op_def_matmul, of_scores, key),
                                     emit_info(e, call->in[QUERY])->dtype);
    give(&b, KEY, emit_binary(e, &op_def_matmul, swap_last(e, of_scores), query));
}

const gradient_t attention_gradient = {.pass = attention_gradient_pass, .reads_in = 15};
