/* Max pooling of plain tensors that also returns the index of each maximum. */
#ifndef TESSERA_KERNELS_POOL_INDICES_IMPL_H
#define TESSERA_KERNELS_POOL_INDICES_IMPL_H

#include "kernels/pool/windows_impl.h"
#include "tensor/dtype.h"

/* How an index counts elements. PLANE: in the channel's plane, as in PyTorch. TENSOR and COLUMNS:
 * in the complete tensor, as in ONNX, row-major or with the first spatial dimension fastest. */
enum { POOL_ORDER_PLANE, POOL_ORDER_TENSOR, POOL_ORDER_COLUMNS };

/* Index of the element at[3] of a plane; -1 if at[0] < 0, which means an empty window. */
static inline int64_t pool_index(int order, const pool_axis_t *axes, int64_t plane,
                                 const int64_t *at)
{
    const int64_t size = axes[0].in * axes[1].in * axes[2].in;
    if (at[0] < 0) return -1;
    if (order == POOL_ORDER_COLUMNS)
        return plane * size + at[0] + axes[0].in * (at[1] + axes[1].in * at[2]);
    return (order == POOL_ORDER_PLANE ? 0 : plane * size) +
           (at[0] * axes[1].in + at[1]) * axes[2].in + at[2];
}

typedef struct pool_indices {
    const pool_axis_t *axes; /* three */
    int64_t n_planes;
    int order;
    dtype_t dtype; /* any */
    const void *src;
    void *values;
    int64_t *indices;
} pool_indices_t;

/* Computes maxima and indices. The first of equal maxima counts, or the last NaN. An empty window
 * has the value -infinity (integers: the lowest number) and the index -1. */
void pool_indices_run(const pool_indices_t *indices, int n_threads);

#endif
