/* Recurrent layers over whole sequences, by weights that are packed once and a state that stays in
 * the caches. For each sequence, from its state (h, c), with x of the time that it reads:
 *
 *   lstm  i, f, o = sigmoid(W x + b + U h + b' + p * c), g = tanh(W x + b + U h + b')
 *         c' = f * c + i * g, y = h' = o * tanh(c'); o takes p * c'       gates i, f, g, o
 *   gru   r, z = sigmoid(W x + b + U h + b'), n = tanh(W x + b + r * (U h + b'))
 *         y = h' = (1 - z) * n + z * h                                    gates r, z, n
 *
 * Elements of the state are in blocks of a vector, lanes = isa_lanes, and all gates of a block lie
 * together: a weight [gates * elements][inputs] is packed as [blocks][inputs][gates][lanes], zero
 * where the last block is padded. A thread has the same blocks in every step. It goes through them
 * forth in one step and back in the next one: what it read last is still in its second cache. The
 * products with x of some steps are made before those steps.
 *
 * lstm may be computed by Strassen's algorithm: see strassen_impl.h, whose promise of what a row
 * loses is kept, of steps of sequences as rows. A weight has quarters by halves of its inputs, and
 * by gates: i and f, g and o. It is packed as [blocks][7][inputs / 2][gates / 2][lanes], what each
 * of the 7 products reads, and a run makes no sums of weights. */
#ifndef TESSERA_KERNELS_RECURRENT_SEQUENCE_IMPL_H
#define TESSERA_KERNELS_RECURRENT_SEQUENCE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef enum sequence_cell { SEQUENCE_LSTM, SEQUENCE_GRU } sequence_cell_t;
#define SEQUENCE_MAX_GATES 4

/* Pointers to what may be absent are NULL: 0. */
typedef struct sequence {
    sequence_cell_t cell;
    bool by_strassen; /* sequence_has_halves of x and of the state */
    int64_t n_steps, n_sequences, n_inputs, n_elements;
    const float *weight_ih, *weight_hh; /* packed */
    const float *bias_ih, *bias_hh;     /* [gates][elements] */
    const float *peephole;              /* lstm: [3][elements], of the gates i, f, o */
    /* Of each sequence, [0, n_steps]: behind it the state stays, and y is 0. It is read from its
     * last element on if is_reverse. */
    const int64_t *lengths;
    bool is_reverse;
    const float *x; /* of a time and a sequence, so many elements apart */
    int64_t x_time, x_sequence;
    float *y;
    int64_t y_time, y_sequence;
    const float *h0, *c0; /* [sequences][elements] */
    float *h, *c;
} sequence_t;

/* Elements of a packed weight for so many inputs. False on overflow. */
bool sequence_weight_elements(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs,
                              int64_t lanes, int64_t *out_n);

/* Packs a weight into zeros. */
void sequence_pack(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs, int64_t lanes,
                   const float *weight, float *out);

/* The same for sequences by_strassen, of which all is packed. */
bool sequence_has_halves(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs, int64_t lanes);
bool sequence_halves_elements(int64_t n_elements, int64_t n_inputs, int64_t *out_n);
void sequence_pack_halves(int64_t n_elements, int64_t n_inputs, int64_t lanes, const float *weight,
                          float *out);

/* Bytes that a run on at most so many threads needs beside, 64-byte aligned. False on overflow. */
bool sequence_scratch(const sequence_t *sequence, isa_t isa, int n_threads, size_t *out_bytes);

/* On this many threads, by an instruction set that isa_has. */
void sequence_run(const sequence_t *sequence, isa_t isa, int n_threads, void *scratch);

/* ---- for the loops ---- */

static inline int sequence_gates(sequence_cell_t cell)
{
    return cell == SEQUENCE_LSTM ? 4 : 3;
}

#define SEQUENCE_HALVES 7 /* what by_strassen a weight is packed as: quarters, and sums of them */

/* Steps [first_step, last_step) of a run. There is a row of x for each step and sequence, sequences
 * inside. */
typedef struct sequence_run {
    const sequence_t *sequence;
    int64_t lanes, n_blocks, n_rows; /* rows: at most, of the steps that are done at once */
    int64_t x_stride, state_stride;
    float *x;       /* copied; not by_strassen */
    float *sources; /* by_strassen: of x, or of h, each thread's own, so many floats apart */
    int64_t sources_of_thread;
    float *sums;       /* W x and biases: [blocks][rows][gates][lanes] */
    float *bias;       /* [blocks][gates][lanes] */
    float *inner_bias; /* gru, b' of n: [blocks][lanes] */
    float *peephole;   /* [blocks][3][lanes], or NULL */
    float *h[2], *c;   /* an even step reads h[0] and writes h[1] */
    int64_t first_step, last_step;
} sequence_run_t;

/* Elements from the beginning of x to a row: of a step behind the end of its sequence any one that
 * is there. */
static inline int64_t sequence_row(const sequence_run_t *run, int64_t row)
{
    const sequence_t *s = run->sequence;
    const int64_t step = run->first_step + row / s->n_sequences, n = row % s->n_sequences;
    const bool turns = s->is_reverse && step < s->lengths[n];
    const int64_t time = turns ? s->lengths[n] - 1 - step : step;
    return time * s->x_time + n * s->x_sequence;
}

/* Loops of one instruction set, for the blocks [first, last): the sums of all rows, one step. */
typedef struct sequence_loops {
    int n_rows; /* by_strassen: of half a tile */
    void (*project)(const sequence_run_t *run, int64_t first, int64_t last);
    void (*step)(const sequence_run_t *run, int64_t step, int64_t first, int64_t last);
} sequence_loops_t;

ISA_EXTERN(const sequence_loops_t, sequence);

#endif
