/* Recurrent layers over sequences. Weights are packed once; the state stays in the CPU caches. Each
 * step computes from the state (h, c) and from x at its time:
 *
 *   lstm  i, f, o = sigmoid(W x + b + U h + b' + p * c), g = tanh(W x + b + U h + b')
 *         c' = f * c + i * g, y = h' = o * tanh(c'); o uses p * c'       gates i, f, g, o
 *   gru   r, z = sigmoid(W x + b + U h + b'), n = tanh(W x + b + r * (U h + b'))
 *         y = h' = (1 - z) * n + z * h                                   gates r, z, n
 *
 * State elements are in blocks of one vector (lanes = isa_lanes). Weight [gates * elements][inputs]
 * is packed as [blocks][inputs][gates][lanes], with zero padding, so all gates of a block are
 * adjacent. Each thread computes the same blocks in every step. It begins each step with the blocks
 * that it computed last, because their weights are still in its L2 cache. Products with x are
 * computed for several steps at once.
 *
 * lstm can use Strassen's algorithm (kernels/linear/strassen_impl.h), which divides matrices into
 * quarters. A quarter of the weight has half of the inputs, and gates (i, f) or (g, o). The packed
 * form [blocks][7][inputs / 2][gates / 2][lanes] holds the weight factors of all 7 products.
 *
 * The folder kernels/recurrent contains the loops of lstm and gru cells, and of layers over
 * sequences. */
#ifndef TESSERA_KERNELS_RECURRENT_SEQUENCE_IMPL_H
#define TESSERA_KERNELS_RECURRENT_SEQUENCE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef enum sequence_cell { SEQUENCE_LSTM, SEQUENCE_GRU } sequence_cell_t;
#define SEQUENCE_MAX_GATES 4

/* Biases, peephole, h0 and c0 may be NULL, which counts as 0. */
typedef struct sequence {
    sequence_cell_t cell;
    bool by_strassen; /* needs sequence_has_halves for x and for the state */
    int64_t n_steps, n_sequences, n_inputs, n_elements;
    const float *weight_ih, *weight_hh; /* packed */
    const float *bias_ih, *bias_hh;     /* [gates][elements] */
    const float *peephole;              /* lstm: [3][elements], gates i, f, o */
    /* Length of each sequence, in [0, n_steps]. After its end the state does not change and y is 0.
     * With is_reverse, a sequence is read from its last element to its first. */
    const int64_t *lengths;
    bool is_reverse;
    const float *x; /* [time][sequence][n_inputs]; strides in elements */
    int64_t x_time, x_sequence;
    float *y;
    int64_t y_time, y_sequence;
    const float *h0, *c0; /* [sequences][elements] */
    float *h, *c;
} sequence_t;

/* Number of elements of a packed weight. False on overflow. */
bool sequence_weight_elements(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs,
                              int64_t lanes, int64_t *out_n);

/* Packs a weight. `out` must be filled with zeros. */
void sequence_pack(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs, int64_t lanes,
                   const float *weight, float *out);

/* The same for by_strassen. sequence_has_halves: true if the sizes allow by_strassen.
 * sequence_pack_halves writes all of `out`. */
bool sequence_has_halves(sequence_cell_t cell, int64_t n_elements, int64_t n_inputs, int64_t lanes);
bool sequence_halves_elements(int64_t n_elements, int64_t n_inputs, int64_t *out_n);
void sequence_pack_halves(int64_t n_elements, int64_t n_inputs, int64_t lanes, const float *weight,
                          float *out);

/* Bytes of 64-byte aligned scratch for a run on up to n_threads threads. False on overflow. */
bool sequence_scratch(const sequence_t *sequence, isa_t isa, int n_threads, size_t *out_bytes);

/* Runs on up to n_threads threads. isa_has(isa) must be true. */
void sequence_run(const sequence_t *sequence, isa_t isa, int n_threads, void *scratch);

/* ---- for the loops ---- */

static inline int sequence_gates(sequence_cell_t cell)
{
    return cell == SEQUENCE_LSTM ? 4 : 3;
}

#define SEQUENCE_HALVES 7 /* number of packed weight factors: quarters and sums of quarters */

/* Steps [first_step, last_step) of a run. Rows of x are ordered [steps][sequences]. */
typedef struct sequence_run {
    const sequence_t *sequence;
    int64_t lanes, n_blocks, n_rows; /* n_rows: most rows of x that are multiplied at once */
    int64_t x_stride, state_stride;
    float *x;       /* copied rows; unused by_strassen */
    float *sources; /* by_strassen: each thread's sums of quarters of x or h */
    int64_t sources_of_thread;
    float *sums;       /* W x and biases: [blocks][rows][gates][lanes] */
    float *bias;       /* [blocks][gates][lanes] */
    float *inner_bias; /* gru: b' of gate n, [blocks][lanes] */
    float *peephole;   /* [blocks][3][lanes], or NULL */
    float *h[2], *c;   /* an even step reads h[0] and writes h[1] */
    int64_t first_step, last_step;
} sequence_run_t;

/* Offset of a row in x, in elements. After the end of its sequence, the row's content does not
 * matter. */
static inline int64_t sequence_row(const sequence_run_t *run, int64_t row)
{
    const sequence_t *s = run->sequence;
    const int64_t step = run->first_step + row / s->n_sequences, n = row % s->n_sequences;
    const bool turns = s->is_reverse && step < s->lengths[n];
    const int64_t time = turns ? s->lengths[n] - 1 - step : step;
    return time * s->x_time + n * s->x_sequence;
}

/* Loops of one ISA for blocks [first, last). `project` multiplies all rows of x in a run by W;
 * `step` computes one step. */
typedef struct sequence_loops {
    int n_rows; /* by_strassen: pairs of rows in a tile */
    void (*project)(const sequence_run_t *run, int64_t first, int64_t last);
    void (*step)(const sequence_run_t *run, int64_t step, int64_t first, int64_t last);
} sequence_loops_t;

ISA_EXTERN(const sequence_loops_t, sequence);

#endif
