/* Loops of functions_impl.h that the compiler vectorises, compiled once for each ISA. */
#include <math.h>

#include "kernels/elementwise/functions_impl.h"
#include "kernels/scalar_functions_impl.h"
#include "kernels/vector_impl.h"

KERNEL_INLINE float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

KERNEL_INLINE float value(function_t function, float a, float b, float x)
{
    switch (function) {
    case FUNCTION_RELU: return x < 0.0f ? 0.0f : x;
    case FUNCTION_CLAMP: return clamp(x, a, b);
    case FUNCTION_LEAKY_RELU: return x > 0.0f ? x : a * x;
    case FUNCTION_HARDSIGMOID: return clamp(a * x + b, 0.0f, 1.0f);
    case FUNCTION_HARDSWISH: return x * clamp(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f);
    case FUNCTION_LINEAR: return a * x + b;
    case FUNCTION_ABS: return fabsf(x);
    case FUNCTION_NEG: return -x;
    case FUNCTION_RECIPROCAL: return 1.0f / x;
    case FUNCTION_SQRT: return sqrtf(x);
    case FUNCTION_EXP: return scalar_exp(x);
    case FUNCTION_LOG: return scalar_log(x);
    case FUNCTION_SOFTPLUS: return scalar_softplus(x);
    default: return scalar_erf(x);
    }
}

KERNEL_INLINE void apply(function_t function, float a, float b, int64_t n, const float *src,
                         float *dst)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dst[i] = value(function, a, b, src[i]);
}

/* The inlined loop is compiled once for each function, so `function` is a constant in it. */
void KERNEL_NAME(plain_functions)(function_t function, float a, float b, int64_t n,
                                  const float *src, float *dst)
{
    switch (function) {
    case FUNCTION_RELU: apply(FUNCTION_RELU, a, b, n, src, dst); break;
    case FUNCTION_CLAMP: apply(FUNCTION_CLAMP, a, b, n, src, dst); break;
    case FUNCTION_LEAKY_RELU: apply(FUNCTION_LEAKY_RELU, a, b, n, src, dst); break;
    case FUNCTION_HARDSIGMOID: apply(FUNCTION_HARDSIGMOID, a, b, n, src, dst); break;
    case FUNCTION_HARDSWISH: apply(FUNCTION_HARDSWISH, a, b, n, src, dst); break;
    case FUNCTION_LINEAR: apply(FUNCTION_LINEAR, a, b, n, src, dst); break;
    case FUNCTION_ABS: apply(FUNCTION_ABS, a, b, n, src, dst); break;
    case FUNCTION_NEG: apply(FUNCTION_NEG, a, b, n, src, dst); break;
    case FUNCTION_RECIPROCAL: apply(FUNCTION_RECIPROCAL, a, b, n, src, dst); break;
    case FUNCTION_SQRT: apply(FUNCTION_SQRT, a, b, n, src, dst); break;
    case FUNCTION_EXP: apply(FUNCTION_EXP, a, b, n, src, dst); break;
    case FUNCTION_LOG: apply(FUNCTION_LOG, a, b, n, src, dst); break;
    case FUNCTION_SOFTPLUS: apply(FUNCTION_SOFTPLUS, a, b, n, src, dst); break;
    default: apply(FUNCTION_ERF, a, b, n, src, dst); break;
    }
}
