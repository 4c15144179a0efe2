/* The loops of layer_gradient_loops.c for the type NUMBER. There is no include guard, because
 * layer_gradient_loops.c includes this file once for each type. */

static void NUMBER_NAME(add)(int64_t n, const void *row, const void *grad_row,
                             const void *weight_row, double row_mean, double *sums)
{
    const NUMBER *x = row, *grad = grad_row, *weight = weight_row, mean = (NUMBER)row_mean;
    const int64_t whole = n / LANES * LANES;
    NUMBER a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0};
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const NUMBER v = grad[i + l] * weight[i + l], d = x[i + l] - mean;
            a[l] += v;
            b[l] += v * d;
            c[l] += d;
        }
    for (int64_t i = whole; i < n; i++) {
        const NUMBER v = grad[i] * weight[i], d = x[i] - mean;
        a[i - whole] += v;
        b[i - whole] += v * d;
        c[i - whole] += d;
    }
    for (int l = 0; l < LANES; l++) {
        sums[0] += (double)a[l];
        sums[1] += (double)b[l];
        sums[2] += (double)c[l];
    }
}

static void NUMBER_NAME(write)(int64_t n, const void *row, const void *grad_row,
                               const void *weight_row, const layer_factors_t *factors,
                               void *out_row, void *of_weight_row, void *of_bias_row)
{
    const NUMBER *x = row, *grad = grad_row, *weight = weight_row;
    const NUMBER mean = (NUMBER)factors->mean, scale = (NUMBER)factors->scale;
    const NUMBER shift = (NUMBER)factors->shift, mean_v = (NUMBER)factors->mean_v;
    const NUMBER mean_vh = (NUMBER)factors->mean_vh;
    NUMBER *of_x = out_row, *of_weight = of_weight_row, *of_bias = of_bias_row;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const NUMBER g = grad[i], h = (x[i] - mean) * scale + shift;
        of_weight[i] += g * h;
        of_bias[i] += g;
        of_x[i] = (g * weight[i] - mean_v - h * mean_vh) * scale;
    }
}
