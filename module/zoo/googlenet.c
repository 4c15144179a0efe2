/* GoogLeNet with batch norm (Szegedy et al., 2014), as in torchvision for inference: without
 * auxiliary classifiers, and with 3x3 convolutions instead of the paper's 5x5. */
#include "module/zoo/zoo_impl.h"

#define EPSILON 1e-3

/* Output channels of the four branches. reduce3 and reduce5 are the channels between the 1x1 and
 * the 3x3 convolution of the second and third branch. */
typedef struct inception {
    const char *name;
    int64_t one, reduce3, three, reduce5, five, pool;
} inception_t;

static const inception_t inceptions[] = {
    {"inception3a", 64, 96, 128, 16, 32, 32},     {"inception3b", 128, 128, 192, 32, 96, 64},
    {"inception4a", 192, 96, 208, 16, 48, 64},    {"inception4b", 160, 112, 224, 24, 64, 64},
    {"inception4c", 128, 128, 256, 24, 64, 64},   {"inception4d", 112, 144, 288, 32, 64, 64},
    {"inception4e", 256, 160, 320, 32, 128, 128}, {"inception5a", 256, 160, 320, 32, 128, 128},
    {"inception5b", 384, 192, 384, 48, 128, 128},
};

static status_t forward_conv(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "conv");
    flow_child(&flow, "bn");
    flow_relu(&flow);
    return flow_end(&flow, out);
}

static status_t forward_inception(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    flow_t branches[] = {flow_branch(&flow), flow_branch(&flow), flow_branch(&flow),
                         flow_branch(&flow)};
    *n_out = 1;
    flow_child(&branches[0], "branch1");
    flow_child(&branches[1], "branch2");
    flow_child(&branches[2], "branch3");
    flow_child(&branches[3], "branch4");
    flow_concat(&flow, 4, branches);
    return flow_end(&flow, out);
}

static status_t forward_net(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    static const char *const before[] = {
        "conv1",       "maxpool1", "conv2",       "conv3",       "maxpool2",    "inception3a",
        "inception3b", "maxpool3", "inception4a", "inception4b", "inception4c", "inception4d",
        "inception4e", "maxpool4", "inception5a", "inception5b", "avgpool"};
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) flow_child(&flow, before[i]);
    flow_flatten(&flow);
    flow_child(&flow, "dropout");
    flow_child(&flow, "fc");
    return flow_end(&flow, out);
}

static module_t *basic_conv(zoo_build_t *build, zoo_conv_t conv)
{
    module_t *module = zoo_module(build, "BasicConv2d", forward_conv);
    zoo_add(build, module, "conv", zoo_conv(build, &conv));
    zoo_add(build, module, "bn", zoo_batch_norm(build, conv.out, EPSILON, 1));
    return module;
}

static module_t *reduced(zoo_build_t *build, int64_t in, int64_t width, int64_t out)
{
    module_t *branch = zoo_sequential(build);
    zoo_append(build, branch, basic_conv(build, (zoo_conv_t){.in = in, .out = width, .kernel = 1}));
    zoo_append(build, branch,
               basic_conv(build, (zoo_conv_t){.in = width, .out = out, .kernel = 3, .padding = 1}));
    return branch;
}

static module_t *inception(zoo_build_t *build, const inception_t *design, int64_t *channels)
{
    int64_t in = *channels;
    int64_t one = zoo_width(build, design->one), three = zoo_width(build, design->three);
    int64_t five = zoo_width(build, design->five), pooled = zoo_width(build, design->pool);
    module_t *module = zoo_module(build, "Inception", forward_inception);
    zoo_add(build, module, "branch1",
            basic_conv(build, (zoo_conv_t){.in = in, .out = one, .kernel = 1}));
    zoo_add(build, module, "branch2", reduced(build, in, zoo_width(build, design->reduce3), three));
    zoo_add(build, module, "branch3", reduced(build, in, zoo_width(build, design->reduce5), five));
    module_t *branch4 = zoo_sequential(build);
    zoo_append(build, branch4, zoo_max_pool(build, 3, 1, 1, true));
    zoo_append(build, branch4,
               basic_conv(build, (zoo_conv_t){.in = in, .out = pooled, .kernel = 1}));
    zoo_add(build, module, "branch4", branch4);
    *channels = one + three + five + pooled;
    return module;
}

module_t *zoo_build_googlenet(zoo_build_t *build)
{
    int64_t c64 = zoo_width(build, 64), channels = zoo_width(build, 192);
    module_t *net = zoo_module(build, "GoogLeNet", forward_net);
    zoo_add(build, net, "conv1",
            basic_conv(build,
                       (zoo_conv_t){.in = 3, .out = c64, .kernel = 7, .stride = 2, .padding = 3}));
    zoo_add(build, net, "maxpool1", zoo_max_pool(build, 3, 2, 0, true));
    zoo_add(build, net, "conv2",
            basic_conv(build, (zoo_conv_t){.in = c64, .out = c64, .kernel = 1}));
    zoo_add(build, net, "conv3",
            basic_conv(build, (zoo_conv_t){.in = c64, .out = channels, .kernel = 3, .padding = 1}));
    zoo_add(build, net, "maxpool2", zoo_max_pool(build, 3, 2, 0, true));
    for (int i = 0; i < 9; i++) {
        zoo_add(build, net, inceptions[i].name, inception(build, &inceptions[i], &channels));
        if (i == 1) zoo_add(build, net, "maxpool3", zoo_max_pool(build, 3, 2, 0, true));
        if (i == 6) zoo_add(build, net, "maxpool4", zoo_max_pool(build, 2, 2, 0, true));
    }
    zoo_add(build, net, "avgpool", zoo_adaptive_pool(build, 1));
    zoo_add(build, net, "dropout", zoo_dropout(build, 0.2));
    zoo_add(build, net, "fc", zoo_linear(build, channels, build->n_classes));
    return net;
}
