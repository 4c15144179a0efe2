/* The loops of grouped_product_impl.h, compiled once for each ISA (isa_impl.h). The inner loop is
 * compiled for each number of bits and some numbers of rows, so that all sums stay in registers. */
#include "kernels/linear/grouped_product_impl.h"
#include "kernels/vector_impl.h"

typedef int32_t vector_s32_t __attribute__((vector_size(KERNEL_LANES * 4)));
typedef uint8_t vector_u8_t __attribute__((vector_size(KERNEL_LANES)));

#define VECTORS (GROUPED_ROWS / KERNEL_LANES) /* vectors of the outputs of a block */
#define WORD_BYTES (4 * GROUPED_ROWS)         /* the words of all rows of a block */
#define AHEAD 4096                            /* bytes between a word and the one to prefetch */

/* ---- elements ---- */

KERNEL_INLINE int center_of(int bits)
{
    return 1 << (bits - 1);
}

/* Extracts column k of the words, minus the centre. */
KERNEL_INLINE vector_t widen_codes(vector_u32_t words, int bits, int k)
{
    const int shift = k % 4 * 8 + k / 4 * bits;
#if defined(__AVX512F__) && KERNEL_LANES == 16
    if (bits < 8) { /* the lower 4 bits of a word are an index in a table of 16 numbers */
        vector_t table;
        KERNEL_UNROLL
        for (int i = 0; i < 16; i++) table[i] = (float)(i % (1 << bits) - center_of(bits));
        return vector_pick(table, words >> shift);
    }
#endif
    const uint32_t top = bits == 8 ? 0x80808080u : bits == 4 ? 0x88888888u : 0xaaaaaaaau;
    const vector_s32_t high = (vector_s32_t)((words ^ top) << (32 - bits - shift));
    return __builtin_convertvector(high >> (32 - bits), vector_t);
}

/* Converts without arithmetic on denormals, which a processor may flush. */
KERNEL_INLINE vector_t load_f16(const char *from)
{
    vector_u16_t halves;
    memcpy(&halves, from, sizeof halves);
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (vector_t)_mm512_cvtph_ps((__m256i)halves);
#else
    const vector_u32_t bits = __builtin_convertvector(halves, vector_u32_t);
    const vector_u32_t magnitude = (bits & 0x7fffu) << 13, exponent = magnitude & 0x0f800000u;
    const vector_u32_t is_small = (vector_u32_t)(exponent == 0);
    const vector_u32_t is_special = (vector_u32_t)(exponent == 0x0f800000u);
    const vector_u32_t moved = magnitude + 0x38000000u + (is_special & 0x38000000u) +
                               (is_small & 0x00800000u);
    const vector_t smallest = (vector_t)(is_small & 0x38800000u);
    return (vector_t)((vector_u32_t)((vector_t)moved - smallest) | (bits & 0x8000u) << 16);
#endif
}

/* Loads vector v of the 16 numbers at `from`. */
KERNEL_INLINE vector_t load_numbers(dtype_t dtype, const char *from, int v)
{
    const int at = v * KERNEL_LANES;
    switch (dtype) {
    case DTYPE_F16: return load_f16(from + at * 2);
    case DTYPE_BF16: return vector_load_bf16((const uint16_t *)(const void *)from + at);
    default: return vector_load((const float *)(const void *)from + at);
    }
}

/* Loads vector v of a group's scales, and `rest`: the part of an element that does not depend on
 * its code. */
KERNEL_INLINE vector_t load_scales(const grouped_t *g, const char *head, int v, vector_t *out_rest)
{
    const dtype_t dtype = g->grouping.scale;
    const char *second = head + (dtype == DTYPE_F32 ? 4 : 2) * GROUPED_ROWS;
    const float center = (float)center_of(g->grouping.bits);
    const vector_t scales = load_numbers(dtype, head, v);
    const float bias = g->grouping.is_signed ? center : 0.0f;
    if (g->grouping.offset == GROUPING_ZEROS) {
        vector_u8_t bytes;
        memcpy(&bytes, second + v * KERNEL_LANES, sizeof bytes);
        *out_rest = scales * (center - __builtin_convertvector(bytes, vector_t));
    } else {
        *out_rest = scales * (center - bias);
        if (g->grouping.offset == GROUPING_MINIMA) *out_rest += load_numbers(dtype, second, v);
    }
    return scales;
}

