/* The loops of stream_impl.h for vectors of KERNEL_LANES floats. The including file defines,
 * besides that,
 *
 *   STREAM_LOOPS      the name of its stream_loops_t
 *   STREAM_REGISTERS  vectors that the machine holds at once
 *
 * Numbers of rows and of weights at once are constants of each copy of a loop, so that all sums
 * stay in registers. */
#include "kernels/stream_impl.h"
#include "kernels/vector_impl.h"

KERNEL_INLINE vector_t load_weight(const void *weight, int64_t at, bool is_bf16)
{
    return is_bf16 ? vector_load_bf16((const uint16_t *)weight + at)
                   : vector_load((const float *)weight + at);
}

/* Column k of a group of a trimmed weight, a vector of its rows from `row` on. */
KERNEL_INLINE vector_t load_trimmed(const uint32_t *group, int k, int row)
{
    vector_u32_t words[3];
    KERNEL_UNROLL
    for (int w = 0; w < 3; w++) memcpy(&words[w], group + w * TRIM_ROWS + row, sizeof words[w]);
    switch (k) {
    case 0: return (vector_t)(words[0] & 0xffffff00u);
    case 1: return (vector_t)(words[1] & 0xffffff00u);
    case 2: return (vector_t)(words[2] & 0xffffff00u);
    default:
        return (vector_t)(words[0] << 24 | (words[1] << 16 & 0x00ff0000u) |
                          (words[2] << 8 & 0x0000ff00u));
    }
}

KERNEL_INLINE float weight_at(const void *weight, int64_t at, bool is_bf16)
{
    float value;
    if (!is_bf16) return ((const float *)weight)[at];
    const uint32_t bits = (uint32_t)((const uint16_t *)weight)[at] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- the weight in rows ---- */

#define MAX_AT_ONCE 6

/* `n_rows` rows of x by `n_weights` rows of the weight from `output` on. Several streams at once
 * are read faster than one. */
KERNEL_INLINE void multiply_rows(const stream_t *s, int n_rows, int n_weights, bool is_bf16,
                                 int64_t output)
{
    const int64_t n_inputs = s->n_inputs, n_whole = n_inputs - n_inputs % KERNEL_LANES;
    const int64_t from = output * s->weight_stride;
    vector_t sums[STREAM_ROWS][MAX_AT_ONCE] = {{{0}}};
    for (int64_t i = 0; i < n_whole; i += KERNEL_LANES) {
        vector_t weights[MAX_AT_ONCE];
        KERNEL_UNROLL
        for (int k = 0; k < n_weights; k++)
            weights[k] = load_weight(s->weight, from + k * s->weight_stride + i, is_bf16);
        KERNEL_UNROLL
        for (int b = 0; b < n_rows; b++) {
            const vector_t x = vector_load(s->x + b * s->x_stride + i);
            KERNEL_UNROLL
            for (int k = 0; k < n_weights; k++) sums[b][k] += x * weights[k];
        }
    }
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) KERNEL_UNROLL
    for (int k = 0; k < n_weights; k++) {
        float sum = vector_sum(sums[b][k]);
        for (int64_t i = n_whole; i < n_inputs; i++)
            sum += s->x[b * s->x_stride + i] *
                   weight_at(s->weight, from + k * s->weight_stride + i, is_bf16);
        s->out[b * s->out_stride + output + k] = s->bias != NULL ? sum + s->bias[output + k] : sum;
    }
}

KERNEL_INLINE void share_rows(const stream_t *s, int n_rows, int n_weights, bool is_bf16,
                              int64_t first, int64_t last)
{
    int64_t output = first;
    for (; output + n_weights <= last; output += n_weights)
        multiply_rows(s, n_rows, n_weights, is_bf16, output);
    for (; output < last; output++) multiply_rows(s, n_rows, 1, is_bf16, output);
}

