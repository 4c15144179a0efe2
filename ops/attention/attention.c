/* Attention: softmax(scale * Q K^T + mask) V, computed for one block of queries at a time. */
#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/attention/decode_impl.h"
#include "kernels/linear/product_impl.h"
#include "kernels/reduce/softmax_impl.h"
#include "ops/accept_impl.h"
#include "ops/attention/attention_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const attr_field_t fields[] = {
    FIELD_BOOL(attention_attrs_t, is_causal, 0), FIELD_BOOL(attention_attrs_t, enable_gqa, 0),
    FIELD_FLOAT(attention_attrs_t, scale, 0), FIELD_INT(attention_attrs_t, window, 0),
    FIELD_FLOAT(attention_attrs_t, softcap, 0)};

static const operand_t operands[] = {
    {"query", ROLE_ACTIVATION, false, false}, {"key", ROLE_ACTIVATION, false, false},
    {"value", ROLE_ACTIVATION, false, false}, {"attn_mask", ROLE_STATE, true, false},
    {"lengths", ROLE_STATE, false, false},    {"slots", ROLE_STATE, true, false}};
enum { QUERY = ATTENTION_QUERY, KEY, VALUE, MASK, LENGTHS, SLOTS };

/* ---- inference ---- */

/* True if `other` has query's batch dimensions. With enable_gqa, its last one may also divide
 * query's. With slots, the first one may have any size. */
static bool is_batch_of(context_t *ctx, const op_call_t *call, const tensor_info_t *other)
{
    const attention_attrs_t *attrs = call->attrs;
    const tensor_info_t *query = call->in[QUERY];
    const int n = query->rank - 2;
    if (other->rank != query->rank) return false;
    for (int d = call_has(call, SLOTS) ? 1 : 0; d < n; d++) {
        const bool is_head = d == n - 1 && attrs->enable_gqa;
        if (sym_equal(ctx, query->sizes[d], other->sizes[d])) continue;
        if (!is_head || sym_equal(ctx, other->sizes[d], 0) ||
            !sym_divides(ctx, other->sizes[d], query->sizes[d]))
            return false;
    }
    return true;
}

/* Lengths of caches, and attributes. */
static status_t check_cache(context_t *ctx, const op_call_t *call)
{
    const attention_attrs_t *attrs = call->attrs;
    const tensor_info_t *query = call->in[QUERY];
    const char *op = call->op->name;
    REQUIRE(ctx, attrs->window >= 0 && (attrs->window == 0 || attrs->is_causal),
            "%s: window is %lld, is_causal is %s, a window needs is_causal", op,
            (long long)attrs->window, attrs->is_causal ? "true" : "false");
    REQUIRE(ctx, attrs->softcap >= 0.0 && isfinite(attrs->softcap),
            "%s: softcap is %g, must be 0 or positive", op, attrs->softcap);
    if (!call_has(call, LENGTHS)) return STATUS_OK;
    const tensor_info_t *lengths = call->in[LENGTHS];
    const bool is_each = lengths->rank == 1 && query->rank > 2 &&
                         sym_equal(ctx, lengths->sizes[0], query->sizes[0]);
    REQUIRE(ctx, lengths->dtype == DTYPE_S64 && (lengths->rank == 0 || is_each),
            "%s: lengths is %s, query is %s, s64 is needed: one, or one for each index of "
            "dimension 0",
            op, info_brief(lengths), info_brief(query));
    if (!call_has(call, SLOTS)) return STATUS_OK;
    const tensor_info_t *slots = call->in[SLOTS];
    REQUIRE(
        ctx,
        slots->dtype == DTYPE_S64 && slots->rank == 1 && query->rank > 3 &&
            sym_equal(ctx, slots->sizes[0], query->sizes[0]),
        "%s: slots is %s, query is %s, s64 is needed: one for each index of dimension 0 of 4 or "
        "more",
        op, info_brief(slots), info_brief(query));
    return STATUS_OK;
}

