/* Arithmetic of a tensor and a C number: the operator of two tensors, the second of which is of
 * rank 0 and says that it is a number. */
#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

static status_t run(context_t *ctx, const opdef_t *op, const tensor_t *x, dtype_t dtype,
                    double value, int64_t integer, tensor_t **out)
{
    TRY(context_output(ctx, op->name, out));
    if (x == NULL) return context_null(ctx, op->name, "x");
    tensor_info_t info = info_dense(dtype, 0, NULL);
    info.is_number = true;
    tensor_t *number = NULL;
    void *element = NULL;
    TRY(tensor_make(ctx, &info, &number));
    status_t status = tensor_writable(ctx, number, &element);
    if (status == STATUS_OK && dtype_is_floating(dtype))
        dtype_store(dtype, element, value);
    else if (status == STATUS_OK)
        dtype_store_integer(dtype, element, integer);
    const tensor_t *in[] = {x, number};
    if (status == STATUS_OK) status = dispatch_run(ctx, op, NULL, 2, in, NULL, out);
    tensor_drop(number);
    return status;
}

#define SCALAR(name)                                                                               \
    status_t op_##name##_scalar(context_t *ctx, const tensor_t *x, double value, tensor_t **out)   \
    {                                                                                              \
        return run(ctx, &op_def_##name, x, DTYPE_F64, value, 0, out);                              \
    }                                                                                              \
    status_t op_##name##_integer(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out) \
    {                                                                                              \
        return run(ctx, &op_def_##name, x, DTYPE_S64, 0.0, value, out);                            \
    }

SCALAR(add)
SCALAR(sub)
SCALAR(mul)
SCALAR(div)
SCALAR(pow)
