/* Convolutions with Winograd's transforms (kernels/conv/winograd/winograd_impl.h). The "size" of a
 * transform is 2, 4 or 6. For 3x3 kernels it is the side of a tile of results; for 5x5 kernels it
 * is 2 more than that. With stride 2, 3x3 kernels have sizes 2 and 4 only. */
#ifndef TESSERA_OPS_CONV_CONV_WINOGRAD_IMPL_H
#define TESSERA_OPS_CONV_CONV_WINOGRAD_IMPL_H

#include "kernels/conv/winograd/winograd_impl.h"
#include "ops/conv/conv_impl.h"

/* Kernels of conv2d, one for each size (conv_winograd.c). conv_winograd_obstacle returns why none
 * of them supports a call, or NULL if one does. */
extern const kernel_t conv_winograd_2, conv_winograd_4, conv_winograd_6;
const char *conv_winograd_obstacle(const op_call_t *call);

/* Kernels for weights that change, and for the gradient of x (conv_winograd_training.c). */
extern const kernel_t conv_winograd_training, conv_winograd_data;

/* conv_winograd_size returns the largest size that `algorithm` allows, or 0. conv_winograd_is_exact
 * returns true if it allows only this size. */
int conv_winograd_size(int algorithm);
bool conv_winograd_is_exact(int algorithm);

/* Side of a tile of results, or 0 if there is no such transform. */
int conv_winograd_tile(int64_t kernel, int64_t stride, int size);

/* True if transforms of this size support the shape of the convolution. */
bool conv_winograd_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups, int size);

/* True if some window contains only padding. Its result must be exactly 0, but in the transforms it
 * would get rounding errors of other results of its tile. */
bool conv_winograd_has_empty_window(const tensor_info_t *src, const tensor_info_t *weight,
                                    const tensor_info_t *dst, const int64_t *stride,
                                    const int64_t *padding);
#define CONV_WINOGRAD_EMPTY_WINDOW "a window contains only padding, which needs direct sums"

/* True if transforms of this size multiply a weight of this dtype as pairs of bf16. */
bool conv_winograd_is_in_pairs(const tensor_info_t *weight, int size);

/* Describes a call from src to dst, without padding, bias, addend and activation. */
winograd_t conv_winograd_describe(const tensor_info_t *src, const tensor_info_t *weight,
                                  const tensor_info_t *dst, int64_t stride, int size);

/* Estimated time of a call, in nanoseconds. */
double conv_winograd_estimate(const context_t *ctx, const winograd_t *w, isa_t isa);

/* True if the result is so large that it should be stored without using the caches. */
bool conv_winograd_streams(const tensor_info_t *result);

/* Writes a name such as "winograd_4x4:avx2" or "winograd_4x4_stride_2:avx2". */
#define CONV_WINOGRAD_NAME_MAX 48
void conv_winograd_name(isa_t isa, const winograd_t *w, char *out);

/* Accepts post-ops that are at most one sum or addition of a tensor of the result's sizes, then at
 * most one function; otherwise declines. *out_addend becomes the index of the added input, or
 * -1. */
status_t conv_winograd_take_post(const op_call_t *call, prepared_t *prepared, winograd_t *winograd,
                                 int *out_addend);

/* Measures the error of a tile size for a weight [K][C][3][3] or [K][C][5][5]: the largest
 * difference from sums in double, divided by the largest sum, for x in [-1, 1). `bytes` is the
 * weight, row-major f32. If the weight's dtype is bf16, the kernel for bf16 is measured. */
status_t conv_winograd_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int64_t stride, int size, double *out_error);

/* Error of any convolution of bf16, relative to the largest result: 2^-8 from rounding x and 2^-8
 * from rounding the result. */
#define CONV_WINOGRAD_BF16_ERROR 0x1p-7

/* Measures the error of size 2 for bf16 with products in pairs. *out_error is 0 if this kernel does
 * not support the shape. `bytes` is the weight, row-major f32. */
status_t conv_winograd_pairs_error(context_t *ctx, const conv_attrs_t *attrs,
                                   const tensor_info_t *weight, const float *bytes,
                                   double *out_error);

/* Measures the error of tiles with this side, also for weights [K][C][4][4]. */
status_t conv_winograd_tile_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                                  int64_t stride, int tile, double *out_error);

/* ---- stride 2 and few channels: conv_parities.c ---- */

extern const kernel_t conv_parities;
bool conv_parities_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups);

/* Side of a tile for a weight that fits, or 0 if there is no such transform. */
int conv_parities_tile(const tensor_info_t *weight, int size);
status_t conv_parities_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int size, double *out_error);

#endif
