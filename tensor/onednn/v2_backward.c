/* Implements calls of version 3 of oneDNN's API for backward primitives with oneDNN 2.6: see
 * api.h. */
#include "tensor/onednn/api.h"

#if DNNL_VERSION_MAJOR == 2

#include <stdbool.h>

/* The functions below fill an operation descriptor, and then call this function to create a
 * primitive descriptor from it. */
static dnnl_status_t create_backward(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                     const_dnnl_primitive_desc_t forward,
                                     const_dnnl_primitive_attr_t attr, const void *op_desc,
                                     dnnl_status_t status)
{
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(pd, op_desc, attr, engine, forward);
}

/* False if the two gradients have different descriptors. In 2.6, eltwise, norms and lrn have a
 * single descriptor for both. */
static bool same_descriptor(const_dnnl_memory_desc_t diff_dst, const_dnnl_memory_desc_t diff_src)
{
    return diff_src->format_kind == dnnl_format_kind_any ||
           dnnl_memory_desc_equal(diff_dst, diff_src);
}

dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_l, const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t op;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_dilated_convolution_backward_data_desc_init(&op, alg_kind, diff_src, weights, diff_dst,
                                                         strides, dilates, padding_l, padding_r));
}

dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t diff_weights,
    const_dnnl_memory_desc_t diff_bias, const_dnnl_memory_desc_t diff_dst,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding_l,
    const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t op;
    return create_backward(pd, engine, forward, attr, &op,
                           dnnl_dilated_convolution_backward_weights_desc_init(
                               &op, alg_kind, src, diff_weights, diff_bias, diff_dst, strides,
                               dilates, padding_l, padding_r));
}

dnnl_status_t dnnl_deconvolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_l, const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_deconvolution_desc_t op;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_dilated_deconvolution_backward_data_desc_init(
            &op, alg_kind, diff_src, weights, diff_dst, strides, dilates, padding_l, padding_r));
}

dnnl_status_t dnnl_deconvolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t diff_weights,
    const_dnnl_memory_desc_t diff_bias, const_dnnl_memory_desc_t diff_dst,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding_l,
    const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_deconvolution_desc_t op;
    return create_backward(pd, engine, forward, attr, &op,
                           dnnl_dilated_deconvolution_backward_weights_desc_init(
                               &op, alg_kind, src, diff_weights, diff_bias, diff_dst, strides,
                               dilates, padding_l, padding_r));
}

dnnl_status_t dnnl_inner_product_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const_dnnl_memory_desc_t diff_src,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t op;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_inner_product_backward_data_desc_init(&op, diff_src, weights, diff_dst));
}

dnnl_status_t dnnl_inner_product_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const_dnnl_memory_desc_t src,
    const_dnnl_memory_desc_t diff_weights, const_dnnl_memory_desc_t diff_bias,
    const_dnnl_memory_desc_t diff_dst, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t op;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_inner_product_backward_weights_desc_init(&op, src, diff_weights, diff_bias, diff_dst));
}

dnnl_status_t dnnl_eltwise_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t data, float alpha, float beta, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_eltwise_desc_t op;
    if (!same_descriptor(diff_dst, diff_src)) return dnnl_unimplemented;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_eltwise_backward_desc_init(&op, alg_kind, diff_dst, data, alpha, beta));
}

dnnl_status_t dnnl_softmax_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t dst, int axis, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_softmax_v2_desc_t op;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_softmax_v2_backward_desc_init(&op, alg_kind, diff_src, diff_dst, dst, axis));
}

dnnl_status_t dnnl_pooling_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides,
    const dnnl_dims_t kernel, const dnnl_dims_t dilation, const dnnl_dims_t padding_l,
    const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_v2_desc_t op;
    return create_backward(pd, engine, forward, attr, &op,
                           dnnl_pooling_v2_backward_desc_init(&op, alg_kind, diff_src, diff_dst,
                                                              strides, kernel, dilation, padding_l,
                                                              padding_r));
}

dnnl_status_t dnnl_lrn_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t src, dnnl_dim_t local_size, float alpha, float beta, float k,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_lrn_desc_t op;
    if (!same_descriptor(diff_dst, diff_src)) return dnnl_unimplemented;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_lrn_backward_desc_init(&op, alg_kind, diff_dst, src, local_size, alpha, beta, k));
}

dnnl_status_t dnnl_batch_normalization_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t src, float epsilon, unsigned flags,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_batch_normalization_desc_t op;
    if (!same_descriptor(diff_dst, diff_src)) return dnnl_unimplemented;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_batch_normalization_backward_desc_init(&op, prop_kind, diff_dst, src, epsilon, flags));
}

dnnl_status_t dnnl_layer_normalization_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t stat, float epsilon, unsigned flags,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_layer_normalization_desc_t op;
    if (!same_descriptor(diff_dst, diff_src)) return dnnl_unimplemented;
    return create_backward(pd, engine, forward, attr, &op,
                           dnnl_layer_normalization_backward_desc_init(&op, prop_kind, diff_dst,
                                                                       src, stat, epsilon, flags));
}

dnnl_status_t dnnl_resampling_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind, const float *factors,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_resampling_desc_t op;
    return create_backward(
        pd, engine, forward, attr, &op,
        dnnl_resampling_backward_desc_init(&op, alg_kind, factors, diff_src, diff_dst));
}

#else
typedef int onednn_v2_not_needed; /* an empty translation unit is not C */
#endif
