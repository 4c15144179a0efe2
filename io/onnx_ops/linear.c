/* Matrix products, softmax and reductions. */
#include "io/onnx/node_impl.h"

#include <math.h>
#include <string.h>

#include "io/onnx_ops/quantized_impl.h"
#include "tensor/tensor_impl.h"

/* ---- matrix products ---- */

static status_t scale(onnx_node_t *node, item_t x, double factor, item_t *out)
{
    item_t number;
    *out = x;
    if (factor == 1.0) return STATUS_OK;
    TRY(onnx_number(node->onnx, factor, &number));
    return onnx_binary(node, "mul", x, number, out);
}

/* Converts C to a bias [K] if C is known and the same for every row; else returns ITEM_NONE. */
static status_t find_bias(onnx_node_t *node, double beta, int64_t n_out, item_t *out)
{
    *out = ITEM_NONE;
    if (!onnx_knows(node, 2)) return STATUS_OK;
    context_t *ctx = node->onnx->ctx;
    tensor_info_t c = onnx_input_info(node, 2);
    int64_t numel = onnx_numel(node, &c);
    bool is_row = sym_knows_equal(ctx, numel, n_out) &&
                  (c.rank == 0 || sym_knows_equal(ctx, c.sizes[c.rank - 1], n_out));
    if ((!is_row && !sym_knows_equal(ctx, numel, 1)) || c.rank > 2) return STATUS_OK;
    item_t bias;
    TRY(onnx_reshape(node, node->in[2], 1, &numel, &bias));
    TRY(onnx_expand(node, bias, 1, &n_out, &bias));
    return scale(node, bias, beta, out);
}

typedef struct gemm {
    double alpha, beta;
    bool transposes_a, transposes_b;
} gemm_t;

static status_t read_gemm(onnx_node_t *node, gemm_t *out_gemm)
{
    TRY(onnx_attr_float(node, "alpha", 1.0, &out_gemm->alpha));
    TRY(onnx_attr_float(node, "beta", 1.0, &out_gemm->beta));
    TRY(onnx_attr_bool(node, "transA", false, &out_gemm->transposes_a));
    TRY(onnx_attr_bool(node, "transB", false, &out_gemm->transposes_b));
    if (node->opset < 7) onnx_attr_ignore(node, "broadcast"); /* C broadcasts with or without it */
    for (int i = 0; i < 2; i++)
        if (onnx_input_info(node, i).rank != 2)
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is of rank %d, 2 is needed", i,
                 onnx_input_info(node, i).rank);
    return STATUS_OK;
}

/* Operator linear does not accept integers, so this emits matmul and adds C. */
static status_t multiply_integers(onnx_node_t *node, const gemm_t *gemm)
{
    item_t in[2] = {node->in[0], node->in[1]};
    if (gemm->alpha != 1.0 || (gemm->beta != 1.0 && gemm->beta != 0.0))
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "alpha %g and beta %g of integers", gemm->alpha,
             gemm->beta);
    if (gemm->transposes_a) TRY(onnx_permute(node, in[0], 2, (int64_t[]){1, 0}, &in[0]));
    if (gemm->transposes_b) TRY(onnx_permute(node, in[1], 2, (int64_t[]){1, 0}, &in[1]));
    TRY(onnx_op(node, "matmul", NULL, 2, in, &node->out[0]));
    if (!onnx_has(node, 2) || gemm->beta == 0.0) return STATUS_OK;
    return onnx_binary(node, "add", node->out[0], node->in[2], &node->out[0]);
}

