/* Declarations shared by the files of the recurrent operators. */
#ifndef TESSERA_OPS_RECURRENT_RECURRENT_IMPL_H
#define TESSERA_OPS_RECURRENT_RECURRENT_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/recurrent/recurrent.h"

/* Operands. Only lstm has those from C0 on. */
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
/* Operands of lstm_quantized after C0. */
enum {
    RECURRENT_SCALE_IH = RECURRENT_PEEPHOLE,
    RECURRENT_SCALE_HH,
    RECURRENT_ZERO_IH,
    RECURRENT_ZERO_HH,
    RECURRENT_QUANTIZED_OPERANDS
};
/* Results. Only lstm has C. */
enum { RECURRENT_Y, RECURRENT_H, RECURRENT_C };

/* opdef_t.variant of these operators. */
typedef enum recurrent_cell { RECURRENT_RNN, RECURRENT_GRU, RECURRENT_LSTM } recurrent_cell_t;
#define RECURRENT_MAX_GATES 4

/* Sizes of a call: T steps, N sequences, C inputs, H state elements, G gates. */
typedef struct recurrent_sizes {
    int64_t t, n, c, h, g;
} recurrent_sizes_t;
recurrent_sizes_t recurrent_sizes(const opdef_t *op, const void *attrs, const tensor_info_t *x,
                                  const tensor_info_t *weight_hh);

/* Floating-point operations of the products with both weights in all steps. */
double recurrent_flops(const op_call_t *call);

/* Row index in x and y for time t and sequence n. */
static inline int64_t recurrent_row(const recurrent_attrs_t *attrs, const recurrent_sizes_t *s,
                                    int64_t t, int64_t n)
{
    return attrs->batch_first ? n * s->t + t : t * s->n + n;
}

/* Time that a step reads in a sequence of `length` elements: the step itself, or from the end if
 * reversed. */
static inline int64_t recurrent_time(const recurrent_attrs_t *attrs, int64_t length, int64_t step)
{
    return attrs->reverse ? length - 1 - step : step;
}

/* Inputs of one state element in one step: for each gate, the products with x and with h, biases
 * included; and the old state. */
typedef struct recurrent_unit {
    double x[RECURRENT_MAX_GATES], h[RECURRENT_MAX_GATES];
    double peephole[3];
    double old_h, old_c;
} recurrent_unit_t;

/* Computes one element in one step. Returns the new h; for lstm, also sets *out_c. */
double recurrent_step(recurrent_cell_t cell, const recurrent_attrs_t *attrs,
                      const recurrent_unit_t *unit, double *out_c);
/* Value of gru's reset gate. */
double recurrent_reset(const recurrent_attrs_t *attrs, const recurrent_unit_t *unit);

/* Reads the sequence lengths; all are T if `from` is NULL. INVALID_ARGUMENT: one is outside [0,
 * T]. */
status_t recurrent_read_lengths(context_t *ctx, const char *op, const recurrent_sizes_t *s,
                                dtype_t dtype, const char *from, int64_t *out_lengths);

/* An activation and its derivative at x, where clip > 0 first clamps x to [-clip, clip]. */
double recurrent_value(const recurrent_activation_t *activation, double clip, double x);
double recurrent_slope(const recurrent_activation_t *activation, double clip, double x);

status_t recurrent_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);
double recurrent_spec(const spec_call_t *call, int output, const int64_t *index);

/* Name of an attribute with a value that recurrent_sequence.c does not support, or NULL. */
const char *recurrent_unusual(bool is_lstm, const recurrent_attrs_t *attrs);

/* True if Strassen's algorithm may be faster on some machine: at least 12 sequences, and sizes that
 * are multiples of its blocks. */
bool recurrent_strassen_suits(const recurrent_attrs_t *attrs, const recurrent_sizes_t *sizes);

/* Relative error of an lstm that uses Strassen's algorithm; see recurrent_strassen_error.c.
 * Weights are dense f32; biases and peephole may be NULL. *out_error is infinite if a weight is
 * not finite. */
typedef struct recurrent_plain {
    const float *weight_ih, *weight_hh, *bias_ih, *bias_hh, *peephole;
} recurrent_plain_t;
status_t recurrent_strassen_error(context_t *ctx, const recurrent_sizes_t *sizes,
                                  const recurrent_plain_t *weights, double *out_error);

extern const kernel_t recurrent_strassen, recurrent_sequence, recurrent_onednn, recurrent_native;
#define RECURRENT_QUANTIZED_FIELDS 13 /* lstm's attributes without `algorithm` */
extern const attr_field_t recurrent_lstm_fields[14], recurrent_gru_fields[10],
    recurrent_rnn_fields[6];

/* ---- gradients: lstm_backward(x, weight_ih, .., grad_y, grad_h, grad_c), gru_ and rnn_ ----
 *
 * Operands: those of the layer, then the gradients of its results (absent: 0). Results: a gradient
 * for each operand of the layer, even if it is absent. */
enum {
    RECURRENT_DIFF_X,
    RECURRENT_DIFF_WEIGHT_IH,
    RECURRENT_DIFF_WEIGHT_HH,
    RECURRENT_DIFF_BIAS_IH,
    RECURRENT_DIFF_BIAS_HH,
    RECURRENT_DIFF_H0,
    RECURRENT_DIFF_C0, /* this one and the next: lstm only */
    RECURRENT_DIFF_PEEPHOLE,
    RECURRENT_N_DIFFS
};

/* Operand index of the gradient of the layer's result 0; the gradients of its other results
 * follow. */
static inline int recurrent_grad(const opdef_t *op)
{
    return op->variant == RECURRENT_LSTM ? RECURRENT_N_OPERANDS : RECURRENT_C0;
}

extern const gradient_t recurrent_gradient;
extern const kernel_t recurrent_backward_native;
double recurrent_backward_spec(const spec_call_t *call, int output, const int64_t *index);

#endif
