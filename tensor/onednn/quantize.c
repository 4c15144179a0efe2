/* Scales and zeros of problems: to which operand they belong, how many there are, and whether they
 * are constant. scales.c passes scales to oneDNN. */
#include "tensor/onednn/onednn_impl.h"

int64_t onednn_output_channels(const onednn_problem_t *p)
{
    const tensor_info_t *dst = p->dst;
    return dst->sizes[p->kind == ONEDNN_MATMUL ? dst->rank - 1 : 1];
}

enum { SRC, WEIGHT, DST, OPERANDS };

static const onednn_quantization_t *quantization_of(const onednn_problem_t *p, int operand)
{
    if (operand == SRC) return &p->src_quantization;
    return operand == WEIGHT ? &p->weight_quantization : &p->dst_quantization;
}

bool onednn_quantity(const onednn_problem_t *p, int argument, tensor_info_t *out_info,
                     const void **out_constant)
{
    if (argument < ONEDNN_ARGUMENT_SRC_SCALE || argument > ONEDNN_ARGUMENT_DST_ZERO) return false;
    bool is_scale = argument < ONEDNN_ARGUMENT_SRC_ZERO;
    int first = is_scale ? ONEDNN_ARGUMENT_SRC_SCALE : ONEDNN_ARGUMENT_SRC_ZERO;
    const onednn_quantization_t *q = quantization_of(p, argument - first);
    if (is_scale ? !q->has_scale : !q->has_zero) return false;
    const format_t plain = format_plain(1);
    int64_t n = is_scale && q->is_per_channel ? onednn_output_channels(p) : 1;
    tensor_info_t dense = info_dense(is_scale ? DTYPE_F32 : DTYPE_S32, 1, &n);
    *out_info = info_mkldnn(&dense, &plain);
    *out_constant = is_scale ? (const void *)q->scale : (const void *)q->zero;
    return true;
}

/* True if this kind of problem supports the quantization: operators with a weight do, and reorders.
 * Only the weight may have one scale for each channel. */
static bool is_known(const onednn_problem_t *p)
{
    bool has_weight = p->kind == ONEDNN_CONVOLUTION || p->kind == ONEDNN_DECONVOLUTION ||
                      p->kind == ONEDNN_INNER_PRODUCT || p->kind == ONEDNN_MATMUL;
    const onednn_quantization_t *weight = &p->weight_quantization;
    return p->propagation == ONEDNN_INFERENCE && !p->src_quantization.is_per_channel &&
           !p->dst_quantization.is_per_channel &&
           (has_weight || (p->kind == ONEDNN_REORDER && !weight->has_scale && !weight->has_zero));
}

dnnl_status_t onednn_set_quantization(context_t *ctx, const onednn_problem_t *p,
                                      dnnl_primitive_attr_t attr)
{
    static const int numbers[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    bool has_scale = false;
    dnnl_status_t status = dnnl_success;
    for (int i = 0; status == dnnl_success && i < OPERANDS; i++) {
        const onednn_quantization_t *q = quantization_of(p, i);
        has_scale = has_scale || q->has_scale;
        if ((q->has_scale || q->has_zero) && !is_known(p)) return dnnl_unimplemented;
        if (q->has_zero) status = dnnl_primitive_attr_set_zero_points_mask(attr, numbers[i], 0);
    }
    if (status == dnnl_success && has_scale) status = onednn_set_scales(ctx, p, attr);
    return status;
}

/* Appends the addition of the old elements of dst, which are dequantized first; so their scale and
 * zero must be constants. */
dnnl_status_t onednn_append_sum(const onednn_problem_t *p, const onednn_post_op_t *op,
                                dnnl_post_ops_t post)
{
    const onednn_quantization_t *q = &p->dst_quantization;
    if (op->alpha != 0.0f)
        return dnnl_post_ops_append_sum(post, op->alpha, 0, dnnl_data_type_undef);
    if ((q->has_scale && q->scale == NULL) || (q->has_zero && q->zero == NULL))
        return dnnl_unimplemented;
    return dnnl_post_ops_append_sum(post, q->has_scale ? q->scale[0] : 1.0f,
                                    q->has_zero ? q->zero[0] : 0, dnnl_data_type_undef);
}

/* Adds memory objects for constant scales and zeros. Runs do not set their pointers. */
status_t onednn_frame_add_constants(context_t *ctx, onednn_frame_t *frame)
{
    for (int a = ONEDNN_ARGUMENT_SRC_SCALE; a <= ONEDNN_ARGUMENT_DST_ZERO; a++) {
        tensor_info_t info;
        const void *constant = NULL;
        int number = onednn_argument_number(a);
        bool is_there = onednn_quantity(frame->primitive->problem, a, &info, &constant);
        if (!is_there || constant == NULL || number == 0) continue;
        TRY(onednn_frame_add(ctx, frame, number, &info, (void *)(uintptr_t)constant, NULL));
    }
    return STATUS_OK;
}
