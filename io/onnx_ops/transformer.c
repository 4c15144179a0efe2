/* Operators of com.microsoft that ONNX Runtime's optimizers produce for transformers. */
#include "io/onnx_ops/attention_impl.h"
#include "ops/attention/attention.h"
#include "tensor/tensor_impl.h"

/* ---- activations ---- */

static status_t gelu(onnx_node_t *node, item_t x, bool by_tanh, item_t *out)
{
    return onnx_op(node, "gelu", ONNX_ATTRS(SET("tanh_approximation", by_tanh)), 1, &x, out);
}

/* Gelu, BiasGelu, and FastGelu with an optional bias. */
status_t onnx_import_bias_gelu(onnx_node_t *node)
{
    const bool by_tanh = node->op->own != NULL;
    item_t x = node->in[0];
    if (onnx_has(node, 1)) TRY(onnx_binary(node, "add", x, node->in[1], &x));
    return gelu(node, x, by_tanh, &node->out[0]);
}

/* x sigmoid(alpha x) */
status_t onnx_import_quick_gelu(onnx_node_t *node)
{
    double alpha = 0;
    item_t number, x;
    TRY(onnx_attr_float(node, "alpha", 1.702, &alpha));
    TRY(onnx_number(node->onnx, alpha, &number));
    TRY(onnx_binary(node, "mul", node->in[0], number, &x));
    TRY(onnx_unary(node, "sigmoid", x, &x));
    return onnx_binary(node, "mul", node->in[0], x, &node->out[0]);
}

/* ---- normalised sums ---- */

static status_t norm(onnx_node_t *node, const char *op_name, item_t x, item_t weight, item_t bias,
                     item_t *out)
{
    double epsilon = 0;
    TRY(onnx_attr_float(node, "epsilon", 1e-12, &epsilon));
    return onnx_op(node, op_name, ONNX_ATTRS(SET("n_dims", 1), SET_FLOAT("epsilon", epsilon)),
                   bias != ITEM_NONE ? 3 : 2, (item_t[]){x, weight, bias}, out);
}

/* Normalises input + skip + bias with the operator node->op->own. Output 3 is the sum. */
static status_t skip_norm(onnx_node_t *node, item_t weight, item_t shift, int bias)
{
    item_t sum;
    TRY(onnx_binary(node, "add", node->in[0], node->in[1], &sum));
    if (onnx_has(node, bias)) TRY(onnx_binary(node, "add", sum, node->in[bias], &sum));
    if (onnx_wants(node, 3)) node->out[3] = sum;
    return norm(node, node->op->own, sum, weight, shift, &node->out[0]);
}

status_t onnx_import_skip_layer_norm(onnx_node_t *node)
{
    return skip_norm(node, node->in[2], onnx_has(node, 3) ? node->in[3] : ITEM_NONE, 4);
}

status_t onnx_import_skip_rms_norm(onnx_node_t *node)
{
    return skip_norm(node, node->in[2], ITEM_NONE, 3);
}

static status_t gather(onnx_node_t *node, item_t weight, item_t index, item_t *out)
{
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", 0)), 2, (item_t[]){weight, index}, out);
}

/* Adds the embeddings of words, positions and segments, and normalises the sum. */
status_t onnx_import_embed_layer_norm(onnx_node_t *node)
{
    enum { IDS, SEGMENTS, WORDS, POSITIONS, KINDS, WEIGHT, BIAS, MASK, POSITION_IDS };
    tensor_info_t ids = onnx_input_info(node, IDS);
    item_t sum, part;
    TRY(onnx_check_inputs(node, WORDS, KINDS));
    TRY(onnx_check_inputs(node, KINDS + 1, BIAS + 1));
    if (ids.rank != 2)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input_ids is %s, rank 2 is needed",
             onnx_brief(node, &ids));
    TRY(gather(node, node->in[WORDS], node->in[IDS], &sum));
    if (onnx_has(node, POSITION_IDS))
        TRY(gather(node, node->in[POSITIONS], node->in[POSITION_IDS], &part));
    else
        TRY(onnx_slice(node, node->in[POSITIONS], 0, 0, ids.sizes[1], 1, &part));
    TRY(onnx_binary(node, "add", sum, part, &sum));
    if (onnx_has(node, KINDS)) { /* without segment ids, all are segment 0 */
        if (onnx_has(node, SEGMENTS))
            TRY(gather(node, node->in[KINDS], node->in[SEGMENTS], &part));
        else
            TRY(onnx_slice(node, node->in[KINDS], 0, 0, 1, 1, &part));
        TRY(onnx_binary(node, "add", sum, part, &sum));
    }
    if (onnx_wants(node, 2)) node->out[2] = sum;
    return norm(node, "layer_norm", sum, node->in[WEIGHT], node->in[BIAS], &node->out[0]);
}

