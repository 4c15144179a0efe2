/* Convolutions of any kind, element by element, with sums in double, for dtypes, layouts and sizes
 * that no fast kernel supports. Tensors are row-major without gaps and have three spatial
 * dimensions; missing ones have size 1.
 *
 * The folder kernels/conv contains the loops of convolutions: direct, depthwise, transposed; in
 * kernels/conv/winograd with Winograd's transforms; and the folding of a norm into their weights.
 */
#ifndef TESSERA_KERNELS_CONV_PLANES_IMPL_H
#define TESSERA_KERNELS_CONV_PLANES_IMPL_H

#include <stdint.h>

#include "tensor/dtype.h"

typedef struct planes {
    dtype_t dtype; /* dtype of x, weight and result; floating */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], padding[3];
    int64_t channels, outputs, groups;         /* C, K, G */
    int64_t in_plane, out_plane, kernel_plane; /* number of elements */
    int64_t group_channels, group_outputs;     /* C/G, K/G */
} planes_t;

/* Computes the element of output channel k at position out[], without bias. x points to the first
 * channel of k's group in one image; weight points to the complete weight. */
typedef double planes_window_t(const planes_t *planes, const char *x, const char *weight, int64_t k,
                               const int64_t *out);

/* The window of a convolution, with weight [K][C/G].. */
planes_window_t planes_direct;

/* The window of a transposed convolution, with weight [C][K/G].. It sums x[(out + padding - r
 * dilation) / stride] over all r for which the division is exact. */
planes_window_t planes_transposed;

/* out[n][k][..] = bias[k] + window(..), for all images; bias may be NULL. */
void planes_windows(const planes_t *planes, planes_window_t *window, int64_t n_images,
                    const void *x, const void *weight, dtype_t bias_dtype, const void *bias,
                    void *out, int n_threads);

/* Gradient of the weight [K][C/G].. of a convolution: out[k][c][..] is the sum of x times grad over
 * all images and positions. grad is the gradient of the result. */
void planes_weight_gradient(const planes_t *planes, int64_t n_images, const void *x,
                            const void *grad, void *out, int n_threads);

/* Gradient of the bias: out[k] = sum of grad over images and planes. */
void planes_bias_gradient(const planes_t *planes, int64_t n_images, const void *grad, void *out,
                          int n_threads);

/* Normalizes and clamps n_images * n_channels planes of `plane` floats: out = min(max(x * scale[c]
 * + shift[c], lowest), highest). NaN stays NaN. */
void planes_norm(int64_t n_images, int64_t n_channels, int64_t plane, const float *x,
                 const float *scale, const float *shift, float lowest, float highest, float *out,
                 int n_threads);

#endif
