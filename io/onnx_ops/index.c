/* Operators that read or write elements at given indices, or create tensors from indices. */
#include "io/onnx/node_impl.h"
#include "ops/index/indexing.h"
#include "tensor/tensor_impl.h"

status_t onnx_import_gather_elements(onnx_node_t *node)
{
    int axis = 0;
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    return onnx_op(node, "gather_elements", ONNX_ATTRS(SET("dim", axis)), 2, node->in,
                   &node->out[0]);
}

status_t onnx_import_gather_nd(onnx_node_t *node)
{
    int64_t batch_dims = 0;
    if (node->opset >= 12) TRY(onnx_attr_int(node, "batch_dims", 0, &batch_dims));
    return onnx_op(node, "gather_nd", ONNX_ATTRS(SET("batch_dims", batch_dims)), 2, node->in,
                   &node->out[0]);
}

/* ONNX's result has one column for each nonzero; op_nonzero's result has one row. */
status_t onnx_import_non_zero(onnx_node_t *node)
{
    item_t indices;
    TRY(onnx_unary(node, "nonzero", node->in[0], &indices));
    return onnx_permute(node, indices, 2, (int64_t[]){1, 0}, &node->out[0]);
}

/* Reductions: sums and products since opset 16, maximum and minimum since 18. */
static status_t read_reduction(onnx_node_t *node, int *out_reduction)
{
    /* as scatter_reduction_t */
    static const char *const names[] = {"none", "add", "mul", "max", "min", NULL};
    static const char *const first_names[] = {"none", "add", "mul", NULL};
    *out_reduction = SCATTER_NONE;
    if (node->opset < 16) return STATUS_OK;
    return onnx_attr_name(node, "reduction", node->opset >= 18 ? names : first_names, SCATTER_NONE,
                          out_reduction);
}

/* ScatterElements, which was named Scatter before opset 11. */
status_t onnx_import_scatter(onnx_node_t *node)
{
    int axis = 0, reduction = 0;
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    TRY(read_reduction(node, &reduction));
    return onnx_op(node, "scatter", ONNX_ATTRS(SET("dim", axis), SET("reduction", reduction)), 3,
                   node->in, &node->out[0]);
}

status_t onnx_import_scatter_nd(onnx_node_t *node)
{
    int reduction = 0;
    TRY(read_reduction(node, &reduction));
    return onnx_op(node, "scatter_nd", ONNX_ATTRS(SET("reduction", reduction)), 3, node->in,
                   &node->out[0]);
}

/* ---- created from indices ---- */

static status_t read_depth(onnx_node_t *node, int64_t *out_depth)
{
    context_t *ctx = node->onnx->ctx;
    double number = 0;
    int n = 0;
    if (dtype_is_floating(onnx_input_info(node, 1).dtype)) {
        TRY(onnx_input_floats(node, 1, "the depth", 1, &n, &number));
        *out_depth = number >= 0 && number <= ONNX_MAX_VALUES ? (int64_t)number : -1;
    } else {
        TRY(onnx_input_ints(node, 1, "the depth", 1, &n, out_depth));
    }
    const bool is_too_large = !sym_is(*out_depth) && *out_depth > ONNX_MAX_VALUES;
    if (n != 1 || sym_less(ctx, *out_depth, 0) || is_too_large)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "the depth is no number from 0 to %d", ONNX_MAX_VALUES);
    return STATUS_OK;
}

/* The numbers 0 to depth - 1 along dimension 0, followed by n_behind dimensions of size 1. */
static status_t make_steps(onnx_node_t *node, int64_t depth, int n_behind, item_t *out)
{
    int64_t sizes[TENSOR_MAX_RANK];
    TRY(onnx_count_up(node, depth, out));
    sizes[0] = depth;
    for (int i = 1; i <= n_behind; i++) sizes[i] = 1;
    return n_behind > 0 ? onnx_reshape(node, *out, n_behind + 1, sizes, out) : STATUS_OK;
}

