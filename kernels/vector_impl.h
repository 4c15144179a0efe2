/* Vectors of KERNEL_LANES floats (isa_impl.h), using the compiler's vector extension. On machines
 * with narrower registers, a vector takes two. */
#ifndef TESSERA_KERNELS_VECTOR_IMPL_H
#define TESSERA_KERNELS_VECTOR_IMPL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

/* Appends the ISA to a name: KERNEL_NAME(pool) is pool_avx2. */
#define KERNEL_NAME(name) KERNEL_JOIN(name, KERNEL_ISA)
#define KERNEL_JOIN(name, isa) KERNEL_PASTE(name, isa)
#define KERNEL_PASTE(name, isa) name##_##isa

#define KERNEL_INLINE static inline __attribute__((always_inline))

/* Pragmas that unroll a loop with a small constant count, and that prevent unrolling. */
#if defined(__clang__)
#define KERNEL_UNROLL _Pragma("unroll")
#define KERNEL_ROLL _Pragma("nounroll")
#else
#define KERNEL_UNROLL _Pragma("GCC unroll 16")
#define KERNEL_ROLL _Pragma("GCC unroll 1")
#endif

/* Expands to of(1) of(2) .. of(n). n is 3, 6 or 14: the values of KERNEL_ROWS. */
#define KERNEL_UP_TO(n, of) KERNEL_UP_TO_NUMBER(n, of)
#define KERNEL_UP_TO_NUMBER(n, of) KERNEL_UP_TO_##n(of)
#define KERNEL_UP_TO_3(of) of(1) of(2) of(3)
#define KERNEL_UP_TO_6(of) KERNEL_UP_TO_3(of) of(4) of(5) of(6)
#define KERNEL_UP_TO_14(of) KERNEL_UP_TO_6(of) of(7) of(8) of(9) of(10) of(11) of(12) of(13) of(14)

typedef float vector_t __attribute__((vector_size(KERNEL_LANES * 4)));
typedef float vector_half_t __attribute__((vector_size(KERNEL_LANES * 2)));
typedef uint32_t vector_u32_t __attribute__((vector_size(KERNEL_LANES * 4)));
typedef uint16_t vector_u16_t __attribute__((vector_size(KERNEL_LANES * 2)));

/* Loads a vector. The address needs only the alignment of a float. */
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

/* Returns the same pointer, but the compiler no longer knows its origin. So the compiler keeps one
 * base register instead of an address for each element, and does not merge loads through it with
 * loads through other pointers. */
KERNEL_INLINE const void *pointer_apart(const void *pointer)
{
    __asm__("" : "+r"(pointer));
    return pointer;
}

/* Loads a vector into a register for use in several products. With AVX-512 the compiler would
 * otherwise load from memory in each product, which is slower than the multiplication. */
KERNEL_INLINE vector_t vector_load_once(const float *from)
{
    vector_t v = vector_load(from);
#if defined(__AVX512F__) && KERNEL_LANES == 16
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* Returns a pointer to an element that several products broadcast. Usually the compiler keeps the
 * element in a register. After pointer_apart, it loads the element in each product, which takes
 * fewer instructions but more loads. AVX-512 is fastest if odd rows do this. */
KERNEL_INLINE const void *vector_again(const void *x, int row)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    if (row % 2 == 1) return pointer_apart(x);
#else
    (void)row;
#endif
    return x;
}

/* Stores without using the caches. The address must be aligned to vectors. Other threads may read
 * the memory only after vector_fence. */
KERNEL_INLINE void vector_stream(vector_t v, float *to)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    _mm512_stream_ps(to, (__m512)v);
#elif defined(__AVX__) && KERNEL_LANES == 8
    _mm256_stream_ps(to, (__m256)v);
#else
    vector_store(v, to);
#endif
}

KERNEL_INLINE void vector_fence(void)
{
#if defined(__AVX__)
    _mm_sfence();
#endif
}

/* Load and store the first n floats of a vector. Lanes that are not loaded are 0. Memory after the
 * n floats is not changed. */
KERNEL_INLINE vector_t vector_load_some(const float *from, int64_t n)
{
    vector_t v = {0};
    if (n >= KERNEL_LANES) return vector_load(from);
    if (n > 0) memcpy(&v, from, (size_t)n * sizeof *from);
    return v;
}

KERNEL_INLINE void vector_store_some(vector_t v, float *to, int64_t n)
{
    if (n >= KERNEL_LANES)
        vector_store(v, to);
    else if (n > 0)
        memcpy(to, &v, (size_t)n * sizeof *to);
}

/* Return the first half of the lanes; extend a half with zeros. */
KERNEL_INLINE vector_half_t vector_first_half(vector_t v)
{
    vector_half_t half;
    memcpy(&half, &v, sizeof half);
    return half;
}

KERNEL_INLINE vector_t vector_of_half(vector_half_t half)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (vector_t)_mm512_zextps256_ps512((__m256)half);
#elif defined(__AVX__) && KERNEL_LANES == 8
    return (vector_t)_mm256_zextps128_ps256((__m128)half);
