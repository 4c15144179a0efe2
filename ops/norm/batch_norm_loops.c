/* The loops of batch norm in training. Sums of a lane over one chunk have the type of the elements;
 * sums over chunks are in double. Squares are of deviations from a mean computed first; the sum of
 * these deviations corrects it, so that a large mean costs no precision. */
#include "ops/norm/batch_norm_impl.h"
#include "tensor/simd_impl.h"

#define MOMENTS(name, type)                                                                        \
    FOR_EACH_ISA static void moments_##name(const lines_t *lines, const void *x, double *means,    \
                                            double *squares)                                       \
    {                                                                                              \
        type center[STRIP_LANES], sum[STRIP_LANES], square[STRIP_LANES];                           \
        const type *restrict src = (const type *)x + lines->offset;                                \
        const int64_t n = lines->lanes, step = lines->step;                                        \
        for (int64_t l = 0; l < n; l++) center[l] = sum[l] = square[l] = 0;                        \
        for (int64_t i = 0; i < lines->n; i++)                                                     \
            for (int64_t l = 0; l < n; l++) center[l] += src[i * step + l];                        \
        for (int64_t l = 0; l < n; l++) center[l] /= (type)lines->n;                               \
        for (int64_t i = 0; i < lines->n; i++)                                                     \
            for (int64_t l = 0; l < n; l++) {                                                      \
                const type d = src[i * step + l] - center[l];                                      \
                sum[l] += d;                                                                       \
                square[l] += d * d;                                                                \
            }                                                                                      \
        const double factor = 1.0 / (double)lines->n;                                              \
        for (int64_t l = 0; l < n; l++) {                                                          \
            const double mean = (double)sum[l] * factor;                                           \
            means[l] = (double)center[l] + mean;                                                   \
            squares[l] = (double)square[l] - (double)sum[l] * mean;                                \
        }                                                                                          \
    }

/* CUT is the activation of y. PASS is the part of g that it passes back if its operand is v. */
#define LOOPS(name, type, CUT, PASS, moments_of)                                                   \
    FOR_EACH_ISA static void dots_##name(const lines_t *lines, const void *x, const void *g,       \
                                         const void *factors, double *sums, double *dots)          \
    {                                                                                              \
        type sum[STRIP_LANES], dot[STRIP_LANES];                                                   \
        const type *restrict src = (const type *)x + lines->offset;                                \
        const type *restrict grad = (const type *)g + lines->offset;                               \
        const type *restrict center = (const type *)factors + BATCH_CENTER * STRIP_LANES;          \
        const type *restrict a = (const type *)factors + BATCH_A * STRIP_LANES;                    \
        const type *restrict shift = (const type *)factors + BATCH_SHIFT * STRIP_LANES;            \
        const type high = ((const type *)factors)[BATCH_HIGH * STRIP_LANES];                       \
        const int64_t n = lines->lanes;                                                            \
        (void)a, (void)shift, (void)high;                                                          \
        for (int64_t l = 0; l < n; l++) sum[l] = dot[l] = 0;                                       \
        for (int64_t i = 0; i < lines->n; i++, src += lines->step, grad += lines->step)            \
            for (int64_t l = 0; l < n; l++) {                                                      \
                const type way = src[l] - center[l];                                               \
                const type passed = PASS(grad[l], way * a[l] + shift[l], high);                    \
                sum[l] += passed;                                                                  \
                dot[l] += passed * way;                                                            \
            }                                                                                      \
        for (int64_t l = 0; l < n; l++) {                                                          \
            sums[l] = (double)sum[l];                                                              \
            dots[l] = (double)dot[l];                                                              \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    FOR_EACH_ISA static void scale_##name(const lines_t *lines, const void *x,                     \
                                          const void *factors, void *y)                            \
    {                                                                                              \
        const type *center = (const type *)factors + BATCH_CENTER * STRIP_LANES;                   \
        const type *a = (const type *)factors + BATCH_A * STRIP_LANES;                             \
        const type *b = (const type *)factors + BATCH_B * STRIP_LANES;                             \
        const type high = ((const type *)factors)[BATCH_HIGH * STRIP_LANES];                       \
        const type *src = (const type *)x + lines->offset;                                         \
        type *dst = (type *)y + lines->offset;                                                     \
        (void)high;                                                                                \
        for (int64_t i = 0; i < lines->n; i++, src += lines->step, dst += lines->step)             \
            _Pragma("omp simd") for (int64_t l = 0; l < lines->lanes; l++)                         \
            {                                                                                      \
                const type v = (src[l] - center[l]) * a[l] + b[l];                                 \
                dst[l] = CUT(v, high);                                                             \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    FOR_EACH_ISA static void combine_##name(const lines_t *lines, const void *x, const void *g,    \
                                            const void *factors, void *y)                          \
    {                                                                                              \
        const type *center = (const type *)factors + BATCH_CENTER * STRIP_LANES;                   \
        const type *a = (const type *)factors + BATCH_A * STRIP_LANES;                             \
        const type *b = (const type *)factors + BATCH_B * STRIP_LANES;                             \
        const type *c = (const type *)factors + BATCH_C * STRIP_LANES;                             \
        const type *shift = (const type *)factors + BATCH_SHIFT * STRIP_LANES;                     \
        const type high = ((const type *)factors)[BATCH_HIGH * STRIP_LANES];                       \
        const type *src = (const type *)x + lines->offset,                                         \
                   *grad = (const type *)g + lines->offset;                                        \
        type *dst = (type *)y + lines->offset;                                                     \
        const int64_t step = lines->step;                                                          \
        (void)shift, (void)high;                                                                   \
        for (int64_t i = 0; i < lines->n; i++, src += step, grad += step, dst += step)             \
            _Pragma("omp simd") for (int64_t l = 0; l < lines->lanes; l++)                         \
            {                                                                                      \
                const type way = src[l] - center[l];                                               \
                const type passed = PASS(grad[l], way * a[l] + shift[l], high);                    \
                dst[l] = passed * a[l] + way * b[l] + c[l];                                        \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static const batch_loops_t loops_##name = {.moments = moments_of,                              \
                                               .dots = dots_##name,                                \
                                               .scale = scale_##name,                              \
                                               .combine = combine_##name};

#define AS_IT_IS(v, high) (v)
#define ALL(g, v, high) (g)
#define CLAMPED(v, high) ((v) < 0 ? 0 : (v) > (high) ? (high) : (v))
#define INSIDE(g, v, high) ((((v) <= 0) | ((v) >= (high))) ? 0 : (g))

MOMENTS(f32, float)
MOMENTS(f64, double)
LOOPS(f32, float, AS_IT_IS, ALL, moments_f32)
LOOPS(f64, double, AS_IT_IS, ALL, moments_f64)
LOOPS(activated_f32, float, CLAMPED, INSIDE, moments_f32)
LOOPS(activated_f64, double, CLAMPED, INSIDE, moments_f64)

const batch_loops_t *batch_loops(dtype_t number, bool is_activated)
{
    if (number == DTYPE_F64) return is_activated ? &loops_activated_f64 : &loops_f64;
    return is_activated ? &loops_activated_f32 : &loops_f32;
}
