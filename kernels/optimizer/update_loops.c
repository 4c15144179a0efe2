/* Loops of update_impl.h, compiled once for each ISA (isa_impl.h). Iteration i uses only element i
 * of every array, so results do not depend on the number of threads or the order of elements in
 * memory. */
#include <math.h>
#include <stdbool.h>

#include "kernels/optimizer/update_impl.h"
#include "kernels/vector_impl.h"

/* ---- SGD ---- */

static void sgd(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i], g = u.gradient[i];
        u.parameter[i] = p - u.rate * (u.decay != 0.0f ? g + u.decay * p : g);
    }
}

static void sgd_momentum(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const buffer = u.state[0];
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i];
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float b = u.momentum * buffer[i] + u.blend * g;
        buffer[i] = b;
        u.parameter[i] = p - u.rate * (u.is_nesterov ? g + u.momentum * b : b);
    }
}

/* ---- Adam ---- */

/* a + weight * (b - a), like torch.lerp: adds to the operand that has more weight. Otherwise, if a
 * is much larger than b, b would be lost. */
static inline float lerp(float a, float b, float weight)
{
    const float difference = b - a;
    return weight < 0.5f ? a + weight * difference : b - (1.0f - weight) * difference;
}

static void adam(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const average = u.state[0], *const square = u.state[1];
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i] * u.shrink;
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float m = lerp(average[i], g, u.gain1);
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        average[i] = m;
        square[i] = v;
        u.parameter[i] = p - u.rate * m / (sqrtf(v) / u.root + u.eps);
    }
}

static void adam_amsgrad(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const average = u.state[0], *const square = u.state[1], *const largest = u.state[2];
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i] * u.shrink;
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float m = lerp(average[i], g, u.gain1);
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        const float most = largest[i] >= v ? largest[i] : v; /* NaN stays, like in torch.maximum */
        const float kept = largest[i] != largest[i] ? largest[i] : most;
        average[i] = m;
        square[i] = v;
        largest[i] = kept;
        u.parameter[i] = p - u.rate * m / (sqrtf(kept) / u.root + u.eps);
    }
}

/* ---- RMSprop ---- */

static void rmsprop(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const square = u.state[0], *const buffer = u.state[1];
    const bool has_buffer = buffer != NULL;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i];
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        const float deviation = sqrtf(v) + u.eps;
        square[i] = v;
        if (has_buffer) buffer[i] = u.momentum * buffer[i] + g / deviation;
        u.parameter[i] = p - (has_buffer ? u.rate * buffer[i] : u.rate * g / deviation);
    }
}

static void rmsprop_centered(const update_t *update, int64_t first, int64_t last)
{
    const update_t u = *update;
    float *const square = u.state[0], *const buffer = u.state[1], *const average = u.state[2];
    const bool has_buffer = buffer != NULL;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float p = u.parameter[i];
        const float g = u.decay != 0.0f ? u.gradient[i] + u.decay * p : u.gradient[i];
        const float v = u.beta2 * square[i] + u.gain2 * g * g;
        const float a = lerp(average[i], g, u.gain2);
        const float deviation = sqrtf(v - a * a) + u.eps;
        square[i] = v;
        average[i] = a;
        if (has_buffer) buffer[i] = u.momentum * buffer[i] + g / deviation;
        u.parameter[i] = p - (has_buffer ? u.rate * buffer[i] : u.rate * g / deviation);
    }
}

const update_loops_t KERNEL_NAME(update_loops) = {.sgd = sgd,
                                                  .sgd_momentum = sgd_momentum,
                                                  .adam = adam,
                                                  .adam_amsgrad = adam_amsgrad,
                                                  .rmsprop = rmsprop,
                                                  .rmsprop_centered = rmsprop_centered};
