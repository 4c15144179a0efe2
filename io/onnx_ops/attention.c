/* ONNX Attention: imported as one operator, or as separate steps if scores are capped or are an
 * output. */
#include "io/onnx_ops/attention_impl.h"

#include <math.h>

#include "ops/attention/attention.h"
#include "tensor/tensor_impl.h"

enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, LENGTHS };
enum { OUT, PRESENT_KEY, PRESENT_VALUE, SCORES };

/* Steps that compute scores. The node selects the step whose scores are its last output. */
enum { PRODUCTS, CAPPED, MASKED, WEIGHTS };

typedef struct attend {
    bool is_causal, has_heads; /* has_heads: inputs are [N][heads][T][D] */
    double scale, softcap;
    int64_t mode;
    int64_t windows[2]; /* keys that a query attends to on its left and right; -1: all */
    item_t parts[3];    /* query, key and value, [N][heads][T][D], including the past */
    item_t mask;        /* bool or floating, or ITEM_NONE */
} attend_t;

static status_t read_heads(onnx_node_t *node, attend_t *attend)
{
    context_t *ctx = node->onnx->ctx;
    int64_t n_heads[2] = {0, 0};
    TRY(onnx_attr_int(node, "q_num_heads", 0, &n_heads[0]));
    TRY(onnx_attr_int(node, "kv_num_heads", 0, &n_heads[1]));
    attend->has_heads = onnx_input_info(node, QUERY).rank == 4;
    for (int i = QUERY; i <= VALUE; i++) {
        const tensor_info_t info = onnx_input_info(node, i);
        attend->parts[i] = node->in[i];
        if (info.rank != (attend->has_heads ? 4 : 3))
            FAIL(ctx, STATUS_INVALID_ARGUMENT,
                 "input %d is %s, all of rank 3 or of rank 4 are needed", i,
                 onnx_brief(node, &info));
        if (!attend->has_heads)
            TRY(onnx_split_heads(node, attend->parts[i], n_heads[i > QUERY], &attend->parts[i]));
    }
    const int64_t of_query = onnx_info(node->onnx, attend->parts[QUERY])->sizes[1];
    const int64_t of_key = onnx_info(node->onnx, attend->parts[KEY])->sizes[1];
    if (sym_less(ctx, of_key, 1) || !sym_divides(ctx, of_key, of_query))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld heads do not divide into %lld groups",
             (long long)sym_hint(ctx, of_query), (long long)sym_hint(ctx, of_key));
    return STATUS_OK;
}

/* Reads the inputs and attributes of opsets 24 and 25: lengths, and windows of keys. */
static status_t read_restrictions(onnx_node_t *node, attend_t *attend)
{
    context_t *ctx = node->onnx->ctx;
    attend->windows[0] = attend->windows[1] = -1;
    if (node->opset >= 25) {
        TRY(onnx_attr_int(node, "left_window_size", -1, &attend->windows[0]));
        TRY(onnx_attr_int(node, "right_window_size", -1, &attend->windows[1]));
    }
    for (int i = 0; i < 2; i++)
        if (attend->windows[i] < -1 || attend->windows[i] > INT32_MAX)
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a window of %lld keys",
                 (long long)attend->windows[i]);
    if (!onnx_has(node, LENGTHS)) return STATUS_OK;
    const tensor_info_t lengths = onnx_input_info(node, LENGTHS);
    if (onnx_has(node, PAST_KEY) || onnx_wants(node, PRESENT_KEY) ||
        onnx_wants(node, PRESENT_VALUE))
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "nonpad_kv_seqlen with past or present keys, it counts keys of a cache outside");
    if (lengths.rank != 1 || !sym_equal(ctx, lengths.sizes[0], onnx_input_info(node, KEY).sizes[0]))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "nonpad_kv_seqlen is %s, one number for each batch",
             onnx_brief(node, &lengths));
    return onnx_check_integers(node, LENGTHS, "nonpad_kv_seqlen");
}

