#include <math.h>
#include <string.h>

#include "dispatch/post.h"
#include "kernels/elementwise/functions_impl.h"

/* ---- helpers of the expressions in eltwise.def ---- */

#define SELU_ALPHA 1.6732632423543772848170429916717
#define SELU_SCALE 1.0507009873554804934193349852946

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* For negative x, erfc keeps digits that 1 + erf loses. */
static double gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

/* For negative x, the sigmoid keeps digits that 1 + tanh loses. */
static double gelu_tanh(double x)
{
    const double two_sqrt_2_pi = 1.5957691216057307117597842397375;
    return x * sigmoid(two_sqrt_2_pi * (x + 0.044715 * x * x * x));
}

/* Computes min(max(x, low), high). Unlike with fmin and fmax, the result is NaN if x or a bound is
 * NaN. */
static double clamp(double x, double low, double high)
{
    if (isnan(low) || isnan(high)) return NAN;
    double raised = x < low ? low : x;
    return raised > high ? high : raised;
}

/* x tanh(softplus(x)) as a quotient of polynomials in exp(x), which is accurate for large and small
 * x. */
static double mish(double x)
{
    if (x > 20) return x;
    const double n = exp(x) * (exp(x) + 2);
    return x * n / (n + 2);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    int n_parameters;
    function_t loop; /* or FUNCTION_COUNT */
} functions[ELTWISE_COUNT] = {
    [ELTWISE_NONE] = {"none", 0, FUNCTION_COUNT},
#define NONE 0
#define FLAG(name) 0
#define ONE(name, initial) 1
#define TWO(name, initial, name2, initial2) 2
#define POST_ONLY(name, NAME, layer, parameters, value, loop, ...)                                 \
    [ELTWISE_##NAME] = {#name, parameters, FUNCTION_##loop},
#define ACTIVATION POST_ONLY
#include "kernels/elementwise/eltwise.def"
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
    const double a = alpha, b = beta;
    switch (eltwise) {
#define POST_ONLY(name, NAME, layer, parameters, value, ...)                                       \
    case ELTWISE_##NAME:                                                                           \
        return value;
#define ACTIVATION POST_ONLY
#include "kernels/elementwise/eltwise.def"
    default: return x;
    }
}

/* Finds the vectorised f32 implementation of a function. Returns false if there is none, or for a
 * clamp with alpha > beta, which the implementation does not support. */
static bool find_function(eltwise_t eltwise, double alpha, double beta, function_t *out_function)
{
    if (known(eltwise) == ELTWISE_NONE || functions[eltwise].loop == FUNCTION_COUNT) return false;
    *out_function = functions[eltwise].loop;
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

/* The maximum, as in PyTorch: NaN if either operand is NaN. */
static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* The minimum, as in PyTorch: NaN if either operand is NaN. */
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
    const double a = alpha;
    switch (eltwise) {
#define POST_ONLY(name, NAME, layer, parameters, value, loop, terms, ...)                          \
    case ELTWISE_##NAME:                                                                           \
        return terms;
#define ACTIVATION POST_ONLY
#include "kernels/elementwise/eltwise.def"
    default: return 0;
    }
}

bool eltwise_keeps_zero(eltwise_t eltwise, double alpha, double beta)
{
    return eltwise_value(eltwise, 0, alpha, beta) == 0;
}
