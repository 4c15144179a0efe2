#include "kernels/conv/planes_impl.h"

#include <stdbool.h>

#include "tensor/threads/threads_impl.h"

/* ---- one element of a result ---- */

double planes_direct(const planes_t *p, const char *x, const char *weight, int64_t k,
                     const int64_t *at)
{
    const int64_t size = (int64_t)dtype_size(p->dtype);
    double sum = 0.0;
    weight += k * p->group_channels * p->kernel_plane * size;
    for (int64_t t = 0; t < p->kernel[0]; t++)
        for (int64_t r = 0; r < p->kernel[1]; r++)
            for (int64_t s = 0; s < p->kernel[2]; s++) {
                int64_t d = at[0] * p->stride[0] + t * p->dilation[0] - p->padding[0];
                int64_t h = at[1] * p->stride[1] + r * p->dilation[1] - p->padding[1];
                int64_t w = at[2] * p->stride[2] + s * p->dilation[2] - p->padding[2];
                if (d < 0 || d >= p->in[0] || h < 0 || h >= p->in[1] || w < 0 || w >= p->in[2])
                    continue;
                int64_t at_x = (d * p->in[1] + h) * p->in[2] + w;
                int64_t at_weight = (t * p->kernel[1] + r) * p->kernel[2] + s;
                for (int64_t c = 0; c < p->group_channels; c++)
                    sum += dtype_load(p->dtype, x + (c * p->in_plane + at_x) * size) *
                           dtype_load(p->dtype, weight + (c * p->kernel_plane + at_weight) * size);
            }
    return sum;
}

double planes_transposed(const planes_t *p, const char *x, const char *weight, int64_t k,
                         const int64_t *at)
{
    const int64_t size = (int64_t)dtype_size(p->dtype), step = p->group_outputs * p->kernel_plane;
    const int64_t group = k / p->group_outputs;
    double sum = 0.0;
    weight += (group * p->group_channels * step + k % p->group_outputs * p->kernel_plane) * size;
    for (int64_t window = 0; window < p->kernel_plane; window++) {
        int64_t rest = window, at_x = 0, plane = 1;
        bool is_inside = true;
        for (int i = 2; i >= 0; i--) {
            int64_t scaled = at[i] + p->padding[i] - rest % p->kernel[i] * p->dilation[i];
            rest /= p->kernel[i];
            int64_t index = scaled / p->stride[i];
            is_inside = is_inside && scaled >= 0 && scaled % p->stride[i] == 0 && index < p->in[i];
            at_x += index * plane;
            plane *= p->in[i];
        }
        for (int64_t c = 0; is_inside && c < p->group_channels; c++)
            sum += dtype_load(p->dtype, x + (c * p->in_plane + at_x) * size) *
                   dtype_load(p->dtype, weight + (c * step + window) * size);
    }
    return sum;
}

/* ---- planes_windows: whole results ---- */

typedef struct windows {
    const planes_t *planes;
    planes_window_t *window;
    const char *x, *weight, *bias;
    dtype_t bias_dtype;
    char *out;
} windows_t;

static void run_windows(void *user, int64_t first, int64_t last)
{
    const windows_t *run = user;
    const planes_t *p = run->planes;
    const int64_t size = (int64_t)dtype_size(p->dtype);
    const int64_t bias_size = (int64_t)dtype_size(run->bias_dtype);
    for (int64_t plane = first; plane < last; plane++) {
        const int64_t n = plane / p->outputs, k = plane % p->outputs;
        const int64_t channel = n * p->channels + k / p->group_outputs * p->group_channels;
        const char *x = run->x + channel * p->in_plane * size;
        double bias = 0.0;
        if (run->bias != NULL) bias = dtype_load(run->bias_dtype, run->bias + k * bias_size);
        for (int64_t q = 0; q < p->out_plane; q++) {
            int64_t at[3] = {q / (p->out[1] * p->out[2]), q / p->out[2] % p->out[1], q % p->out[2]};
            dtype_store(p->dtype, run->out + (plane * p->out_plane + q) * size,
                        bias + run->window(p, x, run->weight, k, at));
        }
    }
}

void planes_windows(const planes_t *planes, planes_window_t *window, int64_t n_images,
                    const void *x, const void *weight, dtype_t bias_dtype, const void *bias,
                    void *out, int n_threads)
{
    windows_t run = {planes, window, x, weight, bias, bias_dtype, out};
    threads_share(n_threads, n_images * planes->outputs, run_windows, &run);
}

/* ---- gradients ---- */

