/* Loops of batch norm in training, forward and backward, over a chunk of a strip of channels
 * (ops/norm/strips_impl.h). */
#ifndef TESSERA_KERNELS_NORM_BATCH_NORM_IMPL_H
#define TESSERA_KERNELS_NORM_BATCH_NORM_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define STRIP_LANES 64 /* elements that are processed together */

/* Lines of a chunk. Contiguous rows are joined to one line: 4 rows of 16 channels are one line of
 * 64 lanes. If there are gaps between rows, each row is a line, and so is each row left over at the
 * end. */
typedef struct lines {
    int64_t n, lanes, step;
    int64_t rows;   /* rows in a line */
    int64_t offset; /* first element of the first line, relative to the chunk */
} lines_t;

/* Factors. Each has STRIP_LANES values: f32 for tensors of 16 or 32 bits, f64 for f64. */
typedef enum batch_factor {
    BATCH_CENTER,
    BATCH_A,
    BATCH_B,
    BATCH_C,
    BATCH_SHIFT, /* backward pass: used to compute v, see below */
    BATCH_HIGH,  /* upper bound of the activation; NaN: none */
    BATCH_FACTORS
} batch_factor_t;

/* Loops of one ISA, for elements and factors of one type. g is the gradient of y.
 *
 * With an activation, relu or relu6, `scale` clamps y to [0, high]. In the backward pass, g counts
 * as 0 if the pre-activation v = (x - center) a + shift is outside that range. v is computed again
 * from x, which is read anyway, so that neither v nor a mask is stored. */
typedef struct batch_loops {
    /* Mean of each lane, and its sum of squared deviations. */
    void (*moments)(const lines_t *lines, const void *x, double *means, double *squares);
    /* Sums of g and of g (x - center) for each lane. */
    void (*dots)(const lines_t *lines, bool is_activated, const void *x, const void *g,
                 const void *factors, double *sums, double *dots);
    /* y = (x - center) a + b; y may be x. */
    void (*scale)(const lines_t *lines, bool is_activated, const void *x, const void *factors,
                  void *y);
    /* y = g a + (x - center) b + c; y may be x or g. */
    void (*combine)(const lines_t *lines, bool is_activated, const void *x, const void *g,
                    const void *factors, void *y);
} batch_loops_t;
ISA_EXTERN(const batch_loops_t, batch_norm_f32);
ISA_EXTERN(const batch_loops_t, batch_norm_f64);

const batch_loops_t *batch_loops(isa_t isa, bool is_f64);

#endif
