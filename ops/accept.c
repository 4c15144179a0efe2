#include "ops/accept_impl.h"

#include "tensor/convert/convert_impl.h"
#include "tensor/sym/sizes_impl.h"

tensor_info_t accept_info(const tensor_info_t *info, layout_t layout, const format_t *format)
{
    if (layout == LAYOUT_MKLDNN) return info_mkldnn(info, format);
    int64_t strides[TENSOR_MAX_RANK];
    format_strides(format, info->sizes, strides);
    return info_strided(info->dtype, info->rank, info->sizes, strides);
}

format_t accept_order(const tensor_info_t *info)
{
    format_t format = format_plain(info->rank);
    int64_t strides[TENSOR_MAX_RANK];
    if (info->format.kind == FORMAT_TAG && info->format.n_blocks > 0) return format;
    format_strides(&info->format, info->sizes, strides);
    for (int i = 1; i < info->rank; i++) /* insertion sort, which is stable */
        for (int k = i; k > 0 && strides[format.order[k - 1]] < strides[format.order[k]]; k--) {
            const uint8_t moved = format.order[k];
            format.order[k] = format.order[k - 1];
            format.order[k - 1] = moved;
        }
    return format;
}

status_t accept_format(const op_call_t *call, prepared_t *prepared, int index,
                       const format_t *format)
{
    const tensor_info_t *info = call->in[index];
    if (call->keep_formats && !format_same(&info->format, format, info->sizes)) {
        char text[FORMAT_TEXT_MAX];
        return prepared_decline(prepared, "input %d is %s, %s is needed", index, info_brief(info),
                                format_text(format, text));
    }
    prepared->in[index] = accept_info(info, call->layout, format);
    return STATUS_OK;
}

status_t accept_plain(const op_call_t *call, prepared_t *prepared, int index)
{
    format_t plain = format_plain(call->in[index]->rank);
    return accept_format(call, prepared, index, &plain);
}

status_t accept_rows(const op_call_t *call, prepared_t *prepared, int index)
{
    const tensor_info_t *info = call->in[index];
    int64_t strides[TENSOR_MAX_RANK];
    const bool has_strides = info->format.kind == FORMAT_STRIDED ||
                             (info->format.kind == FORMAT_TAG && info->format.n_blocks == 0);
    if (has_strides) format_strides(&info->format, info->sizes, strides);
    if (has_strides && info->rank > 0 &&
        (strides[info->rank - 1] == 1 || info->sizes[info->rank - 1] == 1))
        return STATUS_OK;
    return accept_plain(call, prepared, index);
}

void accept_contiguous(const op_call_t *call, prepared_t *prepared, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (call_has(call, i))
            prepared->in[i] = info_dense(call->in[i]->dtype, call->in[i]->rank, call->in[i]->sizes);
}

static status_t check_out(const op_call_t *call, prepared_t *prepared, int index,
                          const format_t *format)
{
    const tensor_info_t *out = &call->out[index];
    bool has_elements = call->layout == LAYOUT_MKLDNN && info_numel(out) > 0;
    const char *refusal = has_elements ? convert_refusal(out) : NULL;
    if (refusal != NULL)
        return prepared_decline(prepared, "the result %s cannot be mkldnn: %s", info_brief(out),
                                refusal);
    if (call->out_format != NULL && !format_same(call->out_format, format, out->sizes)) {
        char text[FORMAT_TEXT_MAX], wanted[FORMAT_TEXT_MAX];
        return prepared_decline(prepared, "the result is %s, %s is wanted",
                                format_text(format, text), format_text(call->out_format, wanted));
    }
    return STATUS_OK;
}

status_t accept_out(const op_call_t *call, prepared_t *prepared, int index, const format_t *format)
{
    TRY(check_out(call, prepared, index, format));
    prepared->out[index] = accept_info(&call->out[index], call->layout, format);
    return STATUS_OK;
}

status_t accept_view(const op_call_t *call, prepared_t *prepared, int index, const int64_t *strides,
                     int64_t offset)
{
    const tensor_info_t *out = &call->out[index];
    tensor_info_t view = info_strided(out->dtype, out->rank, out->sizes, strides);
    TRY(check_out(call, prepared, index, &view.format));
    prepared->out[index] = view;
    prepared->offset[index] = info_numel(&view) > 0 ? offset : 0;
    return STATUS_OK;
}

status_t accept_out_plain(const op_call_t *call, prepared_t *prepared, int index)
{
    format_t plain = format_plain(call->out[index].rank);
    return accept_out(call, prepared, index, &plain);
}

status_t accept_post(context_t *ctx, const op_call_t *call, const tensor_info_t *out)
{
    const post_ops_t *post = attrs_post(&call->op->attrs, call->attrs);
    int at = call->op->n_operands;
    for (int i = 0; i < post->n; i++) {
        post_kind_t kind = post->op[i].kind;
        if (kind == POST_ELTWISE) continue;
        const tensor_info_t *operand = call->in[at++];
        int64_t sizes[TENSOR_MAX_RANK];
        int rank = 0;
        bool fits = kind == POST_SUM
                        ? sizes_equal(ctx, out->rank, out->sizes, operand->rank, operand->sizes)
                        : sizes_broadcast(ctx, out->rank, out->sizes, operand->rank, operand->sizes,
                                          &rank, sizes) &&
                              sizes_equal(ctx, out->rank, out->sizes, rank, sizes);
        REQUIRE(ctx, fits, "%s: operand of %s is %s, the result is %s", call->op->name,
                post_name(kind), info_brief(operand), info_brief(out));
        REQUIRE(ctx, kind != POST_SUM || operand->dtype == out->dtype,
                "%s: operand of sum is %s, the result is %s, equal dtypes are needed",
                call->op->name, info_brief(operand), info_brief(out));
    }
    return STATUS_OK;
}
