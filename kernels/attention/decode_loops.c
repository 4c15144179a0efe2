/* The loops of decode_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/attention/decode_impl.h"

#include <math.h>

#include "kernels/reduce/softmax_impl.h"
#include "kernels/vector_functions_impl.h"
#include "kernels/vector_impl.h"

#define ROWS 4                     /* rows whose sums are in registers */
#define COLUMNS (KERNEL_LANES / 4) /* vectors of values whose sums are in registers */

static float bf16_at(const void *from, int64_t at)
{
    const uint32_t bits = (uint32_t)((const uint16_t *)from)[at] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Adds the even-numbered halves of interleaved vectors: lane 2 i of the result is a[i] + a[i + L /
 * 2], lane 2 i + 1 the same of b. */
KERNEL_INLINE vector_t fold_pair(vector_t a, vector_t b)
{
#if KERNEL_LANES == 16
    const vector_t low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                                 22, 7, 23);
    const vector_t high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                  29, 14, 30, 15, 31);
#else
    const vector_t low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    const vector_t high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#endif
    return low + high;
}

/* Lane i of the result is the sum of the lanes of v[i]. Overwrites v. */
KERNEL_INLINE vector_t sum_each(vector_t v[KERNEL_LANES])
{
    KERNEL_UNROLL
    for (int n = KERNEL_LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) v[i] = fold_pair(v[i], v[i + n]);
    return v[0];
}

/* Scores of rows [row, row + n_rows) for KERNEL_LANES keys or fewer, from `key` on. */
KERNEL_INLINE void score_keys(const decode_part_t *part, int64_t row, int n_rows, int64_t key,
                              bool is_bf16)
{
    vector_t products[ROWS][KERNEL_LANES];
    const int64_t left = part->n_keys - key;
    for (int64_t s = 0; s < KERNEL_LANES; s++) {
        const int64_t at = (key + (s < left ? s : left - 1)) * part->key_stride;
        vector_t sums[ROWS] = {{0}};
        for (int64_t e = 0; e < part->length; e += KERNEL_LANES) {
            const vector_t k = vector_load_as(part->keys, at + e, is_bf16);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++)
                sums[r] += k * vector_load(part->queries + (row + r) * part->length + e);
        }
        for (int r = 0; r < n_rows; r++) products[r][s] = sums[r];
    }
    for (int r = 0; r < n_rows; r++)
        vector_store(sum_each(products[r]), part->scores + (row + r) * DECODE_PART + key);
}

/* Adds weight * value over keys [begin, end) for ROWS rows or fewer and COLUMNS vectors or fewer.
 */
KERNEL_INLINE void add_values(const decode_part_t *part, int64_t row, int n_rows, int64_t column,
                              int n_columns, decode_range_t range, bool is_bf16)
{
    vector_t sums[ROWS][COLUMNS] = {{{0}}};
    for (int64_t s = range.begin; s < range.end; s++) {
        vector_t values[COLUMNS];
        KERNEL_UNROLL
        for (int c = 0; c < n_columns; c++)
            values[c] = vector_load_as(part->values,
                                       s * part->value_stride + column + c * KERNEL_LANES, is_bf16);
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) {
            const float weight = part->scores[(row + r) * DECODE_PART + s];
            KERNEL_UNROLL
            for (int c = 0; c < n_columns; c++) sums[r][c] += weight * values[c];
        }
    }
    for (int r = 0; r < n_rows; r++)
        for (int c = 0; c < n_columns; c++)
            vector_store(sums[r][c],
                         part->sums + (row + r) * part->out_length + column + c * KERNEL_LANES);
}

KERNEL_INLINE void add_rows(const decode_part_t *part, int64_t row, int n_rows,
                            decode_range_t range, bool is_bf16)
{
    int64_t column = 0;
    for (; column + COLUMNS * KERNEL_LANES <= part->out_length; column += COLUMNS * KERNEL_LANES)
        add_values(part, row, n_rows, column, COLUMNS, range, is_bf16);
    for (; column < part->out_length; column += KERNEL_LANES)
        add_values(part, row, n_rows, column, 1, range, is_bf16);
}

static void cap(int64_t n, float limit, float *row)
{
    for (int64_t i = 0; i < n; i += KERNEL_LANES) {
        const vector_t x = vector_load_some(row + i, n - i);
        vector_store_some(limit * vector_tanh(x / limit), row + i, n - i);
    }
}