/* Scales weight and bias by alpha and beta at import if both are known; else scales the product. */
status_t onnx_import_gemm(onnx_node_t *node)
{
    gemm_t gemm;
    item_t in[3] = {node->in[0], node->in[1], ITEM_NONE};
    TRY(read_gemm(node, &gemm));
    if (!dtype_is_floating(onnx_input_info(node, 0).dtype)) return multiply_integers(node, &gemm);
    double behind = gemm.alpha;
    if (gemm.transposes_a) TRY(onnx_permute(node, in[0], 2, (int64_t[]){1, 0}, &in[0]));
    TRY(gemm.transposes_b ? quantized_columns(node, in[0], &in[1])
                          : onnx_transposed(node, in[1], &in[1]));
    if (onnx_knows(node, 1)) {
        TRY(scale(node, in[1], gemm.alpha, &in[1]));
        behind = 1.0;
    }
    if (behind == 1.0)
        TRY(find_bias(node, gemm.beta, onnx_info(node->onnx, in[1])->sizes[0], &in[2]));
    TRY(onnx_op(node, "linear", NULL, 3, in, &node->out[0]));
    TRY(scale(node, node->out[0], behind, &node->out[0]));
    if (!onnx_has(node, 2) || in[2] != ITEM_NONE || gemm.beta == 0.0) return STATUS_OK;
    item_t c;
    TRY(scale(node, node->in[2], gemm.beta, &c));
    return onnx_binary(node, "add", node->out[0], c, &node->out[0]);
}

/* If the right operand is known, it becomes a weight. */
status_t onnx_import_matmul(onnx_node_t *node)
{
    item_t in[3] = {node->in[0], node->in[1], ITEM_NONE};
    bool is_linear = onnx_knows(node, 1) && !onnx_knows(node, 0) &&
                     dtype_is_floating(onnx_input_info(node, 0).dtype) &&
                     onnx_input_info(node, 1).rank == 2 && onnx_input_info(node, 0).rank >= 1;
    if (is_linear) TRY(onnx_transposed(node, in[1], &in[1]));
    return onnx_op(node, is_linear ? "linear" : "matmul", NULL, is_linear ? 3 : 2, in,
                   &node->out[0]);
}

/* ---- softmax ---- */

/* Sizes of x flattened to two dimensions: the product of the sizes before the axis, and that of the
 * others. False if the axis is the last dimension, so that nothing needs flattening. */
static bool flatten(const onnx_node_t *node, const tensor_info_t *x, int axis, int64_t *sizes)
{
    const int n_inner = x->rank - axis - 1;
    const int64_t inner = n_inner > 0 ? onnx_product(node, n_inner, &x->sizes[axis + 1]) : 1;
    if (sym_knows_equal(node->onnx->ctx, inner, 1)) return false;
    sizes[0] = onnx_product(node, axis, x->sizes);
    sizes[1] = onnx_product(node, x->rank - axis, &x->sizes[axis]);
    return true;
}

/* Before opset 13, one softmax covers the axis and all dimensions after it. */
status_t onnx_import_softmax(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int axis = 0;
    item_t out = node->in[0];
    TRY(onnx_dim(node, "axis", x.rank, node->opset < 13 ? 1 : -1, &axis));
    int64_t flat[2];
    const bool is_flat = node->opset < 13 && flatten(node, &x, axis, flat);
    if (is_flat) TRY(onnx_reshape(node, out, 2, flat, &out));
    TRY(onnx_op(node, node->op->own, ONNX_ATTRS(SET("dim", is_flat ? 1 : axis)), 1, &out, &out));
    return onnx_reshape(node, out, x.rank, x.sizes, &node->out[0]);
}

/* ---- reductions ---- */

/* Emits a reduction. The axes are an input since opset `since`. p is the order of a norm, or 0 for
 * other reductions. A norm over no dimension is the absolute value. */
static status_t reduce_by(onnx_node_t *node, const char *op_name, int64_t since, double p, item_t x,
                          item_t *out)
{
    int rank = onnx_info(node->onnx, x)->rank, n = 0;
    int64_t dims[TENSOR_MAX_RANK];
    bool keeps = true, is_noop = false;
    onnx_call_t call;
    TRY(onnx_numbers_since(node, since, "axes", 1, TENSOR_MAX_RANK, &n, dims));
    TRY(onnx_attr_bool(node, "keepdims", true, &keeps));
    if (node->opset >= since) TRY(onnx_attr_bool(node, "noop_with_empty_axes", false, &is_noop));
    *out = x;
    if (n <= 0 && is_noop && p != 0.0) return onnx_unary(node, "abs", x, out);
    if (n <= 0 && is_noop) return STATUS_OK;
    if (n > 0) TRY(onnx_dims(node, rank, n, dims));
    for (int i = 0; i < rank && n <= 0; i++) dims[i] = i;
    if (n <= 0) n = rank;
    onnx_call(node, op_name, &call);
    onnx_set_ints(&call, "dims", n, dims);
    onnx_set_int(&call, "keepdim", keeps);
    if (p != 0.0) onnx_set_float(&call, "p", p);
    return onnx_emit(&call, 1, &x, out);
}

