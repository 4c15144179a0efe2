/* Operators that generate random numbers. The rules for all operators are in ops.h.
 *
 * Number i depends only on the seed and i. So the same call returns the same numbers again, with
 * any number of threads, and graphs may fold or merge calls. PyTorch's generators return other
 * numbers. */
#ifndef TESSERA_OPS_RANDOM_RANDOM_H
#define TESSERA_OPS_RANDOM_RANDOM_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* Uniform numbers in [low, high), or normally distributed numbers, in the sizes of x. The elements
 * of x are not read. dtype must be floating; DTYPE_NONE: dtype of x. */
status_t op_rand_like(context_t *ctx, const tensor_t *x, double low, double high, int64_t seed,
                      dtype_t dtype, tensor_t **out) TESSERA_API(op_rand_like);
status_t op_randn_like(context_t *ctx, const tensor_t *x, double mean, double std, int64_t seed,
                       dtype_t dtype, tensor_t **out) TESSERA_API(op_randn_like);

/* 1 with probability x, otherwise 0. Probabilities below 0 and NaN count as 0, and those above 1 as
 * 1. dtype: any; DTYPE_NONE: dtype of x. Calls rand_like, lt and cast. */
status_t op_bernoulli(context_t *ctx, const tensor_t *x, int64_t seed, dtype_t dtype,
                      tensor_t **out) TESSERA_API(op_bernoulli);

/* Random indices for each row, like torch.multinomial. The probability of an index is in proportion
 * to the row's element.
 *
 * x            [C] or [N][C]  floating weights; their sum need not be 1
 * replacement  an index can occur several times; else n_samples is at most C
 * out          s64 [n_samples] or [N][n_samples]
 *
 * INVALID_ARGUMENT  a weight is negative, infinite or NaN; a row has no weight above 0, or, without
 *                   replacement, fewer than n_samples */
status_t op_multinomial(context_t *ctx, const tensor_t *x, int64_t n_samples, bool replacement,
                        int64_t seed, tensor_t **out) TESSERA_API(op_multinomial);

/* ---- dropout ---- */

/* Inference: returns x. */
status_t op_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_dropout);
status_t op_feature_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_feature_dropout);

/* Training: sets each element to 0 with probability p, and multiplies the others by 1 / (1 - p).
 *
 * leading_dims  0: each element separately; 1 or 2: all elements with the same first one or two
 *               indices together, such as channels of images
 *
 * A seed determines which elements are 0. Each run takes a new seed from the context's generator
 * (context_seed); runs of a plan do too. Layout and number of threads have no effect. */
status_t op_dropout_train(context_t *ctx, const tensor_t *x, double p, int64_t leading_dims,
                          tensor_t **out) TESSERA_API(op_dropout_train);

TESSERA_END

#endif