static status_t read_attend(onnx_node_t *node, attend_t *attend)
{
    context_t *ctx = node->onnx->ctx;
    int64_t precision = 0;
    TRY(onnx_attr_bool(node, "is_causal", false, &attend->is_causal));
    TRY(onnx_attr_float(node, "scale", 0.0, &attend->scale));
    TRY(onnx_attr_float(node, "softcap", 0.0, &attend->softcap));
    TRY(onnx_attr_int(node, "qk_matmul_output_mode", PRODUCTS, &attend->mode));
    TRY(onnx_attr_int(node, "softmax_precision", 0, &precision));
    if (precision == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE &&
        onnx_input_info(node, QUERY).dtype != DTYPE_F64)
        FAIL(ctx, STATUS_UNSUPPORTED, "a softmax in f64 of %s",
             dtype_name(onnx_input_info(node, QUERY).dtype));
    if (attend->mode < PRODUCTS || attend->mode > WEIGHTS || attend->softcap < 0.0)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "qk_matmul_output_mode %lld, softcap %g",
             (long long)attend->mode, attend->softcap);
    if (onnx_has(node, PAST_KEY) != onnx_has(node, PAST_VALUE))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "past_key and past_value come together");
    attend->mask = onnx_has(node, MASK) ? node->in[MASK] : ITEM_NONE;
    TRY(read_restrictions(node, attend));
    return read_heads(node, attend);
}

/* ---- the keys that each query attends to ---- */

/* a where the condition is true, else -infinity. */
static status_t hide(onnx_node_t *node, item_t condition, item_t a, item_t *out)
{
    item_t number;
    TRY(onnx_number(node->onnx, -(double)INFINITY, &number));
    return onnx_op(node, "where", NULL, 3, (const item_t[]){condition, a, number}, out);
}

/* Computes the positions of the queries, [N][1][L][1]: those after the past or, if there are
 * lengths, the last ones. */
static status_t place_queries(onnx_node_t *node, const attend_t *attend, item_t lengths,
                              item_t *out)
{
    item_t rows, count;
    TRY(onnx_count_rows(node, attend->parts[QUERY], out, &count));
    if (lengths != ITEM_NONE) {
        TRY(onnx_binary(node, "add", *out, lengths, out));
        return onnx_binary(node, "sub", *out, count, out);
    }
    if (!onnx_has(node, PAST_KEY)) return STATUS_OK;
    TRY(onnx_count_rows(node, node->in[PAST_KEY], &rows, &count));
    return onnx_binary(node, "add", *out, count, out);
}

/* *seen = *seen and (left <op> right + number). */
static status_t require(onnx_node_t *node, const char *op, item_t left, item_t right,
                        int64_t number, item_t *seen)
{
    item_t shift, holds;
    if (number != 0) {
        TRY(onnx_integer(node->onnx, number, &shift));
        TRY(onnx_binary(node, "add", right, shift, &right));
    }
    TRY(onnx_binary(node, op, left, right, &holds));
    if (*seen != ITEM_NONE) TRY(onnx_binary(node, "logical_and", *seen, holds, &holds));
    *seen = holds;
    return STATUS_OK;
}

/* True where a query attends to a key according to attributes and lengths: bool [N][1][L][S]. */
static status_t find_seen(onnx_node_t *node, const attend_t *attend, item_t *out)
{
    item_t queries, keys, count, lengths = ITEM_NONE;
    *out = ITEM_NONE;
    if (onnx_has(node, LENGTHS)) {
        const int64_t sizes[] = {onnx_info(node->onnx, attend->parts[KEY])->sizes[0], 1, 1, 1};
        TRY(onnx_reshape(node, node->in[LENGTHS], 4, sizes, &lengths));
    }
    TRY(place_queries(node, attend, lengths, &queries));
    TRY(onnx_count_rows(node, attend->parts[KEY], &keys, &count));
    TRY(onnx_permute(node, keys, 4, (const int64_t[]){0, 1, 3, 2}, &keys));
    if (attend->is_causal) TRY(require(node, "le", keys, queries, 0, out));
    if (attend->windows[0] >= 0) TRY(require(node, "ge", keys, queries, -attend->windows[0], out));
    if (attend->windows[1] >= 0) TRY(require(node, "le", keys, queries, attend->windows[1], out));
    if (lengths != ITEM_NONE) TRY(require(node, "lt", keys, lengths, 0, out));
    return STATUS_OK;
}

