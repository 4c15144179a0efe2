/* Rotary position embedding, and com.microsoft's grouped-query attention with past keys. */
#include "io/onnx_ops/attention_impl.h"
#include "ops/attention/attention.h"
#include "tensor/tensor_impl.h"

static status_t along(onnx_node_t *node, const char *op, int dim, item_t x, item_t *out)
{
    return onnx_op(node, op, ONNX_ATTRS(SET("dim", dim)), 1, &x, out);
}

/* ---- positions: s64, computed from sizes only ---- */

/* A tensor of ones [N][1][T][1] for x. */
static status_t make_ones(onnx_node_t *node, item_t x, item_t *out)
{
    TRY(onnx_slice(node, x, 1, 0, 1, 1, out));
    TRY(onnx_slice(node, *out, 3, 0, 1, 1, out));
    return onnx_op(node, "full_like", ONNX_ATTRS(SET_FLOAT("value", 1.0), SET("dtype", DTYPE_S64)),
                   1, out, out);
}

status_t onnx_count_rows(onnx_node_t *node, item_t x, item_t *out_rows, item_t *out_count)
{
    item_t ones, sums;
    TRY(make_ones(node, x, &ones));
    TRY(along(node, "cumsum", 2, ones, &sums));
    TRY(onnx_binary(node, "sub", sums, ones, out_rows));
    return onnx_op(node, "sum",
                   ONNX_ATTRS(SET_INTS("dims", 1, (const int64_t[]){2}), SET("keepdim", true)), 1,
                   &ones, out_count);
}

/* ---- rotation ---- */

/* True if `size` is twice the number of the table's angles, or 0. */
static bool has_angles(const onnx_node_t *node, const tensor_info_t *table, int64_t size)
{
    context_t *ctx = node->onnx->ctx;
    return size <= 0 || sym_equal(ctx, size, sym_multiply(ctx, table->sizes[table->rank - 1], 2));
}

/* Looks up cos or sin at positions [N][T] or [T]: [N][1][T][R / 2] or [1][1][T][R / 2]. */
static status_t take_angles(onnx_node_t *node, item_t table, item_t positions, item_t *out)
{
    TRY(onnx_op(node, "gather", ONNX_ATTRS(SET("dim", 0)), 2, (const item_t[]){table, positions},
                out));
    const tensor_info_t info = *onnx_info(node->onnx, *out);
    const int64_t sizes[] = {info.rank == 3 ? info.sizes[0] : 1, 1, info.sizes[info.rank - 2],
                             info.sizes[info.rank - 1]};
    return onnx_reshape(node, *out, 4, sizes, out);
}

/* x cos - y sin, y cos + x sin */
static status_t turn(onnx_node_t *node, const item_t *pair, item_t cos, item_t sin, item_t *out)
{
    item_t products[4];
    TRY(onnx_binary(node, "mul", pair[0], cos, &products[0]));
    TRY(onnx_binary(node, "mul", pair[1], sin, &products[1]));
    TRY(onnx_binary(node, "mul", pair[1], cos, &products[2]));
    TRY(onnx_binary(node, "mul", pair[0], sin, &products[3]));
    TRY(onnx_binary(node, "sub", products[0], products[1], &out[0]));
    return onnx_binary(node, "add", products[2], products[3], &out[1]);
}

/* Rotates pairs in the first 2 * (number of angles) elements of each row of x [N][heads][T][D]. A
 * pair is two adjacent elements if is_interleaved, else one element from each half. */
static status_t rotate(onnx_node_t *node, item_t x, item_t cos, item_t sin, bool is_interleaved,
                       item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t info = *onnx_info(node->onnx, x);
    const int64_t half = onnx_info(node->onnx, cos)->sizes[3], size = info.sizes[3];
    const int64_t turned = sym_multiply(ctx, half, 2), ends[] = {0, half, turned};
    item_t pair[2], parts[2];
    if (sym_less(ctx, half, 1) || sym_less(ctx, size, turned))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld angles for heads of %lld elements",
             (long long)sym_hint(ctx, half), (long long)sym_hint(ctx, size));
    for (int i = 0; i < 2; i++)
        TRY(is_interleaved ? onnx_slice(node, x, 3, i, turned, 2, &pair[i])
                           : onnx_slice(node, x, 3, ends[i], ends[i + 1], 1, &pair[i]));
    TRY(turn(node, pair, cos, sin, parts));
    if (is_interleaved) {
        const int64_t apart[] = {info.sizes[0], info.sizes[1], info.sizes[2], half, 1};
        const int64_t beside[] = {info.sizes[0], info.sizes[1], info.sizes[2], turned};
        for (int i = 0; i < 2; i++) TRY(onnx_reshape(node, parts[i], 5, apart, &parts[i]));
        TRY(onnx_concat(node, 2, parts, 4, &parts[0]));
        TRY(onnx_reshape(node, parts[0], 4, beside, &parts[0]));
    } else {
        TRY(onnx_concat(node, 2, parts, 3, &parts[0]));
    }
    const bool has_rest = sym_less(ctx, turned, size);
    if (has_rest) TRY(onnx_slice(node, x, 3, turned, size, 1, &parts[1]));
    return onnx_concat(node, has_rest ? 2 : 1, parts, 3, out);
}

