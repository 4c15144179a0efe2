/* Operators that reorder, repeat and join elements. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_SHAPE_MOVING_H
#define TESSERA_OPS_SHAPE_MOVING_H

#include "dispatch/dispatch.h"

/* Reverses n dimensions, like torch.flip. */
status_t op_flip(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
    TESSERA_API(op_flip);

/* Shifts elements by shifts[i] along dims[i], like torch.roll. Elements shifted past the end
 * continue at the front. If dims is NULL, x is shifted as if it were flattened, and n is 1. */
status_t op_roll(context_t *ctx, const tensor_t *x, int n, const int64_t *shifts,
                 const int64_t *dims, tensor_t **out) TESSERA_API(op_roll);

/* Reverses each sequence of a batch up to its own length, as ONNX ReverseSequence:
 *
 *   out[b][t] = t < lengths[b] ? x[b][lengths[b] - 1 - t] : x[b][t]     batch_dim 0, time_dim 1
 *
 * lengths  s32 or s64, one for each sequence, 0 to the size of time_dim */
status_t op_reverse_sequence(context_t *ctx, const tensor_t *x, const tensor_t *lengths,
                             int64_t batch_dim, int64_t time_dim, tensor_t **out)
    TESSERA_API(op_reverse_sequence);

/* ---- functions that call other operators, which a trace records ---- */

/* Joins n tensors of equal sizes along a new dimension. */
status_t op_stack(context_t *ctx, int n, const tensor_t *const *tensors, int64_t dim,
                  tensor_t **out) TESSERA_API(op_stack);

/* Cuts x along dim into at most n pieces of equal size, like torch.chunk; the last one may be
 * smaller. For size 10, 4 pieces are 3, 3, 3, 1, and 6 pieces become five: 2, 2, 2, 2, 2. out has n
 * entries, of which *out_n are used. */
status_t op_chunk(context_t *ctx, const tensor_t *x, int n, int64_t dim, int *out_n, tensor_t **out)
    TESSERA_API(op_chunk);

/* The slice at an index of dim, without that dimension: x[:, index] for dim 1. -1 is the last. */
status_t op_select(context_t *ctx, const tensor_t *x, int64_t dim, int64_t index, tensor_t **out)
    TESSERA_API(op_select);
/* All slices along dim, without that dimension. n is the size of dim; out has n entries. */
status_t op_unbind(context_t *ctx, const tensor_t *x, int64_t dim, int n, tensor_t **out)
    TESSERA_API(op_unbind);

/* Repeats x along its last n dimensions, like torch.tile. If n exceeds the rank of x, x gets
 * leading dimensions of size 1. Each number of repeats is at least 1. */
status_t op_tile(context_t *ctx, const tensor_t *x, int n, const int64_t *repeats, tensor_t **out)
    TESSERA_API(op_tile);

/* Repeats each slice along *dim: 1, 2, 3 becomes 1, 1, 2, 2, 3, 3. If dim is NULL, x is flattened
 * first. repeats is at least 1. */
status_t op_repeat_interleave(context_t *ctx, const tensor_t *x, int64_t repeats,
                              const int64_t *dim, tensor_t **out) TESSERA_API(op_repeat_interleave);

/* [..][C r r][H][W] to [..][C][H r][W r] and back, like torch.nn.functional.pixel_shuffle and
 * pixel_unshuffle, with r = factor. */
status_t op_pixel_shuffle(context_t *ctx, const tensor_t *x, int64_t factor, tensor_t **out)
    TESSERA_API(op_pixel_shuffle);
status_t op_pixel_unshuffle(context_t *ctx, const tensor_t *x, int64_t factor, tensor_t **out)
    TESSERA_API(op_pixel_unshuffle);

/* Replaces elements by value where the mask is true. mask is bool; x and mask broadcast.
 * INVALID_ARGUMENT if x is integral and value is not an integer. */
status_t op_masked_fill(context_t *ctx, const tensor_t *x, const tensor_t *mask, double value,
                        tensor_t **out) TESSERA_API(op_masked_fill);

/* s64 [..][n]: 1 at each index, 0 elsewhere. Indices are s32 or s64; see indexing.h. */
status_t op_one_hot(context_t *ctx, const tensor_t *index, int64_t n, tensor_t **out)
    TESSERA_API(op_one_hot);

/* The row of a weight [n][width] for each index, like torch.nn.functional.embedding. */
status_t op_embedding(context_t *ctx, const tensor_t *index, const tensor_t *weight, tensor_t **out)
    TESSERA_API(op_embedding);

#endif
