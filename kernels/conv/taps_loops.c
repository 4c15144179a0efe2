/* The loops of taps_impl.h, compiled once for each ISA (isa_impl.h).
 *
 * The inner loop is compiled for each number of outputs and of vectors, so that all sums stay in
 * registers. */
#include "kernels/conv/taps_impl.h"
#include "kernels/vector_impl.h"

#define MOST_OUTPUTS 4
#define MOST_VECTORS 8

KERNEL_INLINE void sum_taps(const taps_row_t *row, int64_t k, int64_t q, int n_outputs,
                            int n_vectors)
{
    const taps_t *t = row->taps;
    const float *x = row->x + q, *weight = t->weight + k * row->n_taps;
    vector_t sums[MOST_OUTPUTS][MOST_VECTORS];
    KERNEL_UNROLL
    for (int o = 0; o < n_outputs; o++) KERNEL_UNROLL
    for (int v = 0; v < n_vectors; v++)
        sums[o][v] = (vector_t){0} + (t->bias != NULL ? t->bias[k + o] : 0.0f);
    KERNEL_ROLL
    for (int64_t i = 0; i < row->n_taps; i++) {
        const float *from = x + row->offsets[i];
        vector_t values[MOST_VECTORS];
        KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++) values[v] = vector_load(from + v * KERNEL_LANES);
        KERNEL_UNROLL
        for (int o = 0; o < n_outputs; o++) {
            const float factor = weight[o * row->n_taps + i];
            KERNEL_UNROLL
            for (int v = 0; v < n_vectors; v++) sums[o][v] += factor * values[v];
        }
    }
    KERNEL_UNROLL
    for (int o = 0; o < n_outputs; o++) {
        float *out = row->out + (k + o - row->first) * row->out_step + q;
        const int64_t rest = t->out[2] - q;
        KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++)
            vector_store_some(sums[o][v], out + v * KERNEL_LANES, rest - v * KERNEL_LANES);
        const int64_t n = n_vectors * KERNEL_LANES;
        if (t->finish != NULL) t->finish(t->user, out, rest < n ? rest : n);
    }
}

#define CASE(n_outputs, n_vectors)                                                                 \
    case n_vectors:                                                                                \
        sum_taps(row, k, q, n_outputs, n_vectors);                                                 \
        break;
#define TO_3(n) CASE(n, 1) CASE(n, 2) CASE(n, 3)
#define TO_4(n) TO_3(n) CASE(n, 4)
#define TO_6(n) TO_4(n) CASE(n, 5) CASE(n, 6)
#define TO_8(n) TO_6(n) CASE(n, 7) CASE(n, 8)

/* Number of vectors that are summed at a time for 1, 2, .. outputs. If 12 sums fit into registers:
 * 8, 6, 4, 3. */
static int vectors_for(int64_t n_outputs)
{
    static const int vectors[2][MOST_OUTPUTS + 1] = {{0, 8, 6, 4, 3}, {0, 8, 8, 6, 6}};
    return vectors[KERNEL_REGISTERS > 16][n_outputs];
}

static void sum_some(const taps_row_t *row, int64_t k, int64_t q, int64_t n_outputs, int n_vectors)
{
    switch (n_outputs) {
    case 1:
        switch (n_vectors) {
            TO_8(1)
        }
        break;
    case 2:
        switch (n_vectors) {
#if KERNEL_REGISTERS > 16
            TO_8(2)
#else
            TO_6(2)
#endif
        }
        break;
    case 3:
        switch (n_vectors) {
#if KERNEL_REGISTERS > 16
            TO_6(3)
#else
            TO_4(3)
#endif
        }
        break;
    default:
        switch (n_vectors) {
#if KERNEL_REGISTERS > 16
            TO_6(4)
#else
            TO_3(4)
#endif
        }
        break;
    }
}

/* Divides outputs and vectors into nearly equal groups: 5 outputs into 3 and 2, 11 vectors into 3,
 * 3, 3 and 2. */
void KERNEL_NAME(taps)(const taps_row_t *row)
{
    const int64_t n = row->last - row->first, n_blocks = (n + MOST_OUTPUTS - 1) / MOST_OUTPUTS;
    const int64_t n_vectors = (row->taps->out[2] + KERNEL_LANES - 1) / KERNEL_LANES;
    for (int64_t b = 0; b < n_blocks; b++) {
        const int64_t k = row->first + n * b / n_blocks;
        const int64_t n_outputs = row->first + n * (b + 1) / n_blocks - k;
        const int64_t n_tiles = (n_vectors + vectors_for(n_outputs) - 1) / vectors_for(n_outputs);
        for (int64_t tile = 0; tile < n_tiles; tile++) {
            const int64_t v = n_vectors * tile / n_tiles;
            sum_some(row, k, v * KERNEL_LANES, n_outputs,
                     (int)(n_vectors * (tile + 1) / n_tiles - v));
        }
    }
}
