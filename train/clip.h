/* Gradients as long as they may be. */
#ifndef TESSERA_TRAIN_CLIP_H
#define TESSERA_TRAIN_CLIP_H

#include "tensor/tensor.h"

TESSERA_BEGIN

/* Multiplies n gradients, of which NULL is left out, in place by max_norm / (norm + 1e-6) where
 * that is below 1, as torch.nn.utils.clip_grad_norm_. norm, the root of the sum of all their
 * squares, is summed up in double in an order that the number of threads does not change. Any
 * layouts; padded lanes stay zero. Gradients that are one tensor, or views of the same bytes, are
 * multiplied once. A norm of NaN makes all gradients NaN. out_norm may be NULL.
 *
 * INVALID_ARGUMENT  a negative max_norm; gradients that share some of their bytes and not all
 * UNSUPPORTED       a gradient that is not f32, or in a format that only its owner can read */
status_t clip_gradients(context_t *ctx, int n, tensor_t *const *gradients, double max_norm,
                        double *out_norm) TESSERA_API(clip_gradients);

TESSERA_END

#endif
