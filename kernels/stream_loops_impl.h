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

/* Of column `at` of a block of a trimmed weight a vector of its rows, from `row` on. */
KERNEL_INLINE vector_t load_trimmed(const uint8_t *weight, int64_t at, int64_t row)
{
    vector_u16_t upper;
    vector_u8_t lower;
    const uint8_t *column = weight + at * TRIM_BYTES;
    memcpy(&upper, column + row * 2, sizeof upper);
    memcpy(&lower, column + TRIM_ROWS * 2 + row, sizeof lower);
    return (vector_t)(vector_widen_u16(upper) << 16 | vector_widen_u8(lower) << 8);
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

/* Vector k of those that begin with the first one of a block: the weights of its outputs for input
 * i. With `is_first` those of later inputs are prefetched. */
KERNEL_INLINE vector_t load_block(const stream_t *s, stream_weight_t elements, bool is_first,
                                  int64_t vector, int k, int64_t i)
{
    if (elements == STREAM_TRIMMED) {
        const int part = k % TRIM_VECTORS;
        const uint8_t *block = (const uint8_t *)s->weight +
                               (vector / TRIM_VECTORS + k / TRIM_VECTORS) * s->weight_stride * 3;
        if (is_first && part == 0) __builtin_prefetch(block + (i + AHEAD) * TRIM_BYTES);
        return load_trimmed(block, i, part * KERNEL_LANES);
    }
    const int64_t at = (vector + k) * s->weight_stride + i * KERNEL_LANES;
    const int64_t size = elements == STREAM_BF16 ? 2 : 4;
    if (is_first) __builtin_prefetch((const char *)s->weight + (at + AHEAD * KERNEL_LANES) * size);
    return load_weight(s->weight, at, elements == STREAM_BF16);
}

/* A group of rows by one or two blocks, over inputs [from, to): sums[row][block] grow. */
KERNEL_INLINE void multiply_chunk(const stream_t *s, int n_rows, int n_blocks,
                                  stream_weight_t elements, bool is_first, int64_t block,
                                  const float *columns, int64_t from, int64_t to,
                                  vector_t (*total)[2])
{
    const int64_t stride = s->n_rows;
    vector_t sums[MAX_GROUP][2];
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) sums[b][k] = total[b][k];
    for (int64_t i = from; i < to; i++) {
        vector_t weights[2];
        KERNEL_UNROLL
        for (int k = 0; k < n_blocks; k++)
            weights[k] = load_block(s, elements, is_first, block, k, i);
        KERNEL_UNROLL
        for (int b = 0; b < n_rows; b++) {
            const float x = columns[i * stride + b];
            KERNEL_UNROLL
            for (int k = 0; k < n_blocks; k++) sums[b][k] += x * weights[k];
        }
    }
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
