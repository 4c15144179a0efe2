/* What layers by Strassen's algorithm share: kernels/linear/strassen_impl.h. */
#ifndef TESSERA_OPS_LINEAR_STRASSEN_IMPL_H
#define TESSERA_OPS_LINEAR_STRASSEN_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/linear/strassen_impl.h"

/* By how much more than a sum of products a result may be off: N. Higham, Accuracy and Stability of
 * Numerical Algorithms, 23.2.2, bounds Winograd's form by a factor of 18 for each level. */
#define STRASSEN_AMPLIFIES 18.0

/* Declines sizes that the kernel does not take, and unless it alone is asked for those that it
 * gains nothing with. Images have so many rows. */
status_t strassen_accept(prepared_t *prepared, int64_t n_inputs, int64_t n_outputs, int64_t n_rows,
                         bool is_only);

/* Whether a layer may gain by it, by its sizes, on any machine: so a graph is the same everywhere.
 */
bool strassen_suits(int64_t n_inputs, int64_t n_outputs, int64_t n_rows);

/* What is lost with a weight of plain elements [n_outputs][n_inputs], which strassen_suits: the
 * largest difference to sums in double over the largest result, for some outputs of a few random
 * rows; infinite where an element is. */
status_t strassen_error(context_t *ctx, int64_t n_outputs, int64_t n_inputs, const float *weight,
                        double *out_error);

#endif
