/* The loops of integer_impl.h, compiled once for each ISA (isa_impl.h), and for AVX-512 and AVX2
 * with VNNI. Blocks have the same width everywhere. With AVX-512 and VNNI a block is one vector;
 * AVX-512F alone has no products of 16-bit integers, so its vectors have 8 lanes. */
#include "kernels/quantized/integer_impl.h"

#undef KERNEL_LANES
#if defined(__AVX512VNNI__)
#define KERNEL_LANES 16
#define MOST_ROWS 14
#else
#define KERNEL_LANES 8
#define MOST_ROWS 6 /* two vectors of sums for each row fit in the registers */
#endif
#include "kernels/vector_impl.h"

#define VECTORS (INTEGER_BLOCK / KERNEL_LANES)

typedef vector_u32_t integer_sums_t;

/* Writes a row's sums for the outputs from `output` on. The sums are unsigned, because overflow of
 * signed integers is undefined. */
KERNEL_INLINE void leave(const integer_t *p, int64_t row, int64_t output,
                         const integer_sums_t *sums)
{
    const int64_t rest = p->n_outputs - output;
    int32_t *out = p->out + row * p->out_stride + output;
    integer_sums_t of[VECTORS];
    KERNEL_UNROLL
    for (int v = 0; v < VECTORS; v++) of[v] = sums[v];
    if (p->zeros != NULL) {
        const uint32_t sum = (uint32_t)p->sums[row];
        KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            integer_sums_t zeros;
            memcpy(&zeros, p->zeros + output + v * KERNEL_LANES, sizeof zeros);
            of[v] -= zeros * sum;
        }
    }
    if (rest >= INTEGER_BLOCK)
        memcpy(out, of, sizeof of);
    else
#if defined(__AVX512VNNI__)
        _mm512_mask_storeu_epi32(out, (__mmask16)((1u << rest) - 1), (__m512i)of[0]);
#else
        memcpy(out, of, (size_t)rest * sizeof *out);
#endif
}

/* ---- adding the products of one step, for each row and each output ----
 *
 * Rows of x are `apart` bytes from the first one. */

#if defined(__AVX512VNNI__)
/* With few rows, each sum waits for the one before; then an addition takes less time than the
 * instruction that multiplies and adds. */
#define FEW_ROWS 4

KERNEL_INLINE void add_pair(const int8_t *weight, const char *x, const int64_t *apart, int n_rows,
                            integer_sums_t (*sums)[VECTORS])
{
    const __m512i weights = _mm512_cvtepi8_epi16(
        _mm256_loadu_si256((const __m256i *)(const void *)weight));
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        int32_t both;
        memcpy(&both, x + apart[r], sizeof both);
        const __m512i pair = _mm512_set1_epi32(both);
        if (n_rows <= FEW_ROWS)
            sums[r][0] += (integer_sums_t)_mm512_madd_epi16(pair, weights);
        else
            sums[r][0] = (integer_sums_t)_mm512_dpwssd_epi32((__m512i)sums[r][0], weights, pair);
    }
}
#elif defined(__AVX2__)
KERNEL_INLINE void add_pair(const int8_t *weight, const char *x, const int64_t *apart, int n_rows,
                            integer_sums_t (*sums)[VECTORS])
{
    __m256i weights[VECTORS];
    KERNEL_UNROLL
    for (int v = 0; v < VECTORS; v++)
        weights[v] = _mm256_cvtepi8_epi16(
            _mm_loadu_si128((const __m128i *)(const void *)(weight + v * INTEGER_BLOCK)));
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        int32_t both;
        memcpy(&both, x + apart[r], sizeof both);
        const __m256i pair = _mm256_set1_epi32(both);
        KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] += (integer_sums_t)_mm256_madd_epi16(pair, weights[v]);
    }
}
#else
KERNEL_INLINE void add_pair(const int8_t *weight, const char *x, const int64_t *apart, int n_rows,
                            integer_sums_t (*sums)[VECTORS])
{
    for (int r = 0; r < n_rows; r++) {
        int16_t pair[2];
        memcpy(pair, x + apart[r], sizeof pair);
        const int32_t a = pair[0], b = pair[1];
        for (int o = 0; o < INTEGER_BLOCK; o++)
            sums[r][o / KERNEL_LANES][o % KERNEL_LANES] += (uint32_t)(a * weight[2 * o] +
                                                                      b * weight[2 * o + 1]);
    }
}
#endif

#if defined(__AVX512VNNI__)
#define SPREAD(quad) _mm512_set1_epi32(quad)
#define ADD_QUADS(sums, x, weights) _mm512_dpbusd_epi32((__m512i)(sums), x, (__m512i)(weights))
#elif defined(__AVXVNNI__)
#define SPREAD(quad) _mm256_set1_epi32(quad)
#define ADD_QUADS(sums, x, weights) _mm256_dpbusd_avx_epi32((__m256i)(sums), x, (__m256i)(weights))
#endif

#if defined(ADD_QUADS)
KERNEL_INLINE void add_quad(const int8_t *weight, const char *x, const int64_t *apart, int n_rows,
                            integer_sums_t (*sums)[VECTORS])
{
    integer_sums_t weights[VECTORS];
    memcpy(weights, weight, sizeof weights);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        int32_t quad;
        memcpy(&quad, x + apart[r], sizeof quad);
        KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] = (integer_sums_t)ADD_QUADS(sums[r][v], SPREAD(quad), weights[v]);
    }
}

