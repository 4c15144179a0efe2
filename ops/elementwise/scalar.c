/* Arithmetic of a tensor and a C number: converts the number to a 0-dim tensor, sets its flag
 * is_number for type promotion, and calls the operator of two tensors. */
#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

static status_t make_number(context_t *ctx, const opdef_t *op, const tensor_t *x, dtype_t dtype,
                            double value, int64_t integer, tensor_t **out_number)
{
    if (x == NULL) return context_null(ctx, op->name, "x");
    tensor_info_t info = info_dense(dtype, 0, NULL);
    info.is_number = true;
    tensor_t *number = NULL;
    void *element = NULL;
    TRY(tensor_make(ctx, &info, &number));
    TRY_OR(tensor_writable(ctx, number, &element), tensor_drop(number));
    if (dtype_is_floating(dtype))
        dtype_store(dtype, element, value);
    else
        dtype_store_integer(dtype, element, integer);
    *out_number = number;
    return STATUS_OK;
}

static status_t scalar_run(context_t *ctx, const opdef_t *op, const tensor_t *x, dtype_t dtype,
                           double value, int64_t integer, tensor_t **out)
{
    tensor_t *number = NULL;
    TRY(context_output(ctx, op->name, out));
    TRY(make_number(ctx, op, x, dtype, value, integer, &number));
    const tensor_t *in[] = {x, number};
    FINISH(dispatch_run(ctx, op, NULL, 2, in, NULL, out), tensor_drop(number));
}

static status_t run_in_place(context_t *ctx, const opdef_t *op, tensor_t *x, dtype_t dtype,
                             double value, int64_t integer)
{
    tensor_t *number = NULL;
    TRY(make_number(ctx, op, x, dtype, value, integer, &number));
    status_t status = dispatch_run_in_place(ctx, op, NULL, x, 1, (const tensor_t *[]){number});
    tensor_drop(number);
    return status;
}

#define SCALAR(name)                                                                               \
    status_t op_##name##_scalar(context_t *ctx, const tensor_t *x, double value, tensor_t **out)   \
    {                                                                                              \
        return scalar_run(ctx, &op_def_##name, x, DTYPE_F64, value, 0, out);                       \
    }                                                                                              \
    status_t op_##name##_integer(context_t *ctx, const tensor_t *x, int64_t value, tensor_t **out) \
    {                                                                                              \
        return scalar_run(ctx, &op_def_##name, x, DTYPE_S64, 0.0, value, out);                     \
    }                                                                                              \
    status_t op_##name##_scalar_(context_t *ctx, tensor_t *x, double value)                        \
    {                                                                                              \
        return run_in_place(ctx, &op_def_##name, x, DTYPE_F64, value, 0);                          \
    }                                                                                              \
    status_t op_##name##_integer_(context_t *ctx, tensor_t *x, int64_t value)                      \
    {                                                                                              \
        return run_in_place(ctx, &op_def_##name, x, DTYPE_S64, 0.0, value);                        \
    }

SCALAR(add)
SCALAR(sub)
SCALAR(mul)
SCALAR(div)
SCALAR(pow)
