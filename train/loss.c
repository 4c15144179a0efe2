#include "train/loss.h"

#include <math.h>

#include "ops/loss/loss_impl.h"
#include "tensor/tensor_impl.h"

_Static_assert((int)REDUCTION_MEAN == LOSS_MEAN && (int)REDUCTION_SUM == LOSS_SUM &&
                   (int)REDUCTION_NONE == LOSS_NONE,
               "reductions are the operators'");

/* ---- losses of classes ---- */

cross_entropy_options_t cross_entropy_options(void)
{
    return (cross_entropy_options_t){.ignore_index = LOSS_IGNORE_INDEX};
}

static status_t run(context_t *ctx, const opdef_t *op, const tensor_t *x, const tensor_t *target,
                    const cross_entropy_options_t *options, tensor_t **out)
{
    const cross_entropy_options_t given = options != NULL ? *options : cross_entropy_options();
    const cross_entropy_attrs_t attrs = {.reduction = (int)given.reduction,
                                         .ignore_index = given.ignore_index,
                                         .label_smoothing = given.label_smoothing};
    const tensor_t *in[] = {x, target, given.weight};
    return dispatch_run(ctx, op, &attrs, 3, in, NULL, out);
}

status_t loss_cross_entropy(context_t *ctx, const tensor_t *x, const tensor_t *target,
                            const cross_entropy_options_t *options, tensor_t **out)
{
    TRY(context_output(ctx, "loss_cross_entropy", out));
    return run(ctx, &op_def_cross_entropy, x, target, options, out);
}

status_t loss_nll(context_t *ctx, const tensor_t *x, const tensor_t *target,
                  const cross_entropy_options_t *options, tensor_t **out)
{
    TRY(context_output(ctx, "loss_nll", out));
    REQUIRE(ctx, options == NULL || options->label_smoothing == 0.0,
            "loss_nll: label_smoothing %g, only loss_cross_entropy supports it",
            options->label_smoothing);
    return run(ctx, &op_def_nll_loss, x, target, options, out);
}

/* ---- losses of differences ---- */

typedef status_t (*unary_t)(context_t *ctx, const tensor_t *x, tensor_t **out);
typedef status_t (*binary_t)(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out);

static status_t check(context_t *ctx, const char *op, const tensor_t *x, const tensor_t *target,
                      reduction_t reduction)
{
    if (x == NULL) return context_null(ctx, op, "x");
    if (target == NULL) return context_null(ctx, op, "target");
    REQUIRE(ctx,
            shape_equal(tensor_rank(x), tensor_sizes(x), tensor_rank(target), tensor_sizes(target)),
            "%s: x is %s, target %s, sizes must be equal", op, tensor_text(x), tensor_text(target));
    REQUIRE(ctx, dtype_is_floating(tensor_dtype(x)), "%s: x is %s, must be floating", op,
            tensor_text(x));
    REQUIRE(ctx, (unsigned)reduction <= REDUCTION_NONE, "%s: reduction %d, must be a reduction_t",
            op, (int)reduction);
    return STATUS_OK;
}

static status_t with_number(context_t *ctx, binary_t op, const tensor_t *x, double number,
                            tensor_t **out)
{
    tensor_t *operand = NULL;
    TRY(tensor_number(ctx, number, &operand));
    FINISH(op(ctx, x, operand, out), ops_drop(ctx, operand));
}

/* Applies the reduction. Takes ownership of `losses`, also on failure. */
static status_t reduce_take(context_t *ctx, tensor_t *losses, reduction_t reduction, tensor_t **out)
{
    if (reduction == REDUCTION_NONE) {
        *out = losses;
        return STATUS_OK;
    }
    FINISH(reduction == REDUCTION_MEAN ? op_mean(ctx, losses, 0, NULL, false, out)
                                       : op_sum(ctx, losses, 0, NULL, false, out),
           ops_drop(ctx, losses));
}

/* Applies `of` to x - target, then the reduction. */
static status_t run_difference(context_t *ctx, const char *op, unary_t of, const tensor_t *x,
                               const tensor_t *target, reduction_t reduction, tensor_t **out)
{
    tensor_t *difference = NULL, *losses = NULL;
    TRY(context_output(ctx, op, out));
    TRY(check(ctx, op, x, target, reduction));
    TRY(op_sub(ctx, x, target, &difference));
    status_t status = of(ctx, difference, &losses);
    ops_drop(ctx, difference);
    return status == STATUS_OK ? reduce_take(ctx, losses, reduction, out) : status;
}

status_t loss_mse(context_t *ctx, const tensor_t *x, const tensor_t *target, reduction_t reduction,
                  tensor_t **out)
{
    return run_difference(ctx, "loss_mse", op_square, x, target, reduction, out);
}