/* Four rows by four weights are 16 sums. */
KERNEL_INLINE void choose_rows(const stream_t *s, bool is_bf16, int64_t first, int64_t last)
{
    switch (s->n_rows) {
    case 1: share_rows(s, 1, 6, is_bf16, first, last); break;
    case 2: share_rows(s, 2, 4, is_bf16, first, last); break;
    case 3: share_rows(s, 3, STREAM_REGISTERS > 16 ? 4 : 3, is_bf16, first, last); break;
    default: share_rows(s, 4, STREAM_REGISTERS > 16 ? 4 : 3, is_bf16, first, last); break;
    }
}

static void rows(const stream_t *s, int64_t first, int64_t last)
{
    if (s->elements == STREAM_BF16)
        choose_rows(s, true, first, last);
    else
        choose_rows(s, false, first, last);
}

/* ---- the weight in blocks ---- */

#define MAX_GROUP (STREAM_REGISTERS > 16 ? 9 : 6) /* rows of x: two sums of each fit */
#define CHUNK 64  /* inputs: their weights stay in the first cache for the next group of rows */
#define AHEAD 128 /* inputs that are prefetched before they are read */

/* Vectors in a block of a trimmed weight; others have one. */
#define TRIM_VECTORS (TRIM_ROWS / KERNEL_LANES)

/* Where group g stands in the block of a trimmed weight that vector k of those from `vector` on,
 * the first of a block, is of. */
KERNEL_INLINE const uint32_t *group_at(const stream_t *s, int64_t vector, int k, int64_t g)
{
    const int64_t block = vector / TRIM_VECTORS + k / TRIM_VECTORS;
    return (const uint32_t *)s->weight + block * s->weight_stride + g * TRIM_WORDS;
}

/* Vector k of those from `vector` on: the weights of its outputs for input i, `column` of its group
 * where they are trimmed. */
KERNEL_INLINE vector_t load_block(const stream_t *s, stream_weight_t elements, int64_t vector,
                                  int k, int64_t i, int column)
{
    if (elements == STREAM_TRIMMED)
        return load_trimmed(group_at(s, vector, k, i / TRIM_COLUMNS), column,
                            k % TRIM_VECTORS * KERNEL_LANES);
    return load_weight(s->weight, (vector + k) * s->weight_stride + i * KERNEL_LANES,
                       elements == STREAM_BF16);
}

/* What is read AHEAD inputs later than inputs [i, i + n), lines of 64 bytes. */
KERNEL_INLINE void prefetch(const stream_t *s, int n_blocks, stream_weight_t elements,
                            int64_t block, int64_t i)
{
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) {
        if (elements == STREAM_TRIMMED && k % TRIM_VECTORS == 0) {
            const uint32_t *later = group_at(s, block, k, (i + AHEAD) / TRIM_COLUMNS);
            KERNEL_UNROLL
            for (int line = 0; line < 3; line++) __builtin_prefetch(later + line * TRIM_ROWS);
        } else if (elements != STREAM_TRIMMED) {
            const int64_t at = (block + k) * s->weight_stride + (i + AHEAD) * KERNEL_LANES;
            __builtin_prefetch((const char *)s->weight + at * (elements == STREAM_BF16 ? 2 : 4));
        }
    }
}

/* Adds the products of one input. */
KERNEL_INLINE void multiply_input(const stream_t *s, int n_rows, int n_blocks,
                                  stream_weight_t elements, int64_t block, const float *columns,
                                  int64_t i, int column, vector_t (*sums)[2])
{
    vector_t weights[2];
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) weights[k] = load_block(s, elements, block, k, i, column);
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) {
        const float x = columns[i * s->n_rows + b];
        KERNEL_UNROLL
        for (int k = 0; k < n_blocks; k++) sums[b][k] += x * weights[k];
    }
}

/* A group of rows by one or two blocks, over inputs [from, to): sums[row][block] grow. `from` is
 * the first of a group of columns. With `is_first` later weights are prefetched. */
KERNEL_INLINE void multiply_chunk(const stream_t *s, int n_rows, int n_blocks,
                                  stream_weight_t elements, bool is_first, int64_t block,
                                  const float *columns, int64_t from, int64_t to,
                                  vector_t (*total)[2])
{
    const int step = elements == STREAM_TRIMMED ? TRIM_COLUMNS : 1;
    vector_t sums[MAX_GROUP][2];
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) sums[b][k] = total[b][k];
    int64_t i = from;
    for (; i + step <= to; i += step) {
        if (is_first) prefetch(s, n_blocks, elements, block, i);
        KERNEL_UNROLL
        for (int c = 0; c < step; c++)
            multiply_input(s, n_rows, n_blocks, elements, block, columns, i + c, c, sums);
    }
    for (int c = 0; i < to; i++, c++)
        multiply_input(s, n_rows, n_blocks, elements, block, columns, i, c, sums);
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) total[b][k] = sums[b][k];
}