/* If the mask is shorter than the number of keys, pads it so that it hides the remaining keys. */
static status_t lengthen_mask(onnx_node_t *node, attend_t *attend)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t info = *onnx_info(node->onnx, attend->mask);
    const int64_t n = onnx_info(node->onnx, attend->parts[KEY])->sizes[2];
    const int64_t n_masked = info.rank > 0 ? info.sizes[info.rank - 1] : 1;
    int64_t before[TENSOR_MAX_RANK] = {0}, after[TENSOR_MAX_RANK] = {0};
    if (sym_at_most(ctx, n, n_masked) || sym_equal(ctx, n_masked, 1)) return STATUS_OK;
    after[info.rank - 1] = sym_subtract(ctx, n, n_masked);
    return onnx_op(
        node, "pad",
        ONNX_ATTRS(SET_INTS("before", info.rank, before), SET_INTS("after", info.rank, after),
                   SET_FLOAT("value", info.dtype == DTYPE_BOOL ? 0.0 : -(double)INFINITY)),
        1, &attend->mask, &attend->mask);
}

/* True if windows or lengths hide keys. scaled_dot_product_attention has no attributes for them. */
static bool hides_keys(const onnx_node_t *node, const attend_t *attend)
{
    return attend->windows[0] >= 0 || attend->windows[1] >= 0 || onnx_has(node, LENGTHS);
}

/* Adds causality, windows and lengths to the mask. */
static status_t restrict_mask(onnx_node_t *node, attend_t *attend)
{
    item_t seen;
    TRY(find_seen(node, attend, &seen));
    attend->is_causal = false;
    if (attend->mask == ITEM_NONE) {
        attend->mask = seen;
        return STATUS_OK;
    }
    if (onnx_info(node->onnx, attend->mask)->dtype == DTYPE_BOOL)
        return onnx_binary(node, "logical_and", seen, attend->mask, &attend->mask);
    return hide(node, seen, attend->mask, &attend->mask);
}

/* ---- separate steps ---- */

/* Repeats the heads of keys or values, so that there is one for each of the query's n_heads
 * heads. */
static status_t repeat_heads(onnx_node_t *node, int64_t n_heads, item_t x, item_t *out)
{
    const tensor_info_t info = *onnx_info(node->onnx, x);
    const int64_t *sizes = info.sizes, n = sym_divide(node->onnx->ctx, n_heads, sizes[1]);
    const int64_t apart[] = {sizes[0], sizes[1], 1, sizes[2], sizes[3]};
    const int64_t many[] = {sizes[0], sizes[1], n, sizes[2], sizes[3]};
    const int64_t whole[] = {sizes[0], n_heads, sizes[2], sizes[3]};
    *out = x;
    if (sym_knows_equal(node->onnx->ctx, n, 1)) return STATUS_OK;
    TRY(onnx_reshape(node, x, 5, apart, out));
    TRY(onnx_expand(node, *out, 5, many, out));
    return onnx_reshape(node, *out, 4, whole, out);
}

static status_t scale_by(onnx_node_t *node, const char *op, item_t x, double factor, item_t *out)
{
    item_t number;
    TRY(onnx_number(node->onnx, factor, &number));
    return onnx_binary(node, op, x, number, out);
}

/* softcap tanh(x / softcap) */
static status_t cap(onnx_node_t *node, double softcap, item_t x, item_t *out)
{
    *out = x;
    if (softcap == 0.0) return STATUS_OK;
    TRY(scale_by(node, "div", x, softcap, out));
    TRY(onnx_unary(node, "tanh", *out, out));
    return scale_by(node, "mul", *out, softcap, out);
}

/* Softmax of rows; 0 for a row in which all scores are -infinity. */
static status_t weigh(onnx_node_t *node, bool may_hide, item_t scores, item_t *out)
{
    item_t largest, number, is_hidden;
    TRY(onnx_op(node, "softmax", ONNX_ATTRS(SET("dim", 3)), 1, &scores, out));
    if (!may_hide) return STATUS_OK;
    TRY(onnx_op(node, "amax",
                ONNX_ATTRS(SET_INTS("dims", 1, (const int64_t[]){3}), SET("keepdim", true)), 1,
                &scores, &largest));
    TRY(onnx_number(node->onnx, -(double)INFINITY, &number));
    TRY(onnx_binary(node, "eq", largest, number, &is_hidden));
    TRY(onnx_number(node->onnx, 0.0, &number));
    return onnx_op(node, "where", NULL, 3, (const item_t[]){is_hidden, number, *out}, out);
}

