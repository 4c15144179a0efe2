/* ResNet (He et al., 2015) and ResNeXt (Xie et al., 2016). The 3x3 convolution of a block has the
 * stride (as in torchvision), not the 1x1 convolution. */
#include <stdio.h>

#include "module/zoo/zoo_impl.h"

typedef struct design {
    bool is_bottleneck;
    int64_t groups;         /* groups of the 3x3 convolution in the original network */
    int64_t width_of_group; /* channels per group where planes (the block's base width) is 64 */
    int n_blocks[4];
} design_t;

static status_t forward_block(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    flow_t shortcut = flow_branch(&flow);
    *n_out = 1;
    flow_child(&flow, "conv1");
    flow_child(&flow, "bn1");
    flow_relu(&flow);
    flow_child(&flow, "conv2");
    flow_child(&flow, "bn2");
    if (module_child(self, "conv3") != NULL) {
        flow_relu(&flow);
        flow_child(&flow, "conv3");
        flow_child(&flow, "bn3");
    }
    if (module_child(self, "downsample") != NULL) flow_child(&shortcut, "downsample");
    flow_add(&flow, &shortcut);
    flow_relu(&flow);
    return flow_end(&flow, out);
}

static status_t forward_net(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                            int *n_out, tensor_t **out)
{
    flow_t flow = flow_begin(ctx, self, n_in, in);
    *n_out = 1;
    flow_child(&flow, "conv1");
    flow_child(&flow, "bn1");
    flow_relu(&flow);
    flow_child(&flow, "maxpool");
    flow_child(&flow, "layer1");
    flow_child(&flow, "layer2");
    flow_child(&flow, "layer3");
    flow_child(&flow, "layer4");
    flow_child(&flow, "avgpool");
    flow_flatten(&flow);
    flow_child(&flow, "fc");
    return flow_end(&flow, out);
}

static module_t *basic(zoo_build_t *build, int64_t in, int64_t planes, int64_t stride)
{
    module_t *block = zoo_module(build, "BasicBlock", forward_block);
    zoo_conv_t first = {.in = in, .out = planes, .kernel = 3, .stride = stride, .padding = 1};
    zoo_conv_t second = {.in = planes, .out = planes, .kernel = 3, .padding = 1};
    zoo_add(build, block, "conv1", zoo_conv(build, &first));
    zoo_add(build, block, "bn1", zoo_batch_norm(build, planes, ZOO_EPSILON, 1));
    zoo_add(build, block, "conv2", zoo_conv(build, &second));
    zoo_add(build, block, "bn2", zoo_batch_norm(build, planes, ZOO_EPSILON, ZOO_BRANCH_SCALE));
    return block;
}

/* If widths are divided (zoo_options_t), there are fewer groups, each with as many channels as
 * before. Numbers of groups are powers of two, so that they divide all widths. */
static int64_t divided_groups(const zoo_build_t *build, const design_t *design)
{
    int64_t groups = design->groups;
    while (groups > 2 && groups * build->divide > design->groups) groups /= 2;
    return groups;
}

static module_t *bottleneck(zoo_build_t *build, const design_t *design, int64_t in, int64_t planes,
                            int64_t stride)
{
    int64_t width = planes * design->width_of_group * design->groups / 64;
    int64_t out = planes * 4;
    module_t *block = zoo_module(build, "Bottleneck", forward_block);
    zoo_conv_t reduce = {.in = in, .out = width, .kernel = 1};
    zoo_conv_t spatial = {.in = width,
                          .out = width,
                          .kernel = 3,
                          .stride = stride,
                          .padding = 1,
                          .groups = divided_groups(build, design)};
    zoo_conv_t expand = {.in = width, .out = out, .kernel = 1};
    zoo_add(build, block, "conv1", zoo_conv(build, &reduce));
    zoo_add(build, block, "bn1", zoo_batch_norm(build, width, ZOO_EPSILON, 1));
    zoo_add(build, block, "conv2", zoo_conv(build, &spatial));
    zoo_add(build, block, "bn2", zoo_batch_norm(build, width, ZOO_EPSILON, 1));
    zoo_add(build, block, "conv3", zoo_conv(build, &expand));
    zoo_add(build, block, "bn3", zoo_batch_norm(build, out, ZOO_EPSILON, ZOO_BRANCH_SCALE));
    return block;
}

static module_t *layer(zoo_build_t *build, const design_t *design, int n_blocks, int64_t planes,
                       int64_t first_stride, int64_t *channels)
{
    module_t *layer = zoo_sequential(build);
    int64_t out = design->is_bottleneck ? planes * 4 : planes;
    for (int i = 0; i < n_blocks; i++) {
        int64_t stride = i == 0 ? first_stride : 1;
        module_t *block = design->is_bottleneck
                              ? bottleneck(build, design, *channels, planes, stride)
                              : basic(build, *channels, planes, stride);
        if (i == 0 && (stride != 1 || *channels != out)) {
            module_t *downsample = zoo_sequential(build);
            zoo_conv_t conv = {.in = *channels, .out = out, .kernel = 1, .stride = stride};
            zoo_append(build, downsample, zoo_conv(build, &conv));
            zoo_append(build, downsample, zoo_batch_norm(build, out, ZOO_EPSILON, 1));
            zoo_add(build, block, "downsample", downsample);
        }
        zoo_append(build, layer, block);
        *channels = out;
    }
    return layer;
}

static module_t *resnet(zoo_build_t *build, const design_t *design)
{
    int64_t channels = zoo_width(build, 64);
    module_t *net = zoo_module(build, "ResNet", forward_net);
    zoo_conv_t stem = {.in = 3, .out = channels, .kernel = 7, .stride = 2, .padding = 3};
    zoo_add(build, net, "conv1", zoo_conv(build, &stem));
    zoo_add(build, net, "bn1", zoo_batch_norm(build, channels, ZOO_EPSILON, 1));
    zoo_add(build, net, "maxpool", zoo_max_pool(build, 3, 2, 1, false));
    for (int i = 0; i < 4; i++) {
        char name[24];
        snprintf(name, sizeof name, "layer%d", i + 1);
        int64_t planes = zoo_width(build, INT64_C(64) << i);
        zoo_add(build, net, name,
                layer(build, design, design->n_blocks[i], planes, i == 0 ? 1 : 2, &channels));
    }
    zoo_add(build, net, "avgpool", zoo_adaptive_pool(build, 1));
    zoo_add(build, net, "fc", zoo_linear(build, channels, build->n_classes));
    return net;
}

module_t *zoo_build_resnet18(zoo_build_t *build)
{
    static const design_t design = {false, 1, 64, {2, 2, 2, 2}};
    return resnet(build, &design);
}

module_t *zoo_build_resnet50(zoo_build_t *build)
{
    static const design_t design = {true, 1, 64, {3, 4, 6, 3}};
    return resnet(build, &design);
}

module_t *zoo_build_resnext50(zoo_build_t *build)
{
    static const design_t design = {true, 32, 4, {3, 4, 6, 3}};
    return resnet(build, &design);
}
