#include <math.h>
#include <string.h>

#include "dispatch/post.h"
#include "kernels/elementwise/functions_impl.h"

static double relu(double x)
{
    return x < 0 ? 0 : x;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double selu(double x)
{
    const double alpha = 1.6732632423543772848170429916717;
    const double scale = 1.0507009873554804934193349852946;
    return scale * (x > 0 ? x : alpha * expm1(x));
}

/* For negative x, erfc and the sigmoid keep digits that 1 + erf and 1 + tanh lose. */
static double gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double gelu_tanh(double x)
{
    const double two_sqrt_2_pi = 1.5957691216057307117597842397375;
    return x * sigmoid(two_sqrt_2_pi * (x + 0.044715 * x * x * x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

/* Computes min(max(x, low), high). Unlike with fmin and fmax, the result is NaN if x or a bound is
 * NaN. */
static double clamp(double x, double low, double high)
{
    if (isnan(low) || isnan(high)) return NAN;
    double raised = x < low ? low : x;
    return raised > high ? high : raised;
}

static double hardswish(double x)
{
    return x * clamp(x + 3, 0, 6) / 6;
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* x tanh(softplus(x)) as a quotient of polynomials in exp(x), which is accurate for large and small
 * x. */
static double mish(double x)
{
    if (x > 20) return x;
    const double n = exp(x) * (exp(x) + 2);
    return x * n / (n + 2);
}

static double shrink(double x, double limit, double bias)
{
    if (x > limit) return x - bias;
    if (x < -limit) return x + bias;
    return isnan(x) ? x : 0;
}

static double square(double x)
{
    return x * x;
}

static double neg(double x)
{
    return -x;
}

static double reciprocal(double x)
{
    return 1 / x;
}

#define NO_FUNCTION FUNCTION_COUNT

static const struct {
    const char *name;
    int n_parameters;
    double (*value)(double x); /* NULL: the function has parameters; see eltwise_value */
    function_t kernel;         /* or NO_FUNCTION */
} functions[ELTWISE_COUNT] = {
    [ELTWISE_NONE] = {"none", 0, NULL, NO_FUNCTION},
    [ELTWISE_RELU] = {"relu", 0, relu, FUNCTION_RELU},
    [ELTWISE_LEAKY_RELU] = {"leaky_relu", 1, NULL, FUNCTION_LEAKY_RELU},
    [ELTWISE_ELU] = {"elu", 1, NULL, NO_FUNCTION},
    [ELTWISE_SELU] = {"selu", 0, selu, NO_FUNCTION},
    [ELTWISE_CLAMP] = {"clamp", 2, NULL, FUNCTION_CLAMP},
    [ELTWISE_SIGMOID] = {"sigmoid", 0, sigmoid, FUNCTION_SIGMOID},
    [ELTWISE_TANH] = {"tanh", 0, tanh, NO_FUNCTION},
    [ELTWISE_GELU] = {"gelu", 0, gelu, FUNCTION_GELU},
    [ELTWISE_GELU_TANH] = {"gelu_tanh", 0, gelu_tanh, FUNCTION_GELU_TANH},
    [ELTWISE_SILU] = {"silu", 0, silu, FUNCTION_SILU},
    [ELTWISE_HARDSIGMOID] = {"hardsigmoid", 2, NULL, FUNCTION_HARDSIGMOID},
    [ELTWISE_HARDSWISH] = {"hardswish", 0, hardswish, FUNCTION_HARDSWISH},
    [ELTWISE_SOFTPLUS] = {"softplus", 0, softplus, FUNCTION_SOFTPLUS},
    [ELTWISE_EXP] = {"exp", 0, exp, FUNCTION_EXP},
    [ELTWISE_LOG] = {"log", 0, log, FUNCTION_LOG},
    [ELTWISE_SQRT] = {"sqrt", 0, sqrt, FUNCTION_SQRT},
    [ELTWISE_ABS] = {"abs", 0, fabs, FUNCTION_ABS},
    [ELTWISE_SQUARE] = {"square", 0, square, NO_FUNCTION},
    [ELTWISE_ERF] = {"erf", 0, erf, FUNCTION_ERF},
    [ELTWISE_NEG] = {"neg", 0, neg, FUNCTION_NEG},
    [ELTWISE_RECIPROCAL] = {"reciprocal", 0, reciprocal, FUNCTION_RECIPROCAL},
    [ELTWISE_LINEAR] = {"linear", 2, NULL, FUNCTION_LINEAR},
    [ELTWISE_CELU] = {"celu", 1, NULL, NO_FUNCTION},
    [ELTWISE_MISH] = {"mish", 0, mish, NO_FUNCTION},
    [ELTWISE_SHRINK] = {"shrink", 2, NULL, NO_FUNCTION},
    [ELTWISE_THRESHOLD] = {"threshold", 2, NULL, NO_FUNCTION},
};

static eltwise_t known(eltwise_t eltwise)
{
    return (unsigned)eltwise < ELTWISE_COUNT ? eltwise : ELTWISE_NONE;
}

const char *eltwise_name(eltwise_t eltwise)
{
    return functions[known(eltwise)].name;
}

int eltwise_parameters(eltwise_t eltwise)
{
    return functions[known(eltwise)].n_parameters;
}

eltwise_t eltwise_parse(const char *name)
{
    for (int i = ELTWISE_NONE + 1; name != NULL && i < ELTWISE_COUNT; i++)
        if (strcmp(name, functions[i].name) == 0) return (eltwise_t)i;
    return ELTWISE_NONE;
}

double eltwise_value(eltwise_t eltwise, double x, double alpha, double beta)
{
    switch (known(eltwise)) {
    case ELTWISE_NONE: return x;
    case ELTWISE_LEAKY_RELU: return x > 0 ? x : alpha * x;
    case ELTWISE_ELU: return x > 0 ? x : alpha * expm1(x);
    case ELTWISE_CLAMP: return clamp(x, alpha, beta);
    case ELTWISE_HARDSIGMOID: return clamp(alpha * x + beta, 0, 1);
    case ELTWISE_LINEAR: return alpha * x + beta;
    case ELTWISE_CELU: return x > 0 ? x : alpha * expm1(x / alpha);
    case ELTWISE_SHRINK: return shrink(x, alpha, beta);
    case ELTWISE_THRESHOLD: return x <= alpha ? beta : x;
    default: return functions[eltwise].value(x);
    }
}

/* Finds the vectorised f32 implementation of a function. Returns false if there is none, or for a
 * clamp with alpha > beta, which the implementation does not support. */
static bool find_function(eltwise_t eltwise, double alpha, double beta, function_t *out_function)
{
    if (known(eltwise) == ELTWISE_NONE || functions[eltwise].kernel == NO_FUNCTION) return false;
    *out_function = functions[eltwise].kernel;
    return eltwise != ELTWISE_CLAMP || (float)alpha <= (float)beta;
}

void eltwise_apply(eltwise_t eltwise, double alpha, double beta, int64_t n, const float *src,
                   float *dst)
{
    function_t function = FUNCTION_COUNT;
    if (src == NULL || dst == NULL) return;
    if (find_function(eltwise, alpha, beta, &function)) {
        functions_run(function, isa_best(), (float)alpha, (float)beta, n, src, dst);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)eltwise_value(eltwise, (double)src[i], alpha, beta);
}

/* Maximum and minimum as in PyTorch: NaN if either operand is NaN. */
static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static double smaller(double a, double b)
{
    return a < b || isnan(a) ? a : b;
}

double post_value(const post_op_t *op, double value, double operand)
{
    if (op == NULL) return value;
    switch (op->kind) {
    case POST_SUM:
    case POST_ADD: return value + operand;
    case POST_SUB: return value - operand;
    case POST_MUL: return value * operand;
    case POST_DIV: return value / operand;
    case POST_MAXIMUM: return larger(value, operand);
    case POST_MINIMUM: return smaller(value, operand);
    default: return eltwise_value(op->eltwise, value, op->alpha, op->beta);
    }
}

double eltwise_cancels(eltwise_t eltwise, double alpha)
{
    switch (eltwise) {
    case ELTWISE_ELU:
    case ELTWISE_CELU: return fabs(alpha);
    case ELTWISE_SELU: return 1.76;
    case ELTWISE_GELU:
    case ELTWISE_GELU_TANH: return 8.0;
    default: return 0.0;
    }
}

bool eltwise_keeps_zero(eltwise_t eltwise, double alpha, double beta)
{
    return eltwise_value(eltwise, 0, alpha, beta) == 0;
}
