/* Products of a few rows with a weight that lies as the forward layer has it, over its outputs:
 *
 *   out[r][i] = sum(o) grad[r][o] * weight[o][i]
 *
 * The weight lies in blocks of block_outputs by block_inputs,
 * [outputs / block_outputs][inputs / block_inputs][block_inputs][block_outputs], which oneDNN calls
 * AB16b64a and the like; the last ones are padded by zeros. Neighbours in memory are outputs, over
 * which the sum goes: a sum of each row and input has a vector of lanes, which are added up at the
 * end, and no weight is turned. Each thread takes blocks of inputs. */
#ifndef TESSERA_KERNELS_BACK_PRODUCT_IMPL_H
#define TESSERA_KERNELS_BACK_PRODUCT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define BACK_PRODUCT_INPUTS 16 /* block_inputs is a multiple of 4 up to this */
#define BACK_PRODUCT_ROWS 32   /* at most: for more, turning the weight costs less than its share */

typedef struct back_product {
    int64_t n_rows, n_outputs, n_inputs;
    int64_t block_outputs; /* a multiple of the instruction set's lanes */
    int64_t block_inputs;
    const float *grad; /* [n_rows][n_outputs] */
    const float *weight;
    float *out; /* [n_rows][n_inputs] */
} back_product_t;

/* On at most so many threads, by an instruction set that isa_has. scratch: 64-byte aligned bytes,
 * as back_product_scratch says. */
void back_product_run(const back_product_t *product, isa_t isa, int n_threads, void *scratch);
size_t back_product_scratch(int64_t n_rows, int64_t n_outputs, int64_t block_outputs);

/* ---- for the loops of an instruction set ---- */

typedef struct back_product_loops {
    /* Blocks of inputs [first, last). columns: grad as [padded outputs / lanes][n_rows][lanes]. */
    void (*blocks)(const back_product_t *product, const float *columns, int64_t first,
                   int64_t last);
} back_product_loops_t;

extern const back_product_loops_t back_product_portable, back_product_avx2, back_product_avx512;

static inline int64_t back_product_blocks(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

#endif
