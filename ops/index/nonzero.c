/* Finds the indices of elements that are not zero. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/index/measured.h"

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static bool is_nonzero(const tensor_info_t *x, const void *bytes, int64_t at)
{
    const char *element = (const char *)bytes + (size_t)at * dtype_size(x->dtype);
    return dtype_is_floating(x->dtype) ? !(dtype_load(x->dtype, element) == 0.0)
                                       : dtype_load_integer(x->dtype, element) != 0;
}

static int64_t count(const tensor_info_t *x, const void *bytes)
{
    int64_t n = 0, numel = info_numel(x);
    for (int64_t i = 0; i < numel; i++) n += is_nonzero(x, bytes, i);
    return n;
}

static status_t nonzero_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    const tensor_info_t *x = call->in[0];
    const int64_t sizes[2] = {call_knows(call, 0) ? count(x, call->data[0]) : -1, x->rank};
    out[0] = info_dense(DTYPE_S64, 2, sizes);
    return STATUS_OK;
}

/* Finds the element with index[0] other nonzero elements before it. */
static double nonzero_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[0];
    int64_t at[TENSOR_MAX_RANK] = {0}, left = index[0];
    do {
        if (spec_at(call, 0, at) != 0.0 && left-- == 0) return (double)at[index[1]];
    } while (shape_next(x->rank, x->sizes, at));
    return -1;
}

static status_t nonzero_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                            void *const *out, void *scratch)
{
    (void)ctx, (void)scratch;
    const tensor_info_t *x = &prepared->in[0];
    int64_t *row = out[0], at[TENSOR_MAX_RANK] = {0}, position = 0;
    do {
        if (!is_nonzero(x, in[0], position++)) continue;
        memcpy(row, at, (size_t)x->rank * sizeof *row);
        row += x->rank;
    } while (shape_next(x->rank, x->sizes, at));
    return STATUS_OK;
}

const opdef_t op_def_nonzero = {
    .name = "nonzero",
    FUNCTIONS_OF(nonzero),
    .preference = OP_DENSE,
    .traits = TRAIT_MEASURES,
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", ops_prepare_dense, nonzero_run)),
    .gradient = &gradient_zero};

status_t op_nonzero(context_t *ctx, const tensor_t *x, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_nonzero, NULL, 1, &x, NULL, out);
}
