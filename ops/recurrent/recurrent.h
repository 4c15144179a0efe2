/* Recurrent operators: one layer that reads its sequences in one direction. Layers of several, and
 * of both directions, are in module/recurrent.h. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_RECURRENT_RECURRENT_H
#define TESSERA_OPS_RECURRENT_RECURRENT_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* Functions of one number that a cell may have in place of its usual ones. */
typedef enum recurrent_function {
    RECURRENT_USUAL, /* sigmoid for gates, tanh elsewhere */
    RECURRENT_SIGMOID,
    RECURRENT_TANH,
    RECURRENT_RELU,
    RECURRENT_AFFINE,           /* alpha x + beta */
    RECURRENT_LEAKY_RELU,       /* x > 0 ? x : alpha x */
    RECURRENT_THRESHOLDED_RELU, /* x > alpha ? x : 0 */
    RECURRENT_SCALED_TANH,      /* alpha tanh(beta x) */
    RECURRENT_HARDSIGMOID,      /* clamp(alpha x + beta, 0, 1) */
    RECURRENT_ELU,              /* x > 0 ? x : alpha (exp(x) - 1) */
    RECURRENT_SOFTSIGN,         /* x / (1 + |x|) */
    RECURRENT_SOFTPLUS          /* log(1 + exp(x)) */
} recurrent_function_t;

typedef struct recurrent_activation {
    int function; /* recurrent_function_t */
    double alpha, beta;
} recurrent_activation_t;

/* How the products of a layer are computed: lstm by Strassen's algorithm, with 7 products of
 * quarters for 8,
 *
 * RECURRENT_STRASSEN       where that takes less time
 * RECURRENT_STRASSEN_ONLY  wherever our own kernel takes the call */
typedef enum recurrent_algorithm {
    RECURRENT_DIRECT,
    RECURRENT_STRASSEN,
    RECURRENT_STRASSEN_ONLY
} recurrent_algorithm_t;

typedef struct recurrent_attrs {
    bool reverse;      /* reads each sequence from its last element to its first */
    bool batch_first;  /* x and y are [N][T][..] */
    bool input_forget; /* lstm: the forget gate is 1 - the input gate */
    bool reset_before; /* gru: the reset gate is applied to h before the product, not behind it */
    double clip;       /* sums for gates and candidates are put in [-clip, clip]; 0: they are not */
    recurrent_activation_t gate;      /* of gates; lstm, gru */
    recurrent_activation_t candidate; /* of what is new to the state */
    recurrent_activation_t output;    /* lstm: of the cell's state on its way into h */
    int algorithm;                    /* recurrent_algorithm_t; lstm */
} recurrent_attrs_t;

/* What a layer has learned: G gates of H elements, in PyTorch's order. Biases and peephole may be
 * NULL: 0. */
typedef struct recurrent_weights {
    const tensor_t *weight_ih; /* [G H][C] */
    const tensor_t *weight_hh; /* [G H][H] */
    const tensor_t *bias_ih;   /* [G H] */
    const tensor_t *bias_hh;   /* [G H] */
    const tensor_t *peephole;  /* [3 H], for the gates i, f, o; lstm */
} recurrent_weights_t;

/* As one layer of torch.nn.LSTM, in one direction. For each t in its turn, from the state (h, c):
 *
 *   i = sigmoid(W_i x[t] + b_i + U_i h + b'_i + p_i * c)
 *   f = sigmoid(W_f x[t] + b_f + U_f h + b'_f + p_f * c)
 *   g = tanh(W_g x[t] + b_g + U_g h + b'_g)
 *   c' = f * c + i * g
 *   o = sigmoid(W_o x[t] + b_o + U_o h + b'_o + p_o * c')
 *   y[t] = h' = o * tanh(c')
 *
 * x        [T][N][C]           any layout; f32, f64, bf16, f16
 * h0, c0   [N][H] or NULL: 0   the state at first
 * lengths  [N] or NULL: T      s32, s64: elements of each sequence; behind them y is 0
 * weights  gates i, f, g, o; of x's dtype
 * out_y    [T][N][H]
 * out_h, out_c  [N][H]         the state at last
 *
 * INVALID_ARGUMENT  a length is not in [0, T], besides what ops.h says */
status_t op_lstm(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *c0,
                 const tensor_t *lengths, const recurrent_weights_t *weights,
                 const recurrent_attrs_t *attrs, tensor_t **out_y, tensor_t **out_h,
                 tensor_t **out_c) TESSERA_API(op_lstm);

/* As one layer of torch.nn.GRU, in one direction; gates r, z, n:
 *
 *   r = sigmoid(W_r x[t] + b_r + U_r h + b'_r)
 *   z = sigmoid(W_z x[t] + b_z + U_z h + b'_z)
 *   n = tanh(W_n x[t] + b_n + r * (U_n h + b'_n))      reset_before: .. + U_n (r * h) + b'_n
 *   y[t] = h' = (1 - z) * n + z * h */
status_t op_gru(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *lengths,
                const recurrent_weights_t *weights, const recurrent_attrs_t *attrs,
                tensor_t **out_y, tensor_t **out_h) TESSERA_API(op_gru);

/* As one layer of torch.nn.RNN, in one direction: y[t] = h' = tanh(W x[t] + b + U h + b'). */
status_t op_rnn(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *lengths,
                const recurrent_weights_t *weights, const recurrent_attrs_t *attrs,
                tensor_t **out_y, tensor_t **out_h) TESSERA_API(op_rnn);

TESSERA_END

#endif
