/* Sizes of tensors, and arithmetic on them that cannot overflow unseen. */
#ifndef TESSERA_TENSOR_SHAPE_H
#define TESSERA_TENSOR_SHAPE_H

#include "tensor/context.h"
#include "tensor/dtype.h"

TESSERA_BEGIN

/* A rank and its sizes as two arguments: tensor_randn(ctx, DTYPE_F32, SHAPE(8, 64, 56, 56), &x).
 * For rank 0 write 0, NULL. C only: C++ has no compound literals. */
#ifndef __cplusplus
#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#endif

/* false on overflow, or when an operand is negative */
static inline bool shape_multiply(int64_t a, int64_t b, int64_t *out_product)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out_product);
}

/* Number of elements; false when it does not fit. */
bool shape_numel(int rank, const int64_t *sizes, int64_t *out_numel) TESSERA_API(shape_numel);

/* Refuses a rank above TENSOR_MAX_RANK, a negative size, and sizes whose bytes overflow; `op`
 * begins the message. */
status_t shape_check(context_t *ctx, const char *op, dtype_t dtype, int rank, const int64_t *sizes)
    TESSERA_API(shape_check);

/* Strides in elements of a contiguous tensor; sizes 0 count as 1. */
void shape_strides(int rank, const int64_t *sizes, int64_t *out_strides) TESSERA_API(shape_strides);

bool shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b)
    TESSERA_API(shape_equal);

/* NumPy's and PyTorch's broadcasting of two shapes; false when they do not go together. */
bool shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *out_rank,
                     int64_t *out_sizes) TESSERA_API(shape_broadcast);

/* A dimension counted from the end when negative; false when out of range. Rank 0 has dim 0. */
bool shape_dim(int rank, int64_t dim, int *out_dim) TESSERA_API(shape_dim);

/* Steps a multi-index to the next element in row-major order; false after the last. */
static inline bool shape_next(int rank, const int64_t *sizes, int64_t *index)
{
    for (int d = rank - 1; d >= 0; d--) {
        if (++index[d] < sizes[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* The shape as text, "[8,64,56,56]", cut to capacity. */
const char *shape_text(int rank, const int64_t *sizes, char *out_text, size_t capacity)
    TESSERA_API(shape_text);

TESSERA_END

#endif
