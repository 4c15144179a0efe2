/* oneDNN's C API in the style of version 3, whichever version is installed.
 *
 * In 2.6, a memory descriptor is a struct, an operation has a separate descriptor, and some
 * functions have their arguments in another order. Here, the type of memory descriptors becomes a
 * pointer to this struct, v2.c implements calls of version 3, and macros make descriptions of
 * primitives with either version. */
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

/* 2.6 makes a primitive's description from that of an operation, which dnnl_*_desc_init fills. */
typedef union onednn_operation {
    dnnl_convolution_desc_t convolution; /* deconvolution, too */
    dnnl_inner_product_desc_t inner_product;
    dnnl_matmul_desc_t matmul;
    dnnl_pooling_v2_desc_t pooling;
    dnnl_eltwise_desc_t eltwise;
    dnnl_binary_desc_t binary;
    dnnl_batch_normalization_desc_t batch_normalization;
    dnnl_layer_normalization_desc_t layer_normalization;
    dnnl_lrn_desc_t lrn;
    dnnl_softmax_v2_desc_t softmax;
    dnnl_resampling_desc_t resampling;
    dnnl_rnn_desc_t rnn;
} onednn_operation_t;
dnnl_status_t onednn_v2_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                               const_dnnl_primitive_desc_t forward,
                               const_dnnl_primitive_attr_t attr, const onednn_operation_t *op,
                               dnnl_status_t status);

#define dnnl_convolution_forward_desc_init dnnl_dilated_convolution_forward_desc_init
#define dnnl_convolution_backward_data_desc_init dnnl_dilated_convolution_backward_data_desc_init
#define dnnl_convolution_backward_weights_desc_init                                                \
    dnnl_dilated_convolution_backward_weights_desc_init
#define dnnl_deconvolution_forward_desc_init dnnl_dilated_deconvolution_forward_desc_init
#define dnnl_deconvolution_backward_data_desc_init                                                 \
    dnnl_dilated_deconvolution_backward_data_desc_init
#define dnnl_deconvolution_backward_weights_desc_init                                              \
    dnnl_dilated_deconvolution_backward_weights_desc_init
#define dnnl_softmax_forward_desc_init dnnl_softmax_v2_forward_desc_init
#define dnnl_softmax_backward_desc_init dnnl_softmax_v2_backward_desc_init
#define dnnl_pooling_forward_desc_init dnnl_pooling_v2_forward_desc_init
#define dnnl_pooling_backward_desc_init dnnl_pooling_v2_backward_desc_init
#define dnnl_lstm_forward_desc_init dnnl_lstm_forward_desc_init_v3
#define dnnl_lstm_backward_desc_init dnnl_lstm_backward_desc_init_v3

/* Make the description of a primitive: dnnl_<name>_primitive_desc_create of version 3, whose
 * arguments after the engine and before the attributes follow. d is an onednn_descriptors_t.
 * ONEDNN_V3(argument) is an argument that 2.6 does not have. */
#define ONEDNN_FORWARD(out, d, name, ...)                                                          \
    onednn_v2_create(out, onednn_engine(), NULL, (d)->attr, (d)->operation,                        \
                     dnnl_##name##_desc_init((void *)(d)->operation, __VA_ARGS__))
#define ONEDNN_BACKWARD_OF(out, d, name, ...)                                                      \
    onednn_v2_create(out, onednn_engine(), (d)->forward, (d)->attr, (d)->operation,                \
                     dnnl_##name##_desc_init((void *)(d)->operation, __VA_ARGS__))
#define ONEDNN_V3(argument)

#else

typedef char onednn_operation_t; /* not used */

#define ONEDNN_FORWARD(out, d, name, ...)                                                          \
    dnnl_##name##_primitive_desc_create(out, onednn_engine(), __VA_ARGS__, (d)->attr)
#define ONEDNN_BACKWARD_OF(out, d, name, ...)                                                      \
    dnnl_##name##_primitive_desc_create(out, onednn_engine(), __VA_ARGS__, (d)->forward, (d)->attr)
#define ONEDNN_V3(argument) argument,

#endif
#endif
