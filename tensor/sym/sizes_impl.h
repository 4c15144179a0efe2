/* Size arithmetic for shape inference, on numbers and symbolic integers.
 *
 * For numbers, these functions return the same results as those of shape.h. For symbolic sizes, a
 * decision may become a guard (tensor/sym/sym.h). The functions return false on overflow and if the
 * result cannot be computed. Tensors with symbolic sizes are dense and contiguous; inference does
 * not read strides. */
#ifndef TESSERA_TENSOR_SYM_SIZES_IMPL_H
#define TESSERA_TENSOR_SYM_SIZES_IMPL_H

#include "tensor/info.h"
#include "tensor/sym/sym.h"

bool sizes_have_symbols(int rank, const int64_t *sizes);

/* True if the context has no space of symbolic integers. Then even an integer far below 0, such as
 * a slice bound of -2^63 + 1, is a number and not a handle. */
bool sizes_are_numbers(context_t *ctx);

/* a * b for numbers that are not negative, and a + b; false on overflow. */
bool sizes_multiply(context_t *ctx, int64_t a, int64_t b, int64_t *out_product);
bool sizes_add(context_t *ctx, int64_t a, int64_t b, int64_t *out_sum);

/* True if min <= value <= max. `max` is only a sanity check: for a symbolic value it adds no guard,
 * and is checked when the number is known. */
bool sizes_within(context_t *ctx, int64_t value, int64_t min, int64_t max);

/* Number of elements. */
bool sizes_numel(context_t *ctx, int rank, const int64_t *sizes, int64_t *out_numel);

/* True if the tensor has one element. */
bool sizes_are_one(context_t *ctx, const tensor_info_t *info);

bool sizes_equal(context_t *ctx, int rank_a, const int64_t *a, int rank_b, const int64_t *b);
/* True if dtypes and sizes are equal. */
bool sizes_are_like(context_t *ctx, const tensor_info_t *a, const tensor_info_t *b);

/* True if a size `from` can be broadcast to `to`: it is equal to `to`, or it is 1. For symbolic
 * sizes, adds the one of these two conditions that holds for the hints as a guard; adds none if
 * `from` is the number 1. */
bool sizes_expand(context_t *ctx, int64_t from, int64_t to);

/* Broadcasts shapes. [N] and [1] become [N] without a guard. For [N] and [M] the hints determine
 * which guard is added: N == M, N == 1 or M == 1. */
bool sizes_broadcast(context_t *ctx, int rank_a, const int64_t *a, int rank_b, const int64_t *b,
                     int *out_rank, int64_t *out_sizes);

#endif
