#include "module/zoo/zoo_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

int64_t zoo_width(const zoo_build_t *build, int64_t width)
{
    if (build->divide == 1) return width;
    int64_t divided = width / build->divide / 8 * 8;
    return divided > 8 ? divided : 8;
}

/* Every constructor returns the result of settle, which stores the first failure. `module` is a
 * pointer because callers set *module in the argument `status`, and C does not say which argument
 * is evaluated first. */
static module_t *settle(zoo_build_t *build, status_t status, module_t *const *module)
{
    if (build->status == STATUS_OK) build->status = status;
    if (status == STATUS_OK) return *module;
    module_release(*module);
    return NULL;
}

module_t *zoo_module(zoo_build_t *build, const char *type, forward_t forward)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    status_t status = module_create(build->ctx, type, &module);
    if (status == STATUS_OK)
        status = module_set_forward(build->ctx, module, "forward",
                                    forward != NULL ? forward : layer_forward_children);
    return settle(build, status, &module);
}

module_t *zoo_sequential(zoo_build_t *build)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    return settle(build, layer_sequential(build->ctx, &module), &module);
}

void zoo_add(zoo_build_t *build, module_t *module, const char *name, module_t *child)
{
    if (build->status != STATUS_OK)
        module_release(child);
    else
        build->status = layer_child_take(build->ctx, module, name, child);
}

void zoo_append(zoo_build_t *build, module_t *sequential, module_t *child)
{
    if (build->status != STATUS_OK)
        module_release(child);
    else
        build->status = layer_append_take(build->ctx, sequential, child);
}

module_t *zoo_conv(zoo_build_t *build, const zoo_conv_t *conv)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    conv_attrs_t attrs = {.stride = {conv->stride, conv->stride},
                          .padding = {conv->padding, conv->padding},
                          .groups = conv->groups};
    status_t status = layer_conv2d(build->ctx, conv->in, conv->out, conv->kernel, &attrs,
                                   conv->has_bias, &module);
    return settle(build, status, &module);
}

module_t *zoo_linear(zoo_build_t *build, int64_t in, int64_t out)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    return settle(build, layer_linear(build->ctx, in, out, true, &module), &module);
}

module_t *zoo_batch_norm(zoo_build_t *build, int64_t channels, double epsilon, double scale)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    status_t status = layer_batch_norm(build->ctx, channels, epsilon, &module);
    if (status == STATUS_OK && scale != 1)
        status = layer_fill(build->ctx, module_parameter(module, "weight"), FILL_UNIFORM,
                            0.5 * scale, 1.5 * scale);
    return settle(build, status, &module);
}

module_t *zoo_relu(zoo_build_t *build)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    return settle(build, layer_activation(build->ctx, ELTWISE_RELU, 0, 0, &module), &module);
}

module_t *zoo_dropout(zoo_build_t *build, double p)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    return settle(build, layer_dropout(build->ctx, p, &module), &module);
}

module_t *zoo_max_pool(zoo_build_t *build, int64_t kernel, int64_t stride, int64_t padding,
                       bool ceil_mode)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    pool_attrs_t attrs = {.kernel = {kernel, kernel},
                          .stride = {stride, stride},
                          .padding = {padding, padding},
                          .ceil_mode = ceil_mode};
    return settle(build, layer_max_pool2d(build->ctx, &attrs, &module), &module);
}

module_t *zoo_adaptive_pool(zoo_build_t *build, int64_t size)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    return settle(build, layer_adaptive_avg_pool2d(build->ctx, size, size, &module), &module);
}

module_t *zoo_done(zoo_build_t *build, module_t *net)
{
    if (build->status == STATUS_OK) return net;
    module_release(net);
    return NULL;
}

status_t zoo_forward_features(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "features");
    flow_child(&flow, "avgpool");
    flow_flatten(&flow);
    flow_child(&flow, "classifier");
    return flow_end(&flow, out);
}
