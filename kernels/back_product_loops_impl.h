/* The loops of back_product_impl.h for vectors of KERNEL_LANES floats. The including file defines,
 * besides that,
 *
 *   BACK_PRODUCT_LOOPS      the name of its back_product_loops_t
 *   BACK_PRODUCT_REGISTERS  vectors that the machine holds at once
 *
 * Sums of a block of inputs and all rows stay in the first or second cache. They are taken into
 * registers a tile at a time, of TILE_ROWS by TILE_INPUTS, for DEPTH outputs, whose weights stay in
 * the first cache for all rows. */
#include "kernels/back_product_impl.h"
#include "kernels/vector_impl.h"

#define TILE_INPUTS (BACK_PRODUCT_REGISTERS > 16 ? 4 : 2)
#define TILE_ROWS 4
#define DEPTH 256 /* outputs at once */
#define LINE 16   /* floats that one prefetch brings */

typedef vector_t sums_t[BACK_PRODUCT_INPUTS];

/* Some outputs of one block of inputs. */
typedef struct part {
    const float *weight;          /* of the first block of outputs */
    const float *next;            /* of the part behind it, which is prefetched; or NULL */
    const float *columns;         /* of the first vector of outputs */
    int64_t n_blocks, block_step; /* blocks of outputs, and elements from one to the next */
    int64_t vectors;              /* of a block of outputs */
} part_t;

/* Line `index` of what comes next. */
KERNEL_INLINE void prefetch(const back_product_t *p, const part_t *part, int64_t index)
{
    const int64_t lines = p->block_outputs * p->block_inputs / LINE;
    if (part->next != NULL && index < part->n_blocks * lines)
        __builtin_prefetch(part->next + index / lines * part->block_step + index % lines * LINE);
}

KERNEL_INLINE void multiply(const back_product_t *p, const part_t *part, int n_rows, int64_t row,
                            int64_t input, int64_t *line, sums_t *total)
{
    vector_t sums[TILE_ROWS][TILE_INPUTS];
    const float *columns = part->columns + row * KERNEL_LANES;
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int i = 0; i < TILE_INPUTS; i++) sums[r][i] = total[row + r][input + i];
    for (int64_t b = 0; b < part->n_blocks; b++) {
        const float *weight = part->weight + b * part->block_step + input * p->block_outputs;
        for (int64_t v = 0; v < part->vectors; v++, columns += p->n_rows * KERNEL_LANES) {
            vector_t weights[TILE_INPUTS];
            prefetch(p, part, (*line)++);
            KERNEL_UNROLL
            for (int i = 0; i < TILE_INPUTS; i++)
                weights[i] = vector_load(weight + i * p->block_outputs + v * KERNEL_LANES);
            KERNEL_UNROLL
            for (int r = 0; r < n_rows; r++) {
                const vector_t grad = vector_load(columns + r * KERNEL_LANES);
                KERNEL_UNROLL
                for (int i = 0; i < TILE_INPUTS; i++) sums[r][i] += grad * weights[i];
            }
        }
    }
    KERNEL_UNROLL
    for (int r = 0; r < n_rows; r++) KERNEL_UNROLL
    for (int i = 0; i < TILE_INPUTS; i++) total[row + r][input + i] = sums[r][i];
}

static void multiply_part(const back_product_t *p, const part_t *part, sums_t *total)
{
    int64_t line = 0;
    for (int64_t input = 0; input < p->block_inputs; input += TILE_INPUTS)
        for (int64_t row = 0; row < p->n_rows; row += TILE_ROWS) switch (p->n_rows - row) {
            case 1: multiply(p, part, 1, row, input, &line, total); break;
            case 2: multiply(p, part, 2, row, input, &line, total); break;
            case 3: multiply(p, part, 3, row, input, &line, total); break;
            default: multiply(p, part, TILE_ROWS, row, input, &line, total); break;
            }
}

static void one_block(const back_product_t *p, const float *columns, int64_t block)
{
    sums_t total[BACK_PRODUCT_ROWS];
    const int64_t n_input_blocks = back_product_blocks(p->n_inputs, p->block_inputs);
    const int64_t n_blocks = back_product_blocks(p->n_outputs, p->block_outputs);
    const int64_t elements = p->block_outputs * p->block_inputs;
    const int64_t depth = p->block_outputs < DEPTH ? DEPTH / p->block_outputs : 1;
    part_t part = {.block_step = n_input_blocks * elements,
                   .vectors = p->block_outputs / KERNEL_LANES};
    for (int64_t r = 0; r < p->n_rows; r++) memset(total[r], 0, sizeof total[r]);
    for (int64_t b = 0; b < n_blocks; b += depth) {
        part.n_blocks = n_blocks - b < depth ? n_blocks - b : depth;
        part.weight = p->weight + b * part.block_step + block * elements;
        part.next = b + 2 * depth <= n_blocks ? part.weight + depth * part.block_step : NULL;
        part.columns = columns + b * part.vectors * p->n_rows * KERNEL_LANES;
        multiply_part(p, &part, total);
    }
    for (int64_t r = 0; r < p->n_rows; r++)
        for (int64_t i = 0; i < p->block_inputs && block * p->block_inputs + i < p->n_inputs; i++)
            p->out[r * p->n_inputs + block * p->block_inputs + i] = vector_sum(total[r][i]);
}

static void blocks(const back_product_t *p, const float *columns, int64_t first, int64_t last)
{
    for (int64_t block = first; block < last; block++) one_block(p, columns, block);
}

const back_product_loops_t BACK_PRODUCT_LOOPS = {blocks};
