/* Layers over spatial dimensions: transposed convolution, pooling, upsampling, pixel shuffle,
 * padding. See layers.h. n_spatial, 1 to 3, counts the dimensions after batch and channels. */
#ifndef TESSERA_MODULE_LAYERS_SPATIAL_H
#define TESSERA_MODULE_LAYERS_SPATIAL_H

#include "module/layers/layers.h"

/* ConvTranspose1d to 3d: parameters weight [C][K/G][..kernel..] and, if has_bias, bias [K]. kernel
 * has one size for each dimension. attrs may be NULL, as in ops.h. */
status_t layer_conv_transpose(context_t *ctx, int n_spatial, int64_t in_channels,
                              int64_t out_channels, const int64_t *kernel,
                              const conv_transpose_attrs_t *attrs, bool has_bias,
                              module_t **out_module) TESSERA_API(layer_conv_transpose);

/* MaxPool1d to 3d, AvgPool1d to 3d. In zero-initialised attrs, count_include_pad is false; the
 * default of torch.nn.AvgPool2d is true. */
status_t layer_max_pool(context_t *ctx, int n_spatial, const pool_attrs_t *attrs,
                        module_t **out_module) TESSERA_API(layer_max_pool);
status_t layer_avg_pool(context_t *ctx, int n_spatial, const pool_attrs_t *attrs,
                        module_t **out_module) TESSERA_API(layer_avg_pool);

/* AdaptiveAvgPool1d to 3d, AdaptiveMaxPool1d to 3d. output_size has one size for each dimension. */
status_t layer_adaptive_avg_pool(context_t *ctx, int n_spatial, const int64_t *output_size,
                                 module_t **out_module) TESSERA_API(layer_adaptive_avg_pool);
status_t layer_adaptive_max_pool(context_t *ctx, int n_spatial, const int64_t *output_size,
                                 module_t **out_module) TESSERA_API(layer_adaptive_max_pool);

/* Set either size or scale_factor. If only the first number of an array is set, it holds for all
 * dimensions. */
typedef struct upsample_attrs {
    int64_t size[3];
    double scale_factor[3]; /* a size of 5 becomes floor(5 * scale_factor) */
    resize_mode_t mode;     /* nearest, or linear (torch's "linear", "bilinear" or "trilinear") */
    bool align_corners;     /* not for nearest */
} upsample_attrs_t;

/* Upsample of x [N][C][..] with 1 to 3 spatial dimensions. */
status_t layer_upsample(context_t *ctx, const upsample_attrs_t *attrs, module_t **out_module)
    TESSERA_API(layer_upsample);

status_t layer_pixel_shuffle(context_t *ctx, int64_t upscale_factor, module_t **out_module)
    TESSERA_API(layer_pixel_shuffle);
status_t layer_pixel_unshuffle(context_t *ctx, int64_t downscale_factor, module_t **out_module)
    TESSERA_API(layer_pixel_unshuffle);

/* ZeroPad1d to 3d, ConstantPad, ReflectionPad, ReplicationPad, CircularPad. padding has 2 *
 * n_spatial numbers, the last dimension first, as in torch: left, right, top, bottom. Only
 * PAD_CONSTANT uses value. */
status_t layer_pad(context_t *ctx, int n_spatial, const int64_t *padding, pad_mode_t mode,
                   double value, module_t **out_module) TESSERA_API(layer_pad);

#endif
