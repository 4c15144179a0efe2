/* State that decoders pass from step to step: caches of rows, and the past elements of a causal
 * convolution. */
#include "io/onnx/node_impl.h"
#include "tensor/tensor_impl.h"

/* ---- TensorScatter ---- */

/* A tensor of s64 ones with the sizes of x. */
static status_t make_ones(onnx_node_t *node, item_t x, item_t *out)
{
    return onnx_op(node, "full_like", ONNX_ATTRS(SET_FLOAT("value", 1.0), SET("dtype", DTYPE_S64)),
                   1, &x, out);
}

/* The size of x along dimension dim, as s64. The result has size 1 in that dimension. */
static status_t count(onnx_node_t *node, item_t x, int dim, item_t *out)
{
    const int64_t dims[] = {dim};
    TRY(make_ones(node, x, out));
    return onnx_op(node, "sum", ONNX_ATTRS(SET_INTS("dims", 1, dims), SET("keepdim", true)), 1, out,
                   out);
}

/* The cache row to which each element of the update is written: s64 with the update's sizes. */
static status_t find_rows(onnx_node_t *node, int axis, bool is_circular, item_t *out)
{
    enum { CACHE, UPDATE, FIRST };
    const tensor_info_t update = onnx_input_info(node, UPDATE);
    int64_t sizes[TENSOR_MAX_RANK];
    item_t first, n;
    TRY(make_ones(node, node->in[UPDATE], out));
    TRY(onnx_op(node, "cumsum", ONNX_ATTRS(SET("dim", axis), SET("exclusive", true)), 1, out, out));
    if (onnx_has(node, FIRST)) {
        for (int d = 0; d < update.rank; d++) sizes[d] = d == 0 ? update.sizes[0] : 1;
        TRY(onnx_check_integers(node, FIRST, "write_indices"));
        TRY(onnx_reshape(node, node->in[FIRST], update.rank, sizes, &first));
        TRY(onnx_binary(node, "add", *out, first, out));
    }
    if (!is_circular) return STATUS_OK;
    TRY(count(node, node->in[CACHE], axis, &n));
    return onnx_binary(node, "remainder", *out, n, out);
}

/* Inputs: cache, update, write_indices. Batch n writes to the rows from write_indices[n] on. */
status_t onnx_import_tensor_scatter(onnx_node_t *node)
{
    static const char *const modes[] = {"linear", "circular", NULL};
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t cache = onnx_input_info(node, 0), update = onnx_input_info(node, 1);
    int axis = 0, mode = 0;
    item_t rows;
    TRY(onnx_attr_name(node, "mode", modes, 0, &mode));
    TRY(onnx_dim(node, "axis", cache.rank, -2, &axis));
    bool is_alike = axis > 0 && cache.rank == update.rank;
    for (int d = 0; d < cache.rank && is_alike; d++)
        is_alike = d == axis ? sym_at_most(ctx, update.sizes[d], cache.sizes[d])
                             : sym_equal(ctx, update.sizes[d], cache.sizes[d]);
    if (!is_alike)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "cache %s, update %s, axis %d: other sizes are equal, axis is not 0",
             onnx_brief(node, &cache), onnx_brief(node, &update), axis);
    TRY(find_rows(node, axis, mode == 1, &rows));
    return onnx_op(node, "scatter", ONNX_ATTRS(SET("dim", axis)), 3,
                   (const item_t[]){node->in[0], rows, node->in[1]}, &node->out[0]);
}

/* ---- CausalConvWithState ---- */

enum { X, WEIGHT, BIAS, PAST };

/* The past's k - 1 columns, then x: [N][C][k - 1 + T]. Without a past, its columns are 0. */
static status_t add_past(onnx_node_t *node, int64_t n_past, item_t *out)
{
    *out = node->in[X];
    if (n_past == 0) return STATUS_OK;
    if (onnx_has(node, PAST)) {
        return onnx_op(node, "concat", ONNX_ATTRS(SET("dim", 2)), 2,
                       (const item_t[]){node->in[PAST], node->in[X]}, out);
    }
    return onnx_op(node, "pad",
                   ONNX_ATTRS(SET_INTS("before", 3, (const int64_t[]){0, 0, n_past}),
                              SET_INTS("after", 3, (const int64_t[]){0, 0, 0})),
                   1, out, out);
}

status_t onnx_import_causal_conv(onnx_node_t *node)
{
    static const char *const activations[] = {"none", "silu", "swish", NULL};
    const tensor_info_t x = onnx_input_info(node, X), weight = onnx_input_info(node, WEIGHT);
    context_t *ctx = node->onnx->ctx;
    const bool is_one_each = x.rank == 3 && weight.rank == 3 &&
                             sym_equal(ctx, weight.sizes[1], 1) &&
                             sym_equal(ctx, weight.sizes[0], x.sizes[1]) &&
                             sym_at_most(ctx, 1, weight.sizes[2]);
    int activation = 0;
    item_t in[3] = {ITEM_NONE, node->in[WEIGHT], ITEM_NONE};
    onnx_call_t call;
    TRY(onnx_attr_name(node, "activation", activations, 0, &activation));
    if (!is_one_each)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "x %s, weight %s: [N,C,T] and [C,1,k] are needed",
             onnx_brief(node, &x), onnx_brief(node, &weight));
    const int64_t n_past = sym_subtract(ctx, weight.sizes[2], 1);
    TRY(add_past(node, n_past, &in[0]));
    if (onnx_has(node, BIAS)) in[2] = node->in[BIAS];
    if (onnx_wants(node, 1)) {
        const int64_t last = onnx_info(node->onnx, in[0])->sizes[2];
        TRY(onnx_slice(node, in[0], 2, sym_subtract(ctx, last, n_past), last, 1, &node->out[1]));
    }
    const conv_attrs_t attrs = {.groups = weight.sizes[0]};
    onnx_call(node, "conv1d", &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    TRY(onnx_emit(&call, 3, in, &node->out[0]));
    if (activation == 0) return STATUS_OK;
    return onnx_unary(node, "silu", node->out[0], &node->out[0]);
}
