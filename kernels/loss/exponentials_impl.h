/* Loop that the loss operators use for a row of scores.
 *
 * The folder kernels/loss contains the loops of ops/loss. */
#ifndef TESSERA_KERNELS_LOSS_EXPONENTIALS_IMPL_H
#define TESSERA_KERNELS_LOSS_EXPONENTIALS_IMPL_H

#include <stdint.h>

#include "kernels/isa_impl.h"

/* out[c] = exp(x[c] - largest), in float precision. Returns their sum. scratch has n floats. */
double exponentials_run(isa_t isa, int64_t n, double largest, const double *x, float *scratch,
                        double *out);

/* Loops of one ISA. */
typedef double exponentials_loop_t(int64_t n, double largest, const double *x, float *scratch,
                                   double *out);
ISA_EXTERN(exponentials_loop_t, exponentials);

#endif