static status_t reduce(onnx_node_t *node, const char *op_name, int64_t since, item_t x, item_t *out)
{
    return reduce_by(node, op_name, since, 0.0, x, out);
}

/* The mean of integers is the quotient of their sum and number, rounded towards 0. */
status_t onnx_import_reduce_mean(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    item_t sum, count;
    if (dtype_is_floating(x.dtype)) return reduce(node, "mean", 18, node->in[0], &node->out[0]);
    TRY(reduce(node, "sum", 18, node->in[0], &sum));
    const tensor_info_t sums = *onnx_info(node->onnx, sum);
    int64_t n_each = onnx_quotient(node, x.rank, x.sizes, sums.rank, sums.sizes);
    n_each = sym_max(node->onnx->ctx, n_each, 1); /* avoids a division by 0; the result is empty */
    TRY(onnx_vector(node->onnx, NULL, 1, &n_each, &count));
    TRY(onnx_reshape(node, count, 0, NULL, &count));
    TRY(onnx_binary(node, "div_trunc", sum, count, &sum));
    return onnx_cast(node, sum, x.dtype, &node->out[0]);
}

/* sum returns s64 for integers, so the result is cast back. */
status_t onnx_import_reduce_sum(onnx_node_t *node)
{
    item_t sum;
    TRY(reduce(node, "sum", 13, node->in[0], &sum));
    return onnx_cast(node, sum, onnx_input_info(node, 0).dtype, &node->out[0]);
}

/* The maximum or minimum of no elements: an infinity, or a limit of the integer dtype. */
static status_t find_extreme_of_none(onnx_node_t *node, dtype_t dtype, item_t *out)
{
    const bool is_max = strcmp(node->op->own, "amax") == 0;
    const int bits = 8 * (int)dtype_size(dtype);
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    tensor_info_t info = info_dense(dtype, 0, NULL);
    TRY(tensor_make(node->onnx->ctx, &info, &tensor));
    TRY_OR(tensor_writable(node->onnx->ctx, tensor, &bytes), tensor_drop(tensor));
    const bool is_signed = dtype == DTYPE_S8 || dtype == DTYPE_S16 || dtype == DTYPE_S32 ||
                           dtype == DTYPE_S64;
    const int64_t largest = (int64_t)(UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0)));
    if (dtype_is_floating(dtype))
        dtype_store(dtype, bytes, is_max ? -(double)INFINITY : (double)INFINITY);
    else if (dtype == DTYPE_BOOL)
        dtype_store_integer(dtype, bytes, is_max ? 0 : 1);
    else if (is_signed)
        dtype_store_integer(dtype, bytes, is_max ? -largest - 1 : largest);
    else
        dtype_store_integer(dtype, bytes, is_max ? 0 : largest);
    return onnx_item_take(node->onnx, NULL, tensor, out);
}

/* If a reduced dimension has size 0, the result is a constant with the shape of a sum. */
status_t onnx_import_reduce_extreme(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    const int64_t numel = onnx_numel(node, &x);
    item_t sum, number;
    if (onnx_is_late(node, numel) || sym_less(node->onnx->ctx, 0, numel))
        return reduce(node, node->op->own, 18, node->in[0], &node->out[0]);
    TRY(reduce(node, "sum", 18, node->in[0], &sum));
    const tensor_info_t info = *onnx_info(node->onnx, sum);
    TRY(find_extreme_of_none(node, x.dtype, &number));
    return onnx_expand(node, number, info.rank, info.sizes, &node->out[0]);
}

/* prod returns s64 for integers, so the result is cast back. */
status_t onnx_import_reduce_prod(onnx_node_t *node)
{
    item_t product;
    TRY(reduce(node, "prod", 18, node->in[0], &product));
    return onnx_cast(node, product, onnx_input_info(node, 0).dtype, &node->out[0]);
}

status_t onnx_import_reduce_sum_square(onnx_node_t *node)
{
    item_t x;
    TRY(onnx_binary(node, "mul", node->in[0], node->in[0], &x));
    TRY(reduce(node, "sum", 18, x, &x));
    return onnx_cast(node, x, onnx_input_info(node, 0).dtype, &node->out[0]);
}

