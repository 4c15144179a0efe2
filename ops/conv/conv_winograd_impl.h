/* Convolutions by Winograd's transforms (kernels/conv/winograd_impl.h). A transform has size 2, 4
 * or 6: the side of a tile of results for 3x3 kernels, 2 more than the side for 5x5. With stride 2,
 * 3x3 kernels have sizes 2 and 4. */
#ifndef TESSERA_OPS_CONV_CONV_WINOGRAD_IMPL_H
#define TESSERA_OPS_CONV_CONV_WINOGRAD_IMPL_H

#include "kernels/conv/winograd_impl.h"
#include "ops/conv/conv_impl.h"

/* Kernels of conv2d by size, and the reason why none of them supports a call (NULL: one does), both
 * in conv_winograd.c. */
extern const kernel_t conv_winograd_2, conv_winograd_4, conv_winograd_6;
const char *conv_winograd_obstacle(const op_call_t *call);

/* Kernels for weights that change, and for the gradient of the source: conv_winograd_training.c. */
extern const kernel_t conv_winograd_training, conv_winograd_data;

/* The largest size that `algorithm` allows, or 0; and true if it allows only this one. */
int conv_winograd_size(int algorithm);
bool conv_winograd_is_exact(int algorithm);

/* Side of a tile of results; 0: there is no such transform. */
int conv_winograd_tile(int64_t kernel, int64_t stride, int size);

/* True if transforms of this size support the shape of the convolution. */
bool conv_winograd_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups, int size);

/* True if some window contains only padding. Its result must be exactly zero, but transforms of a
 * tile add rounding errors of the other results. */
bool conv_winograd_has_empty_window(const tensor_info_t *src, const tensor_info_t *weight,
                                    const tensor_info_t *dst, const int64_t *stride,
                                    const int64_t *padding);
#define CONV_WINOGRAD_EMPTY_WINDOW "a window contains only padding, which needs direct sums"

/* True if this size multiplies the weight in pairs of bf16. */
bool conv_winograd_is_in_pairs(const tensor_info_t *weight, int size);

/* Describes a call from src to dst, without padding, bias, addition and function. */
winograd_t conv_winograd_describe(const tensor_info_t *src, const tensor_info_t *weight,
                                  const tensor_info_t *dst, int64_t stride, int size);

/* Estimated time of a call, in nanoseconds. */
double conv_winograd_estimate(const context_t *ctx, const winograd_t *w, isa_t isa);

/* True if the result is large enough to be stored past the caches. */
bool conv_winograd_streams(const tensor_info_t *result);

/* "winograd_4x4:avx2", "winograd_4x4_stride_2:avx2". */
const char *conv_winograd_name(isa_t isa, const winograd_t *w);

/* Accepts one sum, or addition of a tensor of the result's sizes, followed by one function;
 * declines other post-ops. *out_addend is the index of the added input, or -1. */
status_t conv_winograd_take_post(const op_call_t *call, prepared_t *prepared, winograd_t *winograd,
                                 int *out_addend);

/* Error of a size for a weight [K][C][3][3] or [K][C][5][5]: the largest difference from sums in
 * double, divided by the largest sum, for sources in [-1, 1). bytes: row-major f32. The dtype of
 * the weight determines whether products are those of bf16. */
status_t conv_winograd_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int64_t stride, int size, double *out_error);

/* Error that rounding causes in any convolution of bf16, relative to the largest result: 2^-8 for
 * sources and 2^-8 for results. */
#define CONV_WINOGRAD_BF16_ERROR 0x1p-7

/* Error of size 2 of bf16 with products in pairs; 0 if it does not support the shape. bytes:
 * row-major f32. */
status_t conv_winograd_pairs_error(context_t *ctx, const conv_attrs_t *attrs,
                                   const tensor_info_t *weight, const float *bytes,
                                   double *out_error);

/* Error of a tile with this side, also for [K][C][4][4]. */
status_t conv_winograd_tile_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                                  int64_t stride, int tile, double *out_error);

/* ---- stride 2, few channels, by parities: conv_parities.c ---- */

extern const kernel_t conv_parities;
bool conv_parities_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups);

/* Side of a tile, for a weight that fits; 0: there is no such transform. */
int conv_parities_tile(const tensor_info_t *weight, int size);
status_t conv_parities_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int size, double *out_error);

#endif