#define GROUP(n)                                                                                   \
    case n:                                                                                        \
        multiply_chunk(s, n, n_blocks, elements, is_first, block, columns, from, to, total);       \
        break

KERNEL_INLINE void choose_group(const stream_t *s, int n_rows, int n_blocks,
                                stream_weight_t elements, bool is_first, int64_t block,
                                const float *columns, int64_t from, int64_t to,
                                vector_t (*total)[2])
{
    switch (n_rows) {
        GROUP(1);
        GROUP(2);
        GROUP(3);
        GROUP(4);
        GROUP(5);
#if STREAM_REGISTERS > 16
        GROUP(6);
        GROUP(7);
        GROUP(8);
    default:
        multiply_chunk(s, MAX_GROUP, n_blocks, elements, is_first, block, columns, from, to, total);
#else
    default:
        multiply_chunk(s, MAX_GROUP, n_blocks, elements, is_first, block, columns, from, to, total);
#endif
    }
}

static void finish(const stream_t *s, int64_t block, int n_blocks, const vector_t (*total)[2])
{
    for (int k = 0; k < n_blocks; k++) {
        const int64_t output = (block + k) * KERNEL_LANES, rest = s->n_outputs - output;
        const int n = rest < KERNEL_LANES ? (int)rest : KERNEL_LANES;
        for (int64_t b = 0; b < s->n_rows; b++) {
            float sums[KERNEL_LANES];
            float *out = s->out + b * s->out_stride + output;
            vector_store(total[b][k], sums);
            for (int i = 0; i < n; i++)
                out[i] = s->bias != NULL ? sums[i] + s->bias[output + i] : sums[i];
        }
    }
}

KERNEL_INLINE void multiply_blocks(const stream_t *s, int n_blocks, stream_weight_t elements,
                                   int n_groups, const float *columns, int64_t block)
{
    vector_t total[STREAM_BLOCKED_ROWS][2] = {{{0}}};
    for (int64_t from = 0; from < s->n_inputs; from += CHUNK) {
        const int64_t to = from + CHUNK < s->n_inputs ? from + CHUNK : s->n_inputs;
        for (int g = 0; g < n_groups; g++) {
            const int begin = (int)s->n_rows * g / n_groups;
            const int end = (int)s->n_rows * (g + 1) / n_groups;
            if (g == 0)
                choose_group(s, end, n_blocks, elements, true, block, columns, from, to, total);
            else
                choose_group(s, end - begin, n_blocks, elements, false, block, columns + begin,
                             from, to, total + begin);
        }
    }
    finish(s, block, n_blocks, (const vector_t(*)[2])total);
}

KERNEL_INLINE void share_blocks(const stream_t *s, stream_weight_t elements, const float *columns,
                                int64_t first, int64_t last)
{
    const int n_groups = ((int)s->n_rows + MAX_GROUP - 1) / MAX_GROUP;
    int64_t block = first;
    for (; block + 2 <= last; block += 2) multiply_blocks(s, 2, elements, n_groups, columns, block);
    if (block < last) multiply_blocks(s, 1, elements, n_groups, columns, block);
}

static void blocks(const stream_t *s, const float *columns, int64_t first, int64_t last)
{
    switch (s->elements) {
    case STREAM_F32: share_blocks(s, STREAM_F32, columns, first, last); break;
    case STREAM_BF16: share_blocks(s, STREAM_BF16, columns, first, last); break;
    case STREAM_TRIMMED:
        share_blocks(s, STREAM_TRIMMED, columns, first * TRIM_VECTORS, last * TRIM_VECTORS);
        break;
    }
}

const stream_loops_t STREAM_LOOPS = {rows, blocks};
