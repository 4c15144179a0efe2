/* A builder for networks. It stores the first failure, so that the code of a network is a list of
 * its layers without error checks. A function that cannot create a module returns NULL, and all
 * functions accept NULL modules.
 *
 * The folder module/zoo contains the networks of module/zoo.h, one source for each family. */
#ifndef TESSERA_MODULE_ZOO_ZOO_IMPL_H
#define TESSERA_MODULE_ZOO_ZOO_IMPL_H

#include "module/layers/flow_impl.h"
#include "module/layers/layers_impl.h"
#include "module/zoo.h"

#define ZOO_EPSILON 1e-5

/* Scale of the last batch norm in a residual branch. Below 1, so that the sums of many blocks do
 * not grow too large. */
#define ZOO_BRANCH_SCALE 0.3

typedef struct zoo_build {
    context_t *ctx;
    int64_t divide;
    int64_t n_classes;
    status_t status;
} zoo_build_t;

/* Divides a width (number of channels) of the original network by the option `divide`. The result
 * is a multiple of 8, at least 8. */
int64_t zoo_width(const zoo_build_t *build, int64_t width);

/* Creates an empty module of the given type. If forward is NULL, the module runs its children in
 * order. */
module_t *zoo_module(zoo_build_t *build, const char *type, forward_t forward);
module_t *zoo_sequential(zoo_build_t *build);

/* Take ownership of the child. zoo_append names it "0", "1" and so on. */
void zoo_add(zoo_build_t *build, module_t *module, const char *name, module_t *child);
void zoo_append(zoo_build_t *build, module_t *sequential, module_t *child);

/* A convolution with a square kernel. The numbers of channels are used as given, not divided. */
typedef struct zoo_conv {
    int64_t in, out, kernel;
    int64_t stride; /* 0: 1 */
    int64_t padding;
    int64_t groups; /* 0: 1 */
    bool has_bias;
} zoo_conv_t;
module_t *zoo_conv(zoo_build_t *build, const zoo_conv_t *conv);
module_t *zoo_linear(zoo_build_t *build, int64_t in, int64_t out);
/* A batch norm whose weight is uniform in [0.5, 1.5) * scale. */
module_t *zoo_batch_norm(zoo_build_t *build, int64_t channels, double epsilon, double scale);
module_t *zoo_relu(zoo_build_t *build);
module_t *zoo_dropout(zoo_build_t *build, double p);
module_t *zoo_max_pool(zoo_build_t *build, int64_t kernel, int64_t stride, int64_t padding,
                       bool ceil_mode);
module_t *zoo_adaptive_pool(zoo_build_t *build, int64_t size);

/* Returns the network, or NULL if anything failed. */
module_t *zoo_done(zoo_build_t *build, module_t *net);

/* The networks. */
module_t *zoo_build_alexnet(zoo_build_t *build);
module_t *zoo_build_vgg16(zoo_build_t *build);
module_t *zoo_build_resnet18(zoo_build_t *build);
module_t *zoo_build_resnet50(zoo_build_t *build);
module_t *zoo_build_resnext50(zoo_build_t *build);
module_t *zoo_build_mobilenet_v2(zoo_build_t *build);
module_t *zoo_build_densenet121(zoo_build_t *build);
module_t *zoo_build_squeezenet1_1(zoo_build_t *build);
module_t *zoo_build_googlenet(zoo_build_t *build);

/* The forward of networks that consist of features, pooling and classifier. */
status_t zoo_forward_features(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out);

#endif
