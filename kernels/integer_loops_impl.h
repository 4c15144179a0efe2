/* The loops of integer_impl.h, by AVX2 or portable; the including file defines INTEGER_ROWS, the
 * name of its integer_rows_t. */
#include "kernels/integer_impl.h"

#define KERNEL_LANES 8
#include "kernels/vector_impl.h"

#define MOST_ROWS 6 /* by two vectors of sums: what the registers hold */

/* Where sums are negative or wrap around: as unsigned numbers. */
KERNEL_INLINE void leave(const integer_t *p, int64_t row, int64_t output, const uint32_t *sums)
{
    const int64_t rest = p->n_outputs - output, n = rest < INTEGER_BLOCK ? rest : INTEGER_BLOCK;
    int32_t *out = p->out + row * p->out_stride + output;
    if (p->zeros == NULL) {
        memcpy(out, sums, (size_t)n * sizeof *out);
        return;
    }
    const uint32_t sum = (uint32_t)p->sums[row];
    for (int64_t o = 0; o < n; o++)
        out[o] = (int32_t)(sums[o] - (uint32_t)p->zeros[output + o] * sum);
}

KERNEL_INLINE int64_t offset_at(const integer_t *p, int64_t pair)
{
    return p->offsets != NULL ? p->offsets[pair] : 2 * pair;
}

#if defined(__AVX2__)
KERNEL_INLINE __m256i load_weight(const int8_t *weight)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)weight));
}

KERNEL_INLINE void multiply(const integer_t *p, int64_t output, int64_t row, int n_rows)
{
    const int8_t *weight = p->weight + output * p->n_pairs * 2;
    const int16_t *x[MOST_ROWS];
    __m256i sums[MOST_ROWS][2];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        x[r] = p->x + p->starts[row + r];
        sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    }
    KERNEL_ROLL
    for (int64_t i = 0; i < p->n_pairs; i++, weight += 2 * INTEGER_BLOCK) {
        const int64_t at = offset_at(p, i);
        const __m256i first = load_weight(weight), second = load_weight(weight + INTEGER_BLOCK);
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) {
            int32_t both;
            memcpy(&both, x[r] + at, sizeof both);
            const __m256i pair = _mm256_set1_epi32(both);
            sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(pair, first));
            sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(pair, second));
        }
    }
    for (int r = 0; r < n_rows; r++) {
        uint32_t all[INTEGER_BLOCK];
        memcpy(all, sums[r], sizeof all);
        leave(p, row + r, output, all);
    }
}
#else
KERNEL_INLINE void multiply(const integer_t *p, int64_t output, int64_t row, int n_rows)
{
    for (int r = 0; r < n_rows; r++) {
        const int8_t *weight = p->weight + output * p->n_pairs * 2;
        const int16_t *x = p->x + p->starts[row + r];
        uint32_t sums[INTEGER_BLOCK] = {0};
        for (int64_t i = 0; i < p->n_pairs; i++, weight += 2 * INTEGER_BLOCK) {
            const int32_t a = x[offset_at(p, i)], b = x[offset_at(p, i) + 1];
            for (int o = 0; o < INTEGER_BLOCK; o++)
                sums[o] += (uint32_t)(a * weight[2 * o] + b * weight[2 * o + 1]);
        }
        leave(p, row + r, output, sums);
    }
}
#endif

#define ROWS(n)                                                                                    \
    case n: multiply(p, output, row, n); break;

static void rows(const integer_t *p, int64_t output, int64_t first, int64_t last)
{
    const int64_t n_groups = (last - first + MOST_ROWS - 1) / MOST_ROWS;
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t row = first + (last - first) * g / n_groups;
        switch (first + (last - first) * (g + 1) / n_groups - row) {
            KERNEL_UP_TO_6(ROWS)
        default: break;
        }
    }
}

integer_rows_t *const INTEGER_ROWS = rows;