/* x as heads [N][heads][T][D]. If x is [N][T][E], it is split into n_heads heads. */
static status_t take_heads(onnx_node_t *node, int64_t n_heads, int64_t angles, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t info = onnx_input_info(node, 0);
    *out = node->in[0];
    if (info.rank == 4) return STATUS_OK;
    if (info.rank != 3 || sym_less(ctx, angles, 1))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "x is %s, rank 3 or 4 is needed",
             onnx_brief(node, &info));
    if (n_heads <= 0) n_heads = sym_divide(ctx, info.sizes[2], sym_multiply(ctx, angles, 2));
    return onnx_split_heads(node, *out, n_heads, out);
}

/* Inputs: x, positions [N][T] or only the position of each first row, cos, sin. */
status_t onnx_import_ms_rotary(onnx_node_t *node)
{
    enum { X, POSITIONS, COS, SIN };
    const tensor_info_t table = onnx_input_info(node, COS);
    int64_t n_heads = 0, size = 0;
    bool is_interleaved = false, is_packed = false;
    double scale = 1;
    item_t x, rows, count, angles[2], positions = node->in[POSITIONS];
    TRY(onnx_attr_int(node, "num_heads", 0, &n_heads));
    TRY(onnx_attr_int(node, "rotary_embedding_dim", 0, &size));
    TRY(onnx_attr_bool(node, "interleaved", false, &is_interleaved));
    TRY(onnx_attr_bool(node, "is_packed_batching", false, &is_packed));
    TRY(onnx_attr_float(node, "scale", 1.0, &scale));
    if (is_packed || scale != 1)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "is_packed_batching %d, scale %g", is_packed,
             scale);
    if (table.rank != 2 || !has_angles(node, &table, size))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "cos is %s, half of %lld angles are needed",
             onnx_brief(node, &table), (long long)size);
    TRY(take_heads(node, n_heads, table.sizes[1], &x));
    if (onnx_input_info(node, POSITIONS).rank == 1) {
        TRY(onnx_count_rows(node, x, &rows, &count));
        TRY(onnx_binary(node, "add", rows, positions, &positions));
        const tensor_info_t info = *onnx_info(node->onnx, positions);
        const int64_t sizes[] = {info.sizes[0], info.sizes[2]};
        TRY(onnx_reshape(node, positions, 2, sizes, &positions));
    }
    for (int i = 0; i < 2; i++) TRY(take_angles(node, node->in[COS + i], positions, &angles[i]));
    TRY(rotate(node, x, angles[0], angles[1], is_interleaved, &x));
    if (onnx_input_info(node, X).rank == 4) {
        node->out[0] = x;
        return STATUS_OK;
    }
    return onnx_join_heads(node, x, &node->out[0]);
}

/* Inputs: x, cos, sin, positions. Without positions, cos and sin have one row for each row of x. */
status_t onnx_import_rotary(onnx_node_t *node)
{
    enum { X, COS, SIN, POSITIONS };
    const tensor_info_t info = onnx_input_info(node, X), table = onnx_input_info(node, COS);
    const int rank = onnx_has(node, POSITIONS) ? 2 : 3;
    int64_t n_heads = 0, size = 0;
    bool is_interleaved = false;
    item_t x, angles[2];
    TRY(onnx_attr_int(node, "num_heads", 0, &n_heads));
    TRY(onnx_attr_int(node, "rotary_embedding_dim", 0, &size));
    TRY(onnx_attr_bool(node, "interleaved", false, &is_interleaved));
    if (table.rank != rank || onnx_input_info(node, SIN).rank != rank ||
        !has_angles(node, &table, size) || (info.rank == 3 && n_heads < 1))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "cos is %s for %lld angles, num_heads is %lld: rank %d, half of the angles, and heads "
             "of an x of rank 3 are needed",
             onnx_brief(node, &table), (long long)size, (long long)n_heads, rank);
    TRY(take_heads(node, n_heads, table.sizes[rank - 1], &x));
    for (int i = 0; i < 2; i++) {
        const item_t cache = node->in[COS + i];
        const int64_t sizes[] = {table.sizes[0], 1, table.sizes[1], table.sizes[rank - 1]};
        TRY(rank == 2 ? take_angles(node, cache, node->in[POSITIONS], &angles[i])
                      : onnx_reshape(node, cache, 4, sizes, &angles[i]));
    }
    TRY(rotate(node, x, angles[0], angles[1], is_interleaved, &x));
    node->out[0] = x;
    return info.rank == 4 ? STATUS_OK : onnx_join_heads(node, x, &node->out[0]);
}

