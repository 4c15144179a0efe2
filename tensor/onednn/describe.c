/* Makes oneDNN's primitive descriptor for a forward problem, with one case for each kind of
 * primitive. */
#include "tensor/onednn/onednn_impl.h"

static const dnnl_alg_kind_t algorithms[ONEDNN_ALGORITHM_COUNT] = {
    [ONEDNN_DIRECT] = dnnl_convolution_direct,
    [ONEDNN_WINOGRAD] = dnnl_convolution_winograd,
    [ONEDNN_POOL_MAX] = dnnl_pooling_max,
    [ONEDNN_POOL_AVERAGE] = dnnl_pooling_avg_exclude_padding,
    [ONEDNN_POOL_AVERAGE_PADDED] = dnnl_pooling_avg_include_padding,
    [ONEDNN_ELTWISE_RELU] = dnnl_eltwise_relu,
    [ONEDNN_ELTWISE_ELU] = dnnl_eltwise_elu,
    [ONEDNN_ELTWISE_TANH] = dnnl_eltwise_tanh,
    [ONEDNN_ELTWISE_SQUARE] = dnnl_eltwise_square,
    [ONEDNN_ELTWISE_ABS] = dnnl_eltwise_abs,
    [ONEDNN_ELTWISE_SQRT] = dnnl_eltwise_sqrt,
    [ONEDNN_ELTWISE_LINEAR] = dnnl_eltwise_linear,
    [ONEDNN_ELTWISE_CLIP] = dnnl_eltwise_clip,
    [ONEDNN_ELTWISE_SIGMOID] = dnnl_eltwise_logistic,
    [ONEDNN_ELTWISE_EXP] = dnnl_eltwise_exp,
    [ONEDNN_ELTWISE_LOG] = dnnl_eltwise_log,
    [ONEDNN_ELTWISE_GELU_TANH] = dnnl_eltwise_gelu_tanh,
    [ONEDNN_ELTWISE_GELU_ERF] = dnnl_eltwise_gelu_erf,
    [ONEDNN_ELTWISE_SWISH] = dnnl_eltwise_swish,
    [ONEDNN_ELTWISE_SOFTPLUS] = dnnl_eltwise_soft_relu,
    [ONEDNN_ELTWISE_HARDSWISH] = dnnl_eltwise_hardswish,
    [ONEDNN_ELTWISE_HARDSIGMOID] = dnnl_eltwise_hardsigmoid,
    [ONEDNN_BINARY_ADD] = dnnl_binary_add,
    [ONEDNN_BINARY_SUB] = dnnl_binary_sub,
    [ONEDNN_BINARY_MUL] = dnnl_binary_mul,
    [ONEDNN_BINARY_DIV] = dnnl_binary_div,
    [ONEDNN_BINARY_MAX] = dnnl_binary_max,
    [ONEDNN_BINARY_MIN] = dnnl_binary_min,
    [ONEDNN_SOFTMAX_ACCURATE] = dnnl_softmax_accurate,
    [ONEDNN_SOFTMAX_LOG] = dnnl_softmax_log,
    [ONEDNN_LRN_ACROSS_CHANNELS] = dnnl_lrn_across_channels,
    [ONEDNN_RESAMPLING_NEAREST] = dnnl_resampling_nearest,
    [ONEDNN_RESAMPLING_LINEAR] = dnnl_resampling_linear,
    [ONEDNN_RNN_TANH] = dnnl_vanilla_rnn,
    [ONEDNN_RNN_RELU] = dnnl_vanilla_rnn,
    [ONEDNN_RNN_LSTM] = dnnl_vanilla_lstm,
    [ONEDNN_RNN_GRU] = dnnl_vanilla_gru,
    [ONEDNN_RNN_LBR_GRU] = dnnl_lbr_gru,
};

