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

TESSERA_END

#endif