KERNEL_INLINE vector_u32_t load_words(const char *words, int v)
{
    vector_u32_t loaded;
    memcpy(&loaded, words + v * KERNEL_LANES * 4, sizeof loaded);
    return loaded;
}

/* ---- few rows ---- */

/* Several sums for each row, so that an addition need not wait for the one before it. */
KERNEL_INLINE int sums_of(int n_rows)
{
    return n_rows == 1 ? 4 : n_rows == 2 ? 2 : 1;
}

#define MOST_SUMS (KERNEL_REGISTERS > 16 ? 16 : 8)

/* Adds the products of n_rows rows of x with a group of n columns to `total`. */
KERNEL_INLINE void multiply_group(const grouped_t *g, int bits, int n_rows, const char *head,
                                  int64_t n, int v, const float *x, int64_t stride,
                                  const float *x_sums, vector_t *total)
{
    const int per = 32 / bits, n_sums = sums_of(n_rows);
    const char *words = head + g->head_bytes;
    vector_t sums[MOST_SUMS], rest;
    KERNEL_UNROLL
    for (int s = 0; s < n_rows * n_sums; s++) sums[s] = (vector_t){0};
    for (int64_t c = 0; c < n; c += per, words += WORD_BYTES, x += per * stride) {
        const vector_u32_t loaded = load_words(words, v);
        __builtin_prefetch(words + AHEAD);
        KERNEL_UNROLL
        for (int k = 0; k < per; k++) {
            const vector_t values = widen_codes(loaded, bits, k);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++)
                sums[r * n_sums + k % n_sums] += x[k * stride + r] * values;
        }
    }
    const vector_t scales = load_scales(g, head, v, &rest);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        vector_t sum = sums[r * n_sums];
        KERNEL_UNROLL
        for (int s = 1; s < n_sums; s++) sum += sums[r * n_sums + s];
        total[r] += scales * sum + rest * x_sums[r];
    }
}

/* Multiplies n_rows rows, from `row` on, with vector v of a block. */
KERNEL_INLINE void multiply_block(const grouped_columns_t *columns, int bits, int n_rows, int row,
                                  const char *block, int v, vector_t *total)
{
    const grouped_t *g = columns->product->grouped;
    const int64_t stride = columns->n_padded;
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) total[r] = (vector_t){0};
    for (int64_t group = 0; group < g->n_groups; group++)
        multiply_group(g, bits, n_rows, block + group * g->group_bytes, grouped_columns(g, group),
                       v, columns->columns + group * g->grouping.group * stride + row, stride,
                       columns->sums + group * stride + row, total);
}

static void finish(const grouped_columns_t *columns, int64_t output, int n_rows, int row,
                   const vector_t *total)
{
    const grouped_product_t *p = columns->product;
    const int64_t n = p->grouped->n_rows - output;
    vector_t bias = {0};
    if (n <= 0) return;
    if (p->bias != NULL) bias = vector_load_some(p->bias + output, n);
    for (int r = row; r < row + n_rows && r < p->n_rows; r++) {
        float *out = p->out + r * p->out_stride + output;
        vector_t sum = total[r - row] + bias;
        if (p->accumulates) sum += vector_load_some(out, n);
        vector_store_some(sum, out, n);
        if (p->finish != NULL)
            p->finish(p->user, r, output, n < KERNEL_LANES ? n : KERNEL_LANES, out);
    }
}

#define ROWS(n)                                                                                    \
    case n: multiply_block(columns, bits, n, row, block, v, total); break;

