/* The loops of grouped_product_impl.h that multiply bytes, compiled for AVX2 and for AVX-512 with
 * VNNI. A word has four columns of one output in the bits that one mask extracts, and an
 * instruction multiplies them with four columns of x. */
#include <math.h>

#include "kernels/linear/grouped_words_impl.h"

#define PARTS 3              /* bytes of an integer of x */
#define CHUNK GROUPING_LEAST /* columns of x whose bytes are adjacent */
#define MOST_ROWS                                                                                  \
    (VECTORS == 1 ? 8 : 4) /* rows in a part of x: their sums fit in the registers                 \
                            */
#define MOST_SUMS (PARTS * MOST_ROWS)
#define USUAL_GROUP 32 /* for which loops are unrolled */

static const int32_t no_starts[MOST_SUMS];

/* ---- products of bytes ---- */

/* add_products adds the products of the unsigned bytes of `codes` with 4 signed bytes of x to the
 * sums of a section of columns. Without VNNI, these are pairs of s16, which are added up at the end
 * of the section. */
#if defined(__AVX512VNNI__) && KERNEL_LANES == 16
#define SECTION GROUPING_MOST /* the whole group */
KERNEL_INLINE vector_s32_t add_products(vector_s32_t sum, vector_u32_t codes, const int8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return (vector_s32_t)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, _mm512_set1_epi32(quad));
}

KERNEL_INLINE vector_s32_t add_sums(vector_s32_t a, vector_s32_t b)
{
    return a + b;
}

KERNEL_INLINE vector_s32_t settle(vector_s32_t sum, const int32_t *start)
{
    (void)start;
    return sum;
}

KERNEL_INLINE vector_s32_t begin_sum(const int32_t *start)
{
    return (vector_s32_t)_mm512_set1_epi32(*start);
}
#else
#define SECTION 32 /* 32 / 4 products of two codes up to 15 and bytes of -128 fit in s16 */
KERNEL_INLINE vector_s32_t add_products(vector_s32_t sum, vector_u32_t codes, const int8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    const __m256i products = _mm256_maddubs_epi16((__m256i)codes, _mm256_set1_epi32(quad));
    return (vector_s32_t)_mm256_add_epi16((__m256i)sum, products);
}

KERNEL_INLINE vector_s32_t add_sums(vector_s32_t a, vector_s32_t b)
{
    return (vector_s32_t)_mm256_add_epi16((__m256i)a, (__m256i)b);
}

KERNEL_INLINE vector_s32_t settle(vector_s32_t sum, const int32_t *start)
{
    const __m256i pairs = _mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1));
    return (vector_s32_t)_mm256_add_epi32(pairs, _mm256_set1_epi32(*start));
}

KERNEL_INLINE vector_s32_t begin_sum(const int32_t *start)
{
    (void)start;
    return (vector_s32_t){0};
}
#endif

/* ---- products ---- */

/* Numbers of sums for each row and byte, so that a product need not wait for the one before it. */
KERNEL_INLINE int sets_of(int n_rows)
{
    return n_rows <= 2 ? 2 : 1;
}

/* Adds the products of a chunk of columns to `sums`, [sets][bytes][n_rows]. */
KERNEL_INLINE void multiply_chunk(const char *words, int bits, int n_rows, int v, const int8_t *x,
                                  vector_s32_t *sums)
{
    const int n_quads = 8 / bits; /* quads of columns in a word */
    const uint32_t mask = 0x01010101u * ((1u << bits) - 1);
    KERNEL_UNROLL
    for (int q = 0; q < CHUNK / 4; q++) {
        const char *word = words + q / n_quads * WORD_BYTES;
        const vector_u32_t codes = load_words(word, v) >> q % n_quads * bits & mask;
        const int set = q % sets_of(n_rows);
        if (q % n_quads == 0) __builtin_prefetch(word + AHEAD);
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
        for (int p = 0; p < PARTS; p++) {
            vector_s32_t *sum = &sums[(set * PARTS + p) * n_rows + r];
            *sum = add_products(*sum, codes, x + (p * n_rows + r) * CHUNK + q * 4);
        }
    }
}

