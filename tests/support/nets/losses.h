/* Loss functions for training in tests. Each is a train_loss_t that ignores `user`. */
#ifndef TESSERA_TESTS_LOSSES_H
#define TESSERA_TESTS_LOSSES_H

#include "ops/ops.h"
#include "tensor/base/try_impl.h"
#include "train/loss.h"

static inline status_t losses_cross_entropy(context_t *ctx, void *user, const tensor_t *output,
                                            const tensor_t *target, tensor_t **out_loss)
{
    (void)user;
    return loss_cross_entropy(ctx, output, target, NULL, out_loss);
}

static inline status_t losses_mse(context_t *ctx, void *user, const tensor_t *output,
                                  const tensor_t *target, tensor_t **out_loss)
{
    (void)user;
    return loss_mse(ctx, output, target, REDUCTION_MEAN, out_loss);
}

/* The mean of the squared differences, by three operators. */
static inline status_t losses_squares(context_t *ctx, void *user, const tensor_t *output,
                                      const tensor_t *target, tensor_t **out_loss)
{
    tensor_t *difference = NULL, *square = NULL;
    (void)user;
    TRY(op_sub(ctx, output, target, &difference));
    status_t status = op_mul(ctx, difference, difference, &square);
    if (status == STATUS_OK) status = op_mean(ctx, square, 0, NULL, false, out_loss);
    tensor_release(square);
    tensor_release(difference);
    return status;
}

#endif
