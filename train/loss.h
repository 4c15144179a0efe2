/* Losses: how far results are from their targets, as torch.nn.functional has them. They are made of
 * operators, so that tapes record them and graph_trace traces them. Targets are constants. */
#ifndef TESSERA_TRAIN_LOSS_H
#define TESSERA_TRAIN_LOSS_H

#include "tensor/tensor.h"

TESSERA_BEGIN

/* One number: the mean or the sum of all losses; or each of them. */
typedef enum reduction { REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_NONE } reduction_t;

typedef struct cross_entropy_options {
    reduction_t reduction;
    const tensor_t *weight; /* [C], one number for each class, or NULL */
    int64_t ignore_index;   /* rows with this label count nothing */
    double label_smoothing; /* this much of the target is spread over all classes; not for nll */
} cross_entropy_options_t;

/* PyTorch's defaults: mean, no weight, -100, 0. */
cross_entropy_options_t cross_entropy_options(void) TESSERA_API(cross_entropy_options);

/* Cross entropy of scores in one stable operator; and of log-probabilities, as log_softmax gives
 * them, the negative log likelihood.
 *
 *   loss[n] = - weight[t] log softmax(x[n])[t]          t = target[n]
 *   mean    = sum(n) loss[n] / sum(n) weight[target[n]]
 *
 * x        [N][C], [N][C][...] or [C]    floating
 * target   [N], [N][...] or []           integers in [0, C), or ignore_index; for cross_entropy
 *                                        also probabilities, of x's sizes: the mean is then over
 * rows options  NULL: PyTorch's defaults
 *
 * INVALID_ARGUMENT  sizes disagree; a label that is none of the classes: names it and their number
 */
status_t loss_cross_entropy(context_t *ctx, const tensor_t *x, const tensor_t *target,
                            const cross_entropy_options_t *options, tensor_t **out)
    TESSERA_API(loss_cross_entropy);
status_t loss_nll(context_t *ctx, const tensor_t *x, const tensor_t *target,
                  const cross_entropy_options_t *options, tensor_t **out) TESSERA_API(loss_nll);

/* Of d = x - target, which have equal sizes (nothing is broadcast): d^2; |d|; and d^2 / (2 beta)
 * where |d| < beta, else |d| - beta / 2. INVALID_ARGUMENT for other sizes and a negative beta. */
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
 * weight and pos_weight broadcast to x; NULL: 1. */
status_t loss_bce_with_logits(context_t *ctx, const tensor_t *x, const tensor_t *target,
                              const tensor_t *weight, const tensor_t *pos_weight,
                              reduction_t reduction, tensor_t **out)
    TESSERA_API(loss_bce_with_logits);

TESSERA_END

#endif
