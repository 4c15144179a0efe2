/* Steps of recurrent cells and the way back through them, for rows of f32 at once: for the
 * functions that PyTorch's cells have, without clip and peephole. */
#ifndef TESSERA_OPS_RECURRENT_RECURRENT_ROWS_IMPL_H
#define TESSERA_OPS_RECURRENT_RECURRENT_ROWS_IMPL_H

#include "ops/recurrent/recurrent_impl.h"

/* True for lstm and gru whose gates are sigmoids and whose other functions are tanh. */
bool recurrent_rows_apply(recurrent_cell_t cell, const recurrent_attrs_t *attrs, bool has_peephole);

/* n elements of one sequence at one step. Gates are `gate_step` elements apart; pointers are to the
 * elements of gate 0. What a cell does not have is not read. */
typedef struct recurrent_rows {
    recurrent_cell_t cell;
    int64_t n, gate_step;
    float *sums;       /* in: the product with x; out: what gates are given, biases included */
    float *inner;      /* gru: U h + b' of the candidate, out */
    const float *step; /* the product with h */
    const float *bias_ih, *bias_hh; /* NULL: 0 */
    float *h, *c;                   /* the state, in and out */
    float *old_h, *old_c, *new_c;   /* the states before and behind, out */
} recurrent_rows_t;
void recurrent_rows_step(const recurrent_rows_t *rows);

typedef struct recurrent_rows_back {
    recurrent_cell_t cell;
    int64_t n, gate_step;
    const float *sums, *inner, *old_h, *old_c, *new_c; /* as recurrent_rows_step left them */
    const float *grad_y;                               /* NULL: 0 */
    const float *diff_h; /* the gradient of h by way of the next step's sums */
    float *direct_h;     /* past them; out: the same of the state before */
    float *diff_c;       /* lstm: in and out */
    float *diffs;        /* out: gradients of the sums with x */
    float *h_diffs;      /* with h; lstm: may be `diffs` */
    float *step;         /* the same once more */
} recurrent_rows_back_t;
void recurrent_rows_back(const recurrent_rows_back_t *rows);

#endif
