/* Gradients of pooling. The gradient of a maximum is added to the first largest element of its
 * window, or to the last NaN. The gradient of an average is divided equally among the elements of
 * its window. */
#ifndef TESSERA_KERNELS_POOL_GRADIENT_IMPL_H
#define TESSERA_KERNELS_POOL_GRADIENT_IMPL_H

#include "kernels/isa_impl.h"
#include "kernels/pool/windows_impl.h"
#include "tensor/dtype.h"

#define POOL_GRADIENT_LANES 64 /* maximum number of channels at a time */

/* n adjacent channels of an image. Elements of the planes are `step` floats apart. */
typedef struct pool_lanes {
    int64_t n, step;
    const float *src, *grad; /* input and gradient of the result; src is NULL for averages */
    float *dst;              /* gradient of the input */
} pool_lanes_t;

/* Each loop adds the gradients of result q to lanes->dst. The result's window w[3] must not be
 * empty. */
typedef struct pool_gradient_loops {
    void (*average)(const pool_plan_t *plan, const pool_window_t *w, int64_t q,
                    const pool_lanes_t *lanes);
    void (*largest)(const pool_plan_t *plan, const pool_window_t *w, int64_t q,
                    const pool_lanes_t *lanes);
} pool_gradient_loops_t;
ISA_EXTERN(const pool_gradient_loops_t, pool_gradient);

typedef struct pool_gradient {
    const pool_plan_t *plan; /* the forward plan; grad has size out_plane */
    dtype_t dtype;           /* floating */
    const void *src, *grad;  /* src is NULL for averages */
    void *out;
} pool_gradient_t;

/* Floats of scratch memory for each thread, in which bf16 and f16 are converted to f32. */
int64_t pool_gradient_scratch(const pool_plan_t *plan, dtype_t dtype);
void pool_gradient_run(const pool_gradient_t *gradient, isa_t isa, int n_threads, float *scratch);

#endif
