#include "module/layers_impl.h"
#include "tensor/context_impl.h"

/* An activation layer. If `unary` is set, the function has no parameters; otherwise the layer reads
 * them from its attributes. */
typedef status_t (*unary_t)(context_t *ctx, const tensor_t *x, tensor_t **out);

typedef struct activation {
    eltwise_t eltwise;
    const char *type;
    unary_t unary;
} activation_t;

static const activation_t activations[] = {
    {ELTWISE_RELU, "ReLU", op_relu},
    {ELTWISE_LEAKY_RELU, "LeakyReLU", NULL},
    {ELTWISE_ELU, "ELU", NULL},
    {ELTWISE_SELU, "SELU", op_selu},
    {ELTWISE_CELU, "CELU", NULL},
    {ELTWISE_SHRINK, "Shrink", NULL},
    {ELTWISE_THRESHOLD, "Threshold", NULL},
    {ELTWISE_MISH, "Mish", op_mish},
    {ELTWISE_CLAMP, "Hardtanh", NULL},
    {ELTWISE_SIGMOID, "Sigmoid", op_sigmoid},
    {ELTWISE_TANH, "Tanh", op_tanh},
    {ELTWISE_GELU, "GELU", NULL},
    {ELTWISE_GELU_TANH, "GELU", NULL},
    {ELTWISE_SILU, "SiLU", op_silu},
    {ELTWISE_HARDSIGMOID, "Hardsigmoid", NULL},
    {ELTWISE_HARDSWISH, "Hardswish", op_hardswish},
    {ELTWISE_SOFTPLUS, "Softplus", op_softplus},
    {ELTWISE_EXP, "Exp", op_exp},
    {ELTWISE_LOG, "Log", op_log},
    {ELTWISE_SQRT, "Sqrt", op_sqrt},
    {ELTWISE_ABS, "Abs", op_abs},
    {ELTWISE_ERF, "Erf", op_erf},
    {ELTWISE_NEG, "Neg", op_neg},
    {ELTWISE_RECIPROCAL, "Reciprocal", op_reciprocal},
};

static const activation_t *find(eltwise_t eltwise)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (activations[i].eltwise == eltwise) return &activations[i];
    return NULL;
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
    const activation_t *activation = NULL;
    if (function != NULL && datum_kind(function) == DATUM_STRING)
        activation = find(eltwise_parse(datum_as_string(function)));
    REQUIRE(ctx, n_in == 1, "module: forward of %s with %d inputs, takes one", module_type(self),
            n_in);
    REQUIRE(ctx, activation != NULL,
            "module: attribute \"function\" of %s, must be the name of an activation",
            module_type(self));
    *n_out = 1;
    if (activation->unary != NULL) return activation->unary(ctx, in[0], out);

    double alpha = parameter(self, "alpha"), beta = parameter(self, "beta");
    switch (activation->eltwise) {
    case ELTWISE_LEAKY_RELU: return op_leaky_relu(ctx, in[0], alpha, out);
    case ELTWISE_ELU: return op_elu(ctx, in[0], alpha, out);
    case ELTWISE_CELU: return op_celu(ctx, in[0], alpha, out);
    case ELTWISE_SHRINK: return op_shrink(ctx, in[0], alpha, beta, out);
    case ELTWISE_THRESHOLD: return op_threshold(ctx, in[0], alpha, beta, out);
    case ELTWISE_HARDSIGMOID: return op_hardsigmoid(ctx, in[0], alpha, beta, out);
    case ELTWISE_GELU:
    case ELTWISE_GELU_TANH:
        return op_gelu(ctx, in[0], activation->eltwise == ELTWISE_GELU_TANH, out);
    default:
        return alpha == 0 && beta == 6 ? op_relu6(ctx, in[0], out)
                                       : op_clamp(ctx, in[0], alpha, beta, out);
    }
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
    const activation_t *activation = find(eltwise);
    REQUIRE(ctx, activation != NULL,
            "layer_activation: elementwise function %d, must be an activation with an operator",
            (int)eltwise);
    bool is_relu6 = eltwise == ELTWISE_CLAMP && alpha == 0 && beta == 6;
    module_t *module = NULL;
    TRY(module_create(ctx, is_relu6 ? "ReLU6" : activation->type, &module));
    status_t status = init(ctx, module, eltwise, alpha, beta);
    if (status != STATUS_OK) {
        module_release(module);
        return status;
    }
    *out_module = module;
    return STATUS_OK;
}