status_t loss_l1(context_t *ctx, const tensor_t *x, const tensor_t *target, reduction_t reduction,
                 tensor_t **out)
{
    return run_difference(ctx, "loss_l1", op_abs, x, target, reduction, out);
}

/* smooth_l1 of the distances |d|, without a branch: near^2 / (2 beta) + (|d| - near), where near =
 * min(|d|, beta). */
static status_t smooth(context_t *ctx, const tensor_t *distance, double beta, tensor_t **out)
{
    tensor_t *near = NULL, *square = NULL, *part = NULL, *far = NULL;
    status_t status = op_clamp(ctx, distance, -INFINITY, beta, &near);
    if (status == STATUS_OK) status = op_square(ctx, near, &square);
    if (status == STATUS_OK) status = with_number(ctx, op_mul, square, 0.5 / beta, &part);
    if (status == STATUS_OK) status = op_sub(ctx, distance, near, &far);
    if (status == STATUS_OK) status = op_add(ctx, part, far, out);
    ops_drop(ctx, near);
    ops_drop(ctx, square);
    ops_drop(ctx, part);
    ops_drop(ctx, far);
    return status;
}

status_t loss_smooth_l1(context_t *ctx, const tensor_t *x, const tensor_t *target, double beta,
                        reduction_t reduction, tensor_t **out)
{
    tensor_t *distance = NULL, *losses = NULL;
    TRY(context_output(ctx, "loss_smooth_l1", out));
    REQUIRE(ctx, beta >= 0.0, "loss_smooth_l1: beta %g, must not be negative", beta);
    if (beta == 0.0)
        return run_difference(ctx, "loss_smooth_l1", op_abs, x, target, reduction, out);
    TRY(run_difference(ctx, "loss_smooth_l1", op_abs, x, target, REDUCTION_NONE, &distance));
    status_t status = smooth(ctx, distance, beta, &losses);
    ops_drop(ctx, distance);
    return status == STATUS_OK ? reduce_take(ctx, losses, reduction, out) : status;
}

/* ---- binary cross entropy ---- */

/* Computes log sigmoid(x), multiplied by 1 + (pos_weight - 1) target if pos_weight is not NULL. */
static status_t weigh_positive(context_t *ctx, const tensor_t *x, const tensor_t *target,
                               const tensor_t *pos_weight, tensor_t **out)
{
    tensor_t *logarithm = NULL, *above = NULL, *share = NULL, *factor = NULL;
    if (pos_weight == NULL) return op_logsigmoid(ctx, x, out);
    status_t status = op_logsigmoid(ctx, x, &logarithm);
    if (status == STATUS_OK) status = with_number(ctx, op_sub, pos_weight, 1.0, &above);
    if (status == STATUS_OK) status = op_mul(ctx, target, above, &share);
    if (status == STATUS_OK) status = with_number(ctx, op_add, share, 1.0, &factor);
    if (status == STATUS_OK) status = op_mul(ctx, logarithm, factor, out);
    ops_drop(ctx, logarithm);
    ops_drop(ctx, above);
    ops_drop(ctx, share);
    ops_drop(ctx, factor);
    return status;
}

/* Computes x - x target - log sigmoid(x), which equals the formula in loss.h without weight because
 * log(1 - sigmoid(x)) is log sigmoid(x) - x. */
static status_t run_bce(context_t *ctx, const tensor_t *x, const tensor_t *target,
                        const tensor_t *pos_weight, tensor_t **out)
{
    tensor_t *product = NULL, *rest = NULL, *logarithm = NULL;
    status_t status = op_mul(ctx, x, target, &product);
    if (status == STATUS_OK) status = op_sub(ctx, x, product, &rest);
    if (status == STATUS_OK) status = weigh_positive(ctx, x, target, pos_weight, &logarithm);
    if (status == STATUS_OK) status = op_sub(ctx, rest, logarithm, out);
    ops_drop(ctx, product);
    ops_drop(ctx, rest);
    ops_drop(ctx, logarithm);
    return status;
}

status_t loss_bce_with_logits(context_t *ctx, const tensor_t *x, const tensor_t *target,
                              const tensor_t *weight, const tensor_t *pos_weight,
                              reduction_t reduction, tensor_t **out)
{
    tensor_t *losses = NULL, *weighed = NULL;
    TRY(context_output(ctx, "loss_bce_with_logits", out));
    TRY(check(ctx, "loss_bce_with_logits", x, target, reduction));
    TRY(run_bce(ctx, x, target, pos_weight, &losses));
    if (weight == NULL) return reduce_take(ctx, losses, reduction, out);
    status_t status = op_mul(ctx, losses, weight, &weighed);
    ops_drop(ctx, losses);
    return status == STATUS_OK ? reduce_take(ctx, weighed, reduction, out) : status;
}
