/* The loops of tiling_impl.h, compiled once for each ISA (isa_impl.h). Sums of KERNEL_ROWS elements
 * of x, for a block of outputs, stay in registers. */
#include "kernels/conv/tiling_impl.h"
#include "kernels/vector_impl.h"

#define VECTORS (TILING_BLOCK / KERNEL_LANES) /* vectors in a block */

/* The lines of the result that one line of x produces. */
typedef struct lines {
    float *first;
    int64_t part_step;  /* stride of the R lines */
    int64_t depth_step; /* stride of the T planes */
    int64_t piece;      /* S * K */
    int64_t parts;      /* R */
} lines_t;

/* Copies n floats. For small n, uses moves of constant size, which are faster. */
KERNEL_INLINE void copy_piece(float *to, const float *from, int64_t n)
{
    switch (n) {
    case 1: memcpy(to, from, sizeof *to); break;
    case 2: memcpy(to, from, 2 * sizeof *to); break;
    case 4: memcpy(to, from, 4 * sizeof *to); break;
    case 8: memcpy(to, from, 8 * sizeof *to); break;
    case 16: memcpy(to, from, 16 * sizeof *to); break;
    default:
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
    }
}

/* Stores n outputs of an element, from `output` on, to the lines to which they belong. */
KERNEL_INLINE void leave(const lines_t *lines, int64_t element, int64_t output, int64_t n,
                         const float *values)
{
    while (n > 0) {
        const int64_t line = output / lines->piece, at = output - line * lines->piece;
        const int64_t rest = lines->piece - at, now = rest < n ? rest : n;
        float *to = lines->first + line / lines->parts * lines->depth_step +
                    line % lines->parts * lines->part_step + element * lines->piece + at;
        copy_piece(to, values, now);
        output += now;
        values += now;
        n -= now;
    }
}

/* Computes n_vectors vectors of outputs, from `output` on, for n_rows adjacent elements of x. */
KERNEL_INLINE void multiply(const tiling_t *p, const lines_t *lines, const float *x,
                            int64_t element, int64_t output, int n_rows, int n_vectors)
{
    const float *weight = p->weight + output * p->n_inputs;
    const int64_t rest = p->n_outputs * p->tile[0] * p->tile[1] * p->tile[2] - output;
    const int64_t left = rest < TILING_BLOCK ? rest : TILING_BLOCK, n_inputs = p->n_inputs;
    vector_t sums[KERNEL_ROWS][VECTORS];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++)
            sums[r][v] = vector_load(p->bias + output + v * KERNEL_LANES);
    }
    x += element * n_inputs;
    KERNEL_ROLL
    for (int64_t c = 0; c < n_inputs; c++, weight += TILING_BLOCK) {
        vector_t weights[VECTORS];
        KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++) weights[v] = vector_load(weight + v * KERNEL_LANES);
        KERNEL_UNROLL
        for (int r = 0; r < n_rows; r++) {
            KERNEL_UNROLL
            for (int v = 0; v < n_vectors; v++) sums[r][v] += x[r * n_inputs + c] * weights[v];
        }
    }
    float values[KERNEL_ROWS][TILING_BLOCK];
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) {
        KERNEL_UNROLL
        for (int v = 0; v < n_vectors; v++) vector_store(sums[r][v], values[r] + v * KERNEL_LANES);
    }
    for (int r = 0; r < n_rows; r++) leave(lines, element + r, output, left, values[r]);
}

#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (n_outputs - output > KERNEL_LANES)                                                     \
            multiply(p, &lines, x, element, output, n, VECTORS);                                   \
        else                                                                                       \
            multiply(p, &lines, x, element, output, n, 1);                                         \
        break;

void KERNEL_NAME(tiling)(const tiling_t *p, int64_t line)
{
    const int64_t n_outputs = p->n_outputs * p->tile[0] * p->tile[1] * p->tile[2];
    const int64_t plane = line / p->in[1], row = line % p->in[1], width = p->in[2];
    const float *x = p->x + line * width * p->n_inputs;
    const int64_t out_line = width * p->tile[2] * p->n_outputs;
    const lines_t lines = {.first = p->out +
                                    (plane * p->tile[0] * p->in[1] + row) * p->tile[1] * out_line,
                           .part_step = out_line,
                           .depth_step = p->in[1] * p->tile[1] * out_line,
                           .piece = p->tile[2] * p->n_outputs,
                           .parts = p->tile[1]};
    const int64_t n_groups = (width + KERNEL_ROWS - 1) / KERNEL_ROWS;
    for (int64_t output = 0; output < n_outputs; output += TILING_BLOCK)
        for (int64_t g = 0; g < n_groups; g++) {
            const int64_t element = width * g / n_groups;
            switch (width * (g + 1) / n_groups - element) {
                KERNEL_UP_TO(KERNEL_ROWS, ROWS)
            default: break;
            }
        }
    for (int64_t i = 0; i < p->tile[0] * p->tile[1] && p->finish != NULL; i++)
        p->finish(p->user,
                  lines.first + i / p->tile[1] * lines.depth_step +
                      i % p->tile[1] * lines.part_step,
                  out_line);
}
