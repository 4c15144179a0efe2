/* Arithmetic and decisions on sizes (numbers or symbolic integers) for import functions. */
#include "io/onnx/node_impl.h"
#include "tensor/tensor_impl.h"

int64_t onnx_product(const onnx_node_t *node, int n, const int64_t *sizes)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++) product = sym_multiply(node->onnx->ctx, product, sizes[i]);
    return product;
}

int64_t onnx_numel(const onnx_node_t *node, const tensor_info_t *info)
{
    return onnx_product(node, info->rank, info->sizes);
}

int64_t onnx_quotient(const onnx_node_t *node, int n, const int64_t *sizes, int n_divisors,
                      const int64_t *divisors)
{
    context_t *ctx = node->onnx->ctx;
    int64_t product = 1, divisor = 1;
    bool is_used[TENSOR_MAX_RANK] = {false};
    for (int i = 0; i < n_divisors; i++) {
        int k = 0;
        while (k < n && (is_used[k] || sizes[k] != divisors[i])) k++;
        if (k < n)
            is_used[k] = true;
        else
            divisor = sym_multiply(ctx, divisor, divisors[i]);
    }
    for (int k = 0; k < n; k++)
        if (!is_used[k]) product = sym_multiply(ctx, product, sizes[k]);
    return sym_divide(ctx, product, divisor);
}

bool onnx_multiply(const onnx_node_t *node, int64_t a, int64_t b, int64_t *out_product)
{
    context_t *ctx = node->onnx->ctx;
    if (sym_less(ctx, a, 0) || sym_less(ctx, b, 0)) return false;
    const int64_t product = sym_multiply(ctx, a, b);
    if (product == SYM_NONE) return false;
    *out_product = product;
    return true;
}

bool onnx_is_late(const onnx_node_t *node, int64_t size)
{
    return sym_is(size) && size != SYM_NONE && sym_hint(node->onnx->ctx, size) == SYM_NONE;
}

bool onnx_are_late(const onnx_node_t *node, item_t operand, int n, const int64_t *sizes)
{
    for (int i = 0; i < n; i++)
        if (onnx_is_late(node, sizes[i]) &&
            onnx_by_operand(node->onnx, operand, sizes[i]) == SYM_NONE)
            return true;
    return false;
}

bool onnx_same_sizes(const onnx_node_t *node, int rank_a, const int64_t *a, int rank_b,
                     const int64_t *b)
{
    bool is_same = rank_a == rank_b;
    for (int d = 0; d < rank_a && is_same; d++) is_same = sym_equal(node->onnx->ctx, a[d], b[d]);
    return is_same;
}

/* Broadcasts two sizes. Tests equality first, because a test for 1 could add a guard that another
 * batch size violates. */
static bool join_sizes(context_t *ctx, int64_t a, int64_t b, int64_t *out_size)
{
    *out_size = a;
    if (sym_knows_equal(ctx, a, b) || sym_knows_equal(ctx, b, 1)) return true;
    *out_size = b;
    if (sym_knows_equal(ctx, a, 1)) return true;
    if (sym_equal(ctx, a, b) || sym_equal(ctx, a, 1)) return true;
    *out_size = a;
    return sym_equal(ctx, b, 1);
}

bool onnx_broadcast(const onnx_node_t *node, int rank_a, const int64_t *a, int rank_b,
                    const int64_t *b, int *out_rank, int64_t *out_sizes)
{
    const int rank = rank_a > rank_b ? rank_a : rank_b;
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        const int in_a = d - (rank - rank_a), in_b = d - (rank - rank_b);
        if (!join_sizes(node->onnx->ctx, in_a >= 0 ? a[in_a] : 1, in_b >= 0 ? b[in_b] : 1,
                        &sizes[d]))
            return false;
    }
    for (int d = 0; d < rank; d++) out_sizes[d] = sizes[d];
    *out_rank = rank;
    return true;
}

status_t onnx_check_shape(const onnx_node_t *node, const char *what, dtype_t dtype, int rank,
                          const int64_t *sizes)
{
    context_t *ctx = node->onnx->ctx;
    int64_t hints[TENSOR_MAX_RANK];
    for (int d = 0; d < rank && d < TENSOR_MAX_RANK; d++) {
        hints[d] = sizes[d];
        if (!sym_is(sizes[d])) continue;
        if (sizes[d] == SYM_NONE)
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s: size %d is too large", what, d);
        const int64_t hint = sym_hint(ctx, sizes[d]);
        hints[d] = sym_less(ctx, sizes[d], 0) ? -1 : hint != SYM_NONE ? hint : 1;
    }
    return shape_check(ctx, what, dtype, rank, hints);
}

tensor_info_t onnx_hinted(const onnx_node_t *node, const tensor_info_t *info)
{
    tensor_info_t hinted = *info;
    bool is_symbolic = false;
    for (int d = 0; d < info->rank; d++) {
        is_symbolic = is_symbolic || sym_is(info->sizes[d]);
        hinted.sizes[d] = sym_hint(node->onnx->ctx, info->sizes[d]);
    }
    return is_symbolic ? info_dense(info->dtype, info->rank, hinted.sizes) : *info;
}

const char *onnx_brief(const onnx_node_t *node, const tensor_info_t *info)
{
    const tensor_info_t hinted = onnx_hinted(node, info);
    return info_brief(&hinted);
}

status_t onnx_count_up(onnx_node_t *node, int64_t n, item_t *out)
{
    const int64_t one = 1;
    item_t ones;
    TRY(onnx_vector(node->onnx, NULL, 1, &one, &ones));
    TRY(onnx_op(node, "expand", ONNX_ATTRS(SET_INTS("sizes", 1, &n)), 1, &ones, out));
    return onnx_op(node, "cumsum", ONNX_ATTRS(SET("exclusive", true)), 1, out, out);
}
