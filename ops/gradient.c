/* Functions with which gradient rules emit operators. */
#include "ops/gradient_impl.h"

#include <string.h>

#include "ops/reduce/reduce_impl.h"

static void pass_zero(const gradient_call_t *call)
{
    (void)call;
}

const gradient_t gradient_zero = {.pass = pass_zero};

static void pass_same(const gradient_call_t *call)
{
    call->in_grad[0] = call->out_grad[0];
}

const gradient_t gradient_same = {.pass = pass_same};

static void pass_reshape(const gradient_call_t *call)
{
    call->in_grad[0] = emit_reshape_like(call->emitter, call->out_grad[0], call->in[0]);
}

const gradient_t gradient_reshape = {.pass = pass_reshape};

value_t emit_unary(emitter_t *emitter, const opdef_t *op, value_t x)
{
    return emit_op(emitter, op, NULL, 1, &x);
}

value_t emit_binary(emitter_t *emitter, const opdef_t *op, value_t a, value_t b)
{
    const value_t in[] = {a, b};
    return emit_op(emitter, op, NULL, 2, in);
}

value_t emit_mul(emitter_t *emitter, value_t x, double factor)
{
    return factor == 1.0 ? x : emit_binary(emitter, &op_def_mul, x, emit_number(emitter, factor));
}

value_t emit_add(emitter_t *emitter, value_t x, double term)
{
    return term == 0.0 ? x : emit_binary(emitter, &op_def_add, x, emit_number(emitter, term));
}

value_t emit_cast(emitter_t *emitter, value_t x, dtype_t dtype)
{
    if (emit_info(emitter, x)->dtype == dtype) return x;
    return emit_op(emitter, &op_def_cast, &dtype, 1, &x);
}

value_t emit_widen(emitter_t *emitter, value_t x)
{
    const dtype_t dtype = emit_info(emitter, x)->dtype;
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16 ? emit_cast(emitter, x, DTYPE_F32) : x;
}

value_t emit_sum(emitter_t *emitter, value_t a, value_t b)
{
    if (a == VALUE_NONE || b == VALUE_NONE) return a == VALUE_NONE ? b : a;
    return emit_binary(emitter, &op_def_add, a, b);
}

value_t emit_ints(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *values)
{
    ints_t ints = {.n = n};
    if (n > 0) memcpy(ints.values, values, (size_t)n * sizeof *values);
    return emit_op(emitter, op, &ints, 1, &x);
}

value_t emit_reduce(emitter_t *emitter, const opdef_t *op, value_t x, int n, const int64_t *dims,
                    bool keepdim)
{
    reduce_attrs_t attrs;
    attrs_init(&op->attrs, &attrs);
    attrs.dims.n = n;
    if (n > 0) memcpy(attrs.dims.values, dims, (size_t)n * sizeof *dims);
    attrs.keepdim = keepdim;
    return emit_op(emitter, op, &attrs, 1, &x);
}

value_t emit_keepdim(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x)
{
    const tensor_info_t info = *emit_info(emitter, x);
    int64_t sizes[TENSOR_MAX_RANK];
    bool gone[TENSOR_MAX_RANK];
    reduce_mark(dims, info.rank, gone);
    for (int d = 0; d < info.rank; d++) sizes[d] = gone[d] ? 1 : info.sizes[d];
    if (emit_info(emitter, reduced)->rank == info.rank) return reduced;
    return emit_ints(emitter, &op_def_reshape, reduced, info.rank, sizes);
}

value_t emit_repeat(emitter_t *emitter, value_t reduced, const ints_t *dims, value_t x)
{
    const tensor_info_t info = *emit_info(emitter, x);
    return emit_ints(emitter, &op_def_expand, emit_keepdim(emitter, reduced, dims, x), info.rank,
                     info.sizes);
}

value_t emit_where(emitter_t *emitter, value_t condition, value_t a, value_t b)
{
    const value_t in[] = {condition, a, b};
    return emit_op(emitter, &op_def_where, NULL, 3, in);
}

value_t emit_zeros(emitter_t *emitter, const tensor_info_t *info)
{
    value_t zero = emit_cast(emitter, emit_number(emitter, 0.0), info->dtype);
    return emit_ints(emitter, &op_def_expand, zero, info->rank, info->sizes);
}

value_t emit_count(emitter_t *emitter, const tensor_info_t *info, int dim)
{
    const cumsum_attrs_t attrs = {.dim = dim, .exclusive = true};
    value_t one = emit_cast(emitter, emit_number(emitter, 1.0), DTYPE_S64);
    one = emit_ints(emitter, &op_def_expand, one, info->rank, info->sizes);
    return emit_op(emitter, &op_def_cumsum, &attrs, 1, &one);
}

value_t emit_reshape_like(emitter_t *emitter, value_t x, value_t like)
{
    const tensor_info_t wanted = *emit_info(emitter, like), given = *emit_info(emitter, x);
    if (shape_equal(given.rank, given.sizes, wanted.rank, wanted.sizes)) return x;
    return emit_ints(emitter, &op_def_reshape, x, wanted.rank, wanted.sizes);
}

/* Sums grad for an operand of `dtype`. If `dtype` is wider than grad's dtype, as for an f32 bias of
 * a bf16 layer, casts grad before the sum. */
static value_t sum_for(emitter_t *emitter, value_t grad, int n, const int64_t *dims, bool keepdim,
                       dtype_t dtype)
{
    if (dtype_size(dtype) > dtype_size(emit_info(emitter, grad)->dtype))
        grad = emit_cast(emitter, grad, dtype);
    return emit_reduce(emitter, &op_def_sum, grad, n, dims, keepdim);
}

value_t emit_bias_gradient(emitter_t *emitter, value_t grad, value_t bias)
{
    const int rank = emit_info(emitter, grad)->rank;
    const dtype_t dtype = emit_info(emitter, bias)->dtype;
    int64_t dims[TENSOR_MAX_RANK];
    int n = 0;
    for (int d = 0; d < rank; d++)
        if (d != 1) dims[n++] = d;
    return emit_cast(emitter, sum_for(emitter, grad, n, dims, false, dtype), dtype);
}

value_t emit_unbroadcast(emitter_t *emitter, value_t grad, value_t operand)
{
    const tensor_info_t wanted = *emit_info(emitter, operand), given = *emit_info(emitter, grad);
    const int more = given.rank - wanted.rank;
    int64_t dims[TENSOR_MAX_RANK];
    int n = 0;
    if (grad == VALUE_NONE) return VALUE_NONE;
    for (int d = 0; d < given.rank; d++)
        if (d < more || (wanted.sizes[d - more] == 1 && given.sizes[d] != 1)) dims[n++] = d;
    if (n > 0) grad = sum_for(emitter, grad, n, dims, true, wanted.dtype);
    return emit_cast(emitter, emit_reshape_like(emitter, grad, operand), wanted.dtype);
}
