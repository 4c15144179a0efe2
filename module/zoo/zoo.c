#include "module/zoo.h"

#include <stdio.h>
#include <string.h>

#include "module/signature.h"
#include "module/zoo/zoo_impl.h"
#include "tensor/context_impl.h"

typedef struct network {
    const char *name;
    int64_t size;
    module_t *(*build)(zoo_build_t *build);
} network_t;

static const network_t networks[] = {
    {"alexnet", 224, zoo_build_alexnet},           {"vgg16", 224, zoo_build_vgg16},
    {"resnet18", 224, zoo_build_resnet18},         {"resnet50", 224, zoo_build_resnet50},
    {"resnext50_32x4d", 224, zoo_build_resnext50}, {"mobilenet_v2", 224, zoo_build_mobilenet_v2},
    {"densenet121", 224, zoo_build_densenet121},   {"squeezenet1_1", 224, zoo_build_squeezenet1_1},
    {"googlenet", 224, zoo_build_googlenet},
};
#define N_NETWORKS (sizeof networks / sizeof networks[0])

static const char *const names[N_NETWORKS + 1] = {
    "alexnet",      "vgg16",       "resnet18",      "resnet50",  "resnext50_32x4d",
    "mobilenet_v2", "densenet121", "squeezenet1_1", "googlenet", NULL};

const char *const *zoo_names(void)
{
    return names;
}

static status_t unknown(context_t *ctx, const char *name)
{
    char list[256];
    size_t length = 0;
    for (size_t i = 0; i < N_NETWORKS; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? ", " : "",
                                   networks[i].name);
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "zoo: unknown network \"%s\", known are %s", name, list);
}

/* Builds the network with random numbers from a seed, then restores the state of the context's
 * generator. */
static status_t build_seeded(context_t *ctx, const network_t *network, zoo_build_t *build,
                             uint64_t seed, module_t **out_module)
{
    uint64_t saved[4];
    uint64_t *state = context_random_state(ctx);
    memcpy(saved, state, sizeof saved);
    context_seed(ctx, seed);
    module_t *net = zoo_done(build, network->build(build));
    memcpy(state, saved, sizeof saved);
    TRY(build->status);
    *out_module = net;
    return STATUS_OK;
}

static status_t describe(context_t *ctx, module_t *module, int64_t size, int64_t n_classes)
{
    const module_value_t image = {.name = "x",
                                  .kind = DATUM_TENSOR,
                                  .dtype = DTYPE_F32,
                                  .rank = 4,
                                  .sizes = {-1, 3, -1, -1},
                                  .dims = {"N", NULL, "H", "W"},
                                  .made = {1, 3, size, size}};
    const module_value_t scores = {.name = "output",
                                   .kind = DATUM_TENSOR,
                                   .dtype = DTYPE_F32,
                                   .rank = 2,
                                   .sizes = {-1, n_classes},
                                   .dims = {"N"},
                                   .made = {1, n_classes}};
    return module_describe(ctx, module, "forward", 1, &image, 1, &scores);
}

status_t zoo_create(context_t *ctx, const char *name, const zoo_options_t *options,
                    module_t **out_module, int64_t *out_size)
{
    TRY(context_output(ctx, "zoo_create", out_module));
    static const zoo_options_t defaults = {0};
    if (options == NULL) options = &defaults;
    if (name == NULL) return context_null(ctx, "zoo", "name");
    REQUIRE(ctx, options->n_classes >= 0, "zoo: %lld classes, must be positive",
            (long long)options->n_classes);
    REQUIRE(ctx, options->divide >= 0, "zoo: widths divided by %lld, must be positive",
            (long long)options->divide);
    const network_t *network = NULL;
    for (size_t i = 0; i < N_NETWORKS; i++)
        if (strcmp(networks[i].name, name) == 0) network = &networks[i];
    if (network == NULL) return unknown(ctx, name);

    zoo_build_t build = {.ctx = ctx,
                         .divide = options->divide > 0 ? options->divide : 1,
                         .n_classes = options->n_classes > 0 ? options->n_classes : 1000};
    uint64_t seed = options->seed > 0 ? options->seed : 1;
    TRY(build_seeded(ctx, network, &build, seed, out_module));
    status_t status = describe(ctx, *out_module, network->size, build.n_classes);
    if (status != STATUS_OK) {
        module_release(*out_module);
        *out_module = NULL;
        return status;
    }
    if (out_size != NULL) *out_size = network->size;
    return STATUS_OK;
}

status_t zoo_resnet50(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "zoo_resnet50", out_module));
    return zoo_create(ctx, "resnet50", NULL, out_module, NULL);
}

status_t zoo_alexnet(context_t *ctx, module_t **out_module)
{
    TRY(context_output(ctx, "zoo_alexnet", out_module));
    return zoo_create(ctx, "alexnet", NULL, out_module, NULL);
}
