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

/* weight, bias, running_mean, running_var, all [channels], and num_batches_tracked. In training the
 * batch is its own statistics, and the running ones follow by attribute `momentum`: 0.1 where it is
 * not there; None makes them means over all batches. */
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
/* Dropout, AlphaDropout, Dropout1d to 3d: they run in inference only, and give x. */
status_t layer_dropout(context_t *ctx, double p, module_t **out_module) TESSERA_API(layer_dropout);
status_t layer_alpha_dropout(context_t *ctx, double p, module_t **out_module)
    TESSERA_API(layer_alpha_dropout);
status_t layer_feature_dropout(context_t *ctx, int n_spatial, double p, module_t **out_module)
    TESSERA_API(layer_feature_dropout);

status_t layer_identity(context_t *ctx, module_t **out_module) TESSERA_API(layer_identity);
status_t layer_softsign(context_t *ctx, module_t **out_module) TESSERA_API(layer_softsign);
status_t layer_log_sigmoid(context_t *ctx, module_t **out_module) TESSERA_API(layer_log_sigmoid);
status_t layer_softmax(context_t *ctx, int64_t dim, module_t **out_module)
    TESSERA_API(layer_softmax);
status_t layer_log_softmax(context_t *ctx, int64_t dim, module_t **out_module)
    TESSERA_API(layer_log_softmax);
/* weight [num_parameters], all init: 1, or one for each channel. torch's own are 1 and 0.25. */
status_t layer_prelu(context_t *ctx, int64_t num_parameters, double init, module_t **out_module)
    TESSERA_API(layer_prelu);
/* One dimension as n; one size may be -1. */
status_t layer_unflatten(context_t *ctx, int64_t dim, int n, const int64_t *unflattened_size,
                         module_t **out_module) TESSERA_API(layer_unflatten);

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
