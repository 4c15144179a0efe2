/* Transitions between layouts, as operators. Their kernels only request a format. Dispatch converts
 * the input to this format, and the result is a view of the converted input. Even in calls with
 * fixed formats, the input is converted, because this is the operators' purpose. */
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/convert/convert_impl.h"

static const attr_field_t reorder_fields[] = {FIELD_FORMAT(reorder_attrs_t, format)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- inference ---- */

static status_t infer_reorder(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    const format_t *format = &((const reorder_attrs_t *)call->attrs)->format;
    const tensor_info_t *x = call->in[0];
    char text[FORMAT_TEXT_MAX];
    int64_t elements = 0, bytes = 0;
    REQUIRE(ctx, format->kind == FORMAT_TAG && format->rank == x->rank,
            "reorder: format %s of %s, a tag of rank %d is needed", format_text(format, text),
            info_brief(x), x->rank);
    REQUIRE(ctx,
            format_elements(format, x->sizes, &elements) &&
                shape_multiply(elements, (int64_t)dtype_size(x->dtype), &bytes),
            "reorder: %s in format %s, its bytes overflow", info_brief(x),
            format_text(format, text));
    return ops_infer_like(ctx, call, out_n, out);
}

/* ---- specification ---- */

static double transition_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return spec_at(call, 0, index);
}

/* ---- kernels ---- */

static status_t take(const op_call_t *call, prepared_t *prepared, const tensor_info_t *want)
{
    if (call->out_format != NULL && !format_same(call->out_format, &want->format, want->sizes))
        return prepared_decline(prepared, "view: %s is given", info_brief(want));
    prepared->in[0] = prepared->out[0] = *want;
    prepared->in[0].is_number = prepared->out[0].is_number = false;
    return STATUS_OK;
}

/* The result has the format of the dense x, so nothing is copied, unless elements of x overlap;
 * then they are copied to the plain format. */
static status_t prepare_to_mkldnn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    tensor_info_t want = *call->in[0];
    const char *refusal = convert_refusal(&want);
    if (refusal != NULL)
        return prepared_decline(prepared, "to_mkldnn: %s, %s", info_brief(&want), refusal);
    if (want.format.kind == FORMAT_STRIDED) {
        format_t format = format_of_strides(want.rank, want.sizes, want.format.strides);
        for (int d = 0; d < want.rank; d++)
            if (want.sizes[d] > 1 && want.format.strides[d] == 0) format = format_plain(want.rank);
        want = info_mkldnn(&want, &format);
    }
    return take(call, prepared, &want);
}

static status_t prepare_to_dense(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    tensor_info_t want = *call->in[0];
    if (want.layout == LAYOUT_MKLDNN) want = info_dense(want.dtype, want.rank, want.sizes);
    return take(call, prepared, &want);
}

static status_t prepare_reorder(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const char *refusal = convert_refusal(call->in[0]);
    if (refusal != NULL)
        return prepared_decline(prepared, "reorder: %s, %s", info_brief(call->in[0]), refusal);
    tensor_info_t want = info_mkldnn(call->in[0], &((const reorder_attrs_t *)call->attrs)->format);
    return take(call, prepared, &want);
}

/* ---- definitions ---- */

const opdef_t op_def_to_mkldnn = {.name = "to_mkldnn",
                                  .preference = OP_PREFERS,
                                  .traits = TRAIT_VIEW,
                                  OPERANDS(operands),
                                  .n_outputs = 1,
                                  .infer = ops_infer_like,
                                  .infers_symbols = true,
                                  .kernels = KERNELS(VIEW(prepare_to_mkldnn)),
                                  .spec = transition_spec,
                                  .gradient = &gradient_same};

const opdef_t op_def_to_dense = {.name = "to_dense",
                                 .preference = OP_DENSE,
                                 .traits = TRAIT_VIEW,
                                 OPERANDS(operands),
                                 .n_outputs = 1,
                                 .infer = ops_infer_like,
                                 .infers_symbols = true,
                                 .kernels = KERNELS(VIEW(prepare_to_dense)),
                                 .spec = transition_spec,
                                 .gradient = &gradient_same};

const opdef_t op_def_reorder = {.name = "reorder",
                                .preference = OP_PREFERS,
                                .traits = TRAIT_VIEW,
                                .attrs = {sizeof(reorder_attrs_t), 1, reorder_fields},
                                OPERANDS(operands),
                                .n_outputs = 1,
                                .infer = infer_reorder,
                                .kernels = KERNELS(VIEW(prepare_reorder)),
                                .spec = transition_spec,
                                .gradient = &gradient_same};

/* ---- public ---- */

status_t op_to_mkldnn(context_t *ctx, const tensor_t *x, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_to_mkldnn, NULL, 1, &x, NULL, out);
}

status_t op_to_dense(context_t *ctx, const tensor_t *x, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_to_dense, NULL, 1, &x, NULL, out);
}

status_t op_reorder(context_t *ctx, const tensor_t *x, const char *format, tensor_t **out)
{
    TRY(context_output(ctx, "reorder", out));
    reorder_attrs_t attrs = {{0}};
    TRY(format_parse(ctx, format, &attrs.format));
    return dispatch_run(ctx, &op_def_reorder, &attrs, 1, &x, NULL, out);
}
