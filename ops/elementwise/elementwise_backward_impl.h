/* Gradient rules of functions of one tensor. */
#ifndef TESSERA_OPS_ELEMENTWISE_ELEMENTWISE_BACKWARD_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_ELEMENTWISE_BACKWARD_IMPL_H

#include "ops/gradient_impl.h"

/* Emits elementwise_backward for a function, the name of a line in
 * kernels/elementwise/unary_slopes.def. */
void elementwise_backward_pass(const gradient_call_t *call, const char *function, double alpha,
                               double beta);

/* Rules for operators without parameters. The line with the operator's name in unary_slopes.def
 * must read the input (IN) or the result (OUT). */
extern const gradient_t elementwise_backward_in, elementwise_backward_out;

#endif
