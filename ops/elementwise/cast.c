/* Converts elements to another dtype. */
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/walk_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

typedef struct cast_attrs {
    dtype_t dtype;
} cast_attrs_t;

static const attr_field_t fields[] = {FIELD_DTYPE(cast_attrs_t, dtype, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t cast_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    dtype_t dtype = ((const cast_attrs_t *)call->attrs)->dtype;
    const tensor_info_t *x = call->in[0];
    REQUIRE(ctx, dtype > DTYPE_NONE && dtype < DTYPE_COUNT, "cast: %s to no dtype, one is needed",
            info_brief(x));
    TRY(shape_check(ctx, "cast", dtype, x->rank, x->sizes));
    out[0] = info_dense(dtype, x->rank, x->sizes);
    return STATUS_OK;
}

static double cast_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    char element[16] = {0};
    dtype_t dtype = ((const cast_attrs_t *)call->attrs)->dtype;
    dtype_store(dtype, element, spec_at(call, 0, index));
    return dtype_load(dtype, element);
}

/* ---- kernels ----
 *
 * A view if the dtype is the same; otherwise a copy in the same format. Padded lanes are 0,
 * which is 0 in every dtype. */

static status_t cast_prepare_view(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *x = call->in[0];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "view: dense only");
    if (x->dtype != call->out[0].dtype) return prepared_decline(prepared, "view: another dtype");
    return accept_view(call, prepared, 0, x->format.strides, 0);
}

static status_t cast_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    if (call->layout == LAYOUT_MKLDNN) {
        TRY(walk_follow(call, prepared, false));
    } else {
        format_t format = call->out_format != NULL ? *call->out_format : info_tag(call->in[0]);
        TRY(accept_out(call, prepared, 0, &format));
    }
    prepared->cost_ns = cost_run(ctx, "native", 0.0,
                                 (double)info_bytes(&prepared->in[0]) +
                                     (double)info_bytes(&prepared->out[0]));
    return STATUS_OK;
}

static status_t cast_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[0], *result = &prepared->out[0];
    if (x->layout == LAYOUT_MKLDNN) {
        const int64_t n = walk_elements(x), one = 1;
        convert_strided(1, &n, x->dtype, &one, in[0], result->dtype, &one, out[0],
                        threads_for(ctx, n));
        return STATUS_OK;
    }
    convert_strided(x->rank, x->sizes, x->dtype, x->format.strides, in[0], result->dtype,
                    result->format.strides, out[0], threads_for(ctx, info_numel(x)));
    return STATUS_OK;
}

static const kernel_t view = {
    .name = "view", .prepare = cast_prepare_view, .flags = KERNEL_IS_VIEW};
static const kernel_t native = {
    .name = "native", .prepare = cast_prepare_native, .run = cast_run_native};
static const kernel_t *const kernels[] = {&view, &native, NULL};

static void cast_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const dtype_t dtype = emit_info(e, call->in[0])->dtype;
    if (dtype_is_floating(dtype)) call->in_grad[0] = emit_cast(e, call->out_grad[0], dtype);
}

const opdef_t op_def_cast = {.name = "cast",
                             FUNCTIONS_OF(cast),
                             .preference = OP_FOLLOWS,
                             .attrs = {sizeof(cast_attrs_t), 1, fields},
                             OPERANDS(operands),
                             .kernels = kernels,
                             .gradient = GRADIENT(.pass = cast_pass)};

status_t op_cast(context_t *ctx, const tensor_t *x, dtype_t dtype, tensor_t **out)
{
    cast_attrs_t attrs = {dtype};
    return dispatch_run(ctx, &op_def_cast, &attrs, 1, &x, NULL, out);
}