/* Replaces the scores of a row by weights, 0 outside of its range. */
static void weigh(const decode_part_t *part, int64_t row)
{
    float *scores = part->scores + row * DECODE_PART;
    const decode_range_t range = part->ranges[row];
    const int64_t n = range.end - range.begin;
    part->largest[row] = -INFINITY;
    part->all[row] = 0.0f;
    if (n > 0 && part->softcap > 0.0f) cap(n, part->softcap, scores + range.begin);
    if (n > 0)
        part->all[row] = KERNEL_NAME(softmax).exponentials(
            n, scores + range.begin, scores + range.begin, &part->largest[row]);
    const bool sees_none = part->largest[row] == -INFINITY; /* then the weights are NaN */
    if (sees_none) part->all[row] = 0.0f;
    for (int64_t s = 0; s < part->n_keys; s++)
        if (sees_none || s < range.begin || s >= range.end) scores[s] = 0.0f;
}

/* Recomputes sums that are not finite without keys of weight 0, whose values may be NaN. */
static void mend(const decode_part_t *part, int64_t row)
{
    const float *weights = part->scores + row * DECODE_PART;
    float *sums = part->sums + row * part->out_length;
    for (int64_t v = 0; v < part->out_length; v++) {
        if (isfinite(sums[v])) continue;
        sums[v] = 0.0f;
        for (int64_t s = 0; s < part->n_keys; s++) {
            const int64_t at = s * part->value_stride + v;
            if (weights[s] == 0.0f) continue;
            sums[v] += weights[s] * (part->values_are_bf16 ? bf16_at(part->values, at)
                                                           : ((const float *)part->values)[at]);
        }
    }
}

static decode_range_t find_union(const decode_part_t *part, int64_t row, int64_t n)
{
    decode_range_t all = part->ranges[row];
    for (int64_t r = row + 1; r < row + n; r++) {
        if (part->ranges[r].begin < all.begin) all.begin = part->ranges[r].begin;
        if (part->ranges[r].end > all.end) all.end = part->ranges[r].end;
    }
    return all;
}

/* Calls the loop with constants for the number of rows and the dtype, so that sums are in
 * registers. */
#define WITH_ROWS(n, loop, is_bf16)                                                                \
    switch (n) {                                                                                   \
    case 1: loop(1, is_bf16); break;                                                               \
    case 2: loop(2, is_bf16); break;                                                               \
    case 3: loop(3, is_bf16); break;                                                               \
    default: loop(ROWS, is_bf16);                                                                  \
    }

static void score_rows(const decode_part_t *part, int64_t row, int64_t n, decode_range_t range)
{
    for (int64_t key = range.begin / KERNEL_LANES * KERNEL_LANES; key < range.end;
         key += KERNEL_LANES) {
#define SCORE(rows, is_bf16) score_keys(part, row, rows, key, is_bf16)
        if (part->keys_are_bf16)
            WITH_ROWS(n, SCORE, true)
        else
            WITH_ROWS(n, SCORE, false)
#undef SCORE
    }
}

static void sum_rows(const decode_part_t *part, int64_t row, int64_t n, decode_range_t range)
{
#define ADD(rows, is_bf16) add_rows(part, row, rows, range, is_bf16)
    if (part->values_are_bf16)
        WITH_ROWS(n, ADD, true)
    else
        WITH_ROWS(n, ADD, false)
#undef ADD
}

static void run(const decode_part_t *part)
{
    for (int64_t row = 0; row < part->n_rows; row += ROWS) {
        const int64_t left = part->n_rows - row, n = left < ROWS ? left : ROWS;
        const decode_range_t range = find_union(part, row, n);
        score_rows(part, row, n, range);
        for (int64_t r = row; r < row + n; r++) weigh(part, r);
        sum_rows(part, row, n, range);
        for (int64_t r = row; r < row + n; r++) {
            bool is_finite = true;
            const float *sums = part->sums + r * part->out_length;
            for (int64_t v = 0; v < part->out_length; v += KERNEL_LANES)
                is_finite &= vector_is_finite(vector_load(sums + v));
            if (!is_finite) mend(part, r);
        }
    }
}

const decode_loops_t KERNEL_NAME(decode) = {.run = run, .cap = cap};