typedef struct gradients {
    const planes_t *planes;
    int64_t n_images;
    const char *x, *grad;
    char *out;
} gradients_t;

/* Gradient of element `window` of the kernel between two channels, from one image: the sum of x
 * times grad. x is the image's input channel, grad its output channel. */
static double plane_sum(const planes_t *p, const char *x, const char *grad, int64_t window)
{
    const int64_t size = (int64_t)dtype_size(p->dtype);
    const int64_t kernel[] = {window / (p->kernel[1] * p->kernel[2]),
                              window / p->kernel[2] % p->kernel[1], window % p->kernel[2]};
    double sum = 0.0;
    for (int64_t at = 0; at < p->out_plane; at++) {
        const int64_t out[] = {at / (p->out[1] * p->out[2]), at / p->out[2] % p->out[1],
                               at % p->out[2]};
        int64_t at_x = 0;
        bool is_inside = true;
        for (int i = 0; i < 3; i++) {
            int64_t index = out[i] * p->stride[i] + kernel[i] * p->dilation[i] - p->padding[i];
            is_inside = is_inside && index >= 0 && index < p->in[i];
            at_x = at_x * p->in[i] + index;
        }
        if (is_inside)
            sum += dtype_load(p->dtype, x + at_x * size) * dtype_load(p->dtype, grad + at * size);
    }
    return sum;
}

static void run_weight_gradient(void *user, int64_t first, int64_t last)
{
    const gradients_t *run = user;
    const planes_t *p = run->planes;
    const int64_t size = (int64_t)dtype_size(p->dtype);
    for (int64_t i = first; i < last; i++) {
        const int64_t window = i % p->kernel_plane, k = i / p->kernel_plane / p->group_channels;
        const int64_t c = k / p->group_outputs * p->group_channels +
                          i / p->kernel_plane % p->group_channels;
        double sum = 0.0;
        for (int64_t image = 0; image < run->n_images; image++)
            sum += plane_sum(p, run->x + (image * p->channels + c) * p->in_plane * size,
                             run->grad + (image * p->outputs + k) * p->out_plane * size, window);
        dtype_store(p->dtype, run->out + i * size, sum);
    }
}

void planes_weight_gradient(const planes_t *planes, int64_t n_images, const void *x,
                            const void *grad, void *out, int n_threads)
{
    gradients_t run = {planes, n_images, x, grad, out};
    threads_share(n_threads, planes->outputs * planes->group_channels * planes->kernel_plane,
                  run_weight_gradient, &run);
}

static void run_bias_gradient(void *user, int64_t first, int64_t last)
{
    const gradients_t *run = user;
    const planes_t *p = run->planes;
    const int64_t size = (int64_t)dtype_size(p->dtype);
    for (int64_t k = first; k < last; k++) {
        double sum = 0.0;
        for (int64_t n = 0; n < run->n_images; n++)
            for (int64_t i = 0; i < p->out_plane; i++)
                sum += dtype_load(p->dtype,
                                  run->grad + ((n * p->outputs + k) * p->out_plane + i) * size);
        dtype_store(p->dtype, run->out + k * size, sum);
    }
}

void planes_bias_gradient(const planes_t *planes, int64_t n_images, const void *grad, void *out,
                          int n_threads)
{
    gradients_t run = {planes, n_images, NULL, grad, out};
    threads_share(n_threads, planes->outputs, run_bias_gradient, &run);
}

/* ---- norms ---- */

typedef struct norm {
    int64_t n_channels, plane;
    const float *x, *scale, *shift;
    float lowest, highest;
    float *out;
} norm_t;

static void run_norm(void *user, int64_t first, int64_t last)
{
    const norm_t *run = user;
    const float lowest = run->lowest, highest = run->highest;
    for (int64_t plane = first; plane < last; plane++) {
        const float scale = run->scale[plane % run->n_channels];
        const float shift = run->shift[plane % run->n_channels];
        const float *x = run->x + plane * run->plane;
        float *out = run->out + plane * run->plane;
        for (int64_t i = 0; i < run->plane; i++) {
            const float value = x[i] * scale + shift;
            out[i] = value < lowest ? lowest : value > highest ? highest : value;
        }
    }
}

void planes_norm(int64_t n_images, int64_t n_channels, int64_t plane, const float *x,
                 const float *scale, const float *shift, float lowest, float highest, float *out,
                 int n_threads)
{
    norm_t run = {n_channels, plane, x, scale, shift, lowest, highest, out};
    threads_share(n_threads, n_images * n_channels, run_norm, &run);
}
