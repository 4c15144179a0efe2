/* Products of a few rows of x with a weight that is stored in blocks, summed over either dimension
 * of the weight:
 *
 *   out[r][j] = bias[j] + sum(k) x[r][k] * weight(j, k)
 *
 * The weight of a fully connected layer has blocks of both outputs and inputs, such as oneDNN's
 * AB16b64a. In the layer, k is an input and j an output. In the gradient of the layer's x, k is an
 * output and j an input. In both, the weight is read once, in memory order, so memory bandwidth
 * limits the speed. The lanes of a vector are rows of x; each element of the weight is multiplied
 * with all of them. Each thread computes some blocks of results. */
#ifndef TESSERA_KERNELS_LINEAR_ROWS_PRODUCT_IMPL_H
#define TESSERA_KERNELS_LINEAR_ROWS_PRODUCT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/axis_impl.h"
#include "kernels/isa_impl.h"

#define ROWS_PRODUCT_ROWS 32  /* maximum rows; with more, transposing the weight is faster */
#define ROWS_PRODUCT_BLOCK 64 /* maximum number of results in a block; a multiple of 4 */

typedef struct rows_product {
    int64_t n_rows;
    axis_t terms, results;
    const float *x; /* [n_rows][terms.n] */
    const float *weight;
    const float *bias; /* [results.n], or NULL */
    float *out;        /* [n_rows][results.n] */
} rows_product_t;

/* Computes the product on at most n_threads threads; isa_has(isa) must be true. scratch:
 * rows_product_scratch bytes, 64-byte aligned. */
void rows_product_run(const rows_product_t *product, isa_t isa, int n_threads, void *scratch);
size_t rows_product_scratch(int64_t n_rows, int64_t n_terms);

/* ---- for the loops of an instruction set ---- */

typedef struct rows_product_loops {
    /* Computes blocks of results [first, last). columns is x transposed, [n_terms][rows], with rows
     * padded with zeros to full vectors. */
    void (*blocks)(const rows_product_t *product, const float *columns, int64_t first,
                   int64_t last);
} rows_product_loops_t;

ISA_EXTERN(const rows_product_loops_t, rows_product);

#endif
