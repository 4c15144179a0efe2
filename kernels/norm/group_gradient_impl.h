/* Loops of the gradients of group norm. */
#ifndef TESSERA_KERNELS_NORM_GROUP_GRADIENT_IMPL_H
#define TESSERA_KERNELS_NORM_GROUP_GRADIENT_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "kernels/norm/moments_impl.h"
#include "tensor/dtype.h"

/* Sums of grad and of grad (x - mean) over contiguous rows of `width` channels; means, sums and
 * products are [width]. */
void group_gradient_sums(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, const void *x,
                         const void *grad, const double *means, double *sums, double *products);

/* Factors of each channel: f32 if x is f32, else f64. */
typedef enum group_factor {
    GROUP_OF_GRAD,
    GROUP_OF_X,
    GROUP_SHIFT,
    GROUP_MEAN,
    GROUP_FACTORS
} group_factor_t;

/* dst = grad of_grad + (x - mean) of_x + shift for contiguous rows of `width` channels. If
 * is_constant, a row is `width` elements of one channel. dst may be x or grad. */
void group_gradient_apply(isa_t isa, dtype_t dtype, int64_t rows, int64_t width, bool is_constant,
                          const void *const factors[GROUP_FACTORS], const void *x, const void *grad,
                          void *dst);

/* Loops of one ISA. A call sums at most as many elements as one of moments_loops_t. */
typedef struct group_gradient_loops {
    /* Adds n elements of one channel to a sum and a product. */
    void (*line)(int64_t n, const float *x, const float *grad, float mean, double *sum,
                 double *product);
    /* Adds rows of up to MOMENTS_LANES columns. */
    void (*columns)(int64_t rows, int64_t width, int64_t step, const float *x, const float *grad,
                    const float *mean, float *sum, float *product);
    /* group_gradient_apply for f32. */
    void (*apply)(int64_t rows, int64_t width, bool is_constant,
                  const float *const factors[GROUP_FACTORS], const float *x, const float *grad,
                  float *dst);
} group_gradient_loops_t;
ISA_EXTERN(const group_gradient_loops_t, group_gradient);

#endif
