/* Losses, as in torch.nn.functional. They call operators, so a tape (train/tape.h) can record them,
 * and graph_trace can trace them. Targets get no gradient. */
#ifndef TESSERA_TRAIN_LOSS_H
#define TESSERA_TRAIN_LOSS_H

#include "tensor/tensor.h"

/* A loss function returns the mean of the losses of all items, their sum, or the separate
 * losses. */
typedef enum reduction { REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_NONE } reduction_t;

typedef struct cross_entropy_options {
    reduction_t reduction;
    const tensor_t *weight; /* [C], one number per class, or NULL */
    int64_t ignore_index;   /* rows with this label are ignored */
    double label_smoothing; /* share of the target spread over all classes; not for nll */
} cross_entropy_options_t;

/* Returns PyTorch's defaults: REDUCTION_MEAN, no weight, ignore_index -100, label_smoothing 0. */
cross_entropy_options_t cross_entropy_options(void) TESSERA_API(cross_entropy_options);

/* loss_cross_entropy takes scores and is one numerically stable operator. loss_nll (negative log
 * likelihood) takes log-probabilities, such as the result of log_softmax.
 *
 *   loss[n] = - weight[t] log softmax(x[n])[t]          t = target[n]
 *   mean    = sum(n) loss[n] / sum(n) weight[target[n]]
 *
 * x        [N][C], [N][C][...] or [C]    floating-point
 * target   [N], [N][...] or []           integers in [0, C), or ignore_index. loss_cross_entropy
 *                                        also takes probabilities of x's sizes; the mean is then
 *                                        over rows.
 * options  NULL: PyTorch's defaults
 *
 * INVALID_ARGUMENT  the sizes do not match; a label is out of range (the message names it) */
status_t loss_cross_entropy(context_t *ctx, const tensor_t *x, const tensor_t *target,
                            const cross_entropy_options_t *options, tensor_t **out)
    TESSERA_API(loss_cross_entropy);
status_t loss_nll(context_t *ctx, const tensor_t *x, const tensor_t *target,
                  const cross_entropy_options_t *options, tensor_t **out) TESSERA_API(loss_nll);

/* Losses of d = x - target, which must have equal sizes (no broadcasting). mse: d^2; l1: |d|;
 * smooth_l1: d^2 / (2 beta) if |d| < beta, else |d| - beta / 2. INVALID_ARGUMENT if sizes are
 * unequal or beta is negative. */
status_t loss_mse(context_t *ctx, const tensor_t *x, const tensor_t *target, reduction_t reduction,
                  tensor_t **out) TESSERA_API(loss_mse);
status_t loss_l1(context_t *ctx, const tensor_t *x, const tensor_t *target, reduction_t reduction,
                 tensor_t **out) TESSERA_API(loss_l1);
status_t loss_smooth_l1(context_t *ctx, const tensor_t *x, const tensor_t *target, double beta,
                        reduction_t reduction, tensor_t **out) TESSERA_API(loss_smooth_l1);

/* Binary cross entropy of scores:
 *
 *   - weight (pos_weight target log sigmoid(x) + (1 - target) log (1 - sigmoid(x)))
 *
 * weight and pos_weight broadcast to x; NULL means 1. */
status_t loss_bce_with_logits(context_t *ctx, const tensor_t *x, const tensor_t *target,
                              const tensor_t *weight, const tensor_t *pos_weight,
                              reduction_t reduction, tensor_t **out)
    TESSERA_API(loss_bce_with_logits);

#endif