/* True if key and value may have this dtype. With lengths, f32 queries read caches in bf16. */
static bool goes_with(const op_call_t *call, dtype_t dtype)
{
    const dtype_t query = call->in[QUERY]->dtype;
    return dtype == query || (call_has(call, LENGTHS) && query == DTYPE_F32 && dtype == DTYPE_BF16);
}

static status_t attention_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *query = call->in[QUERY], *key = call->in[KEY], *value = call->in[VALUE];
    const char *op = call->op->name;
    const int rank = query->rank;
    REQUIRE(ctx, rank >= 2 && dtype_is_floating(query->dtype),
            "%s: query is %s, a floating type of rank 2 or more is needed", op, info_brief(query));
    for (int i = KEY; i <= VALUE; i++)
        REQUIRE(ctx, goes_with(call, call->in[i]->dtype) && is_batch_of(ctx, call, call->in[i]),
                "%s: %s is %s, its dtype and batch dimensions have to go with query %s", op,
                operands[i].name, info_brief(call->in[i]), info_brief(query));
    REQUIRE(ctx,
            sym_equal(ctx, key->sizes[rank - 1], query->sizes[rank - 1]) &&
                sym_equal(ctx, key->sizes[rank - 2], value->sizes[rank - 2]) &&
                sizes_equal(ctx, rank - 2, key->sizes, rank - 2, value->sizes),
            "%s: key is %s, query is %s and value is %s, [..,L,E], [..,S,E] and [..,S,V] are "
            "needed",
            op, info_brief(key), info_brief(query), info_brief(value));
    TRY(check_cache(ctx, call));
    int64_t sizes[TENSOR_MAX_RANK];
    memcpy(sizes, query->sizes, (size_t)rank * sizeof *sizes);
    sizes[rank - 1] = key->sizes[rank - 2];
    if (call_has(call, MASK)) {
        const tensor_info_t *mask = call->in[MASK];
        int64_t both[TENSOR_MAX_RANK];
        int n = 0;
        REQUIRE(ctx,
                (mask->dtype == DTYPE_BOOL || dtype_is_floating(mask->dtype)) &&
                    sizes_broadcast(ctx, rank, sizes, mask->rank, mask->sizes, &n, both) &&
                    sizes_equal(ctx, rank, sizes, n, both),
                "%s: attn_mask is %s, bool or floating is needed that broadcasts to [..,%lld,%lld]",
                op, info_brief(mask), (long long)sizes[rank - 2], (long long)sizes[rank - 1]);
    }
    sizes[rank - 1] = value->sizes[rank - 1];
    TRY(shape_check(ctx, op, query->dtype, rank, sizes));
    out[0] = info_dense(query->dtype, rank, sizes);
    return STATUS_OK;
}

double attention_scale(const attention_attrs_t *attrs, int64_t n)
{
    if (attrs->scale != 0.0 || n == 0) return attrs->scale; /* n = 0: all products are 0 */
    return 1.0 / sqrt((double)n);
}

/* ---- specification ---- */

/* Score of query `index` for key s; -inf if the query does not attend to the key. `at` is the index
 * of a key; its last two numbers are overwritten. */
static double spec_score(const spec_call_t *call, const int64_t *index, int64_t s, int64_t *at)
{
    const attention_attrs_t *attrs = call->attrs;
    const tensor_info_t *query = call->in[QUERY];
    const int rank = query->rank;
    int64_t seen[TENSOR_MAX_RANK];
    int64_t last = index[rank - 2];
    if (spec_has(call, LENGTHS)) {
        const int64_t length = (int64_t)spec_at(call, LENGTHS, index);
        if (s >= length) return -INFINITY;
        last += length - query->sizes[rank - 2];
    }
    if (attrs->is_causal && s > last) return -INFINITY;
    if (attrs->window > 0 && s <= last - attrs->window) return -INFINITY;
    memcpy(seen, index, (size_t)rank * sizeof *seen);
    seen[rank - 1] = s;
    double mask = spec_has(call, MASK) ? spec_at_broadcast(call, MASK, rank, seen) : 0.0;
    if (spec_has(call, MASK) && call->in[MASK]->dtype == DTYPE_BOOL)
        mask = mask != 0.0 ? 0.0 : -INFINITY;
    double sum = 0.0;
    memcpy(seen, index, (size_t)rank * sizeof *seen);
    at[rank - 2] = s;
    for (int64_t e = 0; e < query->sizes[rank - 1]; e++) {
        seen[rank - 1] = at[rank - 1] = e;
        sum += spec_at(call, QUERY, seen) * spec_at(call, KEY, at);
    }
    sum *= attention_scale(attrs, query->sizes[rank - 1]);
    if (attrs->softcap > 0.0) sum = attrs->softcap * tanh(sum / attrs->softcap);
    return sum + mask;
}