/* Returns oneDNN's algorithm; if from_dst is set, the variant whose backward pass reads dst. */
static dnnl_alg_kind_t algorithm_of(const onednn_problem_t *p)
{
    static const dnnl_alg_kind_t by_result[ONEDNN_ALGORITHM_COUNT] = {
        [ONEDNN_ELTWISE_RELU] = dnnl_eltwise_relu_use_dst_for_bwd,
        [ONEDNN_ELTWISE_ELU] = dnnl_eltwise_elu_use_dst_for_bwd,
        [ONEDNN_ELTWISE_TANH] = dnnl_eltwise_tanh_use_dst_for_bwd,
        [ONEDNN_ELTWISE_SIGMOID] = dnnl_eltwise_logistic_use_dst_for_bwd,
        [ONEDNN_ELTWISE_EXP] = dnnl_eltwise_exp_use_dst_for_bwd,
        [ONEDNN_ELTWISE_SQRT] = dnnl_eltwise_sqrt_use_dst_for_bwd,
    };
    return p->from_dst ? by_result[p->algorithm] : algorithms[p->algorithm];
}

static dnnl_status_t append_post_ops(const onednn_problem_t *problem, onednn_descriptors_t *d)
{
    dnnl_status_t status = dnnl_post_ops_create(&d->post);
    for (int i = 0; status == dnnl_success && i < problem->n_post; i++) {
        const onednn_post_op_t *op = &problem->post[i];
        switch (op->kind) {
        case ONEDNN_POST_SUM: status = onednn_append_sum(problem, op, d->post); break;
        case ONEDNN_POST_ELTWISE:
            status = dnnl_post_ops_append_eltwise(d->post, algorithms[op->algorithm], op->alpha,
                                                  op->beta);
            break;
        case ONEDNN_POST_BINARY:
            status = dnnl_post_ops_append_binary(d->post, algorithms[op->algorithm],
                                                 d->md[ONEDNN_ARGUMENT_OPERAND + i]);
            break;
        }
    }
    if (status == dnnl_success) status = onednn_append_scale(problem, d->post);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(d->attr, d->post);
    return status;
}

