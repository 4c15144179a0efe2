#include "limit.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define STREAMS 4
#define LANES 16

typedef float vector_t __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* Makes the sums used: otherwise the compiler would remove them. */
static volatile float sink;

static size_t share_of(size_t bytes, int n_threads)
{
    return bytes / (size_t)n_threads / (STREAMS * LANES * 4) * (STREAMS * LANES);
}

float *limit_make(size_t bytes, bool is_huge, int n_threads)
{
    char *mapped = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return NULL;
    (void)madvise(mapped, bytes + HUGE_PAGE, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const size_t share = share_of(bytes, n_threads);
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
    for (int t = 0; t < n_threads; t++) memset(mapped + (size_t)t * share * 4, 1, share * 4);
    return (float *)(void *)mapped;
}

void limit_free(float *memory, size_t bytes)
{
    if (memory != NULL) munmap(memory, bytes + HUGE_PAGE);
}

__attribute__((target_clones("avx512f", "avx2", "default"))) static float
read_share(const float *from, size_t n)
{
    const size_t part = n / STREAMS;
    vector_t sums[STREAMS] = {{0}}, sum;
    for (size_t i = 0; i < part; i += LANES)
        for (int s = 0; s < STREAMS; s++)
            sums[s] += *(const vector_t *)(const void *)(from + (size_t)s * part + i);
    sum = sums[0] + sums[1] + sums[2] + sums[3];
    return sum[0];
}

double limit_read(const float *memory, size_t bytes, int n_threads)
{
    const size_t share = share_of(bytes, n_threads);
    const double begin = clock_ns();
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
    for (int t = 0; t < n_threads; t++) sink = read_share(memory + (size_t)t * share, share);
    return (double)(share * 4 * (size_t)n_threads) / (clock_ns() - begin);
}

double limit_copy(float *memory, size_t bytes, int n_threads)
{
    const size_t share = share_of(bytes, n_threads) / 2;
    const double begin = clock_ns();
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
    for (int t = 0; t < n_threads; t++) {
        float *from = memory + (size_t)t * 2 * share;
        memcpy(from + share, from, share * 4);
    }
    return (double)(share * 4 * 2 * (size_t)n_threads) / (clock_ns() - begin);
}

/* Runs multiply-adds. Each thread adds to independent sums, in vectors of the machine's width: as
 * many as fit in registers together with the operands. Sums and lanes have different values, since
 * constant ones take less power and might run faster than in any network. */
#define TURNS 1000000
#define FMA_LOOP(name, target, lanes, n)                                                           \
    target static float name(void)                                                                 \
    {                                                                                              \
        typedef float wide_t __attribute__((vector_size((lanes)*4)));                              \
        wide_t s[n] = {{0}}, x[2], y[2];                                                           \
        for (int i = 0; i < (lanes); i++) {                                                        \
            x[0][i] = sink - 0.71f - 0.013f * (float)i;                                            \
            x[1][i] = sink + 0.83f - 0.021f * (float)i;                                            \
            y[0][i] = sink + 0.37f + 0.031f * (float)i;                                            \
            y[1][i] = sink - 1.19f + 0.057f * (float)i;                                            \
        }                                                                                          \
        for (int k = 0; k < (n); k++) s[k] += sink; /* volatile: unknown */                        \
        for (int i = 0; i < TURNS; i++)                                                            \
            _Pragma("GCC unroll 32") for (int k = 0; k < (n); k++)                                 \
                s[k] = s[k] * x[k % 2] + y[k % 2];                                                 \
        for (int k = 1; k < (n); k++) s[0] += s[k];                                                \
        return s[0][0];                                                                            \
    }
#define WIDE_SUMS 24
#define SUMS 10
#if defined(__x86_64__)
FMA_LOOP(fma_wide, __attribute__((target("avx512f"))), 16, WIDE_SUMS)
FMA_LOOP(fma_avx2, __attribute__((target("avx2,fma"))), 8, SUMS)
#endif
FMA_LOOP(fma_default, , 4, SUMS)

double limit_fma(int n_threads)
{
    float (*loop)(void) = fma_default;
    int lanes = 4, n_sums = SUMS;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        loop = fma_wide;
        lanes = 16;
        n_sums = WIDE_SUMS;
    } else if (__builtin_cpu_supports("fma")) {
        loop = fma_avx2;
        lanes = 8;
    }
#endif
    const double begin = clock_ns();
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
    for (int t = 0; t < n_threads; t++) sink = loop();
    return 2.0 * n_sums * TURNS * lanes * n_threads / (clock_ns() - begin);
}
