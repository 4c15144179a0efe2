/* Makes oneDNN's primitive descriptor for a backward problem, with one case for each kind of
 * primitive. */
#include "tensor/onednn/onednn_impl.h"

static dnnl_status_t describe_convolution(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                          const dnnl_dims_t dilation, dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t diff_dst = d->md[ONEDNN_ARGUMENT_DIFF_DST];
    if (p->propagation == ONEDNN_BACKWARD_DATA)
        return ONEDNN_BACKWARD_OF(out, d, convolution_backward_data, d->algorithm,
                                  d->md[ONEDNN_ARGUMENT_DIFF_SRC], d->md[ONEDNN_ARGUMENT_WEIGHT],
                                  diff_dst, p->stride, dilation, p->pad_begin, p->pad_end);
    return ONEDNN_BACKWARD_OF(out, d, convolution_backward_weights, d->algorithm,
                              d->md[ONEDNN_ARGUMENT_SRC], d->md[ONEDNN_ARGUMENT_DIFF_WEIGHT],
                              d->md[ONEDNN_ARGUMENT_DIFF_BIAS], diff_dst, p->stride, dilation,
                              p->pad_begin, p->pad_end);
}

static dnnl_status_t describe_deconvolution(const onednn_problem_t *p,
                                            const onednn_descriptors_t *d,
                                            const dnnl_dims_t dilation, dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t diff_dst = d->md[ONEDNN_ARGUMENT_DIFF_DST];
    if (p->propagation == ONEDNN_BACKWARD_DATA)
        return ONEDNN_BACKWARD_OF(out, d, deconvolution_backward_data, dnnl_deconvolution_direct,
                                  d->md[ONEDNN_ARGUMENT_DIFF_SRC], d->md[ONEDNN_ARGUMENT_WEIGHT],
                                  diff_dst, p->stride, dilation, p->pad_begin, p->pad_end);
    return ONEDNN_BACKWARD_OF(out, d, deconvolution_backward_weights, dnnl_deconvolution_direct,
                              d->md[ONEDNN_ARGUMENT_SRC], d->md[ONEDNN_ARGUMENT_DIFF_WEIGHT],
                              d->md[ONEDNN_ARGUMENT_DIFF_BIAS], diff_dst, p->stride, dilation,
                              p->pad_begin, p->pad_end);
}

static dnnl_status_t describe_windowed(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                       dnnl_primitive_desc_t *out)
{
    dnnl_dims_t dilation = {0};
    for (int i = 0; i < p->diff_dst->rank - 2; i++) dilation[i] = p->dilation[i] - 1;
    if (p->kind == ONEDNN_CONVOLUTION) return describe_convolution(p, d, dilation, out);
    if (p->kind == ONEDNN_DECONVOLUTION) return describe_deconvolution(p, d, dilation, out);
    return ONEDNN_BACKWARD_OF(out, d, pooling_backward, d->algorithm,
                              d->md[ONEDNN_ARGUMENT_DIFF_SRC], d->md[ONEDNN_ARGUMENT_DIFF_DST],
                              p->stride, p->kernel, dilation, p->pad_begin, p->pad_end);
}

static dnnl_status_t describe_norm(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                   dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t src = d->md[ONEDNN_ARGUMENT_SRC];
    const_dnnl_memory_desc_t diff_dst = d->md[ONEDNN_ARGUMENT_DIFF_DST];
    dnnl_prop_kind_t prop = p->propagation == ONEDNN_BACKWARD ? dnnl_backward : dnnl_backward_data;
    if (p->kind == ONEDNN_BATCH_NORM)
        return ONEDNN_BACKWARD_OF(out, d, batch_normalization_backward, prop,
                                  ONEDNN_V3(d->md[ONEDNN_ARGUMENT_DIFF_SRC]) diff_dst, src,
                                  p->epsilon, onednn_norm_flags(p));
    if (p->kind == ONEDNN_LAYER_NORM)
        return ONEDNN_BACKWARD_OF(out, d, layer_normalization_backward, prop,
                                  ONEDNN_V3(d->md[ONEDNN_ARGUMENT_DIFF_SRC]) diff_dst, src, NULL,
                                  p->epsilon, onednn_norm_flags(p));
    return ONEDNN_BACKWARD_OF(out, d, lrn_backward, d->algorithm,
                              ONEDNN_V3(d->md[ONEDNN_ARGUMENT_DIFF_SRC]) diff_dst, src, p->size,
                              p->alpha, p->beta, p->k);
}

