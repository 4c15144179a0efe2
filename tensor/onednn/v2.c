/* Implements calls of version 3 of oneDNN's API with oneDNN 2.6: see api.h. */
#include "tensor/onednn/api.h"

#if DNNL_VERSION_MAJOR == 2

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

dnnl_status_t onednn_v2_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                               const_dnnl_primitive_desc_t forward,
                               const_dnnl_primitive_attr_t attr, const onednn_operation_t *op,
                               dnnl_status_t status)
{
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(out, op, attr, engine, forward);
}

#else
typedef int onednn_v2_not_needed; /* an empty translation unit is not C */
#endif
