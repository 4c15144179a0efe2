/* The loop of functions_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/elementwise/functions_impl.h"
#include "kernels/vector_functions_impl.h"

KERNEL_INLINE vector_t value(function_t function, vector_t x)
{
    switch (function) {
    case FUNCTION_SIGMOID: return vector_sigmoid(x);
    case FUNCTION_SILU: return vector_by_sigmoid(x, x);
    case FUNCTION_GELU: return vector_gelu(x);
    default: break;
    }
    return vector_by_sigmoid(x, 1.5957691216057308f * (x + 0.044715f * x * x * x));
}

KERNEL_INLINE void apply(function_t function, int64_t n, const float *src, float *dst)
{
    int64_t i = 0;
    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        vector_store(value(function, vector_load(src + i)), dst + i);
    if (i == n) return;
    float rest[KERNEL_LANES] = {0};
    memcpy(rest, src + i, (size_t)(n - i) * sizeof *rest);
    vector_store(value(function, vector_load(rest)), rest);
    memcpy(dst + i, rest, (size_t)(n - i) * sizeof *rest);
}

/* The inlined loop is compiled once for each function, so `function` is a constant in it. */
void KERNEL_NAME(functions)(function_t function, int64_t n, const float *src, float *dst)
{
    switch (function) {
    case FUNCTION_SIGMOID: apply(FUNCTION_SIGMOID, n, src, dst); break;
    case FUNCTION_SILU: apply(FUNCTION_SILU, n, src, dst); break;
    case FUNCTION_GELU: apply(FUNCTION_GELU, n, src, dst); break;
    default: apply(FUNCTION_GELU_TANH, n, src, dst); break;
    }
}