static double attention_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *query = call->in[QUERY], *key = call->in[KEY];
    const int rank = query->rank;
    int64_t at[TENSOR_MAX_RANK];
    memcpy(at, index, (size_t)rank * sizeof *at);
    if (spec_has(call, SLOTS)) at[0] = (int64_t)spec_at(call, SLOTS, index);
    if (rank > 2) at[rank - 3] /= query->sizes[rank - 3] / key->sizes[rank - 3];
    double largest = -INFINITY, weights = 0.0, sum = 0.0;
    for (int64_t s = 0; s < key->sizes[rank - 2]; s++) {
        double score = spec_score(call, index, s, at);
        if (score > largest || isnan(score)) largest = score;
    }
    if (largest == -INFINITY) return 0.0;
    for (int64_t s = 0; s < key->sizes[rank - 2]; s++) {
        double weight = exp(spec_score(call, index, s, at) - largest);
        at[rank - 2] = s;
        at[rank - 1] = index[rank - 1];
        weights += weight;
        if (weight != 0.0) sum += weight * spec_at(call, VALUE, at);
    }
    return sum / weights;
}

/* ---- all kernels ---- */

status_t attention_accept(const op_call_t *call, prepared_t *prepared)
{
    for (int i = QUERY; i <= VALUE; i++) TRY(accept_rows(call, prepared, i));
    accept_contiguous(call, prepared, MASK, SLOTS);
    const int rank = call->out[0].rank;
    format_t format = accept_order(&prepared->in[QUERY]);
    if (call->out_format != NULL && call->out_format->kind == FORMAT_TAG)
        format = *call->out_format;
    if (format.n_blocks != 0 || format.order[rank - 1] != rank - 1) format = format_plain(rank);
    return accept_out(call, prepared, 0, &format);
}

static int64_t load_length(const attention_problem_t *p, int64_t n)
{
    const int64_t *lengths = p->in[LENGTHS];
    return lengths[p->prepared->in[LENGTHS].rank == 0 ? 0 : n];
}

/* An operand that may be missing. */
static const void *find_operand(const attention_problem_t *p, int operand)
{
    return p->prepared->n_in > operand ? p->in[operand] : NULL;
}

static bool has_lengths(const attention_problem_t *p)
{
    return find_operand(p, LENGTHS) != NULL;
}

status_t attention_describe(context_t *ctx, const prepared_t *prepared, void *const *in,
                            void *const *out, attention_problem_t *out_problem)
{
    const tensor_info_t *query = &prepared->in[QUERY], *value = &prepared->in[VALUE];
    const int rank = query->rank;
    attention_problem_t *p = out_problem;
    *p = (attention_problem_t){.prepared = prepared, .in = in, .out = out, .n_heads = 1};
    for (int d = 0; d < rank - 2; d++) p->n_heads *= query->sizes[d];
    p->n_queries = query->sizes[rank - 2];
    p->length = query->sizes[rank - 1];
    p->n_keys = value->sizes[rank - 2];
    p->out_length = value->sizes[rank - 1];
    p->scale = attention_scale(prepared->attrs, p->length);
    for (int64_t n = 0; has_lengths(p) && n < info_numel(&prepared->in[LENGTHS]); n++)
        REQUIRE(ctx, load_length(p, n) >= 0 && load_length(p, n) <= p->n_keys,
                "%s: length %lld, a cache of %lld rows is given", prepared->op->name,
                (long long)load_length(p, n), (long long)p->n_keys);
    const int64_t *slots = find_operand(p, SLOTS), n_slots = prepared->in[KEY].sizes[0];
    for (int64_t n = 0; slots != NULL && n < query->sizes[0]; n++)
        REQUIRE(ctx, slots[n] >= 0 && slots[n] < n_slots, "%s: slot %lld, the caches have %lld",
                prepared->op->name, (long long)slots[n], (long long)n_slots);
    return STATUS_OK;
}

