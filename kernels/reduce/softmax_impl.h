/* Softmax, its logarithm and their gradients, over one dimension.
 *
 * This folder holds the loops of ops/reduce. */
#ifndef TESSERA_KERNELS_REDUCE_SOFTMAX_IMPL_H
#define TESSERA_KERNELS_REDUCE_SOFTMAX_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "tensor/dtype.h"

/* Tensors are [outer][n][inner] in memory; softmax is over n. */
typedef struct softmax {
    bool is_logarithm;
    dtype_t dtype; /* any floating dtype */
    int64_t outer, n, inner;
} softmax_t;

/* Computes softmax of x, or its logarithm. out must not overlap x. */
void softmax_forward(const softmax_t *softmax, isa_t isa, int n_threads, const void *x, void *out);

/* Computes the gradient of x. y is the result of softmax_forward, grad its gradient. out may be y
 * or grad. */
void softmax_backward(const softmax_t *softmax, isa_t isa, int n_threads, const void *y,
                      const void *grad, void *out);

/* Fills each row of out, f32 or bf16, with NaN if it contains a NaN. inner is 1. */
void softmax_spread_nan(const softmax_t *softmax, isa_t isa, int n_threads, void *out);

/* dst[i] = exp(src[i] - largest element of src). Returns their sum. dst may be src. */
float softmax_exponentials(isa_t isa, int64_t n, const float *src, float *dst, float *out_largest);

#define SOFTMAX_COLUMNS 64 /* columns processed at a time */

/* Loops of one ISA. A row has n adjacent elements; a column has n elements, `inner` apart. */
typedef struct softmax_loops {
    float (*exponentials)(int64_t n, const float *src, float *dst, float *out_largest);
    void (*row)(bool is_logarithm, int64_t n, const float *src, float *dst);
    void (*columns)(bool is_logarithm, int64_t n, int64_t inner, int64_t width, const float *src,
                    float *dst);
    void (*row_gradient)(bool is_logarithm, int64_t n, const float *y, const float *grad,
                         float *dst);
    void (*column_gradients)(bool is_logarithm, int64_t n, int64_t inner, int64_t width,
                             const float *y, const float *grad, float *dst);
    void (*spread_nan_f32)(int64_t n, float *row);
    void (*spread_nan_bf16)(int64_t n, uint16_t *row);
} softmax_loops_t;
ISA_EXTERN(const softmax_loops_t, softmax);

#endif
