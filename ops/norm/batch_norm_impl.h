/* What batch norm's operators in training share: the loops over strips of channels. */
#ifndef TESSERA_OPS_NORM_BATCH_NORM_IMPL_H
#define TESSERA_OPS_NORM_BATCH_NORM_IMPL_H

#include "ops/norm/strips_impl.h"

/* A number of each lane, STRIP_LANES apart: of f32 for tensors of 16 and 32 bits, of f64 for f64.
 */
typedef enum batch_factor {
    BATCH_CENTER,
    BATCH_A,
    BATCH_B,
    BATCH_C,
    BATCH_SHIFT, /* of the activation's operand in the backward pass, see below */
    BATCH_HIGH,  /* what it is cut to; NaN, which nothing is above: it is not */
    BATCH_FACTORS
} batch_factor_t;

/* Loops for one of the two types. Elements and factors are of it.
 *
 * With an activation, relu or relu6, y of `scale` is cut to 0 and high, and backward g counts as 0
 * where v = (x - center) a + shift, the operand of the activation, is outside of them. It is made
 * again of x, which is read anyhow, so that neither it nor a mask is read. */
typedef struct batch_loops {
    /* Mean of each lane, and the sum of squares of deviations from it. */
    void (*moments)(const lines_t *lines, const void *x, double *means, double *squares);
    /* Sums of g, and of g (x - center). */
    void (*dots)(const lines_t *lines, const void *x, const void *g, const void *factors,
                 double *sums, double *dots);
    /* y = (x - center) a + b, and y = g a + (x - center) b + c; y may lie where x or g does. */
    void (*scale)(const lines_t *lines, const void *x, const void *factors, void *y);
    void (*combine)(const lines_t *lines, const void *x, const void *g, const void *factors,
                    void *y);
} batch_loops_t;

const batch_loops_t *batch_loops(dtype_t number, bool is_activated);

#endif