/* ---- attention ---- */

status_t onnx_split_heads(onnx_node_t *node, item_t x, int64_t n_heads, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    tensor_info_t info = *onnx_info(node->onnx, x);
    if (info.rank != 3 || sym_less(ctx, n_heads, 1) || !sym_divides(ctx, n_heads, info.sizes[2]))
        FAIL(ctx, STATUS_UNSUPPORTED, "num_heads %lld of %s, it must be of rank 3 and divide",
             (long long)sym_hint(ctx, n_heads), onnx_brief(node, &info));
    const int64_t sizes[] = {info.sizes[0], info.sizes[1], n_heads,
                             sym_divide(ctx, info.sizes[2], n_heads)};
    TRY(onnx_reshape(node, x, 4, sizes, out));
    return onnx_permute(node, *out, 4, (const int64_t[]){0, 2, 1, 3}, out);
}

status_t onnx_join_heads(onnx_node_t *node, item_t x, item_t *out)
{
    TRY(onnx_permute(node, x, 4, (const int64_t[]){0, 2, 1, 3}, out));
    tensor_info_t info = *onnx_info(node->onnx, *out);
    const int64_t sizes[] = {info.sizes[0], info.sizes[1], onnx_product(node, 2, &info.sizes[2])};
    return onnx_reshape(node, *out, 3, sizes, out);
}

/* Converts a mask [N][S] or [N][T][S] to terms of the scores: 1 becomes 0, 0 mask_filter_value. */
static status_t make_mask(onnx_node_t *node, int input, item_t *out)
{
    double filter = 0;
    item_t one, number, mask = ITEM_NONE;
    TRY(onnx_attr_float(node, "mask_filter_value", -10000.0, &filter));
    *out = ITEM_NONE;
    if (!onnx_has(node, input)) return STATUS_OK;
    tensor_info_t info = onnx_input_info(node, input);
    if (info.rank != 2 && info.rank != 3)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "a mask %s, rank 2 or 3 is supported",
             onnx_brief(node, &info));
    const int64_t sizes[] = {info.sizes[0], 1, info.rank == 3 ? info.sizes[1] : 1,
                             info.sizes[info.rank - 1]};
    TRY(onnx_reshape(node, node->in[input], 4, sizes, &mask));
    TRY(onnx_cast(node, mask, DTYPE_F32, &mask));
    TRY(onnx_number(node->onnx, 1.0, &one));
    TRY(onnx_number(node->onnx, -filter, &number));
    TRY(onnx_binary(node, "sub", mask, one, &mask));
    return onnx_binary(node, "mul", mask, number, out);
}

/* parts: query, key and value as [N][T][E]. bias: input number of a term of the scores, or -1. */
static status_t attend(onnx_node_t *node, const item_t *parts, item_t mask, int bias)
{
    attention_attrs_t attrs = {.is_causal = false};
    int64_t n_heads = 0;
    item_t in[4], mixed;
    onnx_call_t call;
    TRY(onnx_attr_int(node, "num_heads", 0, &n_heads));
    TRY(onnx_attr_bool(node, "unidirectional", false, &attrs.is_causal));
    TRY(onnx_attr_float(node, "scale", 0.0, &attrs.scale));
    for (int i = 0; i < 3; i++) TRY(onnx_split_heads(node, parts[i], n_heads, &in[i]));
    in[3] = mask;
    const bool has_bias = bias >= 0 && onnx_has(node, bias);
    if (has_bias) in[3] = node->in[bias];
    if (has_bias && mask != ITEM_NONE) TRY(onnx_binary(node, "add", mask, node->in[bias], &in[3]));
    onnx_call(node, "scaled_dot_product_attention", &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    TRY(onnx_emit(&call, 4, in, &mixed));
    return onnx_join_heads(node, mixed, &node->out[0]);
}

static status_t refuse_past(onnx_node_t *node, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (onnx_has(node, i))
            FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "keys and values of the past, input %d", i);
    return STATUS_OK;
}