/* Adds the products of n_rows rows of x with n columns of a group to `total`. */
KERNEL_INLINE void multiply_section(const char *words, int bits, int n_rows, int64_t n, int v,
                                    const int8_t *x, const float *units, const int32_t *starts,
                                    vector_t scales, vector_t *total)
{
    vector_s32_t sums[MOST_SUMS];
    const int n_sets = sets_of(n_rows), n_sums = PARTS * n_rows;
    KERNEL_UNROLL
    for (int p = 0; p < PARTS; p++) KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        sums[p * n_rows + r] = begin_sum(&starts[p * n_rows + r]);
        if (n_sets == 2) sums[n_sums + p * n_rows + r] = (vector_s32_t){0};
    }
    for (int64_t c = 0; c < n; c += 2 * CHUNK) {
        const char *word = words + c * bits / 32 * WORD_BYTES;
        multiply_chunk(word, bits, n_rows, v, x + c * n_sums, sums);
        if (c + CHUNK < n)
            multiply_chunk(word + CHUNK * bits / 32 * WORD_BYTES, bits, n_rows, v,
                           x + (c + CHUNK) * n_sums, sums);
    }
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        vector_t parts[PARTS];
        KERNEL_UNROLL
        for (int p = 0; p < PARTS; p++) {
            const int s = p * n_rows + r;
            const vector_s32_t sum = n_sets == 2 ? add_sums(sums[s], sums[n_sums + s]) : sums[s];
            parts[p] = __builtin_convertvector(settle(sum, &starts[s]), vector_t);
        }
        total[r] += scales * units[r] * (parts[0] + 256.0f * parts[1] + 65536.0f * parts[2]);
    }
}

/* Adds the products of n_rows rows of x with a group of n columns to `total`. */
KERNEL_INLINE void multiply_group(const grouped_t *g, int bits, int n_rows, const char *head,
                                  int64_t n, int v, const int8_t *x, const float *x_sums,
                                  const float *units, const int32_t *starts, vector_t *total)
{
    const vector_t scales = load_scales(g, head, v);
    for (int64_t first = 0; first < n; first += SECTION)
        multiply_section(head + g->head_bytes + first * bits / 32 * WORD_BYTES, bits, n_rows,
                         n - first < SECTION ? n - first : SECTION, v, x + first * PARTS * n_rows,
                         units, first == 0 ? starts : no_starts, scales, total);
    if (g->grouping.offset == GROUPING_NONE) return;
    const vector_t offsets = load_offsets(g, head, v, scales);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) total[r] += offsets * x_sums[r];
}

/* Multiplies the rows of a part with vector v of a block. usual: all groups have USUAL_GROUP
 * columns. */
KERNEL_INLINE void multiply_block(const grouped_columns_t *columns, int bits, int n_rows, int part,
                                  bool usual, const char *block, int v, vector_t *out_total)
{
    const grouped_t *g = columns->product->grouped;
    const int64_t group_columns = usual ? USUAL_GROUP : g->grouping.group;
    const int64_t first = part * g->n_groups * n_rows;
    const int8_t *x = (const int8_t *)columns->x + part * g->n_padded * PARTS * n_rows;
    const float *x_sums = columns->sums + first, *units = columns->units + first;
    const int32_t *starts = (const int32_t *)columns->starts + first * PARTS;
    vector_t total[MOST_ROWS];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) total[r] = (vector_t){0};
    for (int64_t group = 0; group < g->n_groups; group++) {
        multiply_group(g, bits, n_rows, block, usual ? USUAL_GROUP : grouped_columns(g, group), v,
                       x, x_sums, units, starts, total);
        block += g->group_bytes;
        x += group_columns * PARTS * n_rows;
        x_sums += n_rows;
        units += n_rows;
        starts += PARTS * n_rows;
    }
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) out_total[r] = total[r];
}

#define ROWS(n)                                                                                    \
    case n: multiply_block(columns, bits, n, part, usual, block, v, total); break;

KERNEL_INLINE void choose_rows(const grouped_columns_t *columns, int bits, int part, bool usual,
                               const char *block, int v, vector_t *total)
{
    switch (columns->n_rows) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
#if KERNEL_LANES == 16
        ROWS(6)
        ROWS(8)
#endif
    default: break;
    }
}

