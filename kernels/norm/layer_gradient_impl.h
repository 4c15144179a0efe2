/* Gradients of layer norm and rms norm for one row. ops/norm/layer_norm_backward.c defines v and
 * h. */
#ifndef TESSERA_KERNELS_NORM_LAYER_GRADIENT_IMPL_H
#define TESSERA_KERNELS_NORM_LAYER_GRADIENT_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "tensor/dtype.h"

typedef struct layer_gradient {
    dtype_t dtype; /* dtype of all arrays: f32 or f64 */
    bool has_mean; /* false: rms norm */
    double epsilon;
    int64_t n; /* elements in a row */
    const void *weight;
} layer_gradient_t;

/* Stores the gradient of x in of_x, which may be grad. Adds the row to of_weight and of_bias. */
void layer_gradient_row(const layer_gradient_t *layer, isa_t isa, const void *x, const void *grad,
                        void *of_x, void *of_weight, void *of_bias);

/* h = (x - mean) scale + shift; shift corrects the rounding error of mean. */
typedef struct layer_factors {
    double mean, scale, shift, mean_v, mean_vh;
} layer_factors_t;

/* Loops of one ISA for one dtype. */
typedef struct layer_gradient_loops {
    /* Adds the sums of v, of v (x - mean) and of x - mean to sums[3]. */
    void (*add)(int64_t n, const void *x, const void *grad, const void *weight, double mean,
                double *sums);
    void (*write)(int64_t n, const void *x, const void *grad, const void *weight,
                  const layer_factors_t *factors, void *of_x, void *of_weight, void *of_bias);
} layer_gradient_loops_t;
ISA_EXTERN(const layer_gradient_loops_t, layer_gradient_f32);
ISA_EXTERN(const layer_gradient_loops_t, layer_gradient_f64);

#endif