KERNEL_INLINE void subtract_zero(const int8_t *weight_sums, int32_t zero, int n_rows,
                                 integer_sums_t (*sums)[VECTORS])
{
    integer_sums_t terms[VECTORS];
    memcpy(terms, weight_sums, sizeof terms);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++) sums[r][v] -= (uint32_t)zero * terms[v];
    }
}
#endif

/* ---- rows ---- */

#define STEP_BYTES 4 /* a pair of s16 or four u8 */

KERNEL_INLINE void multiply(const integer_t *p, int64_t output, int64_t row, int n_rows,
                            integer_step_t step)
{
    const int64_t size = STEP_BYTES / step, n_runs = p->n_runs, n_bytes = STEP_BYTES * p->n_steps;
    const int8_t *weight = p->weight + output / INTEGER_BLOCK *
                                           integer_packed(INTEGER_BLOCK, n_runs * p->n_steps, step);
    const char *const first = (const char *)p->x + p->starts[row] * size;
    int64_t apart[MOST_ROWS];
    integer_sums_t sums[MOST_ROWS][VECTORS];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        apart[r] = (p->starts[row + r] - p->starts[row]) * size;
        KERNEL_UNROLL
        for (int v = 0; v < VECTORS; v++) sums[r][v] = (integer_sums_t){0};
    }
    for (int64_t run = 0; run < n_runs; run++) {
        const char *x = first + (p->offsets != NULL ? p->offsets[run] * size : 0);
        const char *const end = x + n_bytes;
        KERNEL_ROLL
        for (; x < end; x += STEP_BYTES, weight += INTEGER_BLOCK * (int)step) {
#if defined(ADD_QUADS)
            if (step == INTEGER_QUADS) {
                add_quad(weight, x, apart, n_rows, sums);
                continue;
            }
#endif
            add_pair(weight, x, apart, n_rows, sums);
        }
    }
#if defined(ADD_QUADS)
    if (step == INTEGER_QUADS) subtract_zero(weight, p->x_zero, n_rows, sums);
#endif
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) leave(p, row + r, output, sums[r]);
}

#define ROWS(n)                                                                                    \
    case n: multiply(p, output, row, n, step); break;

KERNEL_INLINE void run(const integer_t *p, int64_t output, int64_t first, int64_t last,
                       integer_step_t step)
{
    const int64_t n_groups = (last - first + MOST_ROWS - 1) / MOST_ROWS;
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t row = first + (last - first) * g / n_groups;
        switch (first + (last - first) * (g + 1) / n_groups - row) {
            KERNEL_UP_TO(MOST_ROWS, ROWS)
        default: break;
        }
    }
}

static void run_rows(const integer_t *p, int64_t output, int64_t first, int64_t last)
{
    run(p, output, first, last, INTEGER_PAIRS);
}

#if defined(ADD_QUADS)
static void run_quad_rows(const integer_t *p, int64_t output, int64_t first, int64_t last)
{
    run(p, output, first, last, INTEGER_QUADS);
}
#else
#define run_quad_rows NULL
#endif

/* ---- preparation ---- */

static void center(int64_t n, bool is_signed, const void *x, int32_t zero, int16_t *out)
{
    const int8_t *s8 = x;
    const uint8_t *u8 = x;
    if (is_signed) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = (int16_t)(s8[i] - zero);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = (int16_t)(u8[i] - zero);
    }
}

/* Sums are unsigned, because overflow of signed integers is undefined. */
static void sum_runs(int64_t n, int64_t step, int64_t length, const int16_t *x, int32_t *out)
{
    if (length == 1) {
        for (int64_t r = 0; r < n; r++) out[r] = x[r * step];
        return;
    }
    for (int64_t r = 0; r < n; r++, x += step) {
        uint32_t sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < length; i++) {
            const int32_t term = x[i];
            sum += (uint32_t)term;
        }
        out[r] = (int32_t)sum;
    }
}

static void sum_bytes(int64_t n, int64_t step, int64_t length, int32_t zero, const uint8_t *x,
                      int32_t *out)
{
    const uint32_t zeros = (uint32_t)length * (uint32_t)zero;
    if (length == 1) {
        for (int64_t r = 0; r < n; r++) out[r] = x[r * step] - zero;
        return;
    }
    for (int64_t r = 0; r < n; r++, x += step) {
        uint32_t sum = 0;
#if defined(__AVX512BW__)
        __m512i sums = _mm512_setzero_si512();
        for (int64_t i = 0; i < length; i += 64) {
            const __mmask64 mask = length - i < 64 ? (1ull << (length - i)) - 1 : ~0ull;
            sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_maskz_loadu_epi8(mask, x + i),
                                                          _mm512_setzero_si512()));
        }
        sum = (uint32_t)_mm512_reduce_add_epi64(sums);
#else
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < length; i++) sum += x[i];
#endif
        out[r] = (int32_t)(sum - zeros);
    }
}

KERNEL_INLINE void add_apart(int64_t n, int64_t step, const int32_t *numbers, int32_t *sums)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)numbers[i * step]);
}

static void add(int64_t n, int64_t step, const int32_t *numbers, int32_t *sums)
{
    if (step == 1)
        add_apart(n, 1, numbers, sums);
    else
        add_apart(n, step, numbers, sums);
}

static void flip(int64_t n, const uint8_t *x, uint8_t *out)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = x[i] ^ 0x80;
}

const integer_loops_t KERNEL_NAME(integer_loops) = {run_rows,  run_quad_rows, center, sum_runs,
                                                    sum_bytes, add,           flip};
