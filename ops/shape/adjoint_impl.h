/* Gradients of separable linear operators, such as resize and pad:
 *
 *     out[q0][q1].. = sum of w0 w1 .. x[i0][i1]..      (i0, w0) is a tap of q0, (i1, w1) one of q1
 *
 * A tap of a result index is an index of x and its weight. The gradient of x[i0][i1].. is the sum
 * of w0 w1 .. grad[q0][q1].. over all q that have a tap at i. One thread sums each element, in the
 * order of q, so results do not depend on the number of threads. */
#ifndef TESSERA_OPS_SHAPE_ADJOINT_IMPL_H
#define TESSERA_OPS_SHAPE_ADJOINT_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/shape/row_sum_impl.h"

#define ADJOINT_TAPS 4

/* Writes the taps of result index q in dimension `dim`, from tap number `first` on. Returns the
 * number of taps written: ADJOINT_TAPS, or fewer if these are the last ones. */
typedef int (*adjoint_taps_t)(const void *attrs, const tensor_info_t *x, const tensor_info_t *grad,
                              int dim, int64_t q, int64_t first, row_sum_tap_t *out_taps);

/* Prepares an operator that computes such a gradient from its only operand, grad. If the first two
 * dimensions do not change, blocked and channels-last formats are kept. */
status_t adjoint_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         adjoint_taps_t taps);
status_t adjoint_run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                     void *scratch);
double adjoint_spec(const spec_call_t *call, const int64_t *index, adjoint_taps_t taps);

/* Defines backward_operands, backward_kernels and backward_spec for an opdef_t. */
#define ADJOINT(taps)                                                                              \
    static double backward_spec(const spec_call_t *call, int output, const int64_t *index)         \
    {                                                                                              \
        (void)output;                                                                              \
        return adjoint_spec(call, index, taps);                                                    \
    }                                                                                              \
    static status_t backward_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)  \
    {                                                                                              \
        return adjoint_prepare(ctx, call, prepared, taps);                                         \
    }                                                                                              \
    static const kernel_t backward_native = {                                                      \
        .name = "native", .prepare = backward_prepare, .run = adjoint_run};                        \
    static const kernel_t *const backward_kernels[] = {&backward_native, NULL};                    \
    static const operand_t backward_operands[] = {{"grad", ROLE_ACTIVATION, false, false}};

#endif