static void multiply_part(const grouped_columns_t *columns, int64_t block, int v, int part)
{
    const grouped_product_t *p = columns->product;
    const char *bytes = p->weight + block * p->grouped->block_bytes;
    vector_t total[MOST_ROWS];
    const bool usual = p->grouped->grouping.group == USUAL_GROUP &&
                       p->grouped->n_padded % USUAL_GROUP == 0;
    switch (p->grouped->grouping.bits + usual) {
    case 4 + 1: choose_rows(columns, 4, part, true, bytes, v, total); break;
    case 8 + 1: choose_rows(columns, 8, part, true, bytes, v, total); break;
    case 4: choose_rows(columns, 4, part, false, bytes, v, total); break;
    case 8: choose_rows(columns, 8, part, false, bytes, v, total); break;
    default: choose_rows(columns, 2, part, false, bytes, v, total); break;
    }
    finish_rows(columns, block * GROUPED_ROWS + v * KERNEL_LANES, part, total);
}

static void blocks(const grouped_columns_t *columns, int64_t first, int64_t last)
{
    multiply_blocks(columns, first, last, multiply_part);
}

/* ---- x ---- */

static void divide(int64_t n_rows, grouped_columns_t *columns)
{
    divide_rows(n_rows, MOST_ROWS, columns);
}

/* Loads columns from c on, up to `end`; the rest are 0. x is NULL for a row that is missing. */
KERNEL_INLINE vector_t load_columns(const float *x, int64_t c, int64_t end)
{
    return x != NULL ? vector_load_some(x + c, end - c) : (vector_t){0};
}

/* Halves of a vector are combined until 128 bits are left, then pairs of lanes. */
KERNEL_INLINE __m128i first_lanes(vector_s32_t v)
{
#if KERNEL_LANES == 16
    return _mm512_castsi512_si128((__m512i)v);
#else
    return _mm256_castsi256_si128((__m256i)v);
#endif
}

KERNEL_INLINE vector_s32_t move_lanes(vector_s32_t v, int n)
{
#if KERNEL_LANES == 16
    return (vector_s32_t)(n == 8   ? _mm512_shuffle_i64x2((__m512i)v, (__m512i)v, 0x4e)
                          : n == 4 ? _mm512_shuffle_i64x2((__m512i)v, (__m512i)v, 0xb1)
                          : n == 2 ? _mm512_shuffle_epi32((__m512i)v, 0x4e)
                                   : _mm512_shuffle_epi32((__m512i)v, 0xb1));
#else
    return (vector_s32_t)(n == 4   ? _mm256_permute2x128_si256((__m256i)v, (__m256i)v, 1)
                          : n == 2 ? _mm256_shuffle_epi32((__m256i)v, 0x4e)
                                   : _mm256_shuffle_epi32((__m256i)v, 0xb1));
#endif
}

KERNEL_INLINE int32_t add_lanes(vector_s32_t v)
{
    KERNEL_UNROLL
    for (int n = KERNEL_LANES / 2; n > 0; n /= 2) v += move_lanes(v, n);
    return _mm_cvtsi128_si32(first_lanes(v));
}

/* Adds up the columns [first, last) of a row, and finds the largest size, which is NaN if a
 * column is not finite. */
KERNEL_INLINE float measure(const float *x, int64_t first, int64_t last, int64_t end,
                            float *out_sum)
{
    vector_t sum = {0}, largest = {0}, rest = {0};
    for (int64_t c = first; c < last; c += KERNEL_LANES) {
        const vector_t value = load_columns(x, c, end);
        sum += value;
        rest += value - value; /* 0, or NaN */
        largest = vector_max(largest, (vector_t)((vector_u32_t)value & 0x7fffffffu));
    }
    KERNEL_UNROLL
    for (int n = KERNEL_LANES / 2; n > 0; n /= 2) {
        sum += (vector_t)move_lanes((vector_s32_t)sum, n);
        largest = vector_max(largest, (vector_t)move_lanes((vector_s32_t)largest, n));
    }
    *out_sum = _mm_cvtss_f32(_mm_castsi128_ps(first_lanes((vector_s32_t)sum)));
    const float most = _mm_cvtss_f32(_mm_castsi128_ps(first_lanes((vector_s32_t)largest)));
    return vector_is_finite(rest) ? most : NAN;
}

/* Returns the unit of integers for numbers up to `most`: a power of two, such that
 * |x| / unit <= 127 * (65536 + 256 + 1). It is NaN if `most` is. Sets *out_inverse to 1 / unit, or
 * to 0. */