static dnnl_status_t descriptors_init(context_t *ctx, const onednn_problem_t *problem,
                                      onednn_descriptors_t *d)
{
    dnnl_status_t status = dnnl_success;
    for (int i = 0; status == dnnl_success && i < ONEDNN_ARGUMENT_COUNT; i++)
        status = onednn_md_create(onednn_operand(problem, i), &d->md[i]);
    if (status == dnnl_success) status = dnnl_primitive_attr_create(&d->attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(d->attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success) status = onednn_set_quantization(ctx, problem, d->attr);
    if (status == dnnl_success && problem->n_post > 0) status = append_post_ops(problem, d);
    d->algorithm = algorithm_of(problem);
    d->forward = problem->forward == NULL ? NULL : problem->forward->description;
    return status;
}

static void descriptors_fini(onednn_descriptors_t *d)
{
    for (int i = 0; i < ONEDNN_ARGUMENT_COUNT; i++)
        if (d->md[i] != NULL) dnnl_memory_desc_destroy(d->md[i]);
    if (d->post != NULL) dnnl_post_ops_destroy(d->post);
    if (d->attr != NULL) dnnl_primitive_attr_destroy(d->attr);
}

static dnnl_prop_kind_t prop_of(const onednn_problem_t *p)
{
    return p->propagation == ONEDNN_TRAINING ? dnnl_forward_training : dnnl_forward_inference;
}

/* Describes the problem twice, the second time with the formats that oneDNN chose the first time.
 * This is because oneDNN 2.6 has a cache that finds primitives by the requested formats. For a
 * single channel it treats abcd and acdb as equal, although the primitives have different weight
 * formats. */
static dnnl_status_t describe_deconvolution(const onednn_problem_t *p,
                                            const onednn_descriptors_t *d,
                                            const dnnl_dims_t dilation, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t first = NULL;
    dnnl_status_t status = ONEDNN_FORWARD(
        &first, d, deconvolution_forward, prop_of(p), dnnl_deconvolution_direct,
        d->md[ONEDNN_ARGUMENT_SRC], d->md[ONEDNN_ARGUMENT_WEIGHT], d->md[ONEDNN_ARGUMENT_BIAS],
        d->md[ONEDNN_ARGUMENT_DST], p->stride, dilation, p->pad_begin, p->pad_end);
    if (status != dnnl_success) return status;
    status = ONEDNN_FORWARD(out, d, deconvolution_forward, prop_of(p), dnnl_deconvolution_direct,
                            dnnl_primitive_desc_query_md(first, dnnl_query_src_md, 0),
                            dnnl_primitive_desc_query_md(first, dnnl_query_weights_md, 0),
                            d->md[ONEDNN_ARGUMENT_BIAS],
                            dnnl_primitive_desc_query_md(first, dnnl_query_dst_md, 0), p->stride,
                            dilation, p->pad_begin, p->pad_end);
    dnnl_primitive_desc_destroy(first);
    return status;
}

static dnnl_status_t describe_windowed(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                       dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t src = d->md[ONEDNN_ARGUMENT_SRC], dst = d->md[ONEDNN_ARGUMENT_DST];
    dnnl_dims_t dilation = {0};
    for (int i = 0; i < p->src[0].rank - 2; i++) dilation[i] = p->dilation[i] - 1;
    switch (p->kind) {
    case ONEDNN_CONVOLUTION:
        return ONEDNN_FORWARD(out, d, convolution_forward, prop_of(p), d->algorithm, src,
                              d->md[ONEDNN_ARGUMENT_WEIGHT], d->md[ONEDNN_ARGUMENT_BIAS], dst,
                              p->stride, dilation, p->pad_begin, p->pad_end);
    case ONEDNN_DECONVOLUTION: return describe_deconvolution(p, d, dilation, out);
    default:
        return ONEDNN_FORWARD(out, d, pooling_forward, prop_of(p), d->algorithm, src, dst,
                              p->stride, p->kernel, dilation, p->pad_begin, p->pad_end);
    }
}

unsigned onednn_norm_flags(const onednn_problem_t *p)
{
    unsigned flags = 0;
    bool is_given = p->kind == ONEDNN_BATCH_NORM && p->propagation == ONEDNN_INFERENCE;
    if (is_given || p->fixed_statistics) flags |= dnnl_use_global_stats;
    if (p->has_scale) flags |= (unsigned)(dnnl_use_scale | dnnl_use_shift);
    if (p->has_relu) flags |= dnnl_fuse_norm_relu;
    return flags;
}

static dnnl_status_t describe_norm(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                   dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t src = d->md[ONEDNN_ARGUMENT_SRC];
    if (p->kind == ONEDNN_BATCH_NORM)
        return ONEDNN_FORWARD(out, d, batch_normalization_forward, prop_of(p), src,
                              ONEDNN_V3(d->md[ONEDNN_ARGUMENT_DST]) p->epsilon,
                              onednn_norm_flags(p));
    if (p->kind == ONEDNN_LAYER_NORM)
        return ONEDNN_FORWARD(out, d, layer_normalization_forward, prop_of(p), src,
                              ONEDNN_V3(d->md[ONEDNN_ARGUMENT_DST]) NULL, p->epsilon,
                              onednn_norm_flags(p));
    return ONEDNN_FORWARD(out, d, lrn_forward, prop_of(p), d->algorithm, src,
                          ONEDNN_V3(d->md[ONEDNN_ARGUMENT_DST]) p->size, p->alpha, p->beta, p->k);
}

static dnnl_status_t describe(const onednn_problem_t *p, const onednn_descriptors_t *d,
                              dnnl_primitive_desc_t *out)
{
    dnnl_engine_t engine = onednn_engine();
    const_dnnl_memory_desc_t src = d->md[ONEDNN_ARGUMENT_SRC], dst = d->md[ONEDNN_ARGUMENT_DST];
    switch (p->kind) {
    case ONEDNN_CONVOLUTION:
    case ONEDNN_DECONVOLUTION:
    case ONEDNN_POOLING: return describe_windowed(p, d, out);
    case ONEDNN_BATCH_NORM:
    case ONEDNN_LAYER_NORM:
    case ONEDNN_LRN: return describe_norm(p, d, out);
    case ONEDNN_INNER_PRODUCT:
        return ONEDNN_FORWARD(out, d, inner_product_forward, prop_of(p), src,
                              d->md[ONEDNN_ARGUMENT_WEIGHT], d->md[ONEDNN_ARGUMENT_BIAS], dst);
    case ONEDNN_MATMUL:
        return ONEDNN_FORWARD(out, d, matmul, src, d->md[ONEDNN_ARGUMENT_WEIGHT],
                              d->md[ONEDNN_ARGUMENT_BIAS], dst);
    case ONEDNN_ELTWISE:
        return ONEDNN_FORWARD(out, d, eltwise_forward, prop_of(p), d->algorithm, src,
                              ONEDNN_V3(dst) p->alpha, p->beta);
    case ONEDNN_BINARY:
        return ONEDNN_FORWARD(out, d, binary, d->algorithm, src, d->md[ONEDNN_ARGUMENT_SRC + 1],
                              dst);
    case ONEDNN_SOFTMAX:
        return ONEDNN_FORWARD(out, d, softmax_forward, prop_of(p), d->algorithm, src, dst, p->axis);
    case ONEDNN_RESAMPLING:
        return ONEDNN_FORWARD(out, d, resampling_forward, prop_of(p), d->algorithm, NULL, src, dst);
    case ONEDNN_RNN: return onednn_describe_rnn(p, d, out);
    case ONEDNN_REORDER:
        return dnnl_reorder_primitive_desc_create(out, src, engine, dst, engine, d->attr);
    }
    return dnnl_invalid_arguments;
}

/* In 2.6, eltwise, norms and lrn have one descriptor for input and output, so it rejects problems
 * that have two. Version 3 would run a reference implementation. */
static bool needs_two_descriptors(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                  bool is_forward)
{
    const bool has_one = p->kind == ONEDNN_ELTWISE || p->kind == ONEDNN_LRN ||
                         p->kind == ONEDNN_BATCH_NORM || p->kind == ONEDNN_LAYER_NORM;
    const_dnnl_memory_desc_t in =
        d->md[is_forward ? ONEDNN_ARGUMENT_SRC : ONEDNN_ARGUMENT_DIFF_DST];
    const_dnnl_memory_desc_t out =
        d->md[is_forward ? ONEDNN_ARGUMENT_DST : ONEDNN_ARGUMENT_DIFF_SRC];
    dnnl_format_kind_t kind = dnnl_format_kind_any;
    if (DNNL_VERSION_MAJOR > 2 || !has_one) return false;
    dnnl_memory_desc_query(out, dnnl_query_format_kind, &kind);
    return kind != dnnl_format_kind_any && !dnnl_memory_desc_equal(in, out);
}

dnnl_status_t onednn_describe_problem(context_t *ctx, const onednn_problem_t *problem,
                                      dnnl_primitive_desc_t *out)
{
    onednn_operation_t operation;
    onednn_descriptors_t d = {.operation = &operation};
    bool is_forward = problem->propagation == ONEDNN_INFERENCE ||
                      problem->propagation == ONEDNN_TRAINING;
    dnnl_status_t status = descriptors_init(ctx, problem, &d);
    if (status == dnnl_success && needs_two_descriptors(problem, &d, is_forward))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = is_forward ? describe(problem, &d, out)
                            : onednn_describe_backward(problem, &d, out);
    descriptors_fini(&d);
    return status;
}
