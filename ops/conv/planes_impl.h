/* How convolution operators call kernels/conv/planes_impl.h. Operands are contiguous. */
#ifndef TESSERA_OPS_CONV_PLANES_IMPL_H
#define TESSERA_OPS_CONV_PLANES_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/conv/planes_impl.h"

/* The `prepare` of a kernel with operands x (0), weight (1) and bias (2). Requests all of them
 * contiguous. Declines layout mkldnn and dtypes that are not floating. */
status_t planes_prepare(const op_call_t *call, prepared_t *prepared);

planes_t planes_between(const tensor_info_t *x, const tensor_info_t *weight,
                        const tensor_info_t *out, const int64_t *stride, const int64_t *dilation,
                        const int64_t *padding, int64_t groups);
planes_t planes_describe(const prepared_t *prepared, const int64_t *stride, const int64_t *dilation,
                         const int64_t *padding, int64_t groups);

/* Computes out[n][k][..] = bias[k] + window(..), where `window` sums one window. `in` is x, weight,
 * and bias or NULL. */
void planes_run(context_t *ctx, const prepared_t *prepared, const planes_t *planes,
                planes_window_t *window, void *const *in, void *out);

#endif