/* Offset of query head `number` in a tensor, in elements. slots NULL: dimension 0 is query's. Query
 * heads may share a head of the tensor: dimensions of size 1 are repeated, and with enable_gqa
 * heads, too. */
static int64_t find_head(const attention_problem_t *p, const tensor_info_t *info,
                         const int64_t *slots, int64_t number, int64_t *out_row, int64_t *out_step)
{
    const tensor_info_t *query = &p->prepared->in[QUERY];
    const int rank = query->rank, missing = rank - info->rank;
    int64_t strides[TENSOR_MAX_RANK], at = 0;
    format_strides(&info->format, info->sizes, strides);
    for (int d = rank - 3; d >= 0; d--) {
        int64_t index = number % query->sizes[d];
        number /= query->sizes[d];
        if (d < missing) continue;
        if (d == 0 && slots != NULL)
            at += slots[index] * strides[0];
        else
            at += index * info->sizes[d - missing] / query->sizes[d] * strides[d - missing];
    }
    const int row = info->rank - 2, step = info->rank - 1;
    *out_row = row >= 0 && info->sizes[row] > 1 ? strides[row] : 0;
    *out_step = step >= 0 && info->sizes[step] > 1 ? strides[step] : 0;
    return at;
}

attention_head_t attention_find_head(const attention_problem_t *p, int64_t number)
{
    const prepared_t *prepared = p->prepared;
    attention_head_t head = {.n_keys = p->n_keys};
    int64_t step = 0;
    if (has_lengths(p)) {
        const int64_t n_batch = prepared->in[LENGTHS].rank == 0 ? 1
                                                                : prepared->in[LENGTHS].sizes[0];
        head.n_keys = load_length(p, number / (p->n_heads / n_batch));
        head.first = head.n_keys - p->n_queries;
    }
    for (int i = QUERY; i <= MASK; i++) {
        if (i == MASK && find_operand(p, MASK) == NULL) break;
        const tensor_info_t *info = &prepared->in[i];
        const int64_t *slots = i == KEY || i == VALUE ? find_operand(p, SLOTS) : NULL;
        int64_t at = find_head(p, info, slots, number, &head.row[i], &step);
        head.in[i] = (const char *)p->in[i] + at * (int64_t)dtype_size(info->dtype);
        if (i == MASK) head.mask_step = step;
    }
    int64_t at = find_head(p, &prepared->out[0], NULL, number, &head.out_row, &step);
    head.out = (char *)p->out[0] + at * (int64_t)dtype_size(prepared->out[0].dtype);
    return head;
}

void attention_seen(const attention_problem_t *p, const attention_head_t *head, int64_t l,
                    int64_t *out_begin, int64_t *out_end)
{
    const attention_attrs_t *attrs = p->prepared->attrs;
    const int64_t own = head->first + l, begin = own - attrs->window + 1;
    *out_end = attrs->is_causal && own < head->n_keys ? own + 1 : head->n_keys;
    if (*out_end < 0) *out_end = 0;
    *out_begin = attrs->window > 0 && begin > 0 ? begin : 0;
    if (*out_begin > *out_end) *out_begin = *out_end;
}

/* ---- kernel for f32, bf16 and f16 ----
 *
 * For each head, copies transposed keys, and values, into panels of PANEL columns; then
 * computes two matrix products for each block of queries. */

#define PANEL PRODUCT_BLOCK /* columns that product_run computes at a time */
#define BLOCK 42            /* queries in a block: 3 times the rows of product_run */

static int64_t round_up(int64_t n)
{
    return (n + PANEL - 1) / PANEL * PANEL;
}

