/* Gradient rules of functions of one tensor. */
#ifndef TESSERA_OPS_ELEMENTWISE_ELEMENTWISE_BACKWARD_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_ELEMENTWISE_BACKWARD_IMPL_H

#include "ops/gradient_impl.h"

/* Emits elementwise_backward for line `function` of kernels/elementwise/unary_slopes.def. */
void elementwise_backward_pass(const gradient_call_t *call, const char *function, double alpha,
                               double beta);

/* Rules for operators without parameters whose line in unary_slopes.def has the operator's name and
 * reads IN or OUT. */
extern const gradient_t elementwise_backward_in, elementwise_backward_out;

#endif
