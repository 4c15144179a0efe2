/* Chooses a token. Candidates are in a heap with the largest logit first, so that only the tokens
 * that may be chosen are sorted. */
#include "io/generate/sampler_impl.h"

#include <math.h>

#include "tensor/context_impl.h"

status_t sampler_check(context_t *ctx, const sampling_t *s)
{
    REQUIRE(ctx, s->repeat_penalty >= 0.0 && isfinite(s->repeat_penalty),
            "sampling: repeat_penalty is %g, must be positive, or 0 for none", s->repeat_penalty);
    REQUIRE(ctx, s->top_k >= 0, "sampling: top_k is %lld, must not be negative",
            (long long)s->top_k);
    REQUIRE(ctx, s->top_p >= 0.0 && s->top_p <= 1.0, "sampling: top_p is %g, 0 to 1 is possible",
            s->top_p);
    REQUIRE(ctx, s->min_p >= 0.0 && s->min_p <= 1.0, "sampling: min_p is %g, 0 to 1 is possible",
            s->min_p);
    REQUIRE(ctx, s->temperature >= 0.0 && isfinite(s->temperature),
            "sampling: temperature is %g, must not be negative", s->temperature);
    return STATUS_OK;
}

/* True if a precedes b. Equal logits are in the order of tokens. NaN is last. */
static bool precedes(const candidate_t *a, const candidate_t *b)
{
    if (a->logit != b->logit && !(isnan(a->logit) && isnan(b->logit)))
        return a->logit > b->logit || isnan(b->logit);
    return a->token < b->token;
}

static void sink(candidate_t *heap, int64_t n, int64_t at)
{
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && precedes(&heap[child + 1], &heap[child])) child++;
        if (!precedes(&heap[child], &heap[at])) return;
        const candidate_t moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

/* Moves the first candidate of a heap of n to its end, and returns it. The heap then has n - 1. */
static candidate_t pop(candidate_t *heap, int64_t n)
{
    const candidate_t first = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = first;
    sink(heap, n - 1, 0);
    return first;
}

static void penalise(double penalty, int64_t n, const int64_t *tokens, candidate_t *candidates)
{
    for (int64_t i = 0; i < n; i++) {
        bool is_repeated = false;
        for (int64_t k = 0; k < i && !is_repeated; k++) is_repeated = tokens[k] == tokens[i];
        if (is_repeated) continue;
        float *logit = &candidates[tokens[i]].logit;
        *logit = (float)(*logit > 0.0f ? (double)*logit / penalty : (double)*logit * penalty);
    }
}

/* Writes the logits, of which `recent` ones are penalised, as candidates. */
static void fill(const sampling_t *sampling, int64_t n, const float *logits, int64_t n_recent,
                 const int64_t *recent, candidate_t *candidates)
{
    for (int64_t i = 0; i < n; i++) candidates[i] = (candidate_t){logits[i], (int32_t)i};
    if (sampling->repeat_penalty > 0.0)
        penalise(sampling->repeat_penalty, n_recent, recent, candidates);
}

static int64_t find_largest_candidate(int64_t n, const candidate_t *candidates)
{
    int64_t largest = 0;
    for (int64_t i = 1; i < n; i++)
        if (precedes(&candidates[i], &candidates[largest])) largest = i;
    return candidates[largest].token;
}

/* The same without candidates, for most calls. */
static int64_t find_largest(int64_t n, const float *logits)
{
    int64_t largest = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[largest] || (isnan(logits[largest]) && !isnan(logits[i])))
            largest = i;
    return largest;
}

/* Pops the candidates that may be chosen. They are then at the end of the heap, in reverse order.
 * Returns their number. If all may be chosen, pops none, because their order does not matter. */
static int64_t take(const sampling_t *s, candidate_t *heap, int64_t n)
{
    int64_t n_taken = 0;
    const int64_t limit = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    const double top_p = s->top_p > 0.0 ? s->top_p : 1.0;
    const double largest = (double)heap[0].logit;
    double all = 0.0, sum = 0.0;
    if (limit == n && top_p == 1.0 && s->min_p == 0.0) return n;
    while (limit < n && n_taken < limit) pop(heap, n - n_taken++);
    for (int64_t i = limit < n ? n - limit : 0; i < n; i++)
        all += exp((double)heap[i].logit - largest);
    for (int64_t i = 0; i < limit; i++) {
        if (i >= n_taken) pop(heap, n - n_taken++);
        const double p = exp((double)heap[n - 1 - i].logit - largest);
        if (i > 0 && (sum >= top_p * all || p < s->min_p)) return i;
        sum += p;
    }
    return limit;
}

int64_t sampler_choose(const sampling_t *sampling, int64_t n, const float *logits, int64_t n_recent,
                       const int64_t *recent, candidate_t *candidates, double uniform)
{
    const bool is_greedy = sampling->temperature == 0.0;
    if (is_greedy && sampling->repeat_penalty == 0.0) return find_largest(n, logits);
    fill(sampling, n, logits, n_recent, recent, candidates);
    if (is_greedy) return find_largest_candidate(n, candidates);
    for (int64_t i = n / 2 - 1; i >= 0; i--) sink(candidates, n, i);
    const double largest = (double)candidates[0].logit;
    const int64_t n_taken = take(sampling, candidates, n);
    const candidate_t *last = candidates + n - 1;
    double sum = 0.0;
    for (int64_t i = 0; i < n_taken; i++)
        sum += exp(((double)last[-i].logit - largest) / sampling->temperature);
    double target = uniform * sum;
    for (int64_t i = 0; i < n_taken; i++) {
        target -= exp(((double)last[-i].logit - largest) / sampling->temperature);
        if (target < 0.0) return last[-i].token;
    }
    return last[0].token;
}
