/* The loops of grouped_product_impl.h, compiled once for each ISA (isa_impl.h). The inner loop is
 * compiled for each number of bits and some numbers of rows, so that all sums stay in registers. */
#include "kernels/linear/grouped_words_impl.h"

/* ---- elements ---- */

/* The lowest bit of code k of a word. */
KERNEL_INLINE int shift_of(int bits, int k)
{
    return k % 4 * 8 + k / 4 * bits;
}

/* 1 divided by the power of two by which code k is too large. */
KERNEL_INLINE float unit_of(int bits, int k)
{
    return 1.0f / (float)(1u << shift_of(bits, k));
}

/* Half of the codes' range, which is subtracted from the highest code of a word. */
KERNEL_INLINE float half_range(int bits)
{
    return (float)(1 << (bits - 1));
}

/* Extracts code k of the words, times 1 / unit_of. */
KERNEL_INLINE vector_t extract(vector_u32_t words, int bits, int k)
{
    vector_u32_t code = words & ((1u << bits) - 1) << shift_of(bits, k);
    if (k == per_word(bits) - 1) code ^= 0x80000000u;
    return __builtin_convertvector((vector_s32_t)code, vector_t);
}

/* Loads the part of an element that does not depend on its code. */
KERNEL_INLINE vector_t load_rest(const grouped_t *g, const char *head, int v, vector_t scales)
{
    const bool is_biased = g->grouping.is_signed && g->grouping.offset != GROUPING_ZEROS;
    return load_offsets(g, head, v, scales) -
           scales * (is_biased ? half_range(g->grouping.bits) : 0.0f);
}

/* ---- few rows ---- */

#define MOST_ROWS (GROUPED_PRODUCT_ROWS / 2)       /* rows in a part of x */
#define MOST_SUMS (KERNEL_REGISTERS > 16 ? 16 : 8) /* they fit in the registers */

/* Several sums for each row, so that an addition need not wait for the one before it. */
KERNEL_INLINE int sums_of(int n_rows)
{
    const int most = MOST_SUMS / n_rows;
    return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/* Adds the products of n_rows rows of x with a group of n columns to `total`. */
KERNEL_INLINE void multiply_group(const grouped_t *g, int bits, int n_rows, const char *head,
                                  int64_t n, int v, const float *x, const float *x_sums,
                                  const float *starts, vector_t *total)
{
    const int per = per_word(bits), n_sums = sums_of(n_rows);
    const char *words = head + g->head_bytes;
    vector_t sums[MOST_SUMS];
    KERNEL_UNROLL
    for (int s = 0; s < n_rows * n_sums; s++)
        sums[s] = (vector_t){0} + (s % n_sums == 0 ? starts[s / n_sums] : 0.0f);
    for (int64_t c = 0; c < n; c += per, words += WORD_BYTES, x += per * n_rows) {
        const vector_u32_t loaded = load_words(words, v);
        __builtin_prefetch(words + AHEAD);
        KERNEL_UNROLL
        for (int k = 0; k < per; k++) {
            const vector_t values = extract(loaded, bits, k);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++)
                sums[r * n_sums + k % n_sums] += x[k * n_rows + r] * values;
        }
    }
    const vector_t scales = load_scales(g, head, v), rest = load_rest(g, head, v, scales);
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        vector_t sum = sums[r * n_sums];
        KERNEL_UNROLL
        for (int s = 1; s < n_sums; s++) sum += sums[r * n_sums + s];
        total[r] += scales * sum + rest * x_sums[r];
    }
}

/* Multiplies the rows of a part with vector v of a block. */
KERNEL_INLINE void multiply_block(const grouped_columns_t *columns, int bits, int n_rows, int part,
                                  const char *block, int v, vector_t *total)
{
    const grouped_t *g = columns->product->grouped;
    const float *x = (const float *)columns->x + part * g->n_padded * n_rows;
    const int64_t first = part * g->n_groups * n_rows;
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) total[r] = (vector_t){0};
    for (int64_t group = 0; group < g->n_groups; group++)
        multiply_group(g, bits, n_rows, block + group * g->group_bytes, grouped_columns(g, group),
                       v, x + group * g->grouping.group * n_rows,
                       columns->sums + first + group * n_rows,
                       (const float *)columns->starts + first + group * n_rows, total);
}