KERNEL_INLINE float unit_of(float most, float *out_inverse)
{
    const float above = most * 0.5f * (8388608.0f / 8355711.0f); /* half: it must not overflow */
    const uint32_t one = 127u << 23, least = 27u << 23;          /* 2^-100 */
    uint32_t bits;
    float unit;
    *out_inverse = 0.0f;
    if (isnan(most)) return most;
    memcpy(&bits, &above, sizeof bits);
    bits = (bits > least ? bits & 0x7f800000u : least) - (21u << 23);
    memcpy(&unit, &bits, sizeof unit);
    bits = 2 * one - bits;
    memcpy(out_inverse, &bits, sizeof bits);
    return unit;
}

/* Stores the low bytes of 32-bit integers. */
KERNEL_INLINE void store_bytes(vector_s32_t values, int8_t *to)
{
    typedef int8_t vector_s8_t __attribute__((vector_size(KERNEL_LANES)));
    const vector_s8_t bytes = __builtin_convertvector(values, vector_s8_t);
    memcpy(to, &bytes, sizeof bytes);
}

KERNEL_INLINE vector_s32_t round_to_integers(vector_t v)
{
#if KERNEL_LANES == 16
    return (vector_s32_t)_mm512_cvtps_epi32((__m512)v);
#else
    return (vector_s32_t)_mm256_cvtps_epi32((__m256)v);
#endif
}

/* Splits the integers of a row's columns [first, last) to bytes; `to` begins the group. Adds up
 * each of the three kinds of bytes, if codes are signed. */
KERNEL_INLINE void split(const float *x, int64_t first, int64_t last, int64_t end, float inverse,
                         int n_rows, bool is_biased, int8_t *to, int32_t *out_sums)
{
    vector_s32_t sums[PARTS] = {{0}};
    for (int64_t c = first; c < last; c += KERNEL_LANES) {
        const int64_t at = (c - first) / CHUNK * CHUNK * PARTS * n_rows + (c - first) % CHUNK;
        const vector_s32_t low = round_to_integers(load_columns(x, c, end) * inverse);
        const vector_s32_t middle = (low + 128) >> 8, high = (middle + 128) >> 8;
        store_bytes(low, to + at);
        store_bytes(middle, to + at + CHUNK * n_rows);
        store_bytes(high, to + at + 2 * CHUNK * n_rows);
        sums[0] += low;
        sums[1] += middle;
        sums[2] += high;
    }
    if (!is_biased) return;
    uint32_t totals[PARTS];
    for (int p = 0; p < PARTS; p++) totals[p] = (uint32_t)add_lanes(sums[p]);
    /* The sums contain the higher bytes, too. */
    out_sums[0] = (int32_t)(totals[0] - 256u * totals[1]);
    out_sums[1] = (int32_t)(totals[1] - 256u * totals[2]);
    out_sums[2] = (int32_t)totals[2];
}

static void turn_group(const grouped_columns_t *columns, int64_t group, int part)
{
    const grouped_product_t *p = columns->product;
    const grouped_t *g = p->grouped;
    const int n_rows = columns->n_rows;
    const int64_t first = group * g->grouping.group, last = first + grouped_columns(g, group);
    const int64_t at = (part * g->n_groups + group) * n_rows;
    const bool is_biased = g->grouping.is_signed && g->grouping.offset != GROUPING_ZEROS;
    const int32_t half = 1 << (g->grouping.bits - 1);
    int8_t *to = (int8_t *)columns->x + (part * g->n_padded + first) * PARTS * n_rows;
    int32_t *starts = (int32_t *)columns->starts + at * PARTS;
    for (int r = 0; r < n_rows; r++) {
        const int64_t row = (int64_t)part * n_rows + r;
        const float *x = row < p->n_rows ? p->x + row * p->x_stride : NULL;
        int32_t sums[PARTS] = {0};
        float inverse;
        const float most = measure(x, first, last, g->n_columns, &columns->sums[at + r]);
        columns->units[at + r] = unit_of(most, &inverse);
        split(x, first, last, g->n_columns, inverse, n_rows, is_biased, to + r * CHUNK, sums);
        for (int i = 0; i < PARTS; i++) starts[i * n_rows + r] = -half * sums[i];
    }
}

static void turn(const grouped_columns_t *columns, int64_t first, int64_t last)
{
    for (int64_t group = first; group < last; group++)
        for (int part = 0; part < columns->n_parts; part++) turn_group(columns, group, part);
}

const grouped_few_loops_t KERNEL_NAME(grouped_integers) = {divide, turn, blocks};
