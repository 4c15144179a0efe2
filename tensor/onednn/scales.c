/* Passes scales to oneDNN. Version 3 takes the scales of src, weight and dst as arguments, and
 * divides by the dst scale after the post-ops. Version 2.6 takes one scale, src * weight / dst,
 * which is constant or an argument of each run; it multiplies the sum, bias included, by this scale
 * before the post-ops. */
#include "tensor/onednn/onednn_impl.h"

#if DNNL_VERSION_MAJOR == 2

static bool is_at_run(const onednn_quantization_t *q)
{
    return q->has_scale && q->scale == NULL;
}

static bool any_at_run(const onednn_problem_t *p)
{
    return is_at_run(&p->src_quantization) || is_at_run(&p->weight_quantization) ||
           is_at_run(&p->dst_quantization);
}

static int64_t count(const onednn_problem_t *p)
{
    return p->weight_quantization.is_per_channel ? onednn_output_channels(p) : 1;
}

static float scale_of(const onednn_quantization_t *q, const float *given, int64_t channel)
{
    const float *scale = q->scale != NULL ? q->scale : given;
    return q->has_scale ? scale[q->is_per_channel ? channel : 0] : 1.0f;
}

/* The scale of a sum of integer products: src scale times weight scale. `given` has the scales of
 * src, weight and dst that are arguments of the run. */
static float product_scale(const onednn_problem_t *p, const float *const given[3], int64_t channel)
{
    return scale_of(&p->src_quantization, given[0], channel) *
           scale_of(&p->weight_quantization, given[1], channel);
}

static float sum_scale(const onednn_problem_t *p, const float *const given[3], int64_t channel)
{
    float dst = p->n_post > 0 ? 1.0f : scale_of(&p->dst_quantization, given[2], channel);
    return product_scale(p, given, channel) / dst;
}

dnnl_status_t onednn_set_scales(context_t *ctx, const onednn_problem_t *p,
                                dnnl_primitive_attr_t attr)
{
    static const float *const none[3];
    const float at_run = DNNL_RUNTIME_F32_VAL;
    int64_t n = count(p);
    int mask = n == 1 ? 0 : p->kind == ONEDNN_MATMUL ? 1 << (p->dst->rank - 1) : 1 << 1;
    if (p->bias != NULL && p->bias->dtype != DTYPE_F32) return dnnl_unimplemented;
    if (is_at_run(&p->dst_quantization) && p->n_post > 0) return dnnl_unimplemented;
    if (any_at_run(p)) return dnnl_primitive_attr_set_output_scales(attr, 1, mask, &at_run);
    float *scales = NULL;
    if (context_get(ctx, (size_t)n * sizeof *scales, "scales", &scales) != STATUS_OK)
        return dnnl_out_of_memory;
    for (int64_t i = 0; i < n; i++) scales[i] = sum_scale(p, none, i);
    dnnl_status_t status = dnnl_primitive_attr_set_output_scales(attr, n, mask, scales);
    context_put(ctx, scales);
    return status;
}

dnnl_status_t onednn_append_scale(const onednn_problem_t *p, dnnl_post_ops_t post)
{
    const onednn_quantization_t *q = &p->dst_quantization;
    if (p->n_post == 0 || !q->has_scale || q->scale == NULL) return dnnl_success;
    return dnnl_post_ops_append_eltwise(post, dnnl_eltwise_linear, 1.0f / q->scale[0], 0.0f);
}

/* Indices of the run's scale and bias arguments (-1: not an argument), and the values passed to
 * oneDNN instead. */
struct onednn_fold {
    int scale_indices[3], bias_index;
    int64_t n_scales, n_channels;
    float *scales, *bias;
    float values[];
};

static bool divides_bias(const onednn_problem_t *p)
{
    return p->bias != NULL && (p->src_quantization.has_scale || p->weight_quantization.has_scale);
}