/* ---- grouped-query attention ---- */

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COS, SIN };

typedef struct group_attention {
    int64_t n_heads, n_kv_heads;
    bool rotates, is_interleaved;
    attention_attrs_t attrs;
    item_t heads[3]; /* query, key and value, [N][heads][T][D] */
    item_t rows;     /* row numbers of the queries, [N][1][T][1] */
    item_t past;     /* number of past keys in each sequence, [N][1][1][1] */
} group_attention_t;

static status_t read_group(onnx_node_t *node, group_attention_t *group)
{
    context_t *ctx = node->onnx->ctx;
    int64_t window = -1, smooth = 0, causal = 1;
    double softcap = 0;
    TRY(onnx_attr_int(node, "num_heads", 0, &group->n_heads));
    TRY(onnx_attr_int(node, "kv_num_heads", 0, &group->n_kv_heads));
    TRY(onnx_attr_bool(node, "do_rotary", false, &group->rotates));
    TRY(onnx_attr_bool(node, "rotary_interleaved", false, &group->is_interleaved));
    TRY(onnx_attr_float(node, "scale", 0.0, &group->attrs.scale));
    TRY(onnx_attr_int(node, "local_window_size", -1, &window));
    TRY(onnx_attr_int(node, "smooth_softmax", 0, &smooth));
    TRY(onnx_attr_int(node, "causal", 1, &causal));
    TRY(onnx_attr_float(node, "softcap", 0.0, &softcap));
    if (window != -1 || smooth > 0 || softcap != 0 || causal != 1)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "local_window_size %lld, smooth_softmax %lld, softcap %g, causal %lld",
             (long long)window, (long long)smooth, softcap, (long long)causal);
    for (int i = SIN + 1; i < node->n_in; i++)
        if (onnx_has(node, i)) FAIL(ctx, STATUS_UNSUPPORTED, "input %d is not supported", i);
    if (group->n_heads < 1 || group->n_kv_heads < 1 || group->n_heads % group->n_kv_heads != 0)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld heads do not divide into %lld groups",
             (long long)group->n_heads, (long long)group->n_kv_heads);
    if (!onnx_has(node, LENGTHS) || (group->rotates && !onnx_has(node, SIN)))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "seqlens_k, or cos and sin are missing");
    group->attrs.enable_gqa = group->n_heads != group->n_kv_heads;
    return STATUS_OK;
}

/* Splits query, key and value into heads. They are three inputs, or all packed in the first one. */
static status_t take_parts(onnx_node_t *node, group_attention_t *group)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t all = onnx_input_info(node, QUERY);
    const int64_t n = group->n_heads + 2 * group->n_kv_heads;
    const int64_t n_heads[] = {group->n_heads, group->n_kv_heads, group->n_kv_heads};
    const bool is_packed = !onnx_has(node, KEY);
    int64_t first = 0;
    if (all.rank != 3 || (is_packed ? !sym_divides(ctx, n, all.sizes[2]) : !onnx_has(node, VALUE)))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "query is %s, it does not divide into %lld heads",
             onnx_brief(node, &all), (long long)n);
    const int64_t each = sym_divide(ctx, all.sizes[2], n);
    for (int i = 0; i < 3; i++) {
        item_t part = is_packed ? node->in[QUERY] : node->in[i];
        const int64_t end = sym_add(ctx, first, sym_multiply(ctx, each, n_heads[i]));
        if (is_packed) TRY(onnx_slice(node, part, 2, first, end, 1, &part));
        first = end;
        TRY(onnx_split_heads(node, part, n_heads[i], &group->heads[i]));
    }
    return STATUS_OK;
}

