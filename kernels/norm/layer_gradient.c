#include "kernels/norm/layer_gradient_impl.h"

#include <math.h>

#include "kernels/norm/moments_impl.h"

#define ROUND 4096 /* elements of a row that are summed in its dtype before double */

void layer_gradient_row(const layer_gradient_t *layer, isa_t isa, const void *x, const void *grad,
                        void *of_x, void *of_weight, void *of_bias)
{
    static const layer_gradient_loops_t *const f32[ISA_COUNT] = ISA_TABLE(layer_gradient_f32),
                                               *const f64[ISA_COUNT] = ISA_TABLE(
                                                   layer_gradient_f64);
    const layer_gradient_loops_t *loops = layer->dtype == DTYPE_F32 ? f32[isa] : f64[isa];
    const int64_t n = layer->n, size = (int64_t)dtype_size(layer->dtype);
    layer_factors_t factors = {0};
    double sums[3] = {0.0, 0.0, 0.0};
    if (layer->has_mean)
        factors.mean = moments_line(isa, layer->dtype, n, x, MOMENT_SUM, 0.0) / (double)n;
    const double squares = moments_line(isa, layer->dtype, n, x, MOMENT_SQUARES, factors.mean);
    factors.scale = 1.0 / sqrt(squares / (double)n + layer->epsilon);
    for (int64_t first = 0; first < n; first += ROUND) {
        const int64_t count = n - first < ROUND ? n - first : ROUND, at = first * size;
        loops->add(count, (const char *)x + at, (const char *)grad + at,
                   (const char *)layer->weight + at, factors.mean, sums);
    }
    const double off = layer->has_mean ? sums[2] / (double)n : 0.0;
    sums[1] -= sums[0] * off;
    factors.shift = -off * factors.scale;
    factors.mean_v = layer->has_mean ? sums[0] / (double)n : 0.0;
    factors.mean_vh = sums[1] * factors.scale / (double)n;
    loops->write(n, x, grad, layer->weight, &factors, of_x, of_weight, of_bias);
}