static dnnl_status_t describe_product(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                      dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t diff_dst = d->md[ONEDNN_ARGUMENT_DIFF_DST];
    if (p->propagation == ONEDNN_BACKWARD_DATA)
        return ONEDNN_BACKWARD_OF(out, d, inner_product_backward_data,
                                  d->md[ONEDNN_ARGUMENT_DIFF_SRC], d->md[ONEDNN_ARGUMENT_WEIGHT],
                                  diff_dst);
    return ONEDNN_BACKWARD_OF(out, d, inner_product_backward_weights, d->md[ONEDNN_ARGUMENT_SRC],
                              d->md[ONEDNN_ARGUMENT_DIFF_WEIGHT], d->md[ONEDNN_ARGUMENT_DIFF_BIAS],
                              diff_dst);
}

/* True if oneDNN computes the gradient that p->propagation requests. Kinds with a weight have
 * separate primitives for the gradients of source and weight; norms compute all gradients at
 * once. */
static bool has_gradients(const onednn_problem_t *p)
{
    switch (p->kind) {
    case ONEDNN_CONVOLUTION:
    case ONEDNN_DECONVOLUTION:
    case ONEDNN_INNER_PRODUCT: return p->propagation != ONEDNN_BACKWARD;
    case ONEDNN_BATCH_NORM:
    case ONEDNN_LAYER_NORM: return p->propagation != ONEDNN_BACKWARD_WEIGHT;
    case ONEDNN_RNN: return p->propagation == ONEDNN_BACKWARD;
    default: return p->propagation == ONEDNN_BACKWARD_DATA;
    }
}

dnnl_status_t onednn_describe_backward(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                       dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t diff_src = d->md[ONEDNN_ARGUMENT_DIFF_SRC];
    const_dnnl_memory_desc_t diff_dst = d->md[ONEDNN_ARGUMENT_DIFF_DST];
    const_dnnl_memory_desc_t dst = d->md[ONEDNN_ARGUMENT_DST];
    if (!has_gradients(p) || d->forward == NULL) return dnnl_unimplemented;
    switch (p->kind) {
    case ONEDNN_CONVOLUTION:
    case ONEDNN_DECONVOLUTION:
    case ONEDNN_POOLING: return describe_windowed(p, d, out);
    case ONEDNN_BATCH_NORM:
    case ONEDNN_LAYER_NORM:
    case ONEDNN_LRN: return describe_norm(p, d, out);
    case ONEDNN_INNER_PRODUCT: return describe_product(p, d, out);
    case ONEDNN_ELTWISE:
        return ONEDNN_BACKWARD_OF(
            out, d, eltwise_backward, d->algorithm, ONEDNN_V3(diff_src) diff_dst,
            p->from_dst ? dst : d->md[ONEDNN_ARGUMENT_SRC], p->alpha, p->beta);
    case ONEDNN_SOFTMAX:
        return ONEDNN_BACKWARD_OF(out, d, softmax_backward, d->algorithm, diff_src, diff_dst, dst,
                                  p->axis);
    case ONEDNN_RESAMPLING:
        return ONEDNN_BACKWARD_OF(out, d, resampling_backward, d->algorithm, NULL, diff_src,
                                  diff_dst);
    case ONEDNN_RNN: return onednn_describe_rnn(p, d, out);
    case ONEDNN_MATMUL:
    case ONEDNN_BINARY:
    case ONEDNN_REORDER: break; /* forward only */
    }
    return dnnl_unimplemented;
}
