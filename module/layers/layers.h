/* Layers with torch.nn's parameter names.
 *
 * Every constructor returns a module whose `forward` takes one tensor and returns one. Initial
 * weights are random numbers from the context's generator; convolutions use He initialisation. */
#ifndef TESSERA_MODULE_LAYERS_LAYERS_H
#define TESSERA_MODULE_LAYERS_LAYERS_H

#include "module/module.h"
#include "ops/ops.h"

/* Parameters weight [K][C/G][..kernel..] and, if has_bias, bias [K]. n_spatial is 1 to 3; kernel
 * has one size for each spatial dimension. attrs may be NULL, as in ops.h. */
status_t layer_conv(context_t *ctx, int n_spatial, int64_t in_channels, int64_t out_channels,
                    const int64_t *kernel, const conv_attrs_t *attrs, bool has_bias,
                    module_t **out_module) TESSERA_API(layer_conv);
/* layer_conv with 2 spatial dimensions and a square kernel. */
status_t layer_conv2d(context_t *ctx, int64_t in_channels, int64_t out_channels, int64_t kernel,
                      const conv_attrs_t *attrs, bool has_bias, module_t **out_module)
    TESSERA_API(layer_conv2d);

/* Parameters weight [out][in] and, if has_bias, bias [out]. */
status_t layer_linear(context_t *ctx, int64_t in_features, int64_t out_features, bool has_bias,
                      module_t **out_module) TESSERA_API(layer_linear);

/* Parameters weight and bias, buffers running_mean and running_var, all [channels], and the counter
 * num_batches_tracked. In training mode, the layer normalizes with the statistics of the batch,
 * then updates the running statistics. Attribute `momentum` is the weight of the new batch in this
 * update (0.1 if it is absent); if it is None, the running statistics are means over all
 * batches. */
status_t layer_batch_norm(context_t *ctx, int64_t channels, double epsilon, module_t **out_module)
    TESSERA_API(layer_batch_norm);

status_t layer_max_pool2d(context_t *ctx, const pool_attrs_t *attrs, module_t **out_module)
    TESSERA_API(layer_max_pool2d);
status_t layer_avg_pool2d(context_t *ctx, const pool_attrs_t *attrs, module_t **out_module)
    TESSERA_API(layer_avg_pool2d);
status_t layer_adaptive_avg_pool2d(context_t *ctx, int64_t height, int64_t width,
                                   module_t **out_module) TESSERA_API(layer_adaptive_avg_pool2d);
/* Applies a function to each element. dispatch/eltwise.h lists the functions, with the meaning of
 * alpha and beta. */
status_t layer_activation(context_t *ctx, eltwise_t eltwise, double alpha, double beta,
                          module_t **out_module) TESSERA_API(layer_activation);
status_t layer_flatten(context_t *ctx, int64_t start_dim, int64_t end_dim, module_t **out_module)
    TESSERA_API(layer_flatten);
/* Dropout, AlphaDropout, and Dropout1d to Dropout3d (layer_feature_dropout). They return x if the
 * module is not in training mode. In training mode, AlphaDropout fails with UNSUPPORTED. */
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
/* Parameter weight [num_parameters], filled with init. num_parameters is 1, or the number of
 * channels. torch's defaults are num_parameters 1 and init 0.25. */
status_t layer_prelu(context_t *ctx, int64_t num_parameters, double init, module_t **out_module)
    TESSERA_API(layer_prelu);
/* Splits one dimension into n dimensions; one of the sizes may be -1. */
status_t layer_unflatten(context_t *ctx, int64_t dim, int n, const int64_t *unflattened_size,
                         module_t **out_module) TESSERA_API(layer_unflatten);

/* Layers that convert the layout. Layers between a layer_dense_to_mkldnn and a
 * layer_mkldnn_to_dense run in mkldnn layouts. */
status_t layer_dense_to_mkldnn(context_t *ctx, module_t **out_module)
    TESSERA_API(layer_dense_to_mkldnn);
status_t layer_mkldnn_to_dense(context_t *ctx, module_t **out_module)
    TESSERA_API(layer_mkldnn_to_dense);

/* A Sequential runs its children in order. layer_append_take takes ownership of the child, also on
 * failure, and names it "0", "1" and so on. A child may be NULL if its constructor failed; then
 * layer_append_take returns that failure (the first error of the context). */
status_t layer_sequential(context_t *ctx, module_t **out_module) TESSERA_API(layer_sequential);
status_t layer_append_take(context_t *ctx, module_t *sequential, module_t *child)
    TESSERA_API(layer_append_take);

#endif
