/* index_add, index_copy and index_fill, which write slices at indices. They call scatter. */
#include "ops/index/indexing.h"

#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

/* Operands of scatter, both with the sizes of the slices. */
typedef struct slices {
    tensor_t *index, *src;
    int dim;
} slices_t;

static void end_slices(context_t *ctx, slices_t *slices)
{
    ops_drop(ctx, slices->index);
    ops_drop(ctx, slices->src);
}

/* Finds the sizes of the slices together: x's sizes, except the number of indices along dim. */
static status_t slice_sizes(context_t *ctx, const char *op, const tensor_t *x, int64_t dim,
                            const tensor_t *index, slices_t *slices, int64_t *out_sizes)
{
    *slices = (slices_t){.dim = 0};
    if (x == NULL) return context_null(ctx, op, "x");
    if (index == NULL) return context_null(ctx, op, "index");
    REQUIRE(ctx, index->info.rank <= 1, "%s: index is %s, rank 0 or 1 is needed", op,
            tensor_text(index));
    REQUIRE(ctx, x->info.rank > 0 && shape_dim(x->info.rank, dim, &slices->dim),
            "%s: dim %lld of %s, out of range", op, (long long)dim, tensor_text(x));
    for (int d = 0; d < x->info.rank; d++) out_sizes[d] = x->info.sizes[d];
    out_sizes[slices->dim] = info_numel(&index->info);
    return STATUS_OK;
}

/* Reshapes the index from [n] to [1][n][1], and expands it to the sizes of the slices. */
static status_t widen(context_t *ctx, const tensor_t *x, const tensor_t *index,
                      const int64_t *sizes, slices_t *slices)
{
    int64_t column[TENSOR_MAX_RANK];
    tensor_t *narrow = NULL;
    for (int d = 0; d < x->info.rank; d++) column[d] = d == slices->dim ? sizes[d] : 1;
    status_t status = op_reshape(ctx, index, x->info.rank, column, &narrow);
    if (status == STATUS_OK) status = op_expand(ctx, narrow, x->info.rank, sizes, &slices->index);
    ops_drop(ctx, narrow);
    return status;
}

static status_t begin_put(context_t *ctx, const char *op, const tensor_t *x, int64_t dim,
                          const tensor_t *index, const tensor_t *src, double alpha,
                          slices_t *slices)
{
    int64_t sizes[TENSOR_MAX_RANK];
    TRY(slice_sizes(ctx, op, x, dim, index, slices, sizes));
    if (src == NULL) return context_null(ctx, op, "src");
    REQUIRE(ctx,
            src->info.dtype == x->info.dtype &&
                shape_equal(src->info.rank, src->info.sizes, x->info.rank, sizes),
            "%s: src is %s, x %s, index %s: x's dtype and sizes are needed, and along dim %d as "
            "many as the index has",
            op, tensor_text(src), tensor_text(x), tensor_text(index), slices->dim);
    TRY(widen(ctx, x, index, sizes, slices));
    status_t status = STATUS_OK;
    if (alpha == 1)
        status = op_identity(ctx, src, &slices->src);
    else if (dtype_is_floating(src->info.dtype))
        status = op_mul_scalar(ctx, src, alpha, &slices->src);
    else if (alpha == (double)(int32_t)alpha)
        status = op_mul_integer(ctx, src, (int64_t)alpha, &slices->src);
    else
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "%s: alpha %g of %s, a whole number of 32 bits is needed", op, alpha,
                              tensor_text(src));
    if (status != STATUS_OK) end_slices(ctx, slices);
    return status;
}

status_t op_index_add(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                      const tensor_t *src, double alpha, tensor_t **out)
{
    slices_t slices;
    TRY(context_output(ctx, "index_add", out));
    TRY(begin_put(ctx, "index_add", x, dim, index, src, alpha, &slices));
    status_t status = op_scatter(ctx, x, slices.dim, slices.index, slices.src, SCATTER_ADD, out);
    end_slices(ctx, &slices);
    return context_rename(ctx, status, "index_add");
}

status_t op_index_add_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                       const tensor_t *src, double alpha)
{
    slices_t slices;
    TRY(begin_put(ctx, "index_add_", x, dim, index, src, alpha, &slices));
    status_t status = op_scatter_(ctx, x, slices.dim, slices.index, slices.src, SCATTER_ADD);
    end_slices(ctx, &slices);
    return context_rename(ctx, status, "index_add_");
}

status_t op_index_copy(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                       const tensor_t *src, tensor_t **out)
{
    slices_t slices;
    TRY(context_output(ctx, "index_copy", out));
    TRY(begin_put(ctx, "index_copy", x, dim, index, src, 1, &slices));
    status_t status = op_scatter(ctx, x, slices.dim, slices.index, slices.src, SCATTER_NONE, out);
    end_slices(ctx, &slices);
    return context_rename(ctx, status, "index_copy");
}

status_t op_index_copy_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                        const tensor_t *src)
{
    slices_t slices;
    TRY(begin_put(ctx, "index_copy_", x, dim, index, src, 1, &slices));
    status_t status = op_scatter_(ctx, x, slices.dim, slices.index, slices.src, SCATTER_NONE);
    end_slices(ctx, &slices);
    return context_rename(ctx, status, "index_copy_");
}

static status_t begin_fill(context_t *ctx, const char *op, const tensor_t *x, int64_t dim,
                           const tensor_t *index, slices_t *slices)
{
    int64_t sizes[TENSOR_MAX_RANK];
    TRY(slice_sizes(ctx, op, x, dim, index, slices, sizes));
    return widen(ctx, x, index, sizes, slices);
}

status_t op_index_fill(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                       double value, tensor_t **out)
{
    slices_t slices;
    TRY(context_output(ctx, "index_fill", out));
    TRY(begin_fill(ctx, "index_fill", x, dim, index, &slices));
    status_t status = op_scatter_value(ctx, x, slices.dim, slices.index, value, SCATTER_NONE, out);
    end_slices(ctx, &slices);
    return context_rename(ctx, status, "index_fill");
}

status_t op_index_fill_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                        double value)
{
    slices_t slices;
    TRY(begin_fill(ctx, "index_fill_", x, dim, index, &slices));
    status_t status = op_scatter_value_(ctx, x, slices.dim, slices.index, value, SCATTER_NONE);
    end_slices(ctx, &slices);
    return context_rename(ctx, status, "index_fill_");
}
