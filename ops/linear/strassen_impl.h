/* Declarations that operators with Strassen's algorithm (kernels/linear/strassen_impl.h) share. */
#ifndef TESSERA_OPS_LINEAR_STRASSEN_IMPL_H
#define TESSERA_OPS_LINEAR_STRASSEN_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/linear/strassen_impl.h"

/* Errors are at most about this many times those of direct sums. N. Higham, Accuracy and Stability
 * of Numerical Algorithms, 23.2.2, bounds Winograd's form by a factor of 18 per level. */
#define STRASSEN_AMPLIFIES 18.0

/* Declines sizes that the kernel does not support, and, unless is_only is set, sizes for which it
 * is not faster. For images, n_rows is the number of pixels. */
status_t strassen_accept(prepared_t *prepared, int64_t n_inputs, int64_t n_outputs, int64_t n_rows,
                         bool is_only);

/* Returns true if a layer of these sizes may be faster with Strassen's algorithm. The answer does
 * not depend on the machine, so that graphs are the same everywhere. */
bool strassen_suits(int64_t n_inputs, int64_t n_outputs, int64_t n_rows);

/* Measures the error for a row-major weight [n_outputs][n_inputs] whose sizes pass strassen_suits:
 * the largest difference from sums in double, divided by the largest result. It computes some
 * outputs of a few random rows. Infinity if the weight has an element that is not finite. */
status_t strassen_error(context_t *ctx, int64_t n_outputs, int64_t n_inputs, const float *weight,
                        double *out_error);

#endif
