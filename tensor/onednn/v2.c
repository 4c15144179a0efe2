/* Implements calls of version 3 of oneDNN's API with oneDNN 2.6: see api.h. */
#include "tensor/onednn/api.h"

#if DNNL_VERSION_MAJOR == 2

#include <stdbool.h>
#include <stdlib.h>

/* In this file, these names mean oneDNN's own functions; api.h redefines them. */
#undef dnnl_post_ops_append_eltwise
#undef dnnl_memory_desc_permute_axes

static dnnl_status_t handle_create(dnnl_memory_desc_t *out, const onednn_v2_md_t *value,
                                   dnnl_status_t status)
{
    if (status != dnnl_success) return status;
    *out = malloc(sizeof **out);
    if (*out == NULL) return dnnl_out_of_memory;
    **out = *value;
    return dnnl_success;
}

dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t *md, int ndims,
                                               const dnnl_dims_t dims, dnnl_data_type_t data_type,
                                               dnnl_format_tag_t tag)
{
    onednn_v2_md_t value;
    return handle_create(md, &value,
                         dnnl_memory_desc_init_by_tag(&value, ndims, dims, data_type, tag));
}

dnnl_status_t dnnl_memory_desc_create_with_strides(dnnl_memory_desc_t *md, int ndims,
                                                   const dnnl_dims_t dims,
                                                   dnnl_data_type_t data_type,
                                                   const dnnl_dims_t strides)
{
    onednn_v2_md_t value;
    return handle_create(md, &value,
                         dnnl_memory_desc_init_by_strides(&value, ndims, dims, data_type, strides));
}

dnnl_status_t onednn_v2_memory_desc_permute_axes(dnnl_memory_desc_t *md,
                                                 const_dnnl_memory_desc_t from,
                                                 const int *permutation)
{
    onednn_v2_md_t value;
    return handle_create(md, &value, dnnl_memory_desc_permute_axes(&value, from, permutation));
}

dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t md)
{
    free(md);
    return dnnl_success;
}

dnnl_status_t dnnl_memory_desc_query(const_dnnl_memory_desc_t md, dnnl_query_t what, void *result)
{
    const dnnl_blocking_desc_t *blocking = &md->format_desc.blocking;
    switch ((int)what) {
    case dnnl_query_ndims_s32: *(int *)result = md->ndims; break;
    case dnnl_query_dims: *(const dnnl_dim_t **)result = md->dims; break;
    case dnnl_query_data_type: *(dnnl_data_type_t *)result = md->data_type; break;
    case dnnl_query_padded_dims: *(const dnnl_dim_t **)result = md->padded_dims; break;
    case dnnl_query_strides: *(const dnnl_dim_t **)result = blocking->strides; break;
    case dnnl_query_inner_nblks_s32: *(int *)result = blocking->inner_nblks; break;
    case dnnl_query_inner_blks: *(const dnnl_dim_t **)result = blocking->inner_blks; break;
    case dnnl_query_inner_idxs: *(const dnnl_dim_t **)result = blocking->inner_idxs; break;
    case dnnl_query_format_kind: *(dnnl_format_kind_t *)result = md->format_kind; break;
    default: return dnnl_invalid_arguments;
    }
    return dnnl_success;
}

dnnl_status_t onednn_v2_post_ops_append_sum(dnnl_post_ops_t post_ops, float scale,
                                            int32_t zero_point, dnnl_data_type_t data_type)
{
    return dnnl_post_ops_append_sum_v3(post_ops, scale, zero_point, data_type);
}

dnnl_status_t onednn_v2_post_ops_append_eltwise(dnnl_post_ops_t post_ops, dnnl_alg_kind_t alg_kind,
                                                float alpha, float beta)
{
    return dnnl_post_ops_append_eltwise(post_ops, 1.0f, alg_kind, alpha, beta);
}

dnnl_status_t dnnl_primitive_attr_set_zero_points_mask(dnnl_primitive_attr_t attr, int arg,
                                                       int mask)
{
    const int32_t at_run = DNNL_RUNTIME_S32_VAL;
    return dnnl_primitive_attr_set_zero_points(attr, arg, 1, mask, &at_run);
}

/* The functions below fill an operation descriptor, and then call this function to create a
 * primitive descriptor from it. */
static dnnl_status_t create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attr, const void *op_desc,
                            dnnl_status_t status)
{
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(pd, op_desc, attr, engine, NULL);
}

dnnl_status_t dnnl_binary_primitive_desc_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                                dnnl_alg_kind_t alg_kind,
                                                const_dnnl_memory_desc_t src0,
                                                const_dnnl_memory_desc_t src1,
                                                const_dnnl_memory_desc_t dst,
                                                const_dnnl_primitive_attr_t attr)
{
    dnnl_binary_desc_t op;
    return create(pd, engine, attr, &op, dnnl_binary_desc_init(&op, alg_kind, src0, src1, dst));
}

dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t padding_l, const dnnl_dims_t padding_r,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t op;
    return create(pd, engine, attr, &op,
                  dnnl_dilated_convolution_forward_desc_init(&op, prop_kind, alg_kind, src, weights,
                                                             bias, dst, strides, dilates, padding_l,
                                                             padding_r));
}

dnnl_status_t dnnl_deconvolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t padding_l, const dnnl_dims_t padding_r,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_deconvolution_desc_t op;
    return create(pd, engine, attr, &op,
                  dnnl_dilated_deconvolution_forward_desc_init(&op, prop_kind, alg_kind, src,
                                                               weights, bias, dst, strides, dilates,
                                                               padding_l, padding_r));
}

/* False if input and output have different descriptors. In 2.6, eltwise, norms and lrn have one
 * descriptor for both, so such calls are rejected. Version 3 would run a reference
 * implementation. */
static bool same_descriptor(const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst)
{
    return dst->format_kind == dnnl_format_kind_any || dnnl_memory_desc_equal(src, dst);
}

dnnl_status_t dnnl_eltwise_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst,
    float alpha, float beta, const_dnnl_primitive_attr_t attr)
{
    dnnl_eltwise_desc_t op;
    if (!same_descriptor(src, dst)) return dnnl_unimplemented;
    return create(pd, engine, attr, &op,
                  dnnl_eltwise_forward_desc_init(&op, prop_kind, alg_kind, src, alpha, beta));
}

dnnl_status_t dnnl_softmax_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst, int axis,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_softmax_v2_desc_t op;
    return create(pd, engine, attr, &op,
                  dnnl_softmax_v2_forward_desc_init(&op, prop_kind, alg_kind, src, dst, axis));
}

dnnl_status_t dnnl_pooling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst,
    const dnnl_dims_t strides, const dnnl_dims_t kernel, const dnnl_dims_t dilation,
    const dnnl_dims_t padding_l, const dnnl_dims_t padding_r, const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_v2_desc_t op;
    return create(pd, engine, attr, &op,
                  dnnl_pooling_v2_forward_desc_init(&op, prop_kind, alg_kind, src, dst, strides,
                                                    kernel, dilation, padding_l, padding_r));
}

dnnl_status_t dnnl_lrn_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst,
    dnnl_dim_t local_size, float alpha, float beta, float k, const_dnnl_primitive_attr_t attr)
{
    dnnl_lrn_desc_t op;
    if (!same_descriptor(src, dst)) return dnnl_unimplemented;
    return create(
        pd, engine, attr, &op,
        dnnl_lrn_forward_desc_init(&op, prop_kind, alg_kind, src, local_size, alpha, beta, k));
}

dnnl_status_t dnnl_batch_normalization_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst, float epsilon, unsigned flags,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_batch_normalization_desc_t op;
    if (!same_descriptor(src, dst)) return dnnl_unimplemented;
    return create(pd, engine, attr, &op,
                  dnnl_batch_normalization_forward_desc_init(&op, prop_kind, src, epsilon, flags));
}

dnnl_status_t dnnl_layer_normalization_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst, const_dnnl_memory_desc_t stat,
    float epsilon, unsigned flags, const_dnnl_primitive_attr_t attr)
{
    dnnl_layer_normalization_desc_t op;
    if (!same_descriptor(src, dst)) return dnnl_unimplemented;
    return create(
        pd, engine, attr, &op,
        dnnl_layer_normalization_forward_desc_init(&op, prop_kind, src, stat, epsilon, flags));
}

dnnl_status_t dnnl_inner_product_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t dst, const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t op;
    return create(pd, engine, attr, &op,
                  dnnl_inner_product_forward_desc_init(&op, prop_kind, src, weights, bias, dst));
}

dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                                const_dnnl_memory_desc_t src,
                                                const_dnnl_memory_desc_t weights,
                                                const_dnnl_memory_desc_t bias,
                                                const_dnnl_memory_desc_t dst,
                                                const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t op;
    return create(pd, engine, attr, &op, dnnl_matmul_desc_init(&op, src, weights, bias, dst));
}

dnnl_status_t dnnl_resampling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const float *factors, const_dnnl_memory_desc_t src,
    const_dnnl_memory_desc_t dst, const_dnnl_primitive_attr_t attr)
{
    dnnl_resampling_desc_t op;
    return create(pd, engine, attr, &op,
                  dnnl_resampling_forward_desc_init(&op, prop_kind, alg_kind, factors, src, dst));
}

#else
typedef int onednn_v2_not_needed; /* an empty translation unit is not C */
#endif