#define ROWS(n)                                                                                    \
    case n: multiply_block(columns, bits, n, part, block, v, total); break;

KERNEL_INLINE void choose_rows(const grouped_columns_t *columns, int bits, int part,
                               const char *block, int v, vector_t *total)
{
    switch (columns->n_rows) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
        ROWS(6)
        ROWS(8)
    default: break;
    }
}

static void multiply_part(const grouped_columns_t *columns, int64_t block, int v, int part)
{
    const grouped_product_t *p = columns->product;
    const char *bytes = p->weight + block * p->grouped->block_bytes;
    vector_t total[MOST_ROWS];
    switch (p->grouped->grouping.bits) {
    case 4: choose_rows(columns, 4, part, bytes, v, total); break;
    case 8: choose_rows(columns, 8, part, bytes, v, total); break;
    default: choose_rows(columns, 2, part, bytes, v, total); break;
    }
    finish_rows(columns, block * GROUPED_ROWS + v * KERNEL_LANES, part, total);
}

static void blocks(const grouped_columns_t *columns, int64_t first, int64_t last)
{
    multiply_blocks(columns, first, last, multiply_part);
}

static void divide(int64_t n_rows, grouped_columns_t *columns)
{
    divide_rows(n_rows, MOST_ROWS, columns);
}

static void turn_part(const grouped_columns_t *columns, int64_t group, int part)
{
    const grouped_product_t *p = columns->product;
    const grouped_t *g = p->grouped;
    const int bits = g->grouping.bits, per = per_word(bits), n_rows = columns->n_rows;
    const int64_t begin = group * g->grouping.group, end = begin + grouped_columns(g, group);
    const int64_t at = (part * g->n_groups + group) * n_rows;
    float *to = (float *)columns->x + part * g->n_padded * n_rows;
    for (int r = 0; r < n_rows; r++) {
        const int64_t row = (int64_t)part * n_rows + r;
        const float *x = p->x + row * p->x_stride;
        float sum[16] = {0.0f}, rest = 0.0f;
        for (int64_t c = begin; c < end; c++) {
            const int k = (int)(c % per);
            const float value = row < p->n_rows && c < g->n_columns ? x[c] : 0.0f;
            to[c * n_rows + r] = value * unit_of(bits, k);
            sum[k] += value;
        }
        for (int k = 0; k < per - 1; k++) rest += sum[k];
        columns->sums[at + r] = rest + sum[per - 1];
        ((float *)columns->starts)[at + r] = sum[per - 1] * half_range(bits);
    }
}

static void turn(const grouped_columns_t *columns, int64_t first, int64_t last)
{
    for (int64_t group = first; group < last; group++)
        for (int part = 0; part < columns->n_parts; part++) turn_part(columns, group, part);
}

/* ---- many rows ---- */

KERNEL_INLINE void widen_group(const grouped_t *g, int bits, const char *head, int64_t n, float *to,
                               int64_t stride)
{
    const int per = per_word(bits);
    for (int v = 0; v < VECTORS; v++) {
        const char *words = head + g->head_bytes;
        float *at = to + v * KERNEL_LANES;
        const vector_t scales = load_scales(g, head, v), rest = load_rest(g, head, v, scales);
        const vector_t highest = rest + scales * half_range(bits);
        for (int64_t c = 0; c < n; c += per, words += WORD_BYTES) {
            const vector_u32_t loaded = load_words(words, v);
            KERNEL_UNROLL
            for (int k = 0; k < per; k++, at += stride) {
                const vector_t code = extract(loaded, bits, k) * unit_of(bits, k);
                vector_store(code * scales + (k < per - 1 ? rest : highest), at);
            }
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

const grouped_product_loops_t KERNEL_NAME(grouped_product) = {{divide, turn, blocks}, widen};