/* max(seqlens_k + 1 - T, 0); seqlens_k is the last key's index. The first step has no past. */
static status_t find_past(onnx_node_t *node, group_attention_t *group)
{
    const tensor_info_t lengths = onnx_input_info(node, LENGTHS);
    const int64_t sizes[] = {onnx_numel(node, &lengths), 1, 1, 1};
    item_t number, count;
    if (!sym_equal(node->onnx->ctx, sizes[0], onnx_input_info(node, QUERY).sizes[0]))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "seqlens_k is %s, one for each query is needed", onnx_brief(node, &lengths));
    TRY(onnx_count_rows(node, group->heads[QUERY], &group->rows, &count));
    TRY(onnx_cast(node, node->in[LENGTHS], DTYPE_S64, &group->past));
    TRY(onnx_reshape(node, group->past, 4, sizes, &group->past));
    TRY(onnx_integer(node->onnx, 1, &number));
    TRY(onnx_binary(node, "add", group->past, number, &group->past));
    TRY(onnx_binary(node, "sub", group->past, count, &group->past));
    TRY(onnx_integer(node->onnx, 0, &number));
    return onnx_binary(node, "maximum", group->past, number, &group->past);
}

static status_t rotate_group(onnx_node_t *node, group_attention_t *group)
{
    item_t positions, angles[2];
    TRY(onnx_binary(node, "add", group->rows, group->past, &positions));
    const tensor_info_t info = *onnx_info(node->onnx, positions);
    TRY(onnx_reshape(node, positions, 2, (const int64_t[]){info.sizes[0], info.sizes[2]},
                     &positions));
    for (int i = 0; i < 2; i++) TRY(take_angles(node, node->in[COS + i], positions, &angles[i]));
    for (int i = QUERY; i <= KEY; i++)
        TRY(rotate(node, group->heads[i], angles[0], angles[1], group->is_interleaved,
                   &group->heads[i]));
    return STATUS_OK;
}

/* x where the condition is true, else 0. */
static status_t keep_where(onnx_node_t *node, item_t condition, item_t x, item_t *out)
{
    item_t zero;
    TRY(onnx_number(node->onnx, 0.0, &zero));
    return onnx_op(node, "where", NULL, 3, (const item_t[]){condition, x, zero}, out);
}

/* Appends the new rows to the past of each sequence, and fills the rest with zeros. Row j of the
 * result is a row of the concatenation [past P][new T]: if j < past, row j, else row
 * min(j - past + P, P + T - 1). */
static status_t append(onnx_node_t *node, const group_attention_t *group, item_t past, item_t fresh,
                       item_t *out)
{
    item_t rows, count, size, n_new, index, all, one, is_past, is_used;
    TRY(onnx_count_rows(node, fresh, &rows, &n_new));
    TRY(onnx_count_rows(node, past, &rows, &size));
    TRY(onnx_concat(node, 2, (const item_t[]){past, fresh}, 2, &all));
    TRY(onnx_count_rows(node, all, &rows, &count));
    TRY(onnx_integer(node->onnx, 1, &one));
    TRY(onnx_binary(node, "sub", count, one, &count));
    TRY(onnx_binary(node, "sub", rows, group->past, &index));
    TRY(onnx_binary(node, "add", index, size, &index));
    TRY(onnx_binary(node, "minimum", index, count, &index));
    TRY(onnx_binary(node, "lt", rows, group->past, &is_past));
    TRY(onnx_op(node, "where", NULL, 3, (const item_t[]){is_past, rows, index}, &index));
    TRY(onnx_binary(node, "add", group->past, n_new, &n_new));
    TRY(onnx_binary(node, "lt", rows, n_new, &is_used));
    const tensor_info_t info = *onnx_info(node->onnx, all);
    TRY(onnx_expand(node, index, 4, info.sizes, &index));
    TRY(onnx_op(node, "gather_elements", ONNX_ATTRS(SET("dim", 2)), 2, (const item_t[]){all, index},
                out));
    return keep_where(node, is_used, *out, out);
}

/* ---- present keys and values ---- */

/* The size of a dimension of x, as s64 [1]. */
static status_t take_size(onnx_node_t *node, item_t x, int dim, item_t *out)
{
    TRY(onnx_sizes(node, x, out));
    return onnx_slice(node, *out, 0, dim, dim + 1, 1, out);
}