/* Makes the memory objects once; each run then only changes the values to which they point. */
status_t onednn_fold_create(context_t *ctx, onednn_frame_t *frame, onednn_fold_t **out_fold)
{
    const onednn_primitive_t *primitive = frame->primitive;
    const onednn_problem_t *p = primitive->problem;
    onednn_fold_t *fold = NULL;
    if (!divides_bias(p) && !any_at_run(p)) return STATUS_OK;
    int64_t n = count(p), n_channels = divides_bias(p) ? onednn_output_channels(p) : 0;
    size_t bytes = sizeof *fold + (size_t)(n + n_channels) * sizeof(float);
    allocator_t allocator = primitive->allocator;
    fold = allocator_get(&allocator, bytes);
    if (fold == NULL) FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for scales", bytes);
    *fold = (onednn_fold_t){.n_scales = n, .n_channels = n_channels, .bias_index = -1};
    fold->scales = fold->values;
    fold->bias = fold->values + n;
    for (int i = 0; i < 3; i++)
        fold->scale_indices[i] = onednn_argument_index(primitive, ONEDNN_ARGUMENT_SRC_SCALE + i);
    if (n_channels > 0) fold->bias_index = onednn_argument_index(primitive, ONEDNN_ARGUMENT_BIAS);
    *out_fold = fold; /* from here on the frame frees it */
    if (!any_at_run(p)) return STATUS_OK;
    const format_t plain = format_plain(1);
    tensor_info_t dense = info_dense(DTYPE_F32, 1, &n), info = info_mkldnn(&dense, &plain);
    return onednn_frame_add(ctx, frame, DNNL_ARG_ATTR_OUTPUT_SCALES, &info, fold->scales, NULL);
}

void onednn_fold_destroy(const onednn_primitive_t *primitive, onednn_fold_t *fold)
{
    allocator_t allocator = primitive->allocator;
    if (fold != NULL) allocator_put(&allocator, fold);
}

void *const *onednn_fold_run(onednn_fold_t *fold, onednn_frame_t *frame, void *const *arguments,
                             void **out_arguments)
{
    const onednn_problem_t *p = frame->primitive->problem;
    const float *given[3] = {NULL, NULL, NULL};
    for (int i = 0; i < frame->primitive->n_arguments; i++) out_arguments[i] = arguments[i];
    for (int i = 0; i < 3; i++) {
        int index = fold->scale_indices[i];
        if (index < 0) continue;
        given[i] = arguments[index];
        out_arguments[index] = frame->handles[index];
    }
    for (int64_t i = 0; i < fold->n_scales; i++) fold->scales[i] = sum_scale(p, given, i);
    if (fold->bias_index < 0) return out_arguments;
    const float *bias = arguments[fold->bias_index];
    for (int64_t i = 0; i < fold->n_channels; i++)
        fold->bias[i] = bias[i] / product_scale(p, given, i);
    out_arguments[fold->bias_index] = fold->bias;
    return out_arguments;
}

#else

/* Returns oneDNN's mask of the dimensions that have separate scales. The weight of a grouped
 * convolution has an additional dimension for groups. */
static int weight_mask(const onednn_problem_t *p)
{
    if (!p->weight_quantization.is_per_channel) return 0;
    if (p->kind == ONEDNN_MATMUL) return 1 << (p->weight->rank - 1);
    return p->kind != ONEDNN_INNER_PRODUCT && p->weight->rank > p->dst->rank ? 1 << 0 | 1 << 1
                                                                             : 1 << 0;
}

dnnl_status_t onednn_set_scales(context_t *ctx, const onednn_problem_t *p,
                                dnnl_primitive_attr_t attr)
{
    (void)ctx;
    dnnl_status_t status = dnnl_success;
    if (p->src_quantization.has_scale)
        status = dnnl_primitive_attr_set_scales_mask(attr, DNNL_ARG_SRC, 0);
    if (status == dnnl_success && p->weight_quantization.has_scale)
        status = dnnl_primitive_attr_set_scales_mask(attr, DNNL_ARG_WEIGHTS, weight_mask(p));
    if (status == dnnl_success && p->dst_quantization.has_scale)
        status = dnnl_primitive_attr_set_scales_mask(attr, DNNL_ARG_DST, 0);
    return status;
}

dnnl_status_t onednn_append_scale(const onednn_problem_t *p, dnnl_post_ops_t post)
{
    (void)p, (void)post;
    return dnnl_success;
}

status_t onednn_fold_create(context_t *ctx, onednn_frame_t *frame, onednn_fold_t **out_fold)
{
    (void)ctx, (void)frame, (void)out_fold;
    return STATUS_OK;
}

void onednn_fold_destroy(const onednn_primitive_t *primitive, onednn_fold_t *fold)
{
    (void)primitive, (void)fold;
}

void *const *onednn_fold_run(onednn_fold_t *fold, onednn_frame_t *frame, void *const *arguments,
                             void **out_arguments)
{
    (void)fold, (void)frame, (void)out_arguments;
    return arguments;
}

#endif