/* Scratch buffers of one thread. */
typedef struct room {
    float *keys;    /* [S / PANEL][E][PANEL] */
    float *values;  /* [V / PANEL][S][PANEL] */
    float *queries; /* [BLOCK][E] */
    float *scores;  /* [BLOCK][S] */
    float *sums;    /* [BLOCK][V] */
    float *copy;    /* scratch of product_run */
    float *wide;    /* [E], [S] or [V]: a row converted to f32 */
} room_t;

typedef struct panels_state {
    int n_threads;
    int64_t floats; /* floats of scratch for each thread */
} panels_state_t;

/* Counts the floats of scratch for each thread. Returns false on overflow. */
static bool count_floats(int64_t n_keys, int64_t length, int64_t out_length, int64_t *out)
{
    const int64_t limit = INT64_C(1) << 30;
    if (n_keys > limit || length > limit || out_length > limit) return false;
    const int64_t keys = round_up(n_keys), values = round_up(out_length);
    const int64_t longest = round_up(length) + keys + values;
    if (longest > INT64_MAX / 1024 / longest) return false;
    *out = length * keys + n_keys * values + BLOCK * 2 * longest + longest;
    return true;
}

static status_t prepare_panels(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *query = call->in[QUERY], *value = call->in[VALUE];
    const int rank = query->rank;
    if (query->dtype == DTYPE_F64) return prepared_decline(prepared, "panels: dtype f64");
    TRY(attention_accept(call, prepared));
    panels_state_t *state = NULL;
    TRY(context_get_zeroed(ctx, sizeof *state, "an attention", &state));
    prepared->state = state;
    state->n_threads = context_threads(ctx);
    const int64_t length = query->sizes[rank - 1], n_keys = value->sizes[rank - 2];
    const int64_t limit = INT64_MAX / (int64_t)sizeof(float) / state->n_threads;
    if (!count_floats(n_keys, length, value->sizes[rank - 1], &state->floats) ||
        state->floats > limit)
        return prepared_decline(prepared, "panels: too many keys");
    prepared->scratch_bytes = (size_t)(state->floats * state->n_threads) * sizeof(float);
    prepared->cost_ns = cost_run(ctx, "native",
                                 2.0 * (double)info_numel(query) * (double)n_keys +
                                     2.0 * (double)info_numel(&call->out[0]) * (double)n_keys,
                                 (double)info_bytes(query) + (double)info_bytes(value));
    return STATUS_OK;
}

static room_t divide_room(const attention_problem_t *p, float *floats)
{
    const int64_t keys = round_up(p->n_keys), values = round_up(p->out_length);
    room_t room = {.keys = floats};
    room.values = room.keys + p->length * keys;
    room.queries = room.values + p->n_keys * values;
    room.scores = room.queries + BLOCK * round_up(p->length);
    room.sums = room.scores + BLOCK * keys;
    room.copy = room.sums + BLOCK * values;
    room.wide = room.copy + BLOCK * (round_up(p->length) + keys + values);
    return room;
}

/* out = x b for m rows; b is stored in panels block_stride floats apart. */
static void multiply(int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride,
                     const float *b, int64_t block_stride, float *out, int64_t out_stride,
                     float *copy)
{
    const product_t product = {.n_rows = m,
                               .n_outputs = n,
                               .n_inputs = k,
                               .x = x,
                               .x_stride = x_stride,
                               .weight = b,
                               .block_stride = block_stride,
                               .out = out,
                               .out_stride = out_stride};
    product_run(&product, isa_best(), 1, copy);
}

/* Returns the row itself if it is f32; otherwise converts it into `wide`. */
static const float *widen(dtype_t dtype, int64_t n, const char *row, float *wide)
{
    if (dtype == DTYPE_F32) return (const float *)(const void *)row;
    dtype_cast(n, dtype, row, 1, DTYPE_F32, wide, 1);
    return wide;
}

/* Address of column `at` in panels of n rows. */
static float *panel_of(float *panels, int64_t n, int64_t at)
{
    return panels + at / PANEL * n * PANEL + at % PANEL;
}

