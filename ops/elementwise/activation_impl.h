/* Calls of activations by their eltwise_t. */
#ifndef TESSERA_OPS_ELEMENTWISE_ACTIVATION_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_ACTIVATION_IMPL_H

#include "ops/ops_impl.h"

/* The operator that computes the function, or NULL. It is gelu for ELTWISE_GELU_TANH. */
const opdef_t *activation_operator(eltwise_t eltwise);

/* Calls the operator of a function that has one; relu6 if it is a clamp with bounds 0 and 6. */
status_t activation_call(context_t *ctx, eltwise_t eltwise, double alpha, double beta,
                         const tensor_t *x, tensor_t **out);

#endif
