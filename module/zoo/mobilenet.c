/* MobileNetV2 (Sandler et al., 2018): inverted residuals with depthwise convolutions. */
#include "module/zoo/zoo_impl.h"

/* Scale of the batch norm after a projection (the last 1x1 convolution of a block). No relu
 * follows, which would halve the mean square; so the scale does. */
#define PROJECTION_SCALE 0.7

static status_t forward_residual(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    flow_t branch = flow_branch(&flow);
    *n_out = 1;
    flow_child(&branch, "conv");
    flow_add(&flow, &branch);
    return flow_end(&flow, out);
}

static status_t forward_net(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "features");
    flow_pool(&flow);
    flow_flatten(&flow);
    flow_child(&flow, "classifier");
    return flow_end(&flow, out);
}

static module_t *relu6(zoo_build_t *build)
{
    module_t *module = NULL;
    if (build->status != STATUS_OK) return NULL;
    build->status = layer_activation(build->ctx, ELTWISE_CLAMP, 0, 6, &module);
    return module;
}

static module_t *conv_norm(zoo_build_t *build, const zoo_conv_t *conv)
{
    module_t *module = zoo_module(build, "Conv2dNormActivation", NULL);
    zoo_append(build, module, zoo_conv(build, conv));
    zoo_append(build, module, zoo_batch_norm(build, conv->out, ZOO_EPSILON, 1));
    zoo_append(build, module, relu6(build));
    return module;
}

static module_t *residual(zoo_build_t *build, int64_t in, int64_t out, int64_t expansion,
                          int64_t stride)
{
    bool is_residual = stride == 1 && in == out;
    int64_t hidden = in * expansion;
    zoo_conv_t expand = {.in = in, .out = hidden, .kernel = 1};
    zoo_conv_t depthwise = {
        .in = hidden, .out = hidden, .kernel = 3, .stride = stride, .padding = 1, .groups = hidden};
    zoo_conv_t project = {.in = hidden, .out = out, .kernel = 1};
    module_t *conv = zoo_sequential(build);
    if (expansion != 1) zoo_append(build, conv, conv_norm(build, &expand));
    zoo_append(build, conv, conv_norm(build, &depthwise));
    zoo_append(build, conv, zoo_conv(build, &project));
    zoo_append(
        build, conv,
        zoo_batch_norm(build, out, ZOO_EPSILON, is_residual ? ZOO_BRANCH_SCALE : PROJECTION_SCALE));
    module_t *block = zoo_module(build, "InvertedResidual", is_residual ? forward_residual : NULL);
    zoo_add(build, block, "conv", conv);
    return block;
}

static module_t *features(zoo_build_t *build)
{
    static const struct {
        int64_t expansion, width;
        int n_blocks;
        int64_t stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int64_t channels = zoo_width(build, 32);
    module_t *features = zoo_sequential(build);
    zoo_conv_t stem = {.in = 3, .out = channels, .kernel = 3, .stride = 2, .padding = 1};
    zoo_append(build, features, conv_norm(build, &stem));
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        int64_t width = zoo_width(build, stages[i].width);
        for (int j = 0; j < stages[i].n_blocks; j++) {
            int64_t stride = j == 0 ? stages[i].stride : 1;
            zoo_append(build, features,
                       residual(build, channels, width, stages[i].expansion, stride));
            channels = width;
        }
    }
    zoo_conv_t last = {.in = channels, .out = zoo_width(build, 1280), .kernel = 1};
    zoo_append(build, features, conv_norm(build, &last));
    return features;
}

module_t *zoo_build_mobilenet_v2(zoo_build_t *build)
{
    module_t *net = zoo_module(build, "MobileNetV2", forward_net);
    zoo_add(build, net, "features", features(build));
    module_t *classifier = zoo_sequential(build);
    zoo_append(build, classifier, zoo_dropout(build, 0.2));
    zoo_append(build, classifier, zoo_linear(build, zoo_width(build, 1280), build->n_classes));
    zoo_add(build, net, "classifier", classifier);
    return net;
}
