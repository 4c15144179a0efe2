/* Vectors of KERNEL_LANES floats, which the including file sets, by the compiler's own vectors: two
 * machine vectors make one where those are narrower. */
#ifndef TESSERA_KERNELS_VECTOR_IMPL_H
#define TESSERA_KERNELS_VECTOR_IMPL_H

#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define KERNEL_INLINE static inline __attribute__((always_inline))

/* Before a loop of few turns, whose number is a constant; and before one that is to stay a loop. */
#if defined(__clang__)
#define KERNEL_UNROLL _Pragma("unroll")
#define KERNEL_ROLL _Pragma("nounroll")
#else
#define KERNEL_UNROLL _Pragma("GCC unroll 16")
#define KERNEL_ROLL _Pragma("GCC unroll 1")
#endif

typedef float vector_t __attribute__((vector_size(KERNEL_LANES * 4)));
typedef uint32_t vector_u32_t __attribute__((vector_size(KERNEL_LANES * 4)));
typedef uint16_t vector_u16_t __attribute__((vector_size(KERNEL_LANES * 2)));

/* Memory may be aligned to its elements only. */
KERNEL_INLINE vector_t vector_load(const float *from)
{
    vector_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

KERNEL_INLINE void vector_store(vector_t v, float *to)
{
    memcpy(to, &v, sizeof v);
}

/* A bf16 is the upper half of a float. */
KERNEL_INLINE vector_t vector_load_bf16(const uint16_t *from)
{
    vector_u16_t halves;
    memcpy(&halves, from, sizeof halves);
    const vector_u32_t bits = __builtin_convertvector(halves, vector_u32_t) << 16;
    return (vector_t)bits;
}

/* The smaller and the larger of each lane; b where one is NaN. */
KERNEL_INLINE vector_t vector_min(vector_t a, vector_t b)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (vector_t)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX__) && KERNEL_LANES == 8
    return (vector_t)_mm256_min_ps((__m256)a, (__m256)b);
#else
    const vector_u32_t is_a = (vector_u32_t)(a < b);
    return (vector_t)((is_a & (vector_u32_t)a) | (~is_a & (vector_u32_t)b));
#endif
}

KERNEL_INLINE vector_t vector_max(vector_t a, vector_t b)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (vector_t)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__) && KERNEL_LANES == 8
    return (vector_t)_mm256_max_ps((__m256)a, (__m256)b);
#else
    const vector_u32_t is_a = (vector_u32_t)(a > b);
    return (vector_t)((is_a & (vector_u32_t)a) | (~is_a & (vector_u32_t)b));
#endif
}

/* By pairs, so that the error grows with the logarithm of the lanes. */
KERNEL_INLINE float vector_sum(vector_t v)
{
    float lanes[KERNEL_LANES];
    memcpy(lanes, &v, sizeof lanes);
    for (int n = KERNEL_LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) lanes[i] += lanes[i + n];
    return lanes[0];
}

#endif
