/* Products of a few rows with a weight that lies in blocks, over either of its dimensions:
 *
 *   out[r][j] = bias[j] + sum(k) x[r][k] * weight(j, k)
 *
 * The weight is that of a fully connected layer, in blocks of outputs by inputs which oneDNN calls
 * AB16b64a and the like. The layer sums over inputs, k, and has outputs, j, for results; the
 * gradient of its input sums over outputs and has inputs for results. Either reads the weight once,
 * as fast as memory gives it, in the order in which it lies: neighbours in a vector are rows of x,
 * and each element of the weight is multiplied by all of them. Each thread takes blocks of results.
 */
#ifndef TESSERA_KERNELS_LINEAR_ROWS_PRODUCT_IMPL_H
#define TESSERA_KERNELS_LINEAR_ROWS_PRODUCT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/axis_impl.h"
#include "kernels/isa_impl.h"

#define ROWS_PRODUCT_ROWS 32  /* at most: more are worth a product that turns the weight */
#define ROWS_PRODUCT_BLOCK 64 /* results of a block, at most; a multiple of 4 */

typedef struct rows_product {
    int64_t n_rows;
    axis_t terms, results;
    const float *x; /* [n_rows][terms.n] */
    const float *weight;
    const float *bias; /* [results.n], or NULL */
    float *out;        /* [n_rows][results.n] */
} rows_product_t;

/* On at most so many threads, by an instruction set that isa_has. scratch: 64-byte aligned bytes,
 * as rows_product_scratch says. */
void rows_product_run(const rows_product_t *product, isa_t isa, int n_threads, void *scratch);
size_t rows_product_scratch(int64_t n_rows, int64_t n_terms);

/* ---- for the loops of an instruction set ---- */

typedef struct rows_product_loops {
    /* Blocks of results [first, last). columns: x as [n_terms][rows], of rows whole vectors, padded
     * by zeros. */
    void (*blocks)(const rows_product_t *product, const float *columns, int64_t first,
                   int64_t last);
} rows_product_loops_t;

ISA_EXTERN(const rows_product_loops_t, rows_product);

#endif
