/* Access to the factors of products in pairs, transformed x and transformed weights, in bf16, for
 * vectors of KERNEL_LANES floats. One instruction multiplies two channels and adds both products.
 * winograd_factors_impl.h has the same functions for f32. */
#include "kernels/conv/winograd/winograd_impl.h"
#include "kernels/vector_impl.h"

#define FACTOR_CHANNELS 2
#define FACTOR_TINY 0x1p-7f
typedef uint16_t factor_t;

KERNEL_INLINE void put_sources(vector_t v, factor_t *to)
{
    vector_store_as(v, to, 0, true);
}

/* Stores `width` weights of each of two channels. The two weights of a pair are adjacent. */
static inline void put_weights(const float *from, int width, factor_t *to)
{
    for (int k = 0; k < width; k += KERNEL_LANES) {
        const vector_u16_t even = vector_to_bf16(vector_load(from + k));
        const vector_u16_t odd = vector_to_bf16(vector_load(from + width + k));
        const vector_u32_t pairs = __builtin_convertvector(even, vector_u32_t) |
                                   __builtin_convertvector(odd, vector_u32_t) << 16;
        memcpy(to + 2 * k, &pairs, sizeof pairs);
    }
}

KERNEL_INLINE vector_t load_weights(const factor_t *from)
{
    vector_t pairs;
    memcpy(&pairs, from, sizeof pairs);
    return pairs;
}

static inline vector_t load_weight(const factor_t *point, int64_t channel, int64_t width, int64_t k)
{
    vector_u32_t pairs;
    memcpy(&pairs, point + (channel - channel % 2) * width + 2 * k, sizeof pairs);
    return (vector_t)(channel % 2 == 0 ? pairs << 16 : pairs & 0xffff0000u);
}

KERNEL_INLINE vector_t add_products(vector_t sum, const factor_t *x, vector_t weights)
{
    uint32_t pair;
    memcpy(&pair, x, sizeof pair);
#if defined(__AVX512BF16__) && KERNEL_LANES == 16
    return (vector_t)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)pair),
                                      (__m512bh)weights);
#else
    const vector_u32_t zero = {0}, pairs = (vector_u32_t)weights, of_x = zero + pair;
    const vector_t odd = (vector_t)(of_x & 0xffff0000u) * (vector_t)(pairs & 0xffff0000u);
    return sum + odd + (vector_t)(of_x << 16) * (vector_t)(pairs << 16);
#endif
}
