/* fill_ and masked_fill_: they write their result to x with copy_. */
#include "ops/in_place.h"

#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

status_t op_fill_(context_t *ctx, tensor_t *x, double value)
{
    tensor_t *number = NULL;
    if (x == NULL) return context_null(ctx, "fill_", "x");
    TRY(tensor_full(ctx, x->info.dtype, 0, NULL, value, &number));
    status_t status = op_copy_(ctx, x, number);
    ops_drop(ctx, number);
    return context_rename(ctx, status, "fill_");
}

status_t op_masked_fill_(context_t *ctx, tensor_t *x, const tensor_t *mask, double value)
{
    tensor_t *filled = NULL;
    TRY(context_rename(ctx, op_masked_fill(ctx, x, mask, value, &filled), "masked_fill_"));
    status_t status = STATUS_OK;
    if (!shape_equal(filled->info.rank, filled->info.sizes, x->info.rank, x->info.sizes))
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "masked_fill_: mask is %s, it does not broadcast to x %s",
                              tensor_text(mask), tensor_text(x));
    if (status == STATUS_OK) status = op_copy_(ctx, x, filled);
    ops_drop(ctx, filled);
    return context_rename(ctx, status, "masked_fill_");
}
