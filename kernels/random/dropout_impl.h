/* Dropout of a row: out[i] = x[i] * scale if element i is kept, else 0. out may be x. */
#ifndef TESSERA_KERNELS_RANDOM_DROPOUT_IMPL_H
#define TESSERA_KERNELS_RANDOM_DROPOUT_IMPL_H

#include <stdint.h>

#include "kernels/isa_impl.h"

/* Element i is kept if generator_bits(seed, first + i * step) >= least. */
typedef struct dropout_row {
    int64_t n, first, step;
    int64_t seed;
    uint64_t least;
    double scale;
} dropout_row_t;

/* Loops of one ISA. */
typedef struct dropout_loops {
    void (*f32)(const dropout_row_t *row, const float *x, float *out);
    void (*f64)(const dropout_row_t *row, const double *x, double *out);
} dropout_loops_t;
ISA_EXTERN(const dropout_loops_t, dropout_loops);

/* The loops of an ISA. isa_has(isa) must be true. */
const dropout_loops_t *dropout_rows(isa_t isa);

#endif
