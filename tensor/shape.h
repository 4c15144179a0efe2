/* Sizes of tensors, and arithmetic on sizes that detects overflow. */
#ifndef TESSERA_TENSOR_SHAPE_H
#define TESSERA_TENSOR_SHAPE_H

#include "tensor/context.h"
#include "tensor/dtype.h"

/* Expands to rank and sizes: tensor_randn(ctx, DTYPE_F32, SHAPE(8, 64, 56, 56), &x). For rank 0
 * write 0, NULL. C only: C++ has no compound literals. */
#ifndef __cplusplus
#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#endif

/* Returns false on overflow and for negative operands. */
static inline bool shape_multiply(int64_t a, int64_t b, int64_t *out_product)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out_product);
}

/* Number of elements; false on overflow. */
bool shape_numel(int rank, const int64_t *sizes, int64_t *out_numel) TESSERA_API(shape_numel);

/* Fails for a rank above TENSOR_MAX_RANK, for negative sizes, and if the number of bytes overflows.
 * The message starts with `op`. */
status_t shape_check(context_t *ctx, const char *op, dtype_t dtype, int rank, const int64_t *sizes)
    TESSERA_API(shape_check);

/* Strides of a contiguous tensor, in elements; a size of 0 counts as 1. */
void shape_strides(int rank, const int64_t *sizes, int64_t *out_strides) TESSERA_API(shape_strides);

bool shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b)
    TESSERA_API(shape_equal);

/* Broadcasts two shapes as NumPy and PyTorch do; false if they are incompatible. */
bool shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *out_rank,
                     int64_t *out_sizes) TESSERA_API(shape_broadcast);

/* Converts the number of a dimension, which may be negative (counted from the end), to one that is
 * not. Returns false if it is out of range. For rank 0, dimensions 0 and -1 are accepted. */
bool shape_dim(int rank, int64_t dim, int *out_dim) TESSERA_API(shape_dim);

/* Advances a multi-index to the next element in row-major order; false after the last. */
static inline bool shape_next(int rank, const int64_t *sizes, int64_t *index)
{
    for (int d = rank - 1; d >= 0; d--) {
        if (++index[d] < sizes[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* Writes the shape as text, "[8,64,56,56]", cut to capacity. */
const char *shape_text(int rank, const int64_t *sizes, char *out_text, size_t capacity)
    TESSERA_API(shape_text);

#endif
