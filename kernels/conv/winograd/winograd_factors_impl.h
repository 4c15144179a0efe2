/* Access to the factors of products, transformed x and transformed weights, in f32, for vectors of
 * KERNEL_LANES floats. winograd_pairs_impl.h has the same functions for pairs of bf16. */
#include "kernels/conv/winograd/winograd_impl.h"
#include "kernels/vector_impl.h"

#define FACTOR_CHANNELS 1
#define FACTOR_TINY 0x1p-20f /* a few rounding errors of a transformed weight */
typedef float factor_t;

KERNEL_INLINE void put_sources(vector_t v, factor_t *to)
{
    vector_store(v, to);
}

static inline void put_weights(const float *from, int width, factor_t *to)
{
    memcpy(to, from, (size_t)width * sizeof *to);
}

KERNEL_INLINE vector_t load_weights(const factor_t *from)
{
    return vector_load(from);
}

/* Loads weights of one channel for outputs from k on. A block has `width` outputs. */
static inline vector_t load_weight(const factor_t *point, int64_t channel, int64_t width, int64_t k)
{
    return vector_load(point + channel * width + k);
}

KERNEL_INLINE vector_t add_products(vector_t sum, const factor_t *x, vector_t weights)
{
    return sum + *x * weights;
}