static void copy_keys(const attention_problem_t *p, const attention_head_t *head,
                      const room_t *room)
{
    const dtype_t dtype = p->prepared->in[KEY].dtype;
    const int64_t size = (int64_t)dtype_size(dtype), padded = round_up(head->n_keys);
    if (dtype == DTYPE_F32) {
        const product_pack_t pack = {.n_outputs = head->n_keys,
                                     .n_inputs = p->length,
                                     .rows = (const float *)(const void *)head->in[KEY],
                                     .row_stride = head->row[KEY],
                                     .to = room->keys,
                                     .block_stride = p->length * PANEL};
        product_pack(&pack, isa_best());
        return;
    }
    for (int64_t s = 0; s < padded; s++) {
        float *to = panel_of(room->keys, p->length, s);
        const char *row = head->in[KEY] + s * head->row[KEY] * size;
        const float *from = s < head->n_keys ? widen(dtype, p->length, row, room->wide) : NULL;
        for (int64_t e = 0; e < p->length; e++) to[e * PANEL] = from != NULL ? from[e] : 0.0f;
    }
}

static void copy_values(const attention_problem_t *p, const attention_head_t *head,
                        const room_t *room)
{
    const dtype_t dtype = p->prepared->in[VALUE].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t s = 0; s < head->n_keys; s++) {
        const float *row = widen(dtype, p->out_length,
                                 head->in[VALUE] + s * head->row[VALUE] * size, room->wide);
        for (int64_t v = 0; v < p->out_length; v += PANEL) {
            float *to = panel_of(room->values, p->n_keys, v) + s * PANEL;
            const int64_t rest = p->out_length - v, n = rest < PANEL ? rest : PANEL;
            memcpy(to, row + v, (size_t)n * sizeof *to);
            memset(to + n, 0, (size_t)(PANEL - n) * sizeof *to);
        }
    }
}

static void copy_queries(const attention_problem_t *p, const attention_head_t *head, int64_t first,
                         int64_t n, const room_t *room)
{
    const dtype_t dtype = p->prepared->in[QUERY].dtype;
    const int64_t size = (int64_t)dtype_size(dtype), length = p->length;
    const float scale = (float)p->scale;
    for (int64_t i = 0; i < n; i++) {
        const char *row = head->in[QUERY] + (first + i) * head->row[QUERY] * size;
        const float *from = widen(dtype, length, row, room->wide);
        float *to = room->queries + i * length;
        for (int64_t e = 0; e < length; e++) to[e] = from[e] * scale;
    }
}

static void add_mask(const attention_problem_t *p, const attention_head_t *head, int64_t query,
                     int64_t n, float *row, float *wide)
{
    const dtype_t dtype = p->prepared->in[MASK].dtype;
    const char *mask = head->in[MASK] + query * head->row[MASK] * (int64_t)dtype_size(dtype);
    dtype_cast(n, dtype, mask, head->mask_step, DTYPE_F32, wide, 1);
    if (dtype == DTYPE_BOOL)
        for (int64_t s = 0; s < n; s++) row[s] = wide[s] != 0.0f ? row[s] : -INFINITY;
    else
        for (int64_t s = 0; s < n; s++) row[s] += wide[s];
}

/* Replaces n scores with their exponentials and fills the row up to `padded` with 0. Returns 1 /
 * sum, or 0 if the query attends to no key. */
static float soften(int64_t n, int64_t padded, float *row)
{
    float largest = -INFINITY;
    const float sum = softmax_exponentials(isa_best(), n, row, row, &largest);
    const int64_t first = largest == -INFINITY ? 0 : n;
    memset(row + first, 0, (size_t)(padded - first) * sizeof *row);
    return largest == -INFINITY ? 0.0f : 1.0f / sum;
}

/* True if all values are finite. Infinities and NaN have all exponent bits set. */
static bool is_all_finite(int64_t n, const float *values)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        found |= ((bits & 0x7f800000u) + 0x00800000u) >> 31;
    }
    return found == 0;
}

