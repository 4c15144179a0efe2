#include <math.h>
#include <string.h>

#include "dispatch/post.h"
#include "dispatch/vector_math_impl.h"
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

/* erfc and the sigmoid keep the digits that 1 + erf and 1 + tanh lose at negative x. */
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

/* min(max(x, low), high); NaN in x or in a bound gives NaN, unlike fmin and fmax. */
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

/* A quotient of polynomials in exp(x), accurate for large and small x. */
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

/* value is NULL for functions with parameters: see eltwise_value. */
static const struct {
    const char *name;
    int n_parameters;
    double (*value)(double x);
} functions[ELTWISE_COUNT] = {
    [ELTWISE_NONE] = {"none", 0, NULL},
    [ELTWISE_RELU] = {"relu", 0, relu},
    [ELTWISE_LEAKY_RELU] = {"leaky_relu", 1, NULL},
    [ELTWISE_ELU] = {"elu", 1, NULL},
    [ELTWISE_SELU] = {"selu", 0, selu},
    [ELTWISE_CLAMP] = {"clamp", 2, NULL},
    [ELTWISE_SIGMOID] = {"sigmoid", 0, sigmoid},
    [ELTWISE_TANH] = {"tanh", 0, tanh},
    [ELTWISE_GELU] = {"gelu", 0, gelu},
    [ELTWISE_GELU_TANH] = {"gelu_tanh", 0, gelu_tanh},
    [ELTWISE_SILU] = {"silu", 0, silu},
    [ELTWISE_HARDSIGMOID] = {"hardsigmoid", 2, NULL},
    [ELTWISE_HARDSWISH] = {"hardswish", 0, hardswish},
    [ELTWISE_SOFTPLUS] = {"softplus", 0, softplus},
    [ELTWISE_EXP] = {"exp", 0, exp},
    [ELTWISE_LOG] = {"log", 0, log},
    [ELTWISE_SQRT] = {"sqrt", 0, sqrt},
    [ELTWISE_ABS] = {"abs", 0, fabs},
    [ELTWISE_SQUARE] = {"square", 0, square},
    [ELTWISE_ERF] = {"erf", 0, erf},
    [ELTWISE_NEG] = {"neg", 0, neg},
    [ELTWISE_RECIPROCAL] = {"reciprocal", 0, reciprocal},
    [ELTWISE_LINEAR] = {"linear", 2, NULL},
    [ELTWISE_CELU] = {"celu", 1, NULL},
    [ELTWISE_MISH] = {"mish", 0, mish},
    [ELTWISE_SHRINK] = {"shrink", 2, NULL},
    [ELTWISE_THRESHOLD] = {"threshold", 2, NULL},
};

/* Maps invalid values to ELTWISE_NONE. */
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

/* Loops that compilers vectorise; rare functions use the scalar eltwise_value. */
FOR_EACH_ISA static void apply_f32(eltwise_t eltwise, double alpha, double beta, int64_t n,
                                   const float *src, float *dst)
{
    const float a = (float)alpha, b = (float)beta;
#define LOOP(expr)                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const float x = src[i];                                                                    \
        dst[i] = (expr);                                                                           \
    }                                                                                              \
    return
#define CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
    switch (eltwise) {
    case ELTWISE_RELU: LOOP(x < 0.0f ? 0.0f : x);
    case ELTWISE_CLAMP:
        if (!(a <= b)) break;
        LOOP(CLAMP(x, a, b));
    case ELTWISE_LEAKY_RELU: LOOP(x > 0.0f ? x : a * x);
    case ELTWISE_HARDSIGMOID: LOOP(CLAMP(a * x + b, 0.0f, 1.0f));
    case ELTWISE_HARDSWISH: LOOP(x * CLAMP(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f));
    case ELTWISE_LINEAR: LOOP(a * x + b);
    case ELTWISE_ABS: LOOP(fabsf(x));
    case ELTWISE_NEG: LOOP(-x);
    case ELTWISE_RECIPROCAL: LOOP(1.0f / x);
    case ELTWISE_SQRT: LOOP(sqrtf(x));
    case ELTWISE_EXP: LOOP(vector_exp(x));
    case ELTWISE_LOG: LOOP(vector_log(x));
    case ELTWISE_SOFTPLUS: LOOP(vector_softplus(x));
    case ELTWISE_ERF: LOOP(vector_erf(x));
    default: break;
    }
    LOOP((float)eltwise_value(eltwise, x, alpha, beta));
#undef CLAMP
#undef LOOP
}

void eltwise_apply(eltwise_t eltwise, double alpha, double beta, int64_t n, const float *src,
                   float *dst)
{
    if (src == NULL || dst == NULL) return;
    switch (eltwise) {
    case ELTWISE_SIGMOID: functions_run(FUNCTION_SIGMOID, isa_best(), n, src, dst); break;
    case ELTWISE_SILU: functions_run(FUNCTION_SILU, isa_best(), n, src, dst); break;
    case ELTWISE_GELU: functions_run(FUNCTION_GELU, isa_best(), n, src, dst); break;
    case ELTWISE_GELU_TANH: functions_run(FUNCTION_GELU_TANH, isa_best(), n, src, dst); break;
    default: apply_f32(eltwise, alpha, beta, n, src, dst);
    }
}

/* NaN in either operand gives NaN, as in PyTorch's maximum and minimum. */
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
