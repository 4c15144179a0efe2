#include "module/layers/layers_impl.h"
#include "ops/elementwise/activation_impl.h"
#include "tensor/context_impl.h"

/* Types of the layers; NULL for functions without an operator. */
static const char *const types[ELTWISE_COUNT] = {
#define POST_ONLY(name, NAME, layer, ...) [ELTWISE_##NAME] = layer,
#define ACTIVATION POST_ONLY
#include "kernels/elementwise/eltwise.def"
};

static bool is_activation(eltwise_t eltwise)
{
    return (unsigned)eltwise < ELTWISE_COUNT && types[eltwise] != NULL;
}

static double parameter(const module_t *self, const char *name)
{
    const datum_t *value = module_attribute(self, name);
    datum_kind_t kind = value != NULL ? datum_kind(value) : DATUM_NONE;
    return kind == DATUM_FLOAT || kind == DATUM_INT ? datum_as_float(value) : 0;
}

static status_t forward_activation(context_t *ctx, module_t *self, int n_in,
                                   const tensor_t *const *in, int *n_out, tensor_t **out)
{
    const datum_t *function = module_attribute(self, "function");
    eltwise_t eltwise = ELTWISE_NONE;
    if (function != NULL && datum_kind(function) == DATUM_STRING)
        eltwise = eltwise_parse(datum_as_string(function));
    REQUIRE(ctx, n_in == 1, "module: forward of %s with %d inputs, takes one", module_type(self),
            n_in);
    REQUIRE(ctx, is_activation(eltwise),
            "module: attribute \"function\" of %s, must be the name of an activation",
            module_type(self));
    *n_out = 1;
    return activation_call(ctx, eltwise, parameter(self, "alpha"), parameter(self, "beta"), in[0],
                           out);
}

static status_t init(context_t *ctx, module_t *module, eltwise_t eltwise, double alpha, double beta)
{
    datum_t *function = NULL;
    TRY(datum_string(ctx, eltwise_name(eltwise), &function));
    status_t status = module_set_attribute(ctx, module, "function", function);
    datum_release(function);
    TRY(status);
    int n_parameters = eltwise_parameters(eltwise);
    if (n_parameters > 0) TRY(layer_set_float(ctx, module, "alpha", alpha));
    if (n_parameters > 1) TRY(layer_set_float(ctx, module, "beta", beta));
    return module_set_forward(ctx, module, "forward", forward_activation);
}

status_t layer_activation(context_t *ctx, eltwise_t eltwise, double alpha, double beta,
                          module_t **out_module)
{
    TRY(context_output(ctx, "layer_activation", out_module));
    REQUIRE(ctx, is_activation(eltwise),
            "layer_activation: elementwise function %d, must be an activation with an operator",
            (int)eltwise);
    bool is_relu6 = eltwise == ELTWISE_CLAMP && alpha == 0 && beta == 6;
    module_t *module = NULL;
    TRY(module_create(ctx, is_relu6 ? "ReLU6" : types[eltwise], &module));
    status_t status = init(ctx, module, eltwise, alpha, beta);
    GIVE(status, out_module, module, module_release(module));
}
