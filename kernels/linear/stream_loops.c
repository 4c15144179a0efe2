/* The loops of stream_impl.h, compiled once for each ISA (isa_impl.h). The inner loop is compiled
 * for each number of rows and of weights, so that all sums stay in registers. */
#include "kernels/linear/stream_impl.h"
#include "kernels/vector_impl.h"

KERNEL_INLINE vector_t load_weight(const void *weight, int64_t at, bool is_bf16)
{
    return is_bf16 ? vector_load_bf16((const uint16_t *)weight + at)
                   : vector_load((const float *)weight + at);
}

/* Loads column k of a group of a trimmed weight: a vector of outputs from output `row` on. */
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

/* Multiplies n_rows rows of x with n_weights rows of the weight from `output` on. Reading several
 * rows of the weight in parallel is faster than reading one. */
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

/* Reads as many rows of the weight at once as have sums that fit in the registers. */
KERNEL_INLINE void choose_rows(const stream_t *s, bool is_bf16, int64_t first, int64_t last)
{
    switch (s->n_rows) {
    case 1: share_rows(s, 1, 6, is_bf16, first, last); break;
    case 2: share_rows(s, 2, 4, is_bf16, first, last); break;
    case 3: share_rows(s, 3, KERNEL_REGISTERS > 16 ? 4 : 3, is_bf16, first, last); break;
    default: share_rows(s, 4, KERNEL_REGISTERS > 16 ? 4 : 3, is_bf16, first, last); break;
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

#define MAX_GROUP (KERNEL_REGISTERS > 16 ? 9 : 6)  /* maximum rows of x with two sums each */
#define MAX_SUMS (KERNEL_REGISTERS > 16 ? 24 : 12) /* maximum sums for three or more blocks */
#define MAX_BLOCKS 4
#define CHUNK 64 /* inputs whose weights stay in the first-level cache for all groups of rows */
#define AHEAD 48 /* how many inputs ahead to prefetch */

/* Vectors in a block of a trimmed weight. A block of another weight is one vector. */
#define TRIM_VECTORS (TRIM_ROWS / KERNEL_LANES)

/* Number of inputs whose weights are stored together: in a trimmed weight, a group of columns. */
KERNEL_INLINE int inputs_of(stream_weight_t elements)
{
    return elements == STREAM_TRIMMED ? TRIM_COLUMNS : 1;
}

/* Bytes between the weights of adjacent groups of inputs in one block. */
KERNEL_INLINE int64_t step_of(stream_weight_t elements)
{
    return elements == STREAM_TRIMMED ? TRIM_WORDS * 4
                                      : KERNEL_LANES * (elements == STREAM_BF16 ? 2 : 4);
}

/* Address of the weights of vector `vector + k` for the group of inputs that begins at i. `vector`
 * is the first one of a block. */
KERNEL_INLINE const char *weights_at(const stream_t *s, stream_weight_t elements, int64_t vector,
                                     int k, int64_t i)
{
    const int64_t n = elements == STREAM_TRIMMED ? TRIM_VECTORS : 1;
    const int64_t block = vector / n + k / n, size = elements == STREAM_BF16 ? 2 : 4;
    return (const char *)s->weight + block * s->weight_stride * size +
           i / inputs_of(elements) * step_of(elements);
}

/* Loads the weights of vector k for input c of the group. */
KERNEL_INLINE vector_t load_block(const char *weights, stream_weight_t elements, int k, int c)
{
    if (elements == STREAM_TRIMMED)
        return load_trimmed((const uint32_t *)(const void *)weights, c,
                            k % TRIM_VECTORS * KERNEL_LANES);
    return load_weight(weights, 0, elements == STREAM_BF16);
}

/* Prefetches the 64-byte lines with the weights for AHEAD inputs later. */
KERNEL_INLINE void prefetch(const char *const *weights, int n_blocks, stream_weight_t elements)
{
    const int64_t later = AHEAD / inputs_of(elements) * step_of(elements);
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) {
        if (elements == STREAM_TRIMMED && k % TRIM_VECTORS == 0) {
            KERNEL_UNROLL
            for (int line = 0; line < 3; line++)
                __builtin_prefetch(weights[k] + later + line * TRIM_ROWS * 4);
        } else if (elements != STREAM_TRIMMED) {
            __builtin_prefetch(weights[k] + later);
        }
    }
}

/* Adds the products of input c of a group with x of each row. */
KERNEL_INLINE void multiply_input(const char *const *weights, int n_rows, int n_blocks,
                                  stream_weight_t elements, const float *x, int c,
                                  vector_t (*sums)[MAX_BLOCKS])
{
    vector_t loaded[MAX_BLOCKS];
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) loaded[k] = load_block(weights[k], elements, k, c);
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) {
        KERNEL_UNROLL
        for (int k = 0; k < n_blocks; k++) sums[b][k] += x[b] * loaded[k];
    }
}

/* Multiplies n_rows rows of x with n_blocks blocks for inputs [from, to), and adds the products to
 * total[row][block]. `from` begins a group of inputs. is_first: prefetches later weights. */