static status_t attend_by_steps(onnx_node_t *node, attend_t *attend, item_t *out)
{
    const tensor_info_t query = *onnx_info(node->onnx, attend->parts[QUERY]);
    double scale = attend->scale;
    if (scale == 0.0) scale = 1.0 / sqrt((double)sym_pin(node->onnx->ctx, query.sizes[3]));
    item_t steps[WEIGHTS + 1], keys, values;
    TRY(repeat_heads(node, query.sizes[1], attend->parts[KEY], &keys));
    TRY(repeat_heads(node, query.sizes[1], attend->parts[VALUE], &values));
    TRY(onnx_permute(node, keys, 4, (const int64_t[]){0, 1, 3, 2}, &keys));
    TRY(scale_by(node, "mul", attend->parts[QUERY], scale, &steps[PRODUCTS]));
    TRY(onnx_binary(node, "matmul", steps[PRODUCTS], keys, &steps[PRODUCTS]));
    TRY(cap(node, attend->softcap, steps[PRODUCTS], &steps[CAPPED]));
    steps[MASKED] = steps[CAPPED];
    if (attend->is_causal || hides_keys(node, attend)) TRY(restrict_mask(node, attend));
    if (attend->mask != ITEM_NONE) {
        if (onnx_info(node->onnx, attend->mask)->dtype == DTYPE_BOOL)
            TRY(hide(node, attend->mask, steps[CAPPED], &steps[MASKED]));
        else
            TRY(onnx_binary(node, "add", steps[CAPPED], attend->mask, &steps[MASKED]));
    }
    TRY(weigh(node, attend->mask != ITEM_NONE, steps[MASKED], &steps[WEIGHTS]));
    if (onnx_wants(node, SCORES)) node->out[SCORES] = steps[attend->mode];
    return onnx_binary(node, "matmul", steps[WEIGHTS], values, out);
}

/* ---- one operator ---- */

static status_t attend_at_once(onnx_node_t *node, attend_t *attend, item_t *out)
{
    const bool has_past = onnx_has(node, PAST_KEY);
    item_t in[4];
    onnx_call_t call;
    if ((attend->is_causal && has_past) || hides_keys(node, attend))
        TRY(restrict_mask(node, attend));
    const attention_attrs_t attrs = {
        .is_causal = attend->is_causal,
        .enable_gqa = !sym_equal(node->onnx->ctx,
                                 onnx_info(node->onnx, attend->parts[QUERY])->sizes[1],
                                 onnx_info(node->onnx, attend->parts[KEY])->sizes[1]),
        .scale = attend->scale};
    for (int i = QUERY; i <= VALUE; i++) in[i] = attend->parts[i];
    in[MASK] = attend->mask;
    onnx_call(node, "scaled_dot_product_attention", &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    return onnx_emit(&call, attend->mask != ITEM_NONE ? 4 : 3, in, out);
}

status_t onnx_import_attention(onnx_node_t *node)
{
    attend_t attend = {.mask = ITEM_NONE};
    item_t mixed;
    TRY(read_attend(node, &attend));
    for (int i = KEY; i <= VALUE; i++) {
        if (onnx_has(node, PAST_KEY)) {
            const item_t rows[] = {node->in[PAST_KEY + i - KEY], attend.parts[i]};
            TRY(onnx_concat(node, 2, rows, 2, &attend.parts[i]));
        }
        if (onnx_wants(node, PRESENT_KEY + i - KEY))
            node->out[PRESENT_KEY + i - KEY] = attend.parts[i];
    }
    if (attend.mask != ITEM_NONE) TRY(lengthen_mask(node, &attend));
    if (attend.softcap != 0.0 || onnx_wants(node, SCORES))
        TRY(attend_by_steps(node, &attend, &mixed));
    else
        TRY(attend_at_once(node, &attend, &mixed));
    node->out[OUT] = mixed;
    return attend.has_heads ? STATUS_OK : onnx_join_heads(node, mixed, &node->out[OUT]);
}