/* The number of present rows: P, the size of the past's buffer, if the total fits; else P + T. */
static status_t count_present(onnx_node_t *node, item_t *out)
{
    item_t size, all, total = node->in[TOTAL], is_more;
    TRY(take_size(node, node->in[PAST_KEY], 2, &size));
    TRY(take_size(node, node->in[QUERY], 1, &all));
    TRY(onnx_binary(node, "add", size, all, &all));
    TRY(onnx_reshape(node, total, 1, (const int64_t[]){1}, &total));
    TRY(onnx_cast(node, total, DTYPE_S64, &total));
    TRY(onnx_binary(node, "gt", total, size, &is_more));
    return onnx_op(node, "where", NULL, 3, (const item_t[]){is_more, all, size}, out);
}

/* Keeps the first `count` rows. */
static status_t cut(onnx_node_t *node, item_t count, item_t x, item_t *out)
{
    return onnx_op(node, "slice_by", ONNX_ATTRS(SET("dim", 2)), 3,
                   (const item_t[]){x, ITEM_NONE, count}, out);
}

/* True where query t attends to a key: its index is at most past + t. */
static status_t see(onnx_node_t *node, const group_attention_t *group, item_t keys, item_t *out)
{
    item_t rows, count, last;
    TRY(onnx_count_rows(node, keys, &rows, &count));
    const tensor_info_t info = *onnx_info(node->onnx, rows);
    TRY(onnx_reshape(node, rows, 4, (const int64_t[]){info.sizes[0], 1, 1, info.sizes[2]}, &rows));
    TRY(onnx_binary(node, "add", group->past, group->rows, &last));
    return onnx_binary(node, "le", rows, last, out);
}

/* A known total must be at most P, so that the past's buffer holds all keys, or equal P + T. */
static status_t check_past(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    const bool is_whole = onnx_has(node, PAST_VALUE) && onnx_has(node, TOTAL);
    int64_t total = 0;
    int n = 0;
    if (!is_whole || onnx_input_info(node, PAST_KEY).rank != 4)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "past_key without past_value or total_sequence_length, or its rank");
    const int64_t room = onnx_input_info(node, PAST_KEY).sizes[2];
    const int64_t fresh = onnx_input_info(node, QUERY).sizes[1];
    const tensor_info_t info = onnx_input_info(node, TOTAL);
    if (!sym_equal(ctx, onnx_numel(node, &info), 1))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "total_sequence_length is %s, one is needed",
             onnx_brief(node, &info));
    if (!onnx_knows(node, TOTAL)) return STATUS_OK;
    TRY(onnx_input_ints(node, TOTAL, "total_sequence_length", 1, &n, &total));
    const int64_t is_all = sym_is_equal(ctx, total, sym_add(ctx, room, fresh));
    const int64_t is_more = sym_is_less(ctx, room, total);
    if (sym_less(ctx, is_all, is_more))
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "total_sequence_length %lld, for a past of %lld and %lld new ones",
             (long long)sym_hint(ctx, total), (long long)sym_hint(ctx, room),
             (long long)sym_hint(ctx, fresh));
    return STATUS_OK;
}

status_t onnx_import_group_query_attention(onnx_node_t *node)
{
    group_attention_t group = {.attrs = {.is_causal = true}};
    item_t in[4], mask = ITEM_NONE, mixed, count = ITEM_NONE;
    onnx_call_t call;
    TRY(read_group(node, &group));
    TRY(take_parts(node, &group));
    TRY(find_past(node, &group));
    if (group.rotates) TRY(rotate_group(node, &group));
    if (onnx_has(node, PAST_KEY)) {
        TRY(check_past(node));
        TRY(count_present(node, &count));
        for (int i = KEY; i <= VALUE; i++)
            TRY(append(node, &group, node->in[PAST_KEY + i - KEY], group.heads[i],
                       &group.heads[i]));
        TRY(see(node, &group, group.heads[KEY], &mask));
        group.attrs.is_causal = false;
    }
    for (int i = 0; i < 3; i++) in[i] = group.heads[i];
    in[3] = mask;
    onnx_call(node, "scaled_dot_product_attention", &call);
    onnx_set_all(&call, &group.attrs, sizeof group.attrs);
    TRY(onnx_emit(&call, mask != ITEM_NONE ? 4 : 3, in, &mixed));
    for (int i = KEY; i <= VALUE; i++) {
        if (!onnx_wants(node, i)) continue;
        node->out[i] = group.heads[i];
        if (count != ITEM_NONE) TRY(cut(node, count, group.heads[i], &node->out[i]));
    }
    return onnx_join_heads(node, mixed, &node->out[0]);
}
