/* Loops of rows_impl.h, compiled once for each ISA (isa_impl.h). exp and tanh are polynomials,
 * because calls of the C library prevent vectorisation. */
#include "kernels/recurrent/rows_impl.h"
#include "kernels/scalar_functions_impl.h"
#include "kernels/vector_impl.h"

/* ---- functions of a cell ---- */

/* tanh(x) as x p(x^2) / q(x^2), with |x| clamped to 7.9, where tanh rounds to 1. Error: at most 4
 * units in the last place. */
static inline float hyperbolic_tangent(float x)
{
    const float limit = 7.90531110763549805f;
    float t = x > limit ? limit : x;
    t = t < -limit ? -limit : t;
    const float s = t * t;
    float p = -2.76076847742355e-16f;
    p = p * s + 2.00018790482477e-13f;
    p = p * s - 8.60467152213735e-11f;
    p = p * s + 5.12229709037114e-08f;
    p = p * s + 1.48572235717979e-05f;
    p = p * s + 6.37261928875436e-04f;
    p = p * s + 4.89352455891786e-03f;
    float q = 1.19825839466702e-06f;
    q = q * s + 1.18534705686654e-04f;
    q = q * s + 2.26843463243900e-03f;
    q = q * s + 4.89352518554385e-03f;
    return t * p / q;
}

/* ---- a step ---- */

static inline void add(int64_t n, const float *from, float *to)
{
    if (from == NULL) return;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) to[j] += from[j];
}

static void step_lstm(const recurrent_rows_t *r)
{
    const int64_t n = r->n, g = r->gate_step;
    for (int gate = 0; gate < 4; gate++) {
        add(n, r->step + gate * g, r->sums + gate * g);
        add(n, r->bias_ih == NULL ? NULL : r->bias_ih + gate * g, r->sums + gate * g);
        add(n, r->bias_hh == NULL ? NULL : r->bias_hh + gate * g, r->sums + gate * g);
    }
    const float *input = r->sums, *forget = r->sums + g, *fresh = r->sums + 2 * g;
    const float *output = r->sums + 3 * g;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float old = r->c[j];
        const float c = scalar_sigmoid(forget[j]) * old +
                        scalar_sigmoid(input[j]) * hyperbolic_tangent(fresh[j]);
        r->old_h[j] = r->h[j];
        r->old_c[j] = old;
        r->new_c[j] = r->c[j] = c;
        r->h[j] = scalar_sigmoid(output[j]) * hyperbolic_tangent(c);
    }
}

static void step_gru(const recurrent_rows_t *r)
{
    const int64_t n = r->n, g = r->gate_step;
    for (int gate = 0; gate < 3; gate++) {
        float *of_h = gate == 2 ? r->inner : r->sums + gate * g;
        if (gate == 2) memcpy(of_h, r->step + gate * g, (size_t)n * sizeof *of_h);
        if (gate < 2) add(n, r->step + gate * g, of_h);
        add(n, r->bias_hh == NULL ? NULL : r->bias_hh + gate * g, of_h);
        add(n, r->bias_ih == NULL ? NULL : r->bias_ih + gate * g, r->sums + gate * g);
    }
    const float *reset = r->sums, *update = r->sums + g, *fresh = r->sums + 2 * g;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float old = r->h[j], keep = scalar_sigmoid(update[j]);
        const float candidate = hyperbolic_tangent(fresh[j] +
                                                   scalar_sigmoid(reset[j]) * r->inner[j]);
        r->old_h[j] = old;
        r->h[j] = (1.0f - keep) * candidate + keep * old;
    }
}

/* ---- a backward step ---- */

static void back_lstm(const recurrent_rows_back_t *r)
{
    const int64_t n = r->n, g = r->gate_step;
    const float *sum_i = r->sums, *sum_f = r->sums + g, *sum_g = r->sums + 2 * g;
    const float *sum_o = r->sums + 3 * g;
    const float *grad_y = r->grad_y;
    float *to = r->diffs;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float diff_h = r->diff_h[j] + r->direct_h[j] + (grad_y == NULL ? 0.0f : grad_y[j]);
        const float input = scalar_sigmoid(sum_i[j]), forget = scalar_sigmoid(sum_f[j]);
        const float fresh = hyperbolic_tangent(sum_g[j]), output = scalar_sigmoid(sum_o[j]);
        const float shown = hyperbolic_tangent(r->new_c[j]);
        const float diff_c = r->diff_c[j] + diff_h * output * (1.0f - shown * shown);
        to[j] = diff_c * fresh * input * (1.0f - input);
        to[g + j] = diff_c * r->old_c[j] * forget * (1.0f - forget);
        to[2 * g + j] = diff_c * input * (1.0f - fresh * fresh);
        to[3 * g + j] = diff_h * shown * output * (1.0f - output);
        r->diff_c[j] = diff_c * forget;
        r->direct_h[j] = 0.0f;
    }
    for (int gate = 0; gate < 4; gate++)
        memcpy(r->step + gate * g, to + gate * g, (size_t)n * sizeof *to);
}

static void back_gru(const recurrent_rows_back_t *r)
{
    const int64_t n = r->n, g = r->gate_step;
    const float *sum_r = r->sums, *sum_z = r->sums + g, *sum_n = r->sums + 2 * g;
    const float *grad_y = r->grad_y;
    float *of_x = r->diffs, *of_h = r->h_diffs;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float diff_h = r->diff_h[j] + r->direct_h[j] + (grad_y == NULL ? 0.0f : grad_y[j]);
        const float reset = scalar_sigmoid(sum_r[j]), update = scalar_sigmoid(sum_z[j]),
                    inner = r->inner[j];
        const float fresh = hyperbolic_tangent(sum_n[j] + reset * inner);
        const float diff_n = diff_h * (1.0f - update) * (1.0f - fresh * fresh);
        const float diff_z = diff_h * (r->old_h[j] - fresh) * update * (1.0f - update);
        const float diff_r = diff_n * inner * reset * (1.0f - reset);
        of_x[j] = of_h[j] = diff_r;
        of_x[g + j] = of_h[g + j] = diff_z;
        of_x[2 * g + j] = diff_n;
        of_h[2 * g + j] = diff_n * reset;
        r->direct_h[j] = diff_h * update;
    }
    for (int gate = 0; gate < 3; gate++)
        memcpy(r->step + gate * g, of_h + gate * g, (size_t)n * sizeof *of_h);
}

/* ---- dot products ---- */

static double dot_f32(const void *a, const void *b, int64_t n)
{
    const float *x = a, *y = b;
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return (double)sum;
}

static double dot_f64(const void *a, const void *b, int64_t n)
{
    const double *x = a, *y = b;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

const recurrent_loops_t KERNEL_NAME(recurrent_loops) = {step_lstm, step_gru, back_lstm,
                                                        back_gru,  dot_f32,  dot_f64};
