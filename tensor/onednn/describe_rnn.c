/* Makes oneDNN's primitive descriptor for a recurrent layer, forward or backward. */
#include "tensor/onednn/onednn_impl.h"

enum {
    SRC = ONEDNN_ARGUMENT_SRC,
    WEIGHT = ONEDNN_ARGUMENT_WEIGHT,
    BIAS = ONEDNN_ARGUMENT_BIAS,
    DST = ONEDNN_ARGUMENT_DST,
    DIFF_SRC = ONEDNN_ARGUMENT_DIFF_SRC,
    DIFF_WEIGHT = ONEDNN_ARGUMENT_DIFF_WEIGHT,
    DIFF_BIAS = ONEDNN_ARGUMENT_DIFF_BIAS,
    DIFF_DST = ONEDNN_ARGUMENT_DIFF_DST
};

static const dnnl_rnn_direction_t directions[] = {
    [ONEDNN_LEFT_TO_RIGHT] = dnnl_unidirectional_left2right,
    [ONEDNN_RIGHT_TO_LEFT] = dnnl_unidirectional_right2left,
    [ONEDNN_BOTH_CONCATENATED] = dnnl_bidirectional_concat,
    [ONEDNN_BOTH_SUMMED] = dnnl_bidirectional_sum,
};

static dnnl_alg_kind_t activation(const onednn_problem_t *p)
{
    return p->algorithm == ONEDNN_RNN_RELU ? dnnl_eltwise_relu : dnnl_eltwise_tanh;
}

static dnnl_status_t describe_forward(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                      dnnl_primitive_desc_t *out)
{
    dnnl_rnn_direction_t direction = directions[p->direction];
    dnnl_prop_kind_t prop = p->propagation == ONEDNN_TRAINING ? dnnl_forward_training
                                                              : dnnl_forward_inference;
    switch (p->algorithm) {
    case ONEDNN_RNN_TANH:
    case ONEDNN_RNN_RELU:
        return ONEDNN_FORWARD(out, d, vanilla_rnn_forward, prop, activation(p), direction,
                              d->md[SRC], d->md[SRC + 1], d->md[WEIGHT], d->md[WEIGHT + 1],
                              d->md[BIAS], d->md[DST], d->md[DST + 1], 0, 0.0f, 0.0f);
    case ONEDNN_RNN_LSTM:
        return ONEDNN_FORWARD(out, d, lstm_forward, prop, direction, d->md[SRC], d->md[SRC + 1],
                              d->md[SRC + 2], d->md[WEIGHT], d->md[WEIGHT + 1], d->md[WEIGHT + 2],
                              d->md[WEIGHT + 3], d->md[BIAS], d->md[DST], d->md[DST + 1],
                              d->md[DST + 2], 0);
    case ONEDNN_RNN_GRU:
        return ONEDNN_FORWARD(out, d, gru_forward, prop, direction, d->md[SRC], d->md[SRC + 1],
                              d->md[WEIGHT], d->md[WEIGHT + 1], d->md[BIAS], d->md[DST],
                              d->md[DST + 1], 0);
    case ONEDNN_RNN_LBR_GRU:
        return ONEDNN_FORWARD(out, d, lbr_gru_forward, prop, direction, d->md[SRC], d->md[SRC + 1],
                              d->md[WEIGHT], d->md[WEIGHT + 1], d->md[BIAS], d->md[DST],
                              d->md[DST + 1], 0);
    default: return dnnl_invalid_arguments;
    }
}

dnnl_status_t onednn_describe_rnn(const onednn_problem_t *p, const onednn_descriptors_t *d,
                                  dnnl_primitive_desc_t *out)
{
    dnnl_rnn_direction_t direction = directions[p->direction];
    if (p->propagation != ONEDNN_BACKWARD) return describe_forward(p, d, out);
    switch (p->algorithm) {
    case ONEDNN_RNN_TANH:
    case ONEDNN_RNN_RELU:
        return ONEDNN_BACKWARD_OF(out, d, vanilla_rnn_backward, dnnl_backward, activation(p),
                                  direction, d->md[SRC], d->md[SRC + 1], d->md[WEIGHT],
                                  d->md[WEIGHT + 1], d->md[BIAS], d->md[DST], d->md[DST + 1],
                                  d->md[DIFF_SRC], d->md[DIFF_SRC + 1], d->md[DIFF_WEIGHT],
                                  d->md[DIFF_WEIGHT + 1], d->md[DIFF_BIAS], d->md[DIFF_DST],
                                  d->md[DIFF_DST + 1], 0, 0.0f, 0.0f);
    case ONEDNN_RNN_LSTM:
        return ONEDNN_BACKWARD_OF(
            out, d, lstm_backward, dnnl_backward, direction, d->md[SRC], d->md[SRC + 1],
            d->md[SRC + 2], d->md[WEIGHT], d->md[WEIGHT + 1], d->md[WEIGHT + 2], d->md[WEIGHT + 3],
            d->md[BIAS], d->md[DST], d->md[DST + 1], d->md[DST + 2], d->md[DIFF_SRC],
            d->md[DIFF_SRC + 1], d->md[DIFF_SRC + 2], d->md[DIFF_WEIGHT], d->md[DIFF_WEIGHT + 1],
            d->md[DIFF_WEIGHT + 2], d->md[DIFF_WEIGHT + 3], d->md[DIFF_BIAS], d->md[DIFF_DST],
            d->md[DIFF_DST + 1], d->md[DIFF_DST + 2], 0);
    case ONEDNN_RNN_GRU:
        return ONEDNN_BACKWARD_OF(out, d, gru_backward, dnnl_backward, direction, d->md[SRC],
                                  d->md[SRC + 1], d->md[WEIGHT], d->md[WEIGHT + 1], d->md[BIAS],
                                  d->md[DST], d->md[DST + 1], d->md[DIFF_SRC], d->md[DIFF_SRC + 1],
                                  d->md[DIFF_WEIGHT], d->md[DIFF_WEIGHT + 1], d->md[DIFF_BIAS],
                                  d->md[DIFF_DST], d->md[DIFF_DST + 1], 0);
    case ONEDNN_RNN_LBR_GRU:
        return ONEDNN_BACKWARD_OF(out, d, lbr_gru_backward, dnnl_backward, direction, d->md[SRC],
                                  d->md[SRC + 1], d->md[WEIGHT], d->md[WEIGHT + 1], d->md[BIAS],
                                  d->md[DST], d->md[DST + 1], d->md[DIFF_SRC], d->md[DIFF_SRC + 1],
                                  d->md[DIFF_WEIGHT], d->md[DIFF_WEIGHT + 1], d->md[DIFF_BIAS],
                                  d->md[DIFF_DST], d->md[DIFF_DST + 1], 0);
    default: return dnnl_invalid_arguments;
    }
}