KERNEL_INLINE void multiply_chunk(const stream_t *s, int n_rows, int n_blocks,
                                  stream_weight_t elements, bool is_first, int64_t block,
                                  const float *columns, int64_t from, int64_t to,
                                  vector_t (*total)[MAX_BLOCKS])
{
    const int step = inputs_of(elements);
    const int64_t stride = s->n_rows;
    const float *x = columns + from * stride;
    const char *weights[MAX_BLOCKS] = {NULL};
    vector_t sums[MAX_GROUP][MAX_BLOCKS];
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) weights[k] = weights_at(s, elements, block, k, from);
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) sums[b][k] = total[b][k];
    int64_t i = from;
    for (; i + step <= to; i += step, x += step * stride) {
        if (is_first) prefetch(weights, n_blocks, elements);
        KERNEL_UNROLL
        for (int c = 0; c < step; c++)
            multiply_input(weights, n_rows, n_blocks, elements, x + c * stride, c, sums);
        KERNEL_UNROLL
        for (int k = 0; k < n_blocks; k++) weights[k] += step_of(elements);
    }
    for (int c = 0; i + c < to; c++)
        multiply_input(weights, n_rows, n_blocks, elements, x + c * stride, c, sums);
    KERNEL_UNROLL
    for (int b = 0; b < n_rows; b++) KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) total[b][k] = sums[b][k];
}

#define GROUP(n)                                                                                   \
    case n:                                                                                        \
        if (fits(n, n_blocks))                                                                     \
            multiply_chunk(s, n, n_blocks, elements, is_first, block, columns, from, to, total);   \
        break

/* Returns true if n_blocks blocks can be read at once for n_rows rows: their sums must fit in
 * registers. More blocks at once are faster, because the hardware stops prefetching at the end of
 * each memory page. */
KERNEL_INLINE bool fits(int n_rows, int n_blocks)
{
    return n_blocks <= 2 || n_rows * n_blocks <= MAX_SUMS;
}

KERNEL_INLINE void choose_group(const stream_t *s, int n_rows, int n_blocks,
                                stream_weight_t elements, bool is_first, int64_t block,
                                const float *columns, int64_t from, int64_t to,
                                vector_t (*total)[MAX_BLOCKS])
{
    switch (n_rows) {
        GROUP(1);
        GROUP(2);
        GROUP(3);
        GROUP(4);
        GROUP(5);
#if KERNEL_REGISTERS > 16
        GROUP(6);
        GROUP(7);
        GROUP(8);
#endif
    default:
        if (fits(MAX_GROUP, n_blocks))
            multiply_chunk(s, MAX_GROUP, n_blocks, elements, is_first, block, columns, from, to,
                           total);
    }
}

static void finish(const stream_t *s, int64_t block, int n_blocks,
                   const vector_t (*total)[MAX_BLOCKS])
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

/* Multiplies n_blocks blocks with all rows. A single group of rows needs no chunks of inputs. */
KERNEL_INLINE void multiply_blocks(const stream_t *s, int n_blocks, stream_weight_t elements,
                                   const float *columns, int64_t block)
{
    const int n_groups = ((int)s->n_rows + MAX_GROUP - 1) / MAX_GROUP;
    const int64_t chunk = n_groups == 1 ? s->n_inputs : CHUNK;
    vector_t total[STREAM_BLOCKED_ROWS][MAX_BLOCKS] = {{{0}}};
    for (int64_t from = 0; from < s->n_inputs; from += chunk) {
        const int64_t to = from + chunk < s->n_inputs ? from + chunk : s->n_inputs;
        for (int g = 0; g < n_groups; g++) {
            const int begin = (int)s->n_rows * g / n_groups;
            const int end = (int)s->n_rows * (g + 1) / n_groups;
            if (g == 0)
                choose_group(s, end, n_blocks, elements, true, block, columns, from, to, total);
            else if (n_blocks <= 2)
                choose_group(s, end - begin, n_blocks, elements, false, block, columns + begin,
                             from, to, total + begin);
        }
    }
    finish(s, block, n_blocks, (const vector_t(*)[MAX_BLOCKS])total);
}

/* Multiplies as many blocks at once as have sums that fit in the registers. Blocks of trimmed
 * weights are not divided. */
KERNEL_INLINE void share_blocks(const stream_t *s, stream_weight_t elements, const float *columns,
                                int64_t first, int64_t last)
{
    const int n_rows = (int)s->n_rows;
    const bool has_halves = elements == STREAM_TRIMMED && TRIM_VECTORS > 1;
    int64_t block = first;
    if (fits(n_rows, 4))
        for (; block + 4 <= last; block += 4) multiply_blocks(s, 4, elements, columns, block);
    if (fits(n_rows, 3) && !has_halves)
        for (; block + 3 <= last; block += 3) multiply_blocks(s, 3, elements, columns, block);
    for (; block + 2 <= last; block += 2) multiply_blocks(s, 2, elements, columns, block);
    if (block < last) multiply_blocks(s, 1, elements, columns, block);
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

const stream_loops_t KERNEL_NAME(stream) = {rows, blocks};
