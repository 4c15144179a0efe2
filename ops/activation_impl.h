/* Activations as the elementwise functions that post-ops know. */
#ifndef TESSERA_OPS_ACTIVATION_IMPL_H
#define TESSERA_OPS_ACTIVATION_IMPL_H

#include "dispatch/opdef.h"

/* The function that a call computes, with its parameters; false if the operator is no activation.
 * attrs are normalised. */
bool activation_eltwise(const opdef_t *op, const void *attrs, eltwise_t *out_eltwise,
                        double *out_alpha, double *out_beta);

#endif
