/* The loops of taps_impl.h for blocks of outputs, compiled once for each ISA (isa_impl.h). Sums of
 * KERNEL_ROWS adjacent results, for two blocks, stay in registers. */
#include "kernels/conv/taps_impl.h"
#include "kernels/vector_impl.h"

#define BLOCKS 2

static vector_t load_bias(const taps_t *t, int64_t block)
{
    if (t->bias == NULL) return (vector_t){0};
    return vector_load_some(t->bias + block * KERNEL_LANES,
                            t->group_outputs - block * KERNEL_LANES);
}

/* Clamps and stores the first n results of a block, and calls `finish` for them. */
KERNEL_INLINE void leave(const taps_t *t, vector_t *sums, int64_t n, float *out)
{
    const vector_t lower = t->lower - (vector_t){0}, upper = t->upper - (vector_t){0};
    if (t->is_clamped) {
        KERNEL_UNROLL
        for (int i = 0; i < KERNEL_ROWS; i++) sums[i] = vector_clamp(sums[i], lower, upper);
    }
    KERNEL_UNROLL
    for (int i = 0; i < KERNEL_ROWS; i++)
        if (i < n) vector_store(sums[i], out + i * KERNEL_LANES);
    if (t->finish != NULL) t->finish(t->user, out, n * KERNEL_LANES);
}

/* Computes KERNEL_ROWS results of each block from column q on, and stores the first n. Beyond the
 * last column, x is padding. */
KERNEL_INLINE void sum_tile(const taps_row_t *row, int64_t block, int n_blocks, int64_t step,
                            int64_t q, int64_t n)
{
    const taps_t *t = row->taps;
    const float *weight = t->weight + block * row->n_taps * KERNEL_LANES;
    float *out = row->out + (block - row->first) * row->out_step + q * KERNEL_LANES;
    vector_t sums[BLOCKS][KERNEL_ROWS];
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) {
        const vector_t bias = load_bias(t, block + k);
        KERNEL_UNROLL
        for (int i = 0; i < KERNEL_ROWS; i++) sums[k][i] = bias;
    }
    KERNEL_ROLL
    for (int64_t tap = 0; tap < row->n_taps; tap++, weight += KERNEL_LANES) {
        const float *x = row->x + q * step + row->offsets[tap];
        vector_t weights[BLOCKS];
        KERNEL_UNROLL
        for (int k = 0; k < n_blocks; k++)
            weights[k] = vector_load(weight + k * row->n_taps * KERNEL_LANES);
        KERNEL_UNROLL
        for (int i = 0; i < KERNEL_ROWS; i++) {
            const float *again = vector_again(x + i * step, i);
            KERNEL_UNROLL
            for (int k = 0; k < n_blocks; k++)
                sums[k][i] += *(k == 0 ? x + i * step : again) * weights[k];
        }
    }
    KERNEL_UNROLL
    for (int k = 0; k < n_blocks; k++) leave(t, sums[k], n, out + k * row->out_step);
}

/* Computes one row. Its last tile overlaps the one before it, or is short if it is the only one. */
KERNEL_INLINE void sum_row(const taps_row_t *row, int64_t block, int n_blocks, int64_t step)
{
    const int64_t width = row->taps->out[2];
    for (int64_t q = 0; q < width; q += KERNEL_ROWS) {
        const int64_t rest = width - q;
        if (rest >= KERNEL_ROWS)
            sum_tile(row, block, n_blocks, step, q, KERNEL_ROWS);
        else if (width >= KERNEL_ROWS)
            sum_tile(row, block, n_blocks, step, width - KERNEL_ROWS, KERNEL_ROWS);
        else
            sum_tile(row, block, n_blocks, step, q, rest);
    }
}

/* The loops are compiled for one and two blocks, and for each step. */
void KERNEL_NAME(taps_blocks)(const taps_row_t *row)
{
    for (int64_t block = row->first; block < row->last; block += BLOCKS) {
        if (block + BLOCKS <= row->last)
            row->step == 1 ? sum_row(row, block, BLOCKS, 1) : sum_row(row, block, BLOCKS, 2);
        else
            row->step == 1 ? sum_row(row, block, 1, 1) : sum_row(row, block, 1, 2);
    }
}