/* The norm operators accept floating dtypes only, so for integers absolute values are summed. */
status_t onnx_import_reduce_l1(onnx_node_t *node)
{
    dtype_t dtype = onnx_input_info(node, 0).dtype;
    item_t x;
    if (dtype_is_floating(dtype))
        return reduce_by(node, "norm", 18, 1.0, node->in[0], &node->out[0]);
    TRY(onnx_unary(node, "abs", node->in[0], &x));
    TRY(reduce(node, "sum", 18, x, &x));
    return onnx_cast(node, x, dtype, &node->out[0]);
}

/* For integers, the square root is rounded towards 0. */
status_t onnx_import_reduce_l2(onnx_node_t *node)
{
    dtype_t dtype = onnx_input_info(node, 0).dtype;
    item_t x;
    if (dtype_is_floating(dtype))
        return reduce_by(node, "norm", 18, 2.0, node->in[0], &node->out[0]);
    TRY(onnx_cast(node, node->in[0], DTYPE_F64, &x));
    TRY(reduce_by(node, "norm", 18, 2.0, x, &x));
    return onnx_cast(node, x, dtype, &node->out[0]);
}

/* ONNX does not specify how logarithms of integers are rounded. */
static status_t refuse_integers(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    if (dtype_is_floating(x.dtype)) return STATUS_OK;
    FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "a logarithm of %s", dtype_name(x.dtype));
}

status_t onnx_import_reduce_log_sum(onnx_node_t *node)
{
    item_t x;
    TRY(refuse_integers(node));
    TRY(reduce(node, "sum", 18, node->in[0], &x));
    return onnx_unary(node, "log", x, &node->out[0]);
}

status_t onnx_import_reduce_log_sum_exp(onnx_node_t *node)
{
    TRY(refuse_integers(node));
    return reduce(node, "logsumexp", 18, node->in[0], &node->out[0]);
}

status_t onnx_import_arg_extreme(onnx_node_t *node)
{
    int axis = 0;
    int64_t dim = 0;
    bool keeps = true, selects_last = false;
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    TRY(onnx_attr_bool(node, "keepdims", true, &keeps));
    TRY(onnx_attr_bool(node, "select_last_index", false, &selects_last));
    dim = axis;
    return onnx_op(node, node->op->own,
                   ONNX_ATTRS(SET_INTS("dims", 1, &dim), SET("keepdim", keeps),
                              SET("select_last", selects_last)),
                   1, node->in, &node->out[0]);
}

/* k is an input since opset 10. The result is always sorted, which `sorted` 0 permits. */
status_t onnx_import_top_k(onnx_node_t *node)
{
    int axis = 0, n = 0;
    int64_t k = 0;
    bool is_largest = true;
    onnx_call_t call;
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, -1, &axis));
    TRY(onnx_attr_bool(node, "largest", true, &is_largest));
    onnx_attr_ignore(node, "sorted");
    if (node->opset >= 10) {
        TRY(onnx_input_ints(node, 1, "K", 1, &n, &k));
        if (n != 1) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "K has %d elements, needs 1", n);
    } else {
        TRY(onnx_attr_int(node, "k", 0, &k));
    }
    onnx_call(node, "topk", &call);
    onnx_set_int(&call, "k", k);
    onnx_set_int(&call, "dim", axis);
    onnx_set_int(&call, "largest", is_largest);
    return onnx_emit_n(&call, 1, node->in, 2, node->out);
}

/* 1 at the first largest element, 0 elsewhere. Elements are numbered by a cumulative sum of ones,
 * which also works for unknown sizes. Before opset 13, the axis and all dimensions after it are one
 * dimension. */
