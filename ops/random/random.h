/* Operators that generate random numbers. The rules for all operators are in ops.h.
 *
 * Number i depends only on the seed and i. So calls with the same seed return the same numbers,
 * with any number of threads, and graphs may fold or merge such calls. The numbers are not those of
 * PyTorch's generators. */
#ifndef TESSERA_OPS_RANDOM_RANDOM_H
#define TESSERA_OPS_RANDOM_RANDOM_H

#include "dispatch/dispatch.h"

/* Uniform numbers in [low, high), or normally distributed numbers, in a tensor of x's sizes. The
 * elements of x are not read. dtype must be floating; DTYPE_NONE means x's dtype. */
status_t op_rand_like(context_t *ctx, const tensor_t *x, double low, double high, int64_t seed,
                      dtype_t dtype, tensor_t **out) TESSERA_API(op_rand_like);
status_t op_randn_like(context_t *ctx, const tensor_t *x, double mean, double std, int64_t seed,
                       dtype_t dtype, tensor_t **out) TESSERA_API(op_randn_like);

/* Each element is 1 with probability x, otherwise 0. Probabilities below 0 and NaN count as 0,
 * those above 1 as 1. dtype can be any; DTYPE_NONE means x's dtype. A trace records rand_like, lt
 * and cast. */
status_t op_bernoulli(context_t *ctx, const tensor_t *x, int64_t seed, dtype_t dtype,
                      tensor_t **out) TESSERA_API(op_bernoulli);

/* Random indices for each row of x, like torch.multinomial. The probability of an index is
 * proportional to the element at this index.
 *
 * x            [C] or [N][C]  floating weights; their sum need not be 1
 * replacement  an index can be chosen several times; otherwise n_samples is at most C
 * out          s64 [n_samples] or [N][n_samples]
 *
 * INVALID_ARGUMENT  a weight is negative, infinite or NaN; a row has no weight above 0, or, without
 *                   replacement, fewer than n_samples */
status_t op_multinomial(context_t *ctx, const tensor_t *x, int64_t n_samples, bool replacement,
                        int64_t seed, tensor_t **out) TESSERA_API(op_multinomial);

/* ---- dropout ---- */

/* For inference: returns x. */
status_t op_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_dropout);
status_t op_feature_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
    TESSERA_API(op_feature_dropout);

/* For training: sets elements to 0 with probability p, and multiplies the others by 1 / (1 - p).
 *
 * leading_dims  0: drops elements separately; 1 or 2: drops all elements with the same first 1 or 2
 *               indices together, such as channels of images
 *
 * A seed determines which elements are 0, whatever the layout and the number of threads. Each run,
 * also of a plan, takes a new seed from the context's generator (context_seed). */
status_t op_dropout_train(context_t *ctx, const tensor_t *x, double p, int64_t leading_dims,
                          tensor_t **out) TESSERA_API(op_dropout_train);

#endif
