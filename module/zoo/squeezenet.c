/* SqueezeNet 1.1 (Iandola et al., 2016): a "fire" module reduces the channels with a 1x1
 * convolution, then expands them with a 1x1 and a 3x3 convolution. */
#include "module/zoo/zoo_impl.h"

static status_t forward_fire(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "squeeze");
    flow_child(&flow, "squeeze_activation");
    flow_t branches[] = {flow_branch(&flow), flow_branch(&flow)};
    flow_child(&branches[0], "expand1x1");
    flow_child(&branches[0], "expand1x1_activation");
    flow_child(&branches[1], "expand3x3");
    flow_child(&branches[1], "expand3x3_activation");
    flow_concat(&flow, 2, branches);
    return flow_end(&flow, out);
}

static status_t forward_net(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "features");
    flow_child(&flow, "classifier");
    flow_flatten(&flow);
    return flow_end(&flow, out);
}

static void fire(zoo_build_t *build, module_t *features, int64_t *channels, int64_t squeeze_width,
                 int64_t expand_width)
{
    int64_t width = zoo_width(build, squeeze_width), half = zoo_width(build, expand_width);
    zoo_conv_t squeeze = {.in = *channels, .out = width, .kernel = 1, .has_bias = true};
    zoo_conv_t expand1x1 = {.in = width, .out = half, .kernel = 1, .has_bias = true};
    zoo_conv_t expand3x3 = {.in = width, .out = half, .kernel = 3, .padding = 1, .has_bias = true};
    module_t *fire = zoo_module(build, "Fire", forward_fire);
    zoo_add(build, fire, "squeeze", zoo_conv(build, &squeeze));
    zoo_add(build, fire, "squeeze_activation", zoo_relu(build));
    zoo_add(build, fire, "expand1x1", zoo_conv(build, &expand1x1));
    zoo_add(build, fire, "expand1x1_activation", zoo_relu(build));
    zoo_add(build, fire, "expand3x3", zoo_conv(build, &expand3x3));
    zoo_add(build, fire, "expand3x3_activation", zoo_relu(build));
    zoo_append(build, features, fire);
    *channels = 2 * half;
}

static module_t *features(zoo_build_t *build, int64_t *channels)
{
    module_t *features = zoo_sequential(build);
    *channels = zoo_width(build, 64);
    zoo_conv_t stem = {.in = 3, .out = *channels, .kernel = 3, .stride = 2, .has_bias = true};
    zoo_append(build, features, zoo_conv(build, &stem));
    zoo_append(build, features, zoo_relu(build));
    zoo_append(build, features, zoo_max_pool(build, 3, 2, 0, true));
    fire(build, features, channels, 16, 64);
    fire(build, features, channels, 16, 64);
    zoo_append(build, features, zoo_max_pool(build, 3, 2, 0, true));
    fire(build, features, channels, 32, 128);
    fire(build, features, channels, 32, 128);
    zoo_append(build, features, zoo_max_pool(build, 3, 2, 0, true));
    fire(build, features, channels, 48, 192);
    fire(build, features, channels, 48, 192);
    fire(build, features, channels, 64, 256);
    fire(build, features, channels, 64, 256);
    return features;
}

module_t *zoo_build_squeezenet1_1(zoo_build_t *build)
{
    int64_t channels = 0;
    module_t *net = zoo_module(build, "SqueezeNet", forward_net);
    zoo_add(build, net, "features", features(build, &channels));
    module_t *classifier = zoo_sequential(build);
    zoo_conv_t conv = {.in = channels, .out = build->n_classes, .kernel = 1, .has_bias = true};
    zoo_append(build, classifier, zoo_dropout(build, 0.5));
    zoo_append(build, classifier, zoo_conv(build, &conv));
    zoo_append(build, classifier, zoo_relu(build));
    zoo_append(build, classifier, zoo_adaptive_pool(build, 1));
    zoo_add(build, net, "classifier", classifier);
    return net;
}
