/* VGG, configuration D (Simonyan and Zisserman, 2014). */
#include "module/zoo/zoo_impl.h"

static module_t *features(zoo_build_t *build)
{
    static const int64_t widths[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                     0,  512, 512, 512, 0,   512, 512, 512, 0};
    int64_t channels = 3;
    module_t *features = zoo_sequential(build);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        if (widths[i] == 0) {
            zoo_append(build, features, zoo_max_pool(build, 2, 2, 0, false));
            continue;
        }
        zoo_conv_t conv = {.in = channels, .kernel = 3, .padding = 1, .has_bias = true};
        channels = conv.out = zoo_width(build, widths[i]);
        zoo_append(build, features, zoo_conv(build, &conv));
        zoo_append(build, features, zoo_relu(build));
    }
    return features;
}

static module_t *classifier(zoo_build_t *build)
{
    int64_t hidden = zoo_width(build, 4096);
    module_t *classifier = zoo_sequential(build);
    zoo_append(build, classifier, zoo_linear(build, zoo_width(build, 512) * 7 * 7, hidden));
    zoo_append(build, classifier, zoo_relu(build));
    zoo_append(build, classifier, zoo_dropout(build, 0.5));
    zoo_append(build, classifier, zoo_linear(build, hidden, hidden));
    zoo_append(build, classifier, zoo_relu(build));
    zoo_append(build, classifier, zoo_dropout(build, 0.5));
    zoo_append(build, classifier, zoo_linear(build, hidden, build->n_classes));
    return classifier;
}

module_t *zoo_build_vgg16(zoo_build_t *build)
{
    module_t *net = zoo_module(build, "VGG", zoo_forward_features);
    zoo_add(build, net, "features", features(build));
    zoo_add(build, net, "avgpool", zoo_adaptive_pool(build, 7));
    zoo_add(build, net, "classifier", classifier(build));
    return net;
}
