/* Convolutions by winograd's transforms: see kernels/conv/winograd_impl.h. A transform has a size,
 * 2, 4 or 6: that of tiles of results with kernels of 3 by 3, and 2 more than that with 5 by 5.
 * With stride 2 there are 2 and 4 for 3 by 3. */
#ifndef TESSERA_OPS_CONV_CONV_WINOGRAD_IMPL_H
#define TESSERA_OPS_CONV_CONV_WINOGRAD_IMPL_H

#include "kernels/conv/winograd_impl.h"
#include "ops/conv/conv_impl.h"

/* The kernels of conv2d by size, and why none is for a call, whatever it would cost; NULL: some is.
 * In conv_winograd.c. */
extern const kernel_t conv_winograd_2, conv_winograd_4, conv_winograd_6;
const char *conv_winograd_obstacle(const op_call_t *call);

/* Those for weights that change, and for the gradient of the source: conv_winograd_training.c. */
extern const kernel_t conv_winograd_training, conv_winograd_data;

/* The largest size that `algorithm` allows, or 0, and whether none else will do. */
int conv_winograd_size(int algorithm);
bool conv_winograd_is_exact(int algorithm);

/* Results in a row of a tile; 0: there is no such transform. */
int conv_winograd_tile(int64_t kernel, int64_t stride, int size);

/* Whether a convolution of this weight is of a shape that a size does. */
bool conv_winograd_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups, int size);

/* Whether a window lies in the padding alone. Its result is zero, but a tile that has others, too,
 * leaves their rounding errors there. */
bool conv_winograd_has_empty_window(const tensor_info_t *src, const tensor_info_t *weight,
                                    const tensor_info_t *dst, const int64_t *stride,
                                    const int64_t *padding);
#define CONV_WINOGRAD_EMPTY_WINDOW "windows that lie in the padding alone are left to sums"

/* Whether a size multiplies this weight in pairs of bf16. */
bool conv_winograd_is_in_pairs(const tensor_info_t *weight, int size);

/* What reads src and makes dst, from (0, 0) on, without bias, addition or function. */
winograd_t conv_winograd_describe(const tensor_info_t *src, const tensor_info_t *weight,
                                  const tensor_info_t *dst, int64_t stride, int size);

double conv_winograd_estimate(const context_t *ctx, const winograd_t *w, isa_t isa);

/* Whether the result is to be written past the caches. */
bool conv_winograd_streams(const tensor_info_t *result);

/* "winograd_4x4:avx2", "winograd_4x4_stride_2:avx2". */
const char *conv_winograd_name(isa_t isa, const winograd_t *w);

/* Takes a sum, or an addition of what has the result's sizes, and then one function, or declines.
 * *out_addend is the input that is added, or -1. */
status_t conv_winograd_take_post(const op_call_t *call, prepared_t *prepared, winograd_t *winograd,
                                 int *out_addend);

/* What a size loses with a weight [K][C][3][3] or [K][C][5][5] of f32: the largest difference to
 * sums in double over the largest sum, on sources of [-1, 1). Elements lie row-major, in f32; what
 * the weight is of says whether products are those of bf16. */
status_t conv_winograd_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int64_t stride, int size, double *out_error);

/* What rounding loses anyway in a convolution of bf16, of the largest result: 2^-8 for sources and
 * 2^-8 for results. */
#define CONV_WINOGRAD_BF16_ERROR 0x1p-7

/* What size 2 loses in a convolution of bf16 by its products in pairs; 0: it does not fit. The
 * weight lies row-major, in f32. */
status_t conv_winograd_pairs_error(context_t *ctx, const conv_attrs_t *attrs,
                                   const tensor_info_t *weight, const float *bytes,
                                   double *out_error);

/* The same with tiles of so many results in a row, also of [K][C][4][4]. */
status_t conv_winograd_tile_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                                  int64_t stride, int tile, double *out_error);

/* ---- of stride 2, over few channels, by parities: conv_parities.c ---- */

extern const kernel_t conv_parities;
bool conv_parities_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups);

/* Of a weight that fits; 0: there is no such transform. */
int conv_parities_tile(const tensor_info_t *weight, int size);
status_t conv_parities_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int size, double *out_error);

#endif
