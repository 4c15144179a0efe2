/* Attention for f64 and all cases that other kernels decline: one query at a time, in double. */
#include <math.h>

#include "ops/attention/attention_impl.h"
#include "tensor/threads/threads_impl.h"

enum { QUERY = ATTENTION_QUERY, KEY, VALUE, MASK };

typedef struct rows_state {
    int n_threads;
    int64_t n_keys; /* number of keys; each thread has a double of scratch for each */
} rows_state_t;

static status_t prepare_rows(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *key = call->in[KEY];
    TRY(attention_accept(call, prepared));
    rows_state_t *state = NULL;
    TRY(context_get_zeroed(ctx, sizeof *state, "an attention", &state));
    prepared->state = state;
    state->n_threads = context_threads(ctx);
    state->n_keys = key->sizes[key->rank - 2];
    if (state->n_keys > INT64_MAX / (int64_t)sizeof(double) / state->n_threads)
        return prepared_decline(prepared, "rows: too many keys");
    prepared->scratch_bytes = (size_t)(state->n_keys * state->n_threads) * sizeof(double);
    prepared->cost_ns = 1e9;
    return STATUS_OK;
}

static double load(const attention_problem_t *p, int operand, const char *from, int64_t index)
{
    const dtype_t dtype = p->prepared->in[operand].dtype;
    return dtype_load(dtype, from + index * (int64_t)dtype_size(dtype));
}

static double score(const attention_problem_t *p, const attention_head_t *head, int64_t l,
                    int64_t s)
{
    const attention_attrs_t *attrs = p->prepared->attrs;
    double sum = 0.0, mask = 0.0;
    for (int64_t e = 0; e < p->length; e++)
        sum += load(p, QUERY, head->in[QUERY], l * head->row[QUERY] + e) *
               load(p, KEY, head->in[KEY], s * head->row[KEY] + e);
    if (head->in[MASK] != NULL) {
        mask = load(p, MASK, head->in[MASK], l * head->row[MASK] + s * head->mask_step);
        if (p->prepared->in[MASK].dtype == DTYPE_BOOL) mask = mask != 0.0 ? 0.0 : -INFINITY;
    }
    sum *= p->scale;
    if (attrs->softcap > 0.0) sum = attrs->softcap * tanh(sum / attrs->softcap);
    return sum + mask;
}

static void run_query(const attention_problem_t *p, const attention_head_t *head, int64_t l,
                      double *weights)
{
    const dtype_t dtype = p->prepared->out[0].dtype;
    double largest = -INFINITY, all = 0.0;
    int64_t begin, end;
    attention_seen(p, head, l, &begin, &end);
    for (int64_t s = begin; s < end; s++) {
        weights[s] = score(p, head, l, s);
        if (weights[s] > largest || isnan(weights[s])) largest = weights[s];
    }
    for (int64_t s = begin; s < end; s++) {
        weights[s] = largest == -INFINITY ? 0.0 : exp(weights[s] - largest);
        all += weights[s];
    }
    for (int64_t v = 0; v < p->out_length; v++) {
        double sum = 0.0;
        for (int64_t s = begin; s < end; s++)
            if (weights[s] != 0.0)
                sum += weights[s] * load(p, VALUE, head->in[VALUE], s * head->row[VALUE] + v);
        dtype_store(dtype, head->out + (l * head->out_row + v) * (int64_t)dtype_size(dtype),
                    largest == -INFINITY ? 0.0 : sum / all);
    }
}

typedef struct queries {
    const attention_problem_t *p;
    double *weights; /* [members][n_keys] */
    int64_t n_keys;
} queries_t;

static void run_queries(void *user, int64_t first, int64_t last, int member)
{
    const queries_t *queries = user;
    const attention_problem_t *p = queries->p;
    for (int64_t i = first; i < last; i++) {
        const attention_head_t head = attention_find_head(p, i / p->n_queries);
        run_query(p, &head, i % p->n_queries, queries->weights + member * queries->n_keys);
    }
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    const rows_state_t *state = prepared->state;
    attention_problem_t p;
    TRY(attention_describe(ctx, prepared, in, out, &p));
    const int64_t n = p.n_heads * p.n_queries;
    queries_t queries = {&p, scratch, state->n_keys};
    threads_share_members(threads_for(ctx, n * p.n_keys), n, run_queries, &queries);
    return STATUS_OK;
}

const kernel_t attention_rows = {.name = "rows", .prepare = prepare_rows, .run = run_rows};
