/* Gradient clipping. */
#ifndef TESSERA_TRAIN_CLIP_H
#define TESSERA_TRAIN_CLIP_H

#include "tensor/tensor.h"

/* Multiplies n gradients in place by max_norm / (norm + 1e-6) if that factor is below 1, as
 * torch.nn.utils.clip_grad_norm_ does. norm is the square root of the sum of squares of all
 * elements. The sum is computed in double, in an order that does not depend on the number of
 * threads. NULL gradients are skipped. Any layout is allowed; the padding of blocked layouts stays
 * zero. Two gradients that share all their bytes are multiplied once. If norm is NaN, all gradients
 * become NaN. out_norm may be NULL.
 *
 * INVALID_ARGUMENT  a negative max_norm; gradients that share some of their bytes but not all
 * UNSUPPORTED       a gradient that is not f32, or in a format that only its owner can read */
status_t clip_gradients(context_t *ctx, int n, tensor_t *const *gradients, double max_norm,
                        double *out_norm) TESSERA_API(clip_gradients);

#endif
