/* Forward and backward steps of lstm and gru cells, vectorised over the f32 state elements of one
 * sequence; and dot products. Only for PyTorch's activations, without clip and peephole. */
#ifndef TESSERA_KERNELS_RECURRENT_ROWS_IMPL_H
#define TESSERA_KERNELS_RECURRENT_ROWS_IMPL_H

#include <stdint.h>

#include "kernels/isa_impl.h"

/* n state elements of one sequence in one step. Pointers address gate 0; gate g starts gate_step *
 * g floats later. Fields that the cell does not have are not read. */
typedef struct recurrent_rows {
    int64_t n, gate_step;
    float *sums;       /* in: products with x; out: pre-activations (gru's candidate: W x + b) */
    float *inner;      /* out, gru: U h + b' of the candidate */
    const float *step; /* products with h */
    const float *bias_ih, *bias_hh; /* NULL: 0 */
    float *h, *c;                   /* in and out: the state */
    float *old_h, *old_c, *new_c;   /* out: old h, old c, new c */
} recurrent_rows_t;

typedef struct recurrent_rows_back {
    int64_t n, gate_step;
    const float *sums, *inner, *old_h, *old_c, *new_c; /* results of the step */
    const float *grad_y;                               /* NULL: 0 */
    const float *diff_h; /* gradient of h through the next step's products */
    float *direct_h;     /* in: the rest of h's gradient; out: of the old h's gradient */
    float *diff_c;       /* in and out, lstm: gradient of c */
    float *diffs;        /* out: gradients of the products with x */
    float *h_diffs;      /* out: gradients of the products with h; lstm: unused */
    float *step;         /* out: a copy of h_diffs (lstm: of diffs) */
} recurrent_rows_back_t;

/* The dot product of n floats or doubles. */
typedef double recurrent_dot_t(const void *a, const void *b, int64_t n);

/* Loops of one ISA. */
typedef struct recurrent_loops {
    void (*step_lstm)(const recurrent_rows_t *rows), (*step_gru)(const recurrent_rows_t *rows);
    void (*back_lstm)(const recurrent_rows_back_t *rows);
    void (*back_gru)(const recurrent_rows_back_t *rows);
    recurrent_dot_t *dot_f32, *dot_f64;
} recurrent_loops_t;
ISA_EXTERN(const recurrent_loops_t, recurrent_loops);

/* The loops of isa_best(). */
const recurrent_loops_t *recurrent_loops(void);

#endif
