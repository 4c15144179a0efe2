/* What the files of the recurrent operators share. */
#ifndef TESSERA_OPS_RECURRENT_RECURRENT_IMPL_H
#define TESSERA_OPS_RECURRENT_RECURRENT_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/recurrent/recurrent.h"

/* Operands; only lstm has those from C0 on. */
enum {
    RECURRENT_X,
    RECURRENT_WEIGHT_IH,
    RECURRENT_WEIGHT_HH,
    RECURRENT_BIAS_IH,
    RECURRENT_BIAS_HH,
    RECURRENT_H0,
    RECURRENT_LENGTHS,
    RECURRENT_C0,
    RECURRENT_PEEPHOLE,
    RECURRENT_N_OPERANDS
};
/* Those of lstm_quantized behind C0. */
enum {
    RECURRENT_SCALE_IH = RECURRENT_PEEPHOLE,
    RECURRENT_SCALE_HH,
    RECURRENT_ZERO_IH,
    RECURRENT_ZERO_HH,
    RECURRENT_QUANTIZED_OPERANDS
};
/* Results; only lstm has C. */
enum { RECURRENT_Y, RECURRENT_H, RECURRENT_C };

/* The operators' variants. */
typedef enum recurrent_cell { RECURRENT_RNN, RECURRENT_GRU, RECURRENT_LSTM } recurrent_cell_t;
#define RECURRENT_MAX_GATES 4

/* Sizes of a call: T steps, N sequences, C inputs, H elements of the state, G gates. */
typedef struct recurrent_sizes {
    int64_t t, n, c, h, g;
} recurrent_sizes_t;
recurrent_sizes_t recurrent_sizes(const opdef_t *op, const void *attrs, const tensor_info_t *x,
                                  const tensor_info_t *weight_hh);

/* Where the row of x or y for a step and a sequence stands. */
static inline int64_t recurrent_row(const recurrent_attrs_t *attrs, const recurrent_sizes_t *s,
                                    int64_t t, int64_t n)
{
    return attrs->batch_first ? n * s->t + t : t * s->n + n;
}

/* The element of a sequence of this length that is read at a step. */
static inline int64_t recurrent_time(const recurrent_attrs_t *attrs, int64_t length, int64_t step)
{
    return attrs->reverse ? length - 1 - step : step;
}

/* One element of the state: what the products with x and h give for each gate, biases included, and
 * the state before. */
typedef struct recurrent_unit {
    double x[RECURRENT_MAX_GATES], h[RECURRENT_MAX_GATES];
    double peephole[3];
    double old_h, old_c;
} recurrent_unit_t;

/* h after the step; and c, of lstm. */
double recurrent_step(recurrent_cell_t cell, const recurrent_attrs_t *attrs,
                      const recurrent_unit_t *unit, double *out_c);
/* The reset gate of gru. */
double recurrent_reset(const recurrent_attrs_t *attrs, const recurrent_unit_t *unit);

/* The lengths of the sequences, T where none are given. INVALID_ARGUMENT: one is not in [0, T]. */
status_t recurrent_read_lengths(context_t *ctx, const char *op, const recurrent_sizes_t *s,
                                dtype_t dtype, const char *from, int64_t *out_lengths);

/* A function of a cell, and its derivative, where the sum is put in [-clip, clip]. */
double recurrent_value(const recurrent_activation_t *activation, double clip, double x);
double recurrent_slope(const recurrent_activation_t *activation, double clip, double x);

status_t recurrent_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);
double recurrent_spec(const spec_call_t *call, int output, const int64_t *index);

/* What our own kernels do not do of the attributes, in words, or NULL. */
const char *recurrent_unusual(bool is_lstm, const recurrent_attrs_t *attrs);

/* Whether a layer that reads so many sequences may gain by Strassen's algorithm, by its sizes, on
 * any machine. */
bool recurrent_strassen_suits(const recurrent_attrs_t *attrs, const recurrent_sizes_t *sizes);

/* What an lstm loses by it: see recurrent_strassen_error.c. Plain weights of f32, and biases and a
 * peephole, or NULL. */
typedef struct recurrent_plain {
    const float *weight_ih, *weight_hh, *bias_ih, *bias_hh, *peephole;
} recurrent_plain_t;
status_t recurrent_strassen_error(context_t *ctx, const recurrent_sizes_t *sizes,
                                  const recurrent_plain_t *weights, double *out_error);

extern const kernel_t recurrent_strassen, recurrent_sequence, recurrent_onednn, recurrent_native;
#define RECURRENT_QUANTIZED_FIELDS 13 /* all of lstm but the algorithm */
extern const attr_field_t recurrent_lstm_fields[14], recurrent_gru_fields[10],
    recurrent_rnn_fields[6];

/* ---- gradients: lstm_backward(x, weight_ih, .., grad_y, grad_h, grad_c) and their like ----
 *
 * Operands are the layer's, of which all are read, then the gradients of its results, absent ones
 * 0. Results are the gradients of the layer's operands, those of absent ones too. */
enum {
    RECURRENT_DIFF_X,
    RECURRENT_DIFF_WEIGHT_IH,
    RECURRENT_DIFF_WEIGHT_HH,
    RECURRENT_DIFF_BIAS_IH,
    RECURRENT_DIFF_BIAS_HH,
    RECURRENT_DIFF_H0,
    RECURRENT_DIFF_C0, /* lstm, as the next */
    RECURRENT_DIFF_PEEPHOLE,
    RECURRENT_N_DIFFS
};

/* Where the gradient of result 0 stands, those of the others behind. */
static inline int recurrent_grad(const opdef_t *op)
{
    return op->variant == RECURRENT_LSTM ? RECURRENT_N_OPERANDS : RECURRENT_C0;
}

extern const gradient_t recurrent_gradient;
extern const kernel_t recurrent_backward_native;
double recurrent_backward_spec(const spec_call_t *call, int output, const int64_t *index);

#endif
