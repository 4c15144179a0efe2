/* Recurrent operators: one layer, in one direction. module/layers/recurrent.h has stacked and
 * bidirectional layers. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_RECURRENT_RECURRENT_H
#define TESSERA_OPS_RECURRENT_RECURRENT_H

#include "dispatch/dispatch.h"

/* Activations of a cell. */
typedef enum recurrent_function {
    RECURRENT_USUAL, /* sigmoid for gates, tanh otherwise */
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

/* How lstm multiplies. Strassen's algorithm divides matrices into quarters and needs 7 products of
 * quarters instead of 8.
 *
 * RECURRENT_DIRECT         plain products
 * RECURRENT_STRASSEN       Strassen's algorithm if it is faster
 * RECURRENT_STRASSEN_ONLY  Strassen's algorithm if the kernel supports the sizes */
typedef enum recurrent_algorithm {
    RECURRENT_DIRECT,
    RECURRENT_STRASSEN,
    RECURRENT_STRASSEN_ONLY
} recurrent_algorithm_t;

typedef struct recurrent_attrs {
    bool reverse;      /* read each sequence from its last step to its first */
    bool batch_first;  /* x and y are [N][T][..] */
    bool input_forget; /* lstm: the forget gate is 1 - the input gate */
    bool reset_before; /* gru: apply the reset gate to h before the product, not after it */
    double clip;       /* clamp the pre-activations to [-clip, clip]; 0: no clamp */
    recurrent_activation_t gate;      /* activation of the gates; lstm, gru */
    recurrent_activation_t candidate; /* activation of the candidate for the new state */
    recurrent_activation_t output;    /* activation of the new cell state; lstm */
    int algorithm;                    /* recurrent_algorithm_t; lstm */
} recurrent_attrs_t;

/* Parameters of a layer with G gates and H elements of state; gates are in PyTorch's order. Biases
 * and peephole may be NULL, which counts as 0. */
typedef struct recurrent_weights {
    const tensor_t *weight_ih; /* [G H][C] */
    const tensor_t *weight_hh; /* [G H][H] */
    const tensor_t *bias_ih;   /* [G H] */
    const tensor_t *bias_hh;   /* [G H] */
    const tensor_t *peephole;  /* [3 H], for the gates i, f, o; lstm */
} recurrent_weights_t;

/* One layer of torch.nn.LSTM, in one direction. Each step t computes from the state (h, c):
 *
 *   i = sigmoid(W_i x[t] + b_i + U_i h + b'_i + p_i * c)
 *   f = sigmoid(W_f x[t] + b_f + U_f h + b'_f + p_f * c)
 *   g = tanh(W_g x[t] + b_g + U_g h + b'_g)
 *   c' = f * c + i * g
 *   o = sigmoid(W_o x[t] + b_o + U_o h + b'_o + p_o * c')
 *   y[t] = h' = o * tanh(c')
 *
 * x        [T][N][C]           any layout; f32, f64, bf16, f16
 * h0, c0   [N][H], NULL: 0     the initial state
 * lengths  [N], NULL: T        s32 or s64: length of each sequence; y is 0 after its end
 * weights  gates i, f, g, o; of x's dtype
 * out_y    [T][N][H]
 * out_h, out_c  [N][H]         the final state
 *
 * INVALID_ARGUMENT  a length is not in [0, T]; and the cases in ops.h */
status_t op_lstm(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *c0,
                 const tensor_t *lengths, const recurrent_weights_t *weights,
                 const recurrent_attrs_t *attrs, tensor_t **out_y, tensor_t **out_h,
                 tensor_t **out_c) TESSERA_API(op_lstm);

/* One layer of torch.nn.GRU, in one direction; gates r, z, n; arguments as in op_lstm:
 *
 *   r = sigmoid(W_r x[t] + b_r + U_r h + b'_r)
 *   z = sigmoid(W_z x[t] + b_z + U_z h + b'_z)
 *   n = tanh(W_n x[t] + b_n + r * (U_n h + b'_n))      reset_before: .. + U_n (r * h) + b'_n
 *   y[t] = h' = (1 - z) * n + z * h */
status_t op_gru(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *lengths,
                const recurrent_weights_t *weights, const recurrent_attrs_t *attrs,
                tensor_t **out_y, tensor_t **out_h) TESSERA_API(op_gru);

/* One layer of torch.nn.RNN, in one direction: y[t] = h' = tanh(W x[t] + b + U h + b'). */
status_t op_rnn(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *lengths,
                const recurrent_weights_t *weights, const recurrent_attrs_t *attrs,
                tensor_t **out_y, tensor_t **out_h) TESSERA_API(op_rnn);

#endif
