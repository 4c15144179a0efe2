/* AlexNet (Krizhevsky, "One weird trick", 2014), as in torchvision: all channels on one device, not
 * split into two parts. */
#include "module/zoo/zoo_impl.h"

static void conv(zoo_build_t *build, module_t *features, zoo_conv_t conv)
{
    conv.has_bias = true;
    zoo_append(build, features, zoo_conv(build, &conv));
    zoo_append(build, features, zoo_relu(build));
}

static module_t *features(zoo_build_t *build)
{
    int64_t c64 = zoo_width(build, 64), c192 = zoo_width(build, 192);
    int64_t c384 = zoo_width(build, 384), c256 = zoo_width(build, 256);
    module_t *features = zoo_sequential(build);
    conv(build, features,
         (zoo_conv_t){.in = 3, .out = c64, .kernel = 11, .stride = 4, .padding = 2});
    zoo_append(build, features, zoo_max_pool(build, 3, 2, 0, false));
    conv(build, features, (zoo_conv_t){.in = c64, .out = c192, .kernel = 5, .padding = 2});
    zoo_append(build, features, zoo_max_pool(build, 3, 2, 0, false));
    conv(build, features, (zoo_conv_t){.in = c192, .out = c384, .kernel = 3, .padding = 1});
    conv(build, features, (zoo_conv_t){.in = c384, .out = c256, .kernel = 3, .padding = 1});
    conv(build, features, (zoo_conv_t){.in = c256, .out = c256, .kernel = 3, .padding = 1});
    zoo_append(build, features, zoo_max_pool(build, 3, 2, 0, false));
    return features;
}

static module_t *classifier(zoo_build_t *build)
{
    int64_t hidden = zoo_width(build, 4096);
    module_t *classifier = zoo_sequential(build);
    zoo_append(build, classifier, zoo_dropout(build, 0.5));
    zoo_append(build, classifier, zoo_linear(build, zoo_width(build, 256) * 6 * 6, hidden));
    zoo_append(build, classifier, zoo_relu(build));
    zoo_append(build, classifier, zoo_dropout(build, 0.5));
    zoo_append(build, classifier, zoo_linear(build, hidden, hidden));
    zoo_append(build, classifier, zoo_relu(build));
    zoo_append(build, classifier, zoo_linear(build, hidden, build->n_classes));
    return classifier;
}

module_t *zoo_build_alexnet(zoo_build_t *build)
{
    module_t *net = zoo_module(build, "AlexNet", zoo_forward_features);
    zoo_add(build, net, "features", features(build));
    zoo_add(build, net, "avgpool", zoo_adaptive_pool(build, 6));
    zoo_add(build, net, "classifier", classifier(build));
    return net;
}
