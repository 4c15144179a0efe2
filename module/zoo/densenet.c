/* DenseNet (Huang et al., 2016). */
#include <stdio.h>

#include "module/zoo/zoo_impl.h"

#define N_BLOCKS 4

/* In a dense block, each layer reads the block's input and the outputs of all earlier layers,
 * concatenated. */
static status_t forward_block(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    for (int i = 0; i < module_n_members(self); i++) {
        member_kind_t kind;
        const char *name = module_member(self, i, &kind);
        if (kind != MEMBER_CHILD) continue;
        flow_t branches[] = {flow_branch(&flow), flow_branch(&flow)};
        flow_child(&branches[1], name);
        flow_concat(&flow, 2, branches);
    }
    return flow_end(&flow, out);
}

static status_t forward_net(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "features");
    flow_relu(&flow);
    flow_pool(&flow);
    flow_flatten(&flow);
    flow_child(&flow, "classifier");
    return flow_end(&flow, out);
}

static module_t *dense_layer(zoo_build_t *build, int64_t in, int64_t growth)
{
    int64_t width = growth * 4;
    zoo_conv_t reduce = {.in = in, .out = width, .kernel = 1};
    zoo_conv_t spatial = {.in = width, .out = growth, .kernel = 3, .padding = 1};
    module_t *layer = zoo_module(build, "_DenseLayer", NULL);
    zoo_add(build, layer, "norm1", zoo_batch_norm(build, in, ZOO_EPSILON, 1));
    zoo_add(build, layer, "relu1", zoo_relu(build));
    zoo_add(build, layer, "conv1", zoo_conv(build, &reduce));
    zoo_add(build, layer, "norm2", zoo_batch_norm(build, width, ZOO_EPSILON, 1));
    zoo_add(build, layer, "relu2", zoo_relu(build));
    zoo_add(build, layer, "conv2", zoo_conv(build, &spatial));
    return layer;
}

static module_t *transition(zoo_build_t *build, int64_t in, int64_t out)
{
    module_t *pool = NULL;
    pool_attrs_t attrs = {.kernel = {2, 2}, .stride = {2, 2}, .count_include_pad = true};
    zoo_conv_t conv = {.in = in, .out = out, .kernel = 1};
    module_t *transition = zoo_module(build, "_Transition", NULL);
    zoo_add(build, transition, "norm", zoo_batch_norm(build, in, ZOO_EPSILON, 1));
    zoo_add(build, transition, "relu", zoo_relu(build));
    zoo_add(build, transition, "conv", zoo_conv(build, &conv));
    if (build->status == STATUS_OK) build->status = layer_avg_pool2d(build->ctx, &attrs, &pool);
    zoo_add(build, transition, "pool", pool);
    return transition;
}

static module_t *dense_block(zoo_build_t *build, int n_layers, int64_t growth, int64_t *channels)
{
    module_t *block = zoo_module(build, "_DenseBlock", forward_block);
    for (int i = 0; i < n_layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "denselayer%d", i + 1);
        zoo_add(build, block, name, dense_layer(build, *channels, growth));
        *channels += growth;
    }
    return block;
}

module_t *zoo_build_densenet121(zoo_build_t *build)
{
    static const int n_layers[N_BLOCKS] = {6, 12, 24, 16};
    int64_t growth = zoo_width(build, 32), channels = zoo_width(build, 64);
    module_t *features = zoo_sequential(build);
    zoo_conv_t stem = {.in = 3, .out = channels, .kernel = 7, .stride = 2, .padding = 3};
    zoo_add(build, features, "conv0", zoo_conv(build, &stem));
    zoo_add(build, features, "norm0", zoo_batch_norm(build, channels, ZOO_EPSILON, 1));
    zoo_add(build, features, "relu0", zoo_relu(build));
    zoo_add(build, features, "pool0", zoo_max_pool(build, 3, 2, 1, false));
    for (int i = 0; i < N_BLOCKS; i++) {
        char name[24];
        snprintf(name, sizeof name, "denseblock%d", i + 1);
        zoo_add(build, features, name, dense_block(build, n_layers[i], growth, &channels));
        if (i == N_BLOCKS - 1) break;
        snprintf(name, sizeof name, "transition%d", i + 1);
        zoo_add(build, features, name, transition(build, channels, channels / 2));
        channels /= 2;
    }
    zoo_add(build, features, "norm5", zoo_batch_norm(build, channels, ZOO_EPSILON, 1));

    module_t *net = zoo_module(build, "DenseNet", forward_net);
    zoo_add(build, net, "features", features);
    zoo_add(build, net, "classifier", zoo_linear(build, channels, build->n_classes));
    return net;
}
