/* oneDNN's C API in the style of version 3, whichever version is installed.
 *
 * In 2.6, a memory descriptor is a struct, an operation has a separate descriptor, and some
 * functions have their arguments in another order. Here, the type of memory descriptors becomes a
 * pointer to this struct, and v2*.c implement those calls of version 3 that Tessera uses. */
#ifndef TESSERA_TENSOR_ONEDNN_API_H
#define TESSERA_TENSOR_ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#if DNNL_VERSION_MAJOR == 2

typedef dnnl_memory_desc_t onednn_v2_md_t;
typedef onednn_v2_md_t *onednn_v2_md_handle_t;
typedef const onednn_v2_md_t *const_dnnl_memory_desc_t;
#define dnnl_memory_desc_t onednn_v2_md_handle_t

#define dnnl_eltwise_hardsigmoid ((dnnl_alg_kind_t)0x7ffe)

/* Instruction sets of version 3; 2.6 never reports them. */
#define dnnl_cpu_isa_avx2_vnni_2 0x1f
#define dnnl_cpu_isa_avx512_core_fp16 0x1ef
#define dnnl_cpu_isa_avx512_core_amx_fp16 0x1fef

/* Queries of a memory descriptor; on 2.6 v2.c answers them from the descriptor's fields. */
#define dnnl_query_ndims_s32 ((dnnl_query_t)0x7001)
#define dnnl_query_dims ((dnnl_query_t)0x7002)
#define dnnl_query_data_type ((dnnl_query_t)0x7003)
#define dnnl_query_padded_dims ((dnnl_query_t)0x7004)
#define dnnl_query_strides ((dnnl_query_t)0x7005)
#define dnnl_query_inner_nblks_s32 ((dnnl_query_t)0x7006)
#define dnnl_query_inner_blks ((dnnl_query_t)0x7007)
#define dnnl_query_inner_idxs ((dnnl_query_t)0x7008)
#define dnnl_query_format_kind ((dnnl_query_t)0x7009)

#define dnnl_post_ops_append_sum onednn_v2_post_ops_append_sum
#define dnnl_post_ops_append_eltwise onednn_v2_post_ops_append_eltwise
#define dnnl_memory_desc_permute_axes onednn_v2_memory_desc_permute_axes

dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t *md, int ndims,
                                               const dnnl_dims_t dims, dnnl_data_type_t data_type,
                                               dnnl_format_tag_t tag);
dnnl_status_t dnnl_memory_desc_create_with_strides(dnnl_memory_desc_t *md, int ndims,
                                                   const dnnl_dims_t dims,
                                                   dnnl_data_type_t data_type,
                                                   const dnnl_dims_t strides);
dnnl_status_t dnnl_memory_desc_permute_axes(dnnl_memory_desc_t *md, const_dnnl_memory_desc_t from,
                                            const int *permutation);
dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t md);
dnnl_status_t dnnl_memory_desc_query(const_dnnl_memory_desc_t md, dnnl_query_t what, void *result);

dnnl_status_t dnnl_post_ops_append_sum(dnnl_post_ops_t post_ops, float scale, int32_t zero_point,
                                       dnnl_data_type_t data_type);
dnnl_status_t dnnl_post_ops_append_eltwise(dnnl_post_ops_t post_ops, dnnl_alg_kind_t alg_kind,
                                           float alpha, float beta);

dnnl_status_t dnnl_primitive_attr_set_zero_points_mask(dnnl_primitive_attr_t attr, int arg,
                                                       int mask);

dnnl_status_t dnnl_binary_primitive_desc_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                                dnnl_alg_kind_t alg_kind,
                                                const_dnnl_memory_desc_t src0,
                                                const_dnnl_memory_desc_t src1,
                                                const_dnnl_memory_desc_t dst,
                                                const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t padding_l, const dnnl_dims_t padding_r,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_deconvolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t padding_l, const dnnl_dims_t padding_r,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_eltwise_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst,
    float alpha, float beta, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_softmax_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst, int axis,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_pooling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst,
    const dnnl_dims_t strides, const dnnl_dims_t kernel, const dnnl_dims_t dilation,
    const dnnl_dims_t padding_l, const dnnl_dims_t padding_r, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_lrn_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst,
    dnnl_dim_t local_size, float alpha, float beta, float k, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_batch_normalization_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst, float epsilon, unsigned flags,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_layer_normalization_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst, const_dnnl_memory_desc_t stat,
    float epsilon, unsigned flags, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_inner_product_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t dst, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                                const_dnnl_memory_desc_t src,
                                                const_dnnl_memory_desc_t weights,
                                                const_dnnl_memory_desc_t bias,
                                                const_dnnl_memory_desc_t dst,
                                                const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_resampling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t alg_kind, const float *factors, const_dnnl_memory_desc_t src,
    const_dnnl_memory_desc_t dst, const_dnnl_primitive_attr_t attr);

dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_l, const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t diff_weights,
    const_dnnl_memory_desc_t diff_bias, const_dnnl_memory_desc_t diff_dst,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding_l,
    const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_deconvolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_l, const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_deconvolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t diff_weights,
    const_dnnl_memory_desc_t diff_bias, const_dnnl_memory_desc_t diff_dst,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding_l,
    const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_inner_product_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const_dnnl_memory_desc_t diff_src,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_inner_product_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const_dnnl_memory_desc_t src,
    const_dnnl_memory_desc_t diff_weights, const_dnnl_memory_desc_t diff_bias,
    const_dnnl_memory_desc_t diff_dst, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_eltwise_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t data, float alpha, float beta, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_softmax_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t dst, int axis, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_pooling_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides,
    const dnnl_dims_t kernel, const dnnl_dims_t dilation, const dnnl_dims_t padding_l,
    const dnnl_dims_t padding_r, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_lrn_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t src, dnnl_dim_t local_size, float alpha, float beta, float k,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_batch_normalization_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t src, float epsilon, unsigned flags,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_layer_normalization_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t stat, float epsilon, unsigned flags,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_resampling_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg_kind, const float *factors,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr);

dnnl_status_t dnnl_vanilla_rnn_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t activation, dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,
    const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t weights_layer,
    const_dnnl_memory_desc_t weights_iter, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t dst_layer, const_dnnl_memory_desc_t dst_iter, unsigned flags,
    float alpha, float beta, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_vanilla_rnn_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t activation, dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,
    const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t weights_layer,
    const_dnnl_memory_desc_t weights_iter, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t dst_layer, const_dnnl_memory_desc_t dst_iter,
    const_dnnl_memory_desc_t diff_src_layer, const_dnnl_memory_desc_t diff_src_iter,
    const_dnnl_memory_desc_t diff_weights_layer, const_dnnl_memory_desc_t diff_weights_iter,
    const_dnnl_memory_desc_t diff_bias, const_dnnl_memory_desc_t diff_dst_layer,
    const_dnnl_memory_desc_t diff_dst_iter, unsigned flags, float alpha, float beta,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_lstm_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,
    const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t src_iter_c,
    const_dnnl_memory_desc_t weights_layer, const_dnnl_memory_desc_t weights_iter,
    const_dnnl_memory_desc_t weights_peephole, const_dnnl_memory_desc_t weights_projection,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst_layer,
    const_dnnl_memory_desc_t dst_iter, const_dnnl_memory_desc_t dst_iter_c, unsigned flags,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_lstm_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,
    const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t src_iter_c,
    const_dnnl_memory_desc_t weights_layer, const_dnnl_memory_desc_t weights_iter,
    const_dnnl_memory_desc_t weights_peephole, const_dnnl_memory_desc_t weights_projection,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst_layer,
    const_dnnl_memory_desc_t dst_iter, const_dnnl_memory_desc_t dst_iter_c,
    const_dnnl_memory_desc_t diff_src_layer, const_dnnl_memory_desc_t diff_src_iter,
    const_dnnl_memory_desc_t diff_src_iter_c, const_dnnl_memory_desc_t diff_weights_layer,
    const_dnnl_memory_desc_t diff_weights_iter, const_dnnl_memory_desc_t diff_weights_peephole,
    const_dnnl_memory_desc_t diff_weights_projection, const_dnnl_memory_desc_t diff_bias,
    const_dnnl_memory_desc_t diff_dst_layer, const_dnnl_memory_desc_t diff_dst_iter,
    const_dnnl_memory_desc_t diff_dst_iter_c, unsigned flags, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr);
/* gru and lbr_gru take the same arguments. */
#define DECLARE_GRU(gru)                                                                           \
    dnnl_status_t dnnl_##gru##_forward_primitive_desc_create(                                      \
        dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,               \
        dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,                        \
        const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t weights_layer,                 \
        const_dnnl_memory_desc_t weights_iter, const_dnnl_memory_desc_t bias,                      \
        const_dnnl_memory_desc_t dst_layer, const_dnnl_memory_desc_t dst_iter, unsigned flags,     \
        const_dnnl_primitive_attr_t attr);                                                         \
    dnnl_status_t dnnl_##gru##_backward_primitive_desc_create(                                     \
        dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,               \
        dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,                        \
        const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t weights_layer,                 \
        const_dnnl_memory_desc_t weights_iter, const_dnnl_memory_desc_t bias,                      \
        const_dnnl_memory_desc_t dst_layer, const_dnnl_memory_desc_t dst_iter,                     \
        const_dnnl_memory_desc_t diff_src_layer, const_dnnl_memory_desc_t diff_src_iter,           \
        const_dnnl_memory_desc_t diff_weights_layer, const_dnnl_memory_desc_t diff_weights_iter,   \
        const_dnnl_memory_desc_t diff_bias, const_dnnl_memory_desc_t diff_dst_layer,               \
        const_dnnl_memory_desc_t diff_dst_iter, unsigned flags,                                    \
        const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
DECLARE_GRU(gru);
DECLARE_GRU(lbr_gru);
#undef DECLARE_GRU
#endif
#endif