/* Recomputes sums that are not finite, using only keys with nonzero weight: in the product, a NaN
 * value with weight 0 makes a sum NaN. */
static void mend(const attention_problem_t *p, int64_t n_keys, const float *weights,
                 const room_t *room, float *sums)
{
    if (is_all_finite(p->out_length, sums)) return;
    for (int64_t v = 0; v < p->out_length; v++) {
        const float *values = panel_of(room->values, p->n_keys, v);
        float sum = 0.0f;
        if (isfinite(sums[v])) continue;
        for (int64_t s = 0; s < n_keys; s++)
            if (weights[s] != 0.0f) sum += weights[s] * values[s * PANEL];
        sums[v] = sum;
    }
}

/* Prefetches rows [first, first + n) of a head that is computed next. Rows may be far apart in
 * memory, so the hardware does not prefetch them. */
static void fetch_rows(const attention_problem_t *p, const attention_head_t *head, int64_t first,
                       int64_t n)
{
    const int64_t n_rows[] = {p->n_queries, head->n_keys, head->n_keys};
    const int64_t lengths[] = {p->length, p->length, p->out_length};
    for (int i = QUERY; i <= VALUE; i++) {
        const int64_t size = (int64_t)dtype_size(p->prepared->in[i].dtype);
        const int64_t last = first + n < n_rows[i] ? first + n : n_rows[i];
        for (int64_t row = first; row < last; row++)
            for (int64_t at = 0; at < lengths[i] * size; at += 64)
                __builtin_prefetch(head->in[i] + row * head->row[i] * size + at, 0, 2);
    }
}

/* Replaces the scores of a query by weights. Returns the factor by which its sum is multiplied. */
static float weigh(const attention_problem_t *p, const attention_head_t *head, int64_t query,
                   int64_t padded, float *row, float *wide)
{
    const attention_attrs_t *attrs = p->prepared->attrs;
    int64_t begin, end;
    attention_seen(p, head, query, &begin, &end);
    if (attrs->softcap > 0.0) decode_cap(isa_best(), end, (float)attrs->softcap, row);
    if (head->in[MASK] != NULL) add_mask(p, head, query, end, row, wide);
    for (int64_t s = 0; s < begin; s++) row[s] = -INFINITY;
    return soften(end, padded, row);
}

/* Computes queries [first, first + n) of a head. */
static void run_block(const attention_problem_t *p, const attention_head_t *head, int64_t first,
                      int64_t n, const room_t *room)
{
    const dtype_t dtype = p->prepared->out[0].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    int64_t begin, n_keys; /* the last query attends to the most keys */
    attention_seen(p, head, first + n - 1, &begin, &n_keys);
    const int64_t all = round_up(p->n_keys), padded = round_up(n_keys);
    const int64_t values = round_up(p->out_length);
    float factors[BLOCK];
    copy_queries(p, head, first, n, room);
    if (n_keys > 0)
        multiply(n, padded, p->length, room->queries, p->length, room->keys, p->length * PANEL,
                 room->scores, all, room->copy);
    for (int64_t i = 0; i < n; i++)
        factors[i] = weigh(p, head, first + i, padded, room->scores + i * all, room->wide);
    if (n_keys > 0)
        multiply(n, values, n_keys, room->scores, all, room->values, p->n_keys * PANEL, room->sums,
                 values, room->copy);
    else
        memset(room->sums, 0, (size_t)(n * values) * sizeof *room->sums);
    for (int64_t i = 0; i < n; i++) {
        float *sums = room->sums + i * values;
        mend(p, n_keys, room->scores + i * all, room, sums);
        for (int64_t v = 0; v < p->out_length; v++) sums[v] *= factors[i];
        dtype_cast(p->out_length, DTYPE_F32, sums, 1, dtype,
                   head->out + (first + i) * head->out_row * size, 1);
    }
}

typedef struct blocks {
    const attention_problem_t *p;
    int64_t n_blocks; /* blocks in each head */
    float *scratch;
    size_t floats; /* floats of scratch for each thread */
} blocks_t;

