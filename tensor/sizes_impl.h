/* What rules of shape inference calculate with: integers that are numbers or symbolic.
 *
 * These are shape.h's functions for both, and give for numbers what those give. Where a size is
 * symbolic, a decision may become a guard (tensor/sym.h), and a result that overflows, or that
 * cannot be calculated, is false. Symbolic tensors are dense and contiguous: a rule reads no
 * strides. */
#ifndef TESSERA_TENSOR_SIZES_IMPL_H
#define TESSERA_TENSOR_SIZES_IMPL_H

#include "tensor/info.h"
#include "tensor/sym.h"

bool sizes_have_symbols(int rank, const int64_t *sizes);

/* The context has no space, so that integers far below 0 are numbers, as -2^62 is a bound of a
 * slice. */
bool sizes_are_numbers(context_t *ctx);

/* a * b of numbers that are not negative, a + b; false on overflow. */
bool sizes_multiply(context_t *ctx, int64_t a, int64_t b, int64_t *out_product);
bool sizes_add(context_t *ctx, int64_t a, int64_t b, int64_t *out_sum);

/* min <= value <= max. The upper bound keeps absurd numbers out: it is no guard of a symbolic
 * value, whose number is checked when it is known. */
bool sizes_within(context_t *ctx, int64_t value, int64_t min, int64_t max);

/* Number of elements. */
bool sizes_numel(context_t *ctx, int rank, const int64_t *sizes, int64_t *out_numel);

/* The tensor has one element. */
bool sizes_are_one(context_t *ctx, const tensor_info_t *info);

bool sizes_equal(context_t *ctx, int rank_a, const int64_t *a, int rank_b, const int64_t *b);
/* The same, and equal dtypes. */
bool sizes_are_like(context_t *ctx, const tensor_info_t *a, const tensor_info_t *b);

/* `from` is `to`, or is 1. The guard is the one of the two that holds at the hints; there is none
 * where `from` is the number 1. */
bool sizes_expand(context_t *ctx, int64_t from, int64_t to);

/* Broadcasting. [N] and [1] give [N] without a guard; of [N] and [M] the hints say which guard
 * there is: N == M, N == 1 or M == 1. */
bool sizes_broadcast(context_t *ctx, int rank_a, const int64_t *a, int rank_b, const int64_t *b,
                     int *out_rank, int64_t *out_sizes);

#endif
