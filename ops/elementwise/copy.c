/* Copies elements, broadcast and cast to the sizes and dtype of another tensor. */
#include "ops/accept_impl.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes: none ---- */

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"src", ROLE_ACTIVATION, false, false}};
enum { X, SRC };

/* ---- inference ---- */

static status_t copy_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *src = call->in[SRC];
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    REQUIRE(ctx,
            broadcast_infer(ctx, call, &rank, sizes) &&
                sizes_equal(ctx, rank, sizes, x->rank, x->sizes),
            "copy: src is %s, it does not broadcast to x %s", info_brief(src), info_brief(x));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double copy_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *out = &call->out[output];
    uint64_t element = 0;
    dtype_store(out->dtype, &element, spec_at_broadcast(call, SRC, out->rank, index));
    return dtype_load(out->dtype, &element);
}

/* ---- dense kernel: x is not read; src may have any strides ---- */

static status_t copy_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    format_t format = call->out_format != NULL ? *call->out_format : info_tag(call->in[X]);
    TRY(accept_out(call, prepared, 0, &format));
    prepared->overwrites = 1u << X;
    return STATUS_OK;
}

static status_t copy_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *src = &prepared->in[SRC], *result = &prepared->out[0];
    const int n_new = result->rank - src->rank;
    int64_t strides[TENSOR_MAX_RANK] = {0};
    for (int d = 0; d < src->rank; d++)
        if (src->sizes[d] > 1) strides[n_new + d] = src->format.strides[d];
    convert_strided(result->rank, result->sizes, src->dtype, strides, in[SRC], result->dtype,
                    result->format.strides, out[0], threads_for(ctx, info_numel(result)));
    return STATUS_OK;
}

/* ---- gradients: x is overwritten, so it has no gradient ---- */

static void copy_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    if (call->is_wanted[SRC])
        call->in_grad[SRC] = emit_unbroadcast(e, call->out_grad[0], call->in[SRC]);
}

/* ---- definition ---- */

const opdef_t op_def_copy = {
    .name = "copy",
    FUNCTIONS_OF(copy),
    .preference = OP_DENSE,
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", copy_prepare_native, copy_run_native)),
    .gradient = GRADIENT(.pass = copy_pass)};

/* ---- public ---- */

status_t op_copy(context_t *ctx, const tensor_t *x, const tensor_t *src, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_copy, NULL, 2, (const tensor_t *[]){x, src}, NULL, out);
}

status_t op_copy_(context_t *ctx, tensor_t *x, const tensor_t *src)
{
    return dispatch_run_in_place(ctx, &op_def_copy, NULL, x, 1, &src);
}
