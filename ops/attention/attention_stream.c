/* Attention of a few queries, which reads keys and values once and in place. A unit of work is a
 * part of the keys of one head of keys, for all query heads that share it. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/attention/decode_impl.h"
#include "ops/attention/attention_impl.h"
#include "tensor/threads/threads_impl.h"

enum { QUERY = ATTENTION_QUERY, KEY, VALUE, MASK };

typedef struct stream_state {
    int n_threads;
    int64_t n_groups, n_rows, n_parts; /* heads of keys, queries for each, most parts of each */
    int64_t part_floats;               /* results of a part */
    int64_t thread_floats;             /* scaled queries and scores */
} stream_state_t;

/* ---- preparing ---- */

static const char *why_not(const op_call_t *call, int64_t n_rows)
{
    const tensor_info_t *query = call->in[QUERY], *value = call->in[VALUE];
    const int rank = query->rank;
    if (call_has(call, MASK)) return "stream: has a mask";
    for (int i = KEY; i <= VALUE; i++)
        if (query->dtype != DTYPE_F32 ||
            (call->in[i]->dtype != DTYPE_F32 && call->in[i]->dtype != DTYPE_BF16))
            return "stream: f32 queries only, with keys and values in f32 or bf16";
    if (query->sizes[rank - 1] % DECODE_LENGTHS != 0 ||
        value->sizes[rank - 1] % DECODE_LENGTHS != 0)
        return "stream: lengths must be multiples of 16";
    if (query->sizes[rank - 2] > 4 || n_rows > DECODE_ROWS) return "stream: for 4 queries or fewer";
    return NULL;
}

static status_t attention_stream_prepare(context_t *ctx, const op_call_t *call,
                                         prepared_t *prepared)
{
    const tensor_info_t *query = call->in[QUERY], *key = call->in[KEY], *value = call->in[VALUE];
    const int rank = query->rank;
    const int64_t n_shared = rank > 2 ? query->sizes[rank - 3] / key->sizes[rank - 3] : 1;
    const int64_t n_rows = n_shared * query->sizes[rank - 2], n_keys = value->sizes[rank - 2];
    const char *reason = why_not(call, n_rows);
    if (reason != NULL) return prepared_decline(prepared, "%s", reason);
    TRY(attention_accept(call, prepared));
    stream_state_t *state = NULL;
    TRY(context_get_zeroed(ctx, sizeof *state, "an attention", &state));
    prepared->state = state;
    state->n_threads = context_threads(ctx);
    state->n_rows = n_rows;
    state->n_groups = info_numel(query) / query->sizes[rank - 1] / n_rows;
    state->n_parts = (n_keys + DECODE_PART - 1) / DECODE_PART;
    state->part_floats = n_rows * (value->sizes[rank - 1] + 2);
    state->thread_floats = n_rows * (query->sizes[rank - 1] + DECODE_PART);
    const double floats = (double)state->n_groups * (double)state->n_parts *
                              (double)state->part_floats +
                          (double)state->n_threads * (double)state->thread_floats;
    if (floats > 0x1p40) return prepared_decline(prepared, "stream: too many keys");
    prepared->scratch_bytes = (size_t)floats * sizeof(float);
    prepared->cost_ns = cost_run(ctx, "native", (double)n_rows * (double)info_numel(key) * 4.0,
                                 (double)info_bytes(key) + (double)info_bytes(value));
    return STATUS_OK;
}

/* ---- running ---- */

typedef struct units {
    const attention_problem_t *p;
    const stream_state_t *state;
    float *parts, *threads; /* results of parts; scratch of threads */
} units_t;

static int64_t heads_in_group(const units_t *units)
{
    return units->state->n_rows / units->p->n_queries;
}

/* Copies the queries of a group, scaled: row r is query r % L of head r / L. Sets the ranges of
 * keys that they attend to within the part. */
static void take_queries(const units_t *units, int64_t group, int64_t first_key, int64_t n_keys,
                         float *to, decode_range_t *ranges)
{
    const attention_problem_t *p = units->p;
    const int64_t n_heads = heads_in_group(units);
    const float scale = (float)p->scale;
    for (int64_t h = 0; h < n_heads; h++) {
        const attention_head_t head = attention_find_head(p, group * n_heads + h);
        for (int64_t l = 0; l < p->n_queries; l++, to += p->length, ranges++) {
            const float *from = (const float *)(const void *)head.in[QUERY] + l * head.row[QUERY];
            for (int64_t e = 0; e < p->length; e++) to[e] = from[e] * scale;
            attention_seen(p, &head, l, &ranges->begin, &ranges->end);
            ranges->begin = ranges->begin > first_key ? ranges->begin - first_key : 0;
            ranges->end = ranges->end > first_key ? ranges->end - first_key : 0;
            if (ranges->end > n_keys) ranges->end = n_keys;
            if (ranges->begin > ranges->end) ranges->begin = ranges->end;
        }
    }
}

