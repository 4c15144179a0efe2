/* Operators that make random numbers. The rules for all operators are in ops.h.
 *
 * They are functions of their seed: number i follows from seed and i alone, so a call gives the
 * same numbers again, with any number of threads, and a graph may fold or merge it. Other numbers
 * need another seed. They are not those of PyTorch's generators. */
#ifndef TESSERA_OPS_RANDOM_RANDOM_H
#define TESSERA_OPS_RANDOM_RANDOM_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* Numbers of x's sizes, from low to high, high excluded, and of a normal distribution. dtype is
 * floating; DTYPE_NONE: that of x, whose elements are not read. */
status_t op_rand_like(context_t *ctx, const tensor_t *x, double low, double high, int64_t seed,
                      dtype_t dtype, tensor_t **out) TESSERA_API(op_rand_like);
status_t op_randn_like(context_t *ctx, const tensor_t *x, double mean, double std, int64_t seed,
                       dtype_t dtype, tensor_t **out) TESSERA_API(op_randn_like);

/* 1 with the probability that x has, else 0, of any dtype; DTYPE_NONE: that of x. What is less than
 * 0, or NaN, counts as 0, and what is more than 1 as 1. Made of rand_like, lt and cast. */
status_t op_bernoulli(context_t *ctx, const tensor_t *x, int64_t seed, dtype_t dtype,
                      tensor_t **out) TESSERA_API(op_bernoulli);

/* n_samples indices of each row's elements, with probabilities in proportion to the elements, as
 * torch.multinomial.
 *
 * x            [C] or [N][C]  floating: weights, which need not add up to 1
 * replacement  an index may come again; else n_samples is at most C
 * out          s64 [n_samples] or [N][n_samples]
 *
 * INVALID_ARGUMENT  a weight is negative, infinite or NaN; a row has none above 0, or without
 *                   replacement less than n_samples of these */
status_t op_multinomial(context_t *ctx, const tensor_t *x, int64_t n_samples, bool replacement,
                        int64_t seed, tensor_t **out) TESSERA_API(op_multinomial);

/* ---- dropout ---- */

/* Inference: returns x. */
status_t op_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_dropout);
status_t op_feature_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_feature_dropout);

/* Training: sets elements to 0 with probability p and multiplies the others by 1 / (1 - p).
 *
 * leading_dims  0: each element by itself; 1 or 2: elements that share the indices of the first one
 *               or two dimensions together, such as channels of images
 *
 * A seed determines which elements are 0. Each run takes a new seed from the context's generator
 * (context_seed), runs of a plan too. Layout and number of threads make no difference. */
status_t op_dropout_train(context_t *ctx, const tensor_t *x, double p, int64_t leading_dims,
                          tensor_t **out) TESSERA_API(op_dropout_train);

TESSERA_END

#endif
