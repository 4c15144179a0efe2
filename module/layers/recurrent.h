/* Recurrent layers with torch.nn's parameter names: weight_ih_l0, bias_hh_l1_reverse.
 *
 * A module can stack L layers, each with D directions (1 or 2); the outputs of both directions are
 * concatenated. forward takes the sequences and, optionally, the initial states (default 0). It
 * returns the output sequences of the last layer, and the final states of all layers, as separate
 * results:
 *
 *   x       [T][N][C], or [N][T][C] if batch_first, or [T][C]: one sequence
 *   h0, c0  [L D][N][H], or [L D][H] for one sequence; for each layer, forward then reverse
 *   y       like x, but the last size is D H; h and c have the sizes of h0 and c0
 *
 * lstm: (x) or (x, h0, c0) returns y, h, c. gru and rnn: (x) or (x, h0) returns y, h. Use
 * module_call_tensors, since module_forward returns only one result. */
#ifndef TESSERA_MODULE_LAYERS_RECURRENT_H
#define TESSERA_MODULE_LAYERS_RECURRENT_H

#include "module/module.h"

typedef struct layer_recurrent_options {
    int64_t num_layers; /* 0 means 1 */
    bool bidirectional;
    bool batch_first;
    bool is_relu;   /* rnn: use relu, not tanh */
    double dropout; /* between layers; UNSUPPORTED in training mode */
} layer_recurrent_options_t;

/* NULL options mean one layer, forward only. Initial weights are uniform in [-1, 1] /
 * sqrt(hidden_size). */
status_t layer_lstm(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                    const layer_recurrent_options_t *options, module_t **out_module)
    TESSERA_API(layer_lstm);
status_t layer_gru(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                   const layer_recurrent_options_t *options, module_t **out_module)
    TESSERA_API(layer_gru);
status_t layer_rnn(context_t *ctx, int64_t input_size, int64_t hidden_size, bool has_bias,
                   const layer_recurrent_options_t *options, module_t **out_module)
    TESSERA_API(layer_rnn);

#endif