#else
    vector_t v = {0};
    memcpy(&v, &half, sizeof half);
    return v;
#endif
}

/* A bf16 is the upper half of a float. */
KERNEL_INLINE vector_t vector_load_bf16(const uint16_t *from)
{
    vector_u16_t halves;
    memcpy(&halves, from, sizeof halves);
    const vector_u32_t bits = __builtin_convertvector(halves, vector_u32_t) << 16;
    return (vector_t)bits;
}

/* Rounds to nearest, ties to even. NaN stays NaN. */
KERNEL_INLINE vector_u16_t vector_to_bf16(vector_t v)
{
#if defined(__AVX512BF16__) && KERNEL_LANES == 16
    return (vector_u16_t)_mm512_cvtneps_pbh((__m512)v); /* denormals become 0 */
#else
    const vector_u32_t bits = (vector_u32_t)v, upper = bits >> 16;
    const vector_u32_t rounded = (bits + 0x7fffu + (upper & 1u)) >> 16;
    const vector_u32_t is_nan = (vector_u32_t)(v != v);
    return __builtin_convertvector((is_nan & (upper | 0x40u)) | (~is_nan & rounded), vector_u16_t);
#endif
}

/* Load and store elements of f32 or bf16. `at` is the index of the first one. */
KERNEL_INLINE vector_t vector_load_as(const void *from, int64_t at, bool is_bf16)
{
    return is_bf16 ? vector_load_bf16((const uint16_t *)from + at)
                   : vector_load((const float *)from + at);
}

KERNEL_INLINE void vector_store_as(vector_t v, void *to, int64_t at, bool is_bf16)
{
    if (is_bf16) {
        const vector_u16_t narrow = vector_to_bf16(v);
        memcpy((uint16_t *)to + at, &narrow, sizeof narrow);
    } else {
        vector_store(v, (float *)to + at);
    }
}

/* vector_stream for elements of f32 or bf16. */
KERNEL_INLINE void vector_stream_as(vector_t v, void *to, int64_t at, bool is_bf16)
{
    if (!is_bf16) {
        vector_stream(v, (float *)to + at);
        return;
    }
#if defined(__AVX512F__) && KERNEL_LANES == 16
    _mm256_stream_si256((__m256i *)(void *)((uint16_t *)to + at), (__m256i)vector_to_bf16(v));
#elif defined(__AVX__) && KERNEL_LANES == 8
    _mm_stream_si128((__m128i *)(void *)((uint16_t *)to + at), (__m128i)vector_to_bf16(v));
#else
    vector_store_as(v, to, at, true);
#endif
}

/* Minimum and maximum of each lane. If a or b is NaN, the lane is b. */
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

/* All bits set in lanes where a or b is NaN. */
KERNEL_INLINE vector_u32_t vector_is_nan(vector_t a, vector_t b)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    const __mmask16 is_nan = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
    return (vector_u32_t)_mm512_maskz_set1_epi32(is_nan, -1);
#elif defined(__AVX__) && KERNEL_LANES == 8
    return (vector_u32_t)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q);
#else
    return (vector_u32_t)(a != a) | (vector_u32_t)(b != b);
#endif
}

/* True if all lanes are finite. */
KERNEL_INLINE bool vector_is_finite(vector_t v)
{
    const vector_t rest = v - v; /* 0 if finite, otherwise NaN */
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return _mm512_cmp_ps_mask((__m512)rest, (__m512)rest, _CMP_UNORD_Q) == 0;
#elif defined(__AVX__) && KERNEL_LANES == 8
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)rest, (__m256)rest, _CMP_UNORD_Q)) == 0;
#else
    float sum = 0.0f;
    for (int i = 0; i < KERNEL_LANES; i++) sum += rest[i];
    return sum == 0.0f;
#endif
}

/* min(max(v, lower), upper). The bounds must not be NaN. NaN in v stays NaN, because v is the
 * second argument (see vector_min). */
KERNEL_INLINE vector_t vector_clamp(vector_t v, vector_t lower, vector_t upper)
{
    return vector_min(upper, vector_max(lower, v));
}

/* Lane i of the result is lane from[i] of v. */
KERNEL_INLINE vector_t vector_pick(vector_t v, vector_u32_t from)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (vector_t)_mm512_permutexvar_ps((__m512i)from, (__m512)v);
#elif defined(__AVX2__) && KERNEL_LANES == 8
    return (vector_t)_mm256_permutevar8x32_ps((__m256)v, (__m256i)from);
#else
    vector_t picked = {0};
    for (int i = 0; i < KERNEL_LANES; i++) picked[i] = v[from[i]];
    return picked;
#endif
}

/* Sums the lanes in pairs, so that the error grows only with the logarithm of the lanes. */
KERNEL_INLINE float vector_sum(vector_t v)
{
    float lanes[KERNEL_LANES];
    memcpy(lanes, &v, sizeof lanes);
    for (int n = KERNEL_LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) lanes[i] += lanes[i + n];
    return lanes[0];
}

#endif
