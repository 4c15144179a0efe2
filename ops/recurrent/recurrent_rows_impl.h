/* Forward and backward steps of lstm and gru cells, vectorised over f32 elements of one sequence.
 * Only for PyTorch's activations, without clip and peephole. */
#ifndef TESSERA_OPS_RECURRENT_RECURRENT_ROWS_IMPL_H
#define TESSERA_OPS_RECURRENT_RECURRENT_ROWS_IMPL_H

#include "ops/recurrent/recurrent_impl.h"

/* True for lstm and gru with sigmoid gates and tanh elsewhere, no clip, input_forget, reset_before
 * or peephole. */
bool recurrent_rows_apply(recurrent_cell_t cell, const recurrent_attrs_t *attrs, bool has_peephole);

/* n elements of one sequence at one step. Gate g starts gate_step * g floats after gate 0, which
 * the pointers address. Fields that a cell does not have are not read. */
typedef struct recurrent_rows {
    recurrent_cell_t cell;
    int64_t n, gate_step;
    float *sums;       /* in: products with x; out: sums that enter the gates, with biases */
    float *inner;      /* out, gru: U h + b' of the candidate */
    const float *step; /* products with h */
    const float *bias_ih, *bias_hh; /* NULL: 0 */
    float *h, *c;                   /* in and out: the state */
    float *old_h, *old_c, *new_c;   /* out: old h, old c, new c */
} recurrent_rows_t;
void recurrent_rows_step(const recurrent_rows_t *rows);

typedef struct recurrent_rows_back {
    recurrent_cell_t cell;
    int64_t n, gate_step;
    const float *sums, *inner, *old_h, *old_c, *new_c; /* results of recurrent_rows_step */
    const float *grad_y;                               /* NULL: 0 */
    const float *diff_h; /* gradient of h through the sums of the next step */
    float *direct_h;     /* in: the rest of that gradient; out: the same for the old h */
    float *diff_c;       /* in and out, lstm: gradient of c */
    float *diffs;        /* out: gradients of the products with x */
    float *h_diffs;      /* out: of the products with h; lstm: unused */
    float *step;         /* out: a copy of h_diffs (lstm: of diffs) */
} recurrent_rows_back_t;
void recurrent_rows_back(const recurrent_rows_back_t *rows);

#endif
