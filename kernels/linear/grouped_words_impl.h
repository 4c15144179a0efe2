/* Code that the loops of grouped products share: words, scales, and writing results. */
#ifndef TESSERA_KERNELS_LINEAR_GROUPED_WORDS_IMPL_H
#define TESSERA_KERNELS_LINEAR_GROUPED_WORDS_IMPL_H

#include "kernels/linear/grouped_product_impl.h"
#include "kernels/vector_impl.h"

typedef int32_t vector_s32_t __attribute__((vector_size(KERNEL_LANES * 4)));
typedef uint8_t vector_u8_t __attribute__((vector_size(KERNEL_LANES)));

#define VECTORS (GROUPED_ROWS / KERNEL_LANES) /* vectors of the outputs of a block */
#define WORD_BYTES (4 * GROUPED_ROWS)         /* the words of all rows of a block */
#define AHEAD 4096                            /* bytes between a word and the one to prefetch */

/* ---- elements ---- */

/* Codes in a word. */
KERNEL_INLINE int per_word(int bits)
{
    return 32 / bits;
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

/* Loads vector v of a group's scales. `head` begins the group. */
KERNEL_INLINE vector_t load_scales(const grouped_t *g, const char *head, int v)
{
    return load_numbers(g->grouping.scale, head, v);
}

/* Loads what is added to scale * code: a minimum, or a zero point times -scale. */
KERNEL_INLINE vector_t load_offsets(const grouped_t *g, const char *head, int v, vector_t scales)
{
    const char *second = head + (g->grouping.scale == DTYPE_F32 ? 4 : 2) * GROUPED_ROWS;
    vector_u8_t bytes;
    if (g->grouping.offset == GROUPING_MINIMA) return load_numbers(g->grouping.scale, second, v);
    if (g->grouping.offset != GROUPING_ZEROS) return (vector_t){0};
    memcpy(&bytes, second + v * KERNEL_LANES, sizeof bytes);
    return -scales * __builtin_convertvector(bytes, vector_t);
}

KERNEL_INLINE vector_u32_t load_words(const char *words, int v)
{
    vector_u32_t loaded;
    memcpy(&loaded, words + v * KERNEL_LANES * 4, sizeof loaded);
    return loaded;
}

/* ---- rows and blocks ---- */

/* Divides rows of x into parts of equal size, of at most `most` rows. The loops are compiled for
 * these numbers of rows. */
KERNEL_INLINE void divide_rows(int64_t n_rows, int most, grouped_columns_t *columns)
{
    static const int numbers[] = {1, 2, 3, 4, 6, 8};
    int i = 0;
    columns->n_parts = (int)((n_rows + most - 1) / most);
    while (numbers[i] * columns->n_parts < n_rows) i++;
    columns->n_rows = numbers[i];
}

/* Computes blocks [first, last) of outputs. `multiply` computes vector v of a block for a part of
 * the rows. */
KERNEL_INLINE void multiply_blocks(const grouped_columns_t *columns, int64_t first, int64_t last,
                                   void (*multiply)(const grouped_columns_t *columns, int64_t block,
                                                    int v, int part))
{
    for (int64_t block = first; block < last; block++)
        for (int v = 0; v < VECTORS; v++)
            for (int part = 0; part < columns->n_parts; part++) multiply(columns, block, v, part);
}

KERNEL_INLINE void finish_rows(const grouped_columns_t *columns, int64_t output, int part,
                               const vector_t *total)
{
    const grouped_product_t *p = columns->product;
    const int64_t n = p->grouped->n_rows - output;
    const int row = part * columns->n_rows;
    vector_t bias = {0};
    if (n <= 0) return;
    if (p->bias != NULL) bias = vector_load_some(p->bias + output, n);
    for (int r = row; r < row + columns->n_rows && r < p->n_rows; r++) {
        float *out = p->out + r * p->out_stride + output;
        vector_t sum = total[r - row] + bias;
        if (p->accumulates) sum += vector_load_some(out, n);
        vector_store_some(sum, out, n);
        if (p->finish != NULL)
            p->finish(p->user, r, output, n < KERNEL_LANES ? n : KERNEL_LANES, out);
    }
}

#endif
