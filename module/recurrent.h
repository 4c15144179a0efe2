/* Recurrent layers, with torch.nn's names for parameters: weight_ih_l0, bias_hh_l1_reverse.
 *
 * A layer may be several on one another, each of one direction or of both, whose results stand side
 * by side. Its forward takes the sequences and, if they are to be other than 0, the states at
 * first; it gives the sequences of the last layer and the states at last, all as results of their
 * own:
 *
 *   x       [T][N][C], or [N][T][C] if batch_first, or [T][C]: one sequence
 *   h0, c0  [L D][N][H], of one sequence [L D][H]; layer by layer, in each forward then reverse
 *   y       as x, of D H elements; h, c as h0
 *
 * for L layers of D directions. lstm: (x) or (x, h0, c0) gives y, h, c; gru and rnn: (x) or (x, h0)
 * gives y, h. So module_call_tensors runs them; module_forward is for one result. */
#ifndef TESSERA_MODULE_RECURRENT_H
#define TESSERA_MODULE_RECURRENT_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct layer_recurrent_options {
    int64_t num_layers; /* 0: 1 */
    bool bidirectional;
    bool batch_first;
    bool is_relu;   /* rnn: relu in place of tanh */
    double dropout; /* between layers, in training, which is UNSUPPORTED then */
} layer_recurrent_options_t;

/* options NULL: one layer, forward. Weights are uniform in [-1, 1] / sqrt(hidden_size). */
status_t layer_lstm(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                    const layer_recurrent_options_t *options, module_t **out_module)
    TESSERA_API(layer_lstm);
status_t layer_gru(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                   const layer_recurrent_options_t *options, module_t **out_module)
    TESSERA_API(layer_gru);
status_t layer_rnn(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                   const layer_recurrent_options_t *options, module_t **out_module)
    TESSERA_API(layer_rnn);

TESSERA_END

#endif
