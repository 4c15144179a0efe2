/* Layers, with torch.nn's names for parameters, and seeded He initialisation.
 *
 * Every constructor gives a module with a `forward` of one tensor in and one out. Weights come from
 * the context's random numbers. */
#ifndef TESSERA_MODULE_LAYERS_H
#define TESSERA_MODULE_LAYERS_H

#include "module/module.h"
#include "ops/ops.h"

TESSERA_BEGIN

/* weight [K][C/G][..kernel..] and, if has_bias, bias [K]; rank 1 to 3 spatial dimensions, kernel
 * one size for each. attrs NULL as in ops.h. */
status_t layer_conv(context_t *ctx, int n_spatial, int64_t in_channels, int64_t out_channels,
                    const int64_t *kernel, const conv_attrs_t *attrs, bool has_bias,
                    module_t **out_module) TESSERA_API(layer_conv);
/* The usual case: square kernel, 2 spatial dimensions. */
status_t layer_conv2d(context_t *ctx, int64_t in_channels, int64_t out_channels, int64_t kernel,
                      const conv_attrs_t *attrs, bool has_bias, module_t **out_module)
    TESSERA_API(layer_conv2d);

/* weight [out][in], bias [out]. */
status_t layer_linear(context_t *ctx, int64_t in_features, int64_t out_features, bool has_bias,
                      module_t **out_module) TESSERA_API(layer_linear);

/* weight, bias, running_mean, running_var, all [channels], and num_batches_tracked. */
status_t layer_batch_norm(context_t *ctx, int64_t channels, double epsilon, module_t **out_module)
    TESSERA_API(layer_batch_norm);

status_t layer_max_pool2d(context_t *ctx, const pool_attrs_t *attrs, module_t **out_module)
    TESSERA_API(layer_max_pool2d);
status_t layer_avg_pool2d(context_t *ctx, const pool_attrs_t *attrs, module_t **out_module)
    TESSERA_API(layer_avg_pool2d);
status_t layer_adaptive_avg_pool2d(context_t *ctx, int64_t height, int64_t width,
                                   module_t **out_module) TESSERA_API(layer_adaptive_avg_pool2d);
/* One of the elementwise functions; alpha and beta as in attrs.h. */
status_t layer_activation(context_t *ctx, eltwise_t eltwise, double alpha, double beta,
                          module_t **out_module) TESSERA_API(layer_activation);
status_t layer_flatten(context_t *ctx, int64_t start_dim, int64_t end_dim, module_t **out_module)
    TESSERA_API(layer_flatten);
status_t layer_dropout(context_t *ctx, double p, module_t **out_module) TESSERA_API(layer_dropout);

/* The transitions as layers, for marking a stretch of a model by hand. */
status_t layer_dense_to_mkldnn(context_t *ctx, module_t **out_module)
    TESSERA_API(layer_dense_to_mkldnn);
status_t layer_mkldnn_to_dense(context_t *ctx, module_t **out_module)
    TESSERA_API(layer_mkldnn_to_dense);

/* Runs its children in order. layer_append names the child by its number and takes it over, also on
 * failure; a NULL child passes on the context's failure. */
status_t layer_sequential(context_t *ctx, module_t **out_module) TESSERA_API(layer_sequential);
status_t layer_append_take(context_t *ctx, module_t *sequential, module_t *child)
    TESSERA_API(layer_append_take);

TESSERA_END

#endif
