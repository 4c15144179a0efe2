/* Implements calls of version 3 of oneDNN's API for recurrent layers with oneDNN 2.6: see api.h. */
#include "tensor/onednn/api.h"

#if DNNL_VERSION_MAJOR == 2

#include <stddef.h>

/* The functions below fill an operation descriptor, and then call this function to create a
 * primitive descriptor from it. */
static dnnl_status_t create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                            const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr,
                            const void *op_desc, dnnl_status_t status)
{
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(pd, op_desc, attr, engine, forward);
}

dnnl_status_t dnnl_vanilla_rnn_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_alg_kind_t activation, dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,
    const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t weights_layer,
    const_dnnl_memory_desc_t weights_iter, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t dst_layer, const_dnnl_memory_desc_t dst_iter, unsigned flags,
    float alpha, float beta, const_dnnl_primitive_attr_t attr)
{
    dnnl_rnn_desc_t op;
    return create(pd, engine, NULL, attr, &op,
                  dnnl_vanilla_rnn_forward_desc_init(
                      &op, prop_kind, activation, direction, src_layer, src_iter, weights_layer,
                      weights_iter, bias, dst_layer, dst_iter, flags, alpha, beta));
}

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
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_rnn_desc_t op;
    return create(pd, engine, forward, attr, &op,
                  dnnl_vanilla_rnn_backward_desc_init(
                      &op, prop_kind, activation, direction, src_layer, src_iter, weights_layer,
                      weights_iter, bias, dst_layer, dst_iter, diff_src_layer, diff_src_iter,
                      diff_weights_layer, diff_weights_iter, diff_bias, diff_dst_layer,
                      diff_dst_iter, flags, alpha, beta));
}

dnnl_status_t dnnl_lstm_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,
    dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,
    const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t src_iter_c,
    const_dnnl_memory_desc_t weights_layer, const_dnnl_memory_desc_t weights_iter,
    const_dnnl_memory_desc_t weights_peephole, const_dnnl_memory_desc_t weights_projection,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst_layer,
    const_dnnl_memory_desc_t dst_iter, const_dnnl_memory_desc_t dst_iter_c, unsigned flags,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_rnn_desc_t op;
    return create(pd, engine, NULL, attr, &op,
                  dnnl_lstm_forward_desc_init_v3(&op, prop_kind, direction, src_layer, src_iter,
                                                 src_iter_c, weights_layer, weights_iter,
                                                 weights_peephole, weights_projection, bias,
                                                 dst_layer, dst_iter, dst_iter_c, flags));
}

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
    const_dnnl_primitive_attr_t attr)
{
    dnnl_rnn_desc_t op;
    return create(pd, engine, forward, attr, &op,
                  dnnl_lstm_backward_desc_init_v3(
                      &op, prop_kind, direction, src_layer, src_iter, src_iter_c, weights_layer,
                      weights_iter, weights_peephole, weights_projection, bias, dst_layer, dst_iter,
                      dst_iter_c, diff_src_layer, diff_src_iter, diff_src_iter_c,
                      diff_weights_layer, diff_weights_iter, diff_weights_peephole,
                      diff_weights_projection, diff_bias, diff_dst_layer, diff_dst_iter,
                      diff_dst_iter_c, flags));
}

/* gru and lbr_gru take the same arguments. */
#define DEFINE_GRU(gru)                                                                            \
    dnnl_status_t dnnl_##gru##_forward_primitive_desc_create(                                      \
        dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t prop_kind,               \
        dnnl_rnn_direction_t direction, const_dnnl_memory_desc_t src_layer,                        \
        const_dnnl_memory_desc_t src_iter, const_dnnl_memory_desc_t weights_layer,                 \
        const_dnnl_memory_desc_t weights_iter, const_dnnl_memory_desc_t bias,                      \
        const_dnnl_memory_desc_t dst_layer, const_dnnl_memory_desc_t dst_iter, unsigned flags,     \
        const_dnnl_primitive_attr_t attr)                                                          \
    {                                                                                              \
        dnnl_rnn_desc_t op;                                                                        \
        return create(pd, engine, NULL, attr, &op,                                                 \
                      dnnl_##gru##_forward_desc_init(&op, prop_kind, direction, src_layer,         \
                                                     src_iter, weights_layer, weights_iter, bias,  \
                                                     dst_layer, dst_iter, flags));                 \
    }                                                                                              \
                                                                                                   \
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
        const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)                     \
    {                                                                                              \
        dnnl_rnn_desc_t op;                                                                        \
        return create(pd, engine, forward, attr, &op,                                              \
                      dnnl_##gru##_backward_desc_init(                                             \
                          &op, prop_kind, direction, src_layer, src_iter, weights_layer,           \
                          weights_iter, bias, dst_layer, dst_iter, diff_src_layer, diff_src_iter,  \
                          diff_weights_layer, diff_weights_iter, diff_bias, diff_dst_layer,        \
                          diff_dst_iter, flags));                                                  \
    }
DEFINE_GRU(gru)
DEFINE_GRU(lbr_gru)

#else
typedef int onednn_v2_not_needed; /* an empty translation unit is not C */
#endif