/* Computes a range of query blocks. The blocks of heads that share keys and values are adjacent, so
 * these are copied once. */
static void run_blocks(void *user, int64_t begin, int64_t end, int member)
{
    const blocks_t *blocks = user;
    const attention_problem_t *p = blocks->p;
    const room_t room = divide_room(p, blocks->scratch + (size_t)member * blocks->floats);
    int64_t before = -1;
    attention_head_t head = {.out = NULL}, next = head, copied = head;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % blocks->n_blocks * BLOCK;
        const int64_t count = p->n_queries - first < BLOCK ? p->n_queries - first : BLOCK;
        if (i / blocks->n_blocks != before) {
            before = i / blocks->n_blocks;
            head = attention_find_head(p, before);
            next = before + 1 < p->n_heads ? attention_find_head(p, before + 1) : head;
            if (head.in[KEY] != copied.in[KEY] || head.in[VALUE] != copied.in[VALUE] ||
                head.n_keys != copied.n_keys) {
                copy_keys(p, &head, &room);
                copy_values(p, &head, &room);
                copied = head;
            }
        }
        fetch_rows(p, &next, first, count);
        run_block(p, &head, first, count, &room);
    }
}

static status_t run_panels(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const panels_state_t *state = prepared->state;
    attention_problem_t p;
    TRY(attention_describe(ctx, prepared, in, out, &p));
    const int64_t n_blocks = (p.n_queries + BLOCK - 1) / BLOCK;
    blocks_t blocks = {&p, n_blocks, scratch, (size_t)state->floats};
    threads_share_members(threads_for(ctx, p.n_heads * p.n_queries * p.n_keys),
                          p.n_heads * n_blocks, run_blocks, &blocks);
    return STATUS_OK;
}

static const kernel_t panels = {
    .name = "panels", .prepare = prepare_panels, .run = run_panels, .flags = KERNEL_NEEDS_ELEMENTS};

static const kernel_t *const kernels[] = {&attention_stream, &panels, &attention_rows, NULL};

/* ---- definition ---- */

static double flops(const op_call_t *call)
{
    const tensor_info_t *query = call->in[QUERY], *value = call->in[VALUE];
    return 2.0 * (double)value->sizes[value->rank - 2] *
           ((double)info_numel(query) + (double)info_numel(&call->out[0]));
}

const opdef_t op_def_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .preference = OP_DENSE,
    .attrs = {sizeof(attention_attrs_t), 5, fields},
    .n_operands = LENGTHS,
    .operands = operands,
    .n_outputs = 1,
    .infer = attention_infer,
    .infers_symbols = true,
    .kernels = kernels,
    .spec = attention_spec,
    .flops = flops,
    .gradient = &attention_gradient};

const opdef_t op_def_cached_attention = {.name = "cached_attention",
                                         .preference = OP_DENSE,
                                         .attrs = {sizeof(attention_attrs_t), 5, fields},
                                         OPERANDS(operands),
                                         .n_outputs = 1,
                                         .infer = attention_infer,
                                         .infers_symbols = true,
                                         .kernels = kernels,
                                         .spec = attention_spec,
                                         .flops = flops};

/* ---- public ---- */

status_t op_scaled_dot_product_attention(context_t *ctx, const tensor_t *query, const tensor_t *key,
                                         const tensor_t *value, const tensor_t *attn_mask,
                                         const attention_attrs_t *attrs, tensor_t **out)
{
    const tensor_t *in[] = {query, key, value, attn_mask};
    return dispatch_run(ctx, &op_def_scaled_dot_product_attention, attrs, 4, in, NULL, out);
}

status_t op_cached_attention(context_t *ctx, const tensor_t *query, const tensor_t *key,
                             const tensor_t *value, const tensor_t *attn_mask,
                             const tensor_t *lengths, const tensor_t *slots,
                             const attention_attrs_t *attrs, tensor_t **out)
{
    const tensor_t *in[] = {query, key, value, attn_mask, lengths, slots};
    return dispatch_run(ctx, &op_def_cached_attention, attrs, 6, in, NULL, out);
}