KERNEL_INLINE void choose_rows(const grouped_columns_t *columns, int bits, int n_rows, int row,
                               const char *block, int v, vector_t *total)
{
    switch (n_rows) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
        ROWS(6)
#if KERNEL_REGISTERS > 16
        ROWS(8)
        ROWS(12)
        ROWS(16)
#else
    default: multiply_block(columns, bits, 8, row, block, v, total); break;
#endif
    }
}

/* Number of rows that are computed together. */
static int at_once(int n_padded)
{
    return n_padded <= MOST_SUMS ? n_padded : n_padded / 2;
}

static void block_of_bits(const grouped_columns_t *columns, int bits, int64_t block)
{
    const grouped_product_t *p = columns->product;
    const char *bytes = p->weight + block * p->grouped->block_bytes;
    const int n_rows = at_once(columns->n_padded);
    vector_t total[MOST_SUMS];
    for (int v = 0; v < VECTORS; v++)
        for (int row = 0; row < columns->n_padded; row += n_rows) {
            if (bits == 4)
                choose_rows(columns, 4, n_rows, row, bytes, v, total);
            else if (bits == 8)
                choose_rows(columns, 8, n_rows, row, bytes, v, total);
            else
                choose_rows(columns, 2, n_rows, row, bytes, v, total);
            finish(columns, block * GROUPED_ROWS + v * KERNEL_LANES, n_rows, row, total);
        }
}

static void blocks(const grouped_columns_t *columns, int64_t first, int64_t last)
{
    for (int64_t block = first; block < last; block++)
        block_of_bits(columns, columns->product->grouped->grouping.bits, block);
}

static int padded(int n_rows)
{
    static const int numbers[] = {1, 2, 3, 4, 6, 8, 12, 16};
    int i = 0;
    while (numbers[i] < n_rows) i++;
    return numbers[i];
}

static void turn(const grouped_columns_t *columns, int64_t first, int64_t last)
{
    const grouped_product_t *p = columns->product;
    const int64_t stride = columns->n_padded, whole = p->grouped->grouping.group;
    for (int64_t group = first; group < last; group++) {
        const int64_t begin = group * whole, end = begin + grouped_columns(p->grouped, group);
        float *sums = columns->sums + group * stride;
        for (int64_t r = 0; r < stride; r++) {
            const float *x = p->x + r * p->x_stride;
            float *to = columns->columns + r, sum[4] = {0.0f};
            for (int64_t c = begin; c < end; c++) {
                const float value = r < p->n_rows && c < p->grouped->n_columns ? x[c] : 0.0f;
                to[c * stride] = value;
                sum[c % 4] += value;
            }
            sums[r] = sum[0] + sum[1] + (sum[2] + sum[3]);
        }
    }
}

/* ---- many rows ---- */

KERNEL_INLINE void widen_group(const grouped_t *g, int bits, const char *head, int64_t n, float *to,
                               int64_t stride)
{
    const int per = 32 / bits;
    for (int v = 0; v < VECTORS; v++) {
        const char *words = head + g->head_bytes;
        float *at = to + v * KERNEL_LANES;
        vector_t rest;
        const vector_t scales = load_scales(g, head, v, &rest);
        for (int64_t c = 0; c < n; c += per, words += WORD_BYTES) {
            const vector_u32_t loaded = load_words(words, v);
            KERNEL_UNROLL
            for (int k = 0; k < per; k++, at += stride)
                vector_store(widen_codes(loaded, bits, k) * scales + rest, at);
        }
    }
}

static void widen(const grouped_t *g, const char *weight, int64_t block, float *to, int64_t stride)
{
    const char *bytes = weight + block * g->block_bytes;
    for (int64_t group = 0; group < g->n_groups; group++) {
        const char *head = bytes + group * g->group_bytes;
        float *at = to + group * g->grouping.group * stride;
        const int64_t n = grouped_columns(g, group);
        switch (g->grouping.bits) {
        case 4: widen_group(g, 4, head, n, at, stride); break;
        case 8: widen_group(g, 8, head, n, at, stride); break;
        default: widen_group(g, 2, head, n, at, stride); break;
        }
    }
}

const grouped_product_loops_t KERNEL_NAME(grouped_product) = {padded, turn, blocks, widen};
