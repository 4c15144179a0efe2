/* Operators of com.microsoft with a fused activation. ONNX Runtime's optimizers produce them. */
#include "io/onnx/node_impl.h"

/* Activations by name. Their parameters are set as attributes of the operator, in this order. */
static const struct {
    const char *op;
    int n_numbers;
    const char *numbers[2];
} activations[] = {
    {"relu", 0, {NULL, NULL}},     {"tanh", 0, {NULL, NULL}},
    {"sigmoid", 0, {NULL, NULL}},  {"leaky_relu", 1, {"negative_slope", NULL}},
    {"clamp", 2, {"min", "max"}},  {"hardsigmoid", 2, {"alpha", "beta"}},
    {"softplus", 0, {NULL, NULL}}, {"softsign", 0, {NULL, NULL}},
};

static const char *const names[] = {"Relu",        "Tanh",     "Sigmoid",  "LeakyRelu", "Clip",
                                    "HardSigmoid", "Softplus", "Softsign", NULL};

/* Applies the activation that the node names, if any, with the given parameters. */
static status_t activate(onnx_node_t *node, int n_numbers, const double *numbers, item_t *x)
{
    int which = 0;
    onnx_call_t call;
    if (!onnx_has_attr(node, "activation")) return STATUS_OK;
    TRY(onnx_attr_name(node, "activation", names, 0, &which));
    if (n_numbers < activations[which].n_numbers)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%d numbers of activation %s, it has %d",
             n_numbers, names[which], activations[which].n_numbers);
    onnx_call(node, activations[which].op, &call);
    for (int i = 0; i < activations[which].n_numbers; i++)
        onnx_set_float(&call, activations[which].numbers[i], numbers[i]);
    return onnx_emit(&call, 1, x, x);
}

/* Inputs: x, weight, bias, and a tensor that is added before the activation. */
status_t onnx_import_fused_conv(onnx_node_t *node)
{
    enum { SUM = 3 };
    double numbers[4] = {0};
    int n = 0;
    const item_t sum = onnx_has(node, SUM) ? node->in[SUM] : ITEM_NONE;
    TRY(onnx_attr_floats(node, "activation_params", 4, &n, numbers));
    if (node->n_in > SUM) node->n_in = SUM;
    TRY(onnx_import_conv(node));
    if (sum != ITEM_NONE) TRY(onnx_binary(node, "add", node->out[0], sum, &node->out[0]));
    return activate(node, n > 0 ? n : 0, numbers, &node->out[0]);
}

status_t onnx_import_fused_gemm(onnx_node_t *node)
{
    static const char *const attributes[] = {"activation_alpha", "activation_beta"};
    double numbers[2] = {0};
    int n = 0;
    for (; n < 2 && onnx_has_attr(node, attributes[n]); n++)
        TRY(onnx_attr_float(node, attributes[n], 0.0, &numbers[n]));
    onnx_attr_ignore(node, "activation_gamma"); /* no activation has three parameters */
    TRY(onnx_import_gemm(node));
    return activate(node, n, numbers, &node->out[0]);
}
