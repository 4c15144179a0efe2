/* Elementwise functions of one number. */
#ifndef TESSERA_DISPATCH_ELTWISE_H
#define TESSERA_DISPATCH_ELTWISE_H

#include "tensor/base/api.h"

/* Elementwise functions, used as operators and as post-ops. Some functions have parameters alpha
 * and beta, shown in their formula; the others ignore alpha and beta. */
typedef enum eltwise {
    ELTWISE_NONE,
    ELTWISE_RELU,
    ELTWISE_LEAKY_RELU, /* x > 0 ? x : alpha x */
    ELTWISE_ELU,        /* x > 0 ? x : alpha (exp(x) - 1) */
    ELTWISE_SELU,
    ELTWISE_CLAMP, /* min(max(x, alpha), beta) */
    ELTWISE_SIGMOID,
    ELTWISE_TANH,
    ELTWISE_GELU, /* 0.5 x (1 + erf(x / sqrt(2))) */
    ELTWISE_GELU_TANH,
    ELTWISE_SILU,        /* x sigmoid(x) */
    ELTWISE_HARDSIGMOID, /* clamp(alpha x + beta, 0, 1) */
    ELTWISE_HARDSWISH,   /* x clamp(x + 3, 0, 6) / 6 */
    ELTWISE_SOFTPLUS,
    ELTWISE_EXP,
    ELTWISE_LOG,
    ELTWISE_SQRT,
    ELTWISE_ABS,
    ELTWISE_SQUARE,
    ELTWISE_ERF,
    ELTWISE_NEG,
    ELTWISE_RECIPROCAL,
    ELTWISE_LINEAR,    /* alpha x + beta */
    ELTWISE_CELU,      /* x > 0 ? x : alpha (exp(x / alpha) - 1) */
    ELTWISE_MISH,      /* x tanh(softplus(x)) */
    ELTWISE_SHRINK,    /* x > alpha ? x - beta : x < -alpha ? x + beta : 0 */
    ELTWISE_THRESHOLD, /* x <= alpha ? beta : x */
    ELTWISE_COUNT
} eltwise_t;

/* eltwise_name returns "clamp" for ELTWISE_CLAMP; eltwise_parse is its inverse, and returns
 * ELTWISE_NONE for unknown names. eltwise_parameters returns 0, 1 (alpha) or 2 (alpha, beta).
 * eltwise_value computes the function of x. */
const char *eltwise_name(eltwise_t eltwise) TESSERA_API(eltwise_name);
eltwise_t eltwise_parse(const char *name) TESSERA_API(eltwise_parse);
int eltwise_parameters(eltwise_t eltwise) TESSERA_API(eltwise_parameters);
double eltwise_value(eltwise_t eltwise, double x, double alpha, double beta)
    TESSERA_API(eltwise_value);
/* Computes the function of n numbers, in single precision; dst may equal src. */
void eltwise_apply(eltwise_t eltwise, double alpha, double beta, int64_t n, const float *src,
                   float *dst) TESSERA_API(eltwise_apply);
/* The usual formula of some functions loses digits because large terms cancel. eltwise_cancels
 * returns the size of these terms, so that error bounds can allow for their rounding. Example: in
 * gelu, x (1 + erf(x / sqrt 2)) / 2, the terms x and x erf cancel for negative x. For gelu,
 * eltwise_cancels returns 8, because below -8 the result is 0 in single precision.
 * eltwise_keeps_zero returns true if the function maps 0 to 0, so that padding stays zero. */
double eltwise_cancels(eltwise_t eltwise, double alpha) TESSERA_API(eltwise_cancels);
bool eltwise_keeps_zero(eltwise_t eltwise, double alpha, double beta)
    TESSERA_API(eltwise_keeps_zero);

#endif