status_t onnx_import_hardmax(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int axis = 0;
    item_t flat = node->in[0], largest, indices;
    TRY(onnx_dim(node, "axis", x.rank, node->opset < 13 ? 1 : -1, &axis));
    int64_t sizes[2];
    const bool is_flat = node->opset < 13 && flatten(node, &x, axis, sizes);
    if (is_flat) TRY(onnx_reshape(node, flat, 2, sizes, &flat));
    int64_t dim = is_flat ? 1 : axis;
    TRY(onnx_op(node, "argmax", ONNX_ATTRS(SET_INTS("dims", 1, &dim), SET("keepdim", true)), 1,
                &flat, &largest));
    TRY(onnx_op(node, "full_like", ONNX_ATTRS(SET_FLOAT("value", 1.0), SET("dtype", DTYPE_S64)), 1,
                &flat, &indices));
    TRY(onnx_op(node, "cumsum", ONNX_ATTRS(SET("dim", dim), SET("exclusive", true)), 1, &indices,
                &indices));
    TRY(onnx_binary(node, "eq", indices, largest, &indices));
    TRY(onnx_cast(node, indices, x.dtype, &indices));
    return onnx_reshape(node, indices, x.rank, x.sizes, &node->out[0]);
}

status_t onnx_import_cumsum(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t axis = 0;
    int n = 0, dim = 0;
    bool is_exclusive = false, is_reverse = false;
    item_t out;
    TRY(onnx_attr_bool(node, "exclusive", false, &is_exclusive));
    TRY(onnx_attr_bool(node, "reverse", false, &is_reverse));
    if (x.rank > 0 && !onnx_knows(node, 1)) return onnx_cumsum_live(node, is_exclusive, is_reverse);
    TRY(onnx_input_numbers(node, 1, "axis", 1, &n, &axis));
    if (n != 1 || !shape_dim(x.rank, axis, &dim))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d", (long long)axis,
             x.rank);
    TRY(onnx_op(
        node, node->op->own,
        ONNX_ATTRS(SET("dim", dim), SET("exclusive", is_exclusive), SET("reverse", is_reverse)), 1,
        node->in, &out));
    return onnx_cast(node, out, x.dtype, &node->out[0]);
}

/* ---- Det ---- */

#define MAX_DET 3

/* Element (row, column) of each matrix. */
static status_t take_element(onnx_node_t *node, int row, int column, item_t *out)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    TRY(onnx_slice(node, node->in[0], x.rank - 2, row, row + 1, 1, out));
    TRY(onnx_slice(node, *out, x.rank - 1, column, column + 1, 1, out));
    return onnx_reshape(node, *out, x.rank - 2, x.sizes, out);
}

/* The determinant a d - b c of 2 x 2 matrices. */
static status_t det2(onnx_node_t *node, item_t a, item_t b, item_t c, item_t d, item_t *out)
{
    item_t first, second;
    TRY(onnx_binary(node, "mul", a, d, &first));
    TRY(onnx_binary(node, "mul", b, c, &second));
    return onnx_binary(node, "sub", first, second, out);
}

/* Laplace expansion along the first row. */
status_t onnx_import_det(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    item_t e[MAX_DET][MAX_DET], minor, sum = ITEM_NONE;
    context_t *ctx = node->onnx->ctx;
    if (x.rank < 2 || !sym_equal(ctx, x.sizes[x.rank - 1], x.sizes[x.rank - 2]))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "x is %s, square matrices are needed",
             onnx_brief(node, &x));
    const int64_t n = sym_pin(ctx, x.sizes[x.rank - 1]);
    if (n < 1 || n > MAX_DET)
        FAIL(ctx, STATUS_UNSUPPORTED, "matrices of %lld rows, 1 to %d are supported", (long long)n,
             MAX_DET);
    for (int r = 0; r < n; r++)
        for (int c = 0; c < n; c++) TRY(take_element(node, r, c, &e[r][c]));
    node->out[0] = e[0][0];
    if (n == 1) return STATUS_OK;
    if (n == 2) return det2(node, e[0][0], e[0][1], e[1][0], e[1][1], &node->out[0]);
    for (int c = 0; c < n; c++) {
        const int left = c == 0 ? 1 : 0, right = c == 2 ? 1 : 2;
        TRY(det2(node, e[1][left], e[1][right], e[2][left], e[2][right], &minor));
        TRY(onnx_binary(node, "mul", e[0][c], minor, &minor));
        if (c == 0)
            sum = minor;
        else
            TRY(onnx_binary(node, c == 1 ? "sub" : "add", sum, minor, &sum));
    }
    node->out[0] = sum;
    return STATUS_OK;
}
