/* What the files of the recurrent operators share. */
#ifndef TESSERA_OPS_RECURRENT_IMPL_H
#define TESSERA_OPS_RECURRENT_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/recurrent.h"

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

double recurrent_spec(const spec_call_t *call, int output, const int64_t *index);

extern const kernel_t recurrent_onednn, recurrent_native;

#endif
