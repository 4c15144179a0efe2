/* Returns a tensor with the sizes of another one, filled with a value. */
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"

/* ---- attributes ---- */

typedef struct full_like_attrs {
    double value;
    dtype_t dtype; /* DTYPE_NONE means x's dtype */
} full_like_attrs_t;

static const attr_field_t fields[] = {FIELD_FLOAT(full_like_attrs_t, value, 0),
                                      FIELD_DTYPE(full_like_attrs_t, dtype, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- inference ---- */

static status_t full_like_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    dtype_t dtype = ((const full_like_attrs_t *)call->attrs)->dtype;
    const tensor_info_t *x = call->in[0];
    if (dtype == DTYPE_NONE) dtype = x->dtype;
    TRY(shape_check(ctx, "full_like", dtype, x->rank, x->sizes));
    out[0] = info_dense(dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double full_like_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)index;
    const dtype_t dtype = call->out[output].dtype;
    uint64_t element = 0;
    dtype_store(dtype, &element, ((const full_like_attrs_t *)call->attrs)->value);
    return dtype_load(dtype, &element);
}

/* ---- dense kernel: x is not read, so it can have any strides ---- */

static status_t full_like_prepare_native(context_t *ctx, const op_call_t *call,
                                         prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    return accept_out_plain(call, prepared, 0);
}

static status_t full_like_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                     void *const *out, void *scratch)
{
    (void)ctx, (void)in, (void)scratch;
    const tensor_info_t *result = &prepared->out[0];
    const double value = ((const full_like_attrs_t *)prepared->attrs)->value;
    dtype_cast(info_numel(result), DTYPE_F64, &value, 0, result->dtype, out[0], 1);
    return STATUS_OK;
}

/* ---- definition ---- */

const opdef_t op_def_full_like = {
    .name = "full_like",
    FUNCTIONS_OF(full_like),
    .preference = OP_DENSE,
    .attrs = {sizeof(full_like_attrs_t), 2, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", full_like_prepare_native, full_like_run_native)),
    .gradient = &gradient_zero};

/* ---- public ---- */

status_t op_full_like(context_t *ctx, const tensor_t *x, double value, dtype_t dtype,
                      tensor_t **out)
{
    full_like_attrs_t attrs = {value, dtype};
    return dispatch_run(ctx, &op_def_full_like, &attrs, 1, &x, NULL, out);
}