/* Position i along the new dimension gets the "on" value if i equals the index, or the index plus
 * the depth. So index -1 means the last position, and an index out of range means none. */
status_t onnx_import_one_hot(onnx_node_t *node)
{
    tensor_info_t index = onnx_input_info(node, 0), values = onnx_input_info(node, 2);
    int64_t depth = 0, dim = 0;
    int axis = 0;
    item_t x, steps, size, is_near, is_far, in[3];
    if (index.rank >= TENSOR_MAX_RANK)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "an index of rank %d, must be at most %d",
             index.rank, TENSOR_MAX_RANK - 1);
    if (values.rank != 1 || !sym_equal(node->onnx->ctx, values.sizes[0], 2))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "the values are %s, two are needed",
             onnx_brief(node, &values));
    TRY(onnx_dim(node, "axis", index.rank + 1, -1, &axis));
    TRY(read_depth(node, &depth));
    TRY(onnx_cast(node, node->in[0], DTYPE_S64, &x));
    dim = axis;
    TRY(onnx_op(node, "unsqueeze", ONNX_ATTRS(SET_INTS("dims", 1, &dim)), 1, &x, &x));
    TRY(make_steps(node, depth, index.rank - axis, &steps));
    TRY(onnx_vector(node->onnx, NULL, 1, &depth, &size));
    TRY(onnx_binary(node, "eq", x, steps, &is_near));
    TRY(onnx_binary(node, "add", x, size, &x));
    TRY(onnx_binary(node, "eq", x, steps, &is_far));
    TRY(onnx_binary(node, "logical_or", is_near, is_far, &in[0]));
    TRY(onnx_slice(node, node->in[2], 0, 1, 2, 1, &in[1]));
    TRY(onnx_slice(node, node->in[2], 0, 0, 1, 1, &in[2]));
    return onnx_op(node, "where", NULL, 3, in, &node->out[0]);
}

status_t onnx_import_trilu(onnx_node_t *node)
{
    int64_t diagonal = 0;
    bool is_upper = true;
    int n = 0;
    TRY(onnx_attr_bool(node, "upper", true, &is_upper));
    if (onnx_has(node, 1)) {
        TRY(onnx_input_ints(node, 1, "k", 1, &n, &diagonal));
        if (n != 1) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "k has no element");
    }
    return onnx_op(node, is_upper ? "triu" : "tril", ONNX_ATTRS(SET("diagonal", diagonal)), 1,
                   node->in, &node->out[0]);
}

/* Computed as ones, of which all except diagonal k are set to 0. */
status_t onnx_import_eye_like(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t to = 0, diagonal = 0;
    dtype_t dtype = x.dtype;
    item_t out;
    TRY(onnx_attr_int(node, "k", 0, &diagonal));
    if (onnx_has_attr(node, "dtype")) {
        TRY(onnx_attr_int(node, "dtype", 0, &to));
        TRY(onnx_dtype(node->onnx->ctx, to, &dtype));
    }
    if (x.rank != 2)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is %s, rank 2 is needed",
             onnx_brief(node, &x));
    TRY(onnx_op(node, "full_like", ONNX_ATTRS(SET_FLOAT("value", 1.0), SET("dtype", dtype)), 1,
                node->in, &out));
    TRY(onnx_op(node, "triu", ONNX_ATTRS(SET("diagonal", diagonal)), 1, &out, &out));
    return onnx_op(node, "tril", ONNX_ATTRS(SET("diagonal", diagonal)), 1, &out, &node->out[0]);
}

status_t onnx_import_reverse_sequence(onnx_node_t *node)
{
    int64_t batch = 0, time = 0;
    TRY(onnx_attr_int(node, "batch_axis", 1, &batch));
    TRY(onnx_attr_int(node, "time_axis", 0, &time));
    return onnx_op(node, "reverse_sequence",
                   ONNX_ATTRS(SET("batch_dim", batch), SET("time_dim", time)), 2, node->in,
                   &node->out[0]);
}