status_t onnx_attend_packed(onnx_node_t *node, item_t all, const int64_t *sizes, int mask,
                            int scores)
{
    item_t parts[3], seen;
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t end = sym_add(node->onnx->ctx, first, sizes[i]);
        TRY(onnx_slice(node, all, 2, first, end, 1, &parts[i]));
        first = end;
    }
    TRY(make_mask(node, mask, &seen));
    return attend(node, parts, seen, scores);
}

/* One matrix product computes query, key and value. */
status_t onnx_import_ms_attention(onnx_node_t *node)
{
    enum { X, WEIGHT, BIAS, MASK, PAST, SCORES };
    context_t *ctx = node->onnx->ctx;
    tensor_info_t weight = onnx_input_info(node, WEIGHT);
    int64_t sizes[3] = {0};
    int n = 0;
    item_t in[3] = {node->in[X], ITEM_NONE, onnx_has(node, BIAS) ? node->in[BIAS] : ITEM_NONE};
    item_t all;
    TRY(refuse_past(node, PAST, PAST));
    TRY(onnx_attr_ints(node, "qkv_hidden_sizes", 3, &n, sizes));
    bool fits = weight.rank == 2;
    for (int i = 0; i < 3 && n != 3 && fits; i++) sizes[i] = sym_divide(ctx, weight.sizes[1], 3);
    const int64_t all_sizes = sym_add(ctx, sym_add(ctx, sizes[0], sizes[1]), sizes[2]);
    fits = fits && sym_equal(ctx, all_sizes, weight.sizes[1]);
    if (!fits)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "weights %s, [E,Q+K+V] is needed",
             onnx_brief(node, &weight));
    TRY(onnx_transposed(node, node->in[WEIGHT], &in[1]));
    TRY(onnx_op(node, "linear", NULL, 3, in, &all));
    return onnx_attend_packed(node, all, sizes, MASK, SCORES);
}

status_t onnx_import_multi_head_attention(onnx_node_t *node)
{
    enum { QUERY, KEY, VALUE, BIAS, MASK, SCORES, PAST };
    item_t parts[3], mask;
    int64_t first = 0;
    TRY(refuse_past(node, PAST, PAST + 3));
    if (!onnx_has(node, KEY) || !onnx_has(node, VALUE))
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "query, key and value in one tensor");
    for (int i = QUERY; i <= VALUE; i++) {
        parts[i] = node->in[i];
        tensor_info_t info = onnx_input_info(node, i);
        if (info.rank != 3)
            FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "input %d is %s, rank 3 is supported", i,
                 onnx_brief(node, &info));
        if (!onnx_has(node, BIAS)) continue;
        item_t bias;
        const int64_t end = sym_add(node->onnx->ctx, first, info.sizes[2]);
        TRY(onnx_slice(node, node->in[BIAS], 0, first, end, 1, &bias));
        TRY(onnx_binary(node, "add", parts[i], bias, &parts[i]));
        first = end;
    }
    TRY(make_mask(node, MASK, &mask));
    return attend(node, parts, mask, SCORES);
}

/* ---- matrix products ---- */

static status_t swap_last(onnx_node_t *node, const char *name, item_t x, item_t *out)
{
    bool swaps = false;
    int64_t dims[TENSOR_MAX_RANK];
    const int rank = onnx_info(node->onnx, x)->rank;
    TRY(onnx_attr_bool(node, name, false, &swaps));
    *out = x;
    if (!swaps || rank < 2) return STATUS_OK;
    for (int d = 0; d < rank; d++) dims[d] = d;
    dims[rank - 1] = rank - 2;
    dims[rank - 2] = rank - 1;
    return onnx_permute(node, x, rank, dims, out);
}

/* alpha A B, where A and B may be transposed. */
status_t onnx_import_fused_matmul(onnx_node_t *node)
{
    double alpha = 1;
    bool swaps_batch = false;
    item_t a, b, number;
    for (int i = 0; i < 2; i++) {
        TRY(onnx_attr_bool(node, i == 0 ? "transBatchA" : "transBatchB", false, &swaps_batch));
        if (swaps_batch) FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "transposed batch dimensions");
    }
    TRY(onnx_attr_float(node, "alpha", 1.0, &alpha));
    TRY(swap_last(node, "transA", node->in[0], &a));
    TRY(swap_last(node, "transB", node->in[1], &b));
    TRY(onnx_binary(node, "matmul", a, b, &node->out[0]));
    if (alpha == 1.0) return STATUS_OK;
    TRY(onnx_number(node->onnx, alpha, &number));
    return onnx_binary(node, "mul", node->out[0], number, &node->out[0]);
}