static void run_part(const units_t *units, int64_t group, int64_t number, float *scratch)
{
    const attention_problem_t *p = units->p;
    const stream_state_t *state = units->state;
    const tensor_info_t *in = p->prepared->in;
    const attention_attrs_t *attrs = p->prepared->attrs;
    const attention_head_t head = attention_find_head(p, group * heads_in_group(units));
    const int64_t first = number * DECODE_PART, left = head.n_keys - first;
    decode_range_t ranges[DECODE_ROWS];
    float *sums = units->parts + (group * state->n_parts + number) * state->part_floats;
    if (left <= 0) return;
    decode_part_t part = {.n_rows = state->n_rows,
                          .n_keys = left < DECODE_PART ? left : DECODE_PART,
                          .length = p->length,
                          .out_length = p->out_length,
                          .queries = scratch,
                          .keys_are_bf16 = in[KEY].dtype == DTYPE_BF16,
                          .values_are_bf16 = in[VALUE].dtype == DTYPE_BF16,
                          .key_stride = head.row[KEY],
                          .value_stride = head.row[VALUE],
                          .ranges = ranges,
                          .softcap = (float)attrs->softcap,
                          .scores = scratch + state->n_rows * p->length,
                          .sums = sums,
                          .largest = sums + state->n_rows * p->out_length,
                          .all = sums + state->n_rows * (p->out_length + 1)};
    part.keys = head.in[KEY] + first * head.row[KEY] * (int64_t)dtype_size(in[KEY].dtype);
    part.values = head.in[VALUE] + first * head.row[VALUE] * (int64_t)dtype_size(in[VALUE].dtype);
    take_queries(units, group, first, part.n_keys, scratch, ranges);
    decode_run(&part, isa_best());
}

static void run_parts(void *user, int64_t first, int64_t last, int member)
{
    const units_t *units = user;
    const stream_state_t *state = units->state;
    for (int64_t i = first; i < last; i++)
        run_part(units, i % state->n_groups, i / state->n_groups,
                 units->threads + member * state->thread_floats);
}

static void join_group(const units_t *units, int64_t group)
{
    const attention_problem_t *p = units->p;
    const stream_state_t *state = units->state;
    const int64_t n_heads = heads_in_group(units);
    const float *parts = units->parts + group * state->n_parts * state->part_floats;
    const float *largest = parts + state->n_rows * p->out_length;
    for (int64_t r = 0; r < state->n_rows; r++) {
        const attention_head_t head = attention_find_head(p, group * n_heads + r / p->n_queries);
        const decode_join_t join = {.n_parts = (head.n_keys + DECODE_PART - 1) / DECODE_PART,
                                    .n = p->out_length,
                                    .sums = parts + r * p->out_length,
                                    .largest = largest + r,
                                    .all = largest + state->n_rows + r,
                                    .stride = state->part_floats,
                                    .step = state->part_floats,
                                    .out = (float *)(void *)head.out +
                                           r % p->n_queries * head.out_row};
        decode_join(&join);
    }
}

static status_t attention_stream_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                     void *const *out, void *scratch)
{
    const stream_state_t *state = prepared->state;
    attention_problem_t p;
    TRY(attention_describe(ctx, prepared, in, out, &p));
    units_t units = {&p, state, scratch, NULL};
    units.threads = units.parts + state->n_groups * state->n_parts * state->part_floats;
    int64_t longest = 0;
    for (int64_t g = 0; g < state->n_groups; g++) {
        const attention_head_t head = attention_find_head(&p, g * heads_in_group(&units));
        if (head.n_keys > longest) longest = head.n_keys;
    }
    const int64_t n_parts = (longest + DECODE_PART - 1) / DECODE_PART;
    threads_share_members(threads_for(ctx, state->n_groups * longest * p.length),
                          state->n_groups * n_parts, run_parts, &units);
    for (int64_t g = 0; g < state->n_groups; g++) join_group(&units, g);
    return STATUS_OK;
}

const kernel_t attention_stream = {.name = "stream",
                                   .prepare = attention_stream_prepare,
                                   .run = attention_stream_run,
                                   .flags = KERNEL_NEEDS_ELEMENTS};
