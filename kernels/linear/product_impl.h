/* Products of many rows with a constant weight, at nearly peak speed for any number of rows:
 *
 *   out[r][o] = finish(bias[o] + sum(i) x[r][i] * weight[o][i])
 *
 * The weight is stored in blocks of PRODUCT_BLOCK outputs, [outputs / block][inputs][block], which
 * oneDNN calls AB16b32a. Rows of x are copied as groups, [group][inputs][rows of the group]. The
 * sums of a group fit in the registers. Groups have nearly equal sizes, because small ones are
 * inefficient. Each thread computes some blocks of outputs. The weights of a range of inputs are
 * multiplied with all groups while they are in the second-level cache.
 *
 * The folder kernels/linear contains products of matrices: of many rows, of few rows, with
 * Strassen's algorithm, with weights that are read once, and the gradients of weights. */
#ifndef TESSERA_KERNELS_LINEAR_PRODUCT_IMPL_H
#define TESSERA_KERNELS_LINEAR_PRODUCT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define PRODUCT_BLOCK 32

/* Called for n finished elements of a row, which begin at `column`; may change them. */
typedef void (*product_finish_t)(const void *user, int64_t row, int64_t column, int64_t n,
                                 float *values);

/* Writes a block of a weight, [n_inputs][PRODUCT_BLOCK], to `to`. */
typedef void (*product_fetch_t)(const void *source, int64_t block, float *to);

typedef struct product {
    int64_t n_rows, n_outputs, n_inputs;
    const float *x; /* rows x_stride elements apart */
    int64_t x_stride;
    const float *weight;   /* blocks block_stride elements apart, the last one padded */
    int64_t block_stride;  /* at least n_inputs * PRODUCT_BLOCK */
    int64_t first_block;   /* block at `weight`, 0 for callers */
    product_fetch_t fetch; /* NULL: `weight` has all blocks. Otherwise each block is fetched to the
                              cache before it is multiplied; block_stride is at least n_inputs *
                              PRODUCT_BLOCK */
    const void *source;    /* for `fetch` */
    const float *bias;     /* [n_outputs], or NULL */
    bool accumulates;      /* adds the product to the values in out */
    float *out;            /* rows out_stride elements apart */
    int64_t out_stride;
    product_finish_t finish; /* or NULL */
    const void *user;
} product_t;

/* Computes the product on n_threads threads. isa_has(isa) must be true. scratch has product_scratch
 * bytes, and with `fetch` product_fetch_scratch bytes more. */
void product_run(const product_t *product, isa_t isa, int n_threads, void *scratch);

/* Packs rows of a weight, [n_outputs][n_inputs] with stride row_stride, into blocks of a product.
 * The last block is padded with zeros. Uses one thread. */
typedef struct product_pack {
    int64_t n_outputs, n_inputs;
    const float *rows;
    int64_t row_stride;
    float *to; /* blocks block_stride elements apart */
    int64_t block_stride;
} product_pack_t;

void product_pack(const product_pack_t *pack, isa_t isa);

/* Number of bytes of scratch memory that a product needs, 64-byte aligned. */
size_t product_scratch(int64_t n_rows, int64_t n_inputs);
size_t product_fetch_scratch(int64_t n_inputs, int n_threads);

/* Rows that are copied at once: n_rows rows from `first` on, in n_groups groups. Group g begins
 * n_rows * g / n_groups rows after `first`. */
typedef struct product_rows {
    const product_t *product;
    int64_t first, n_rows, n_groups;
    float *copy;
} product_rows_t;

/* Loops of one instruction set. They copy groups [first, last), or compute blocks of outputs
 * [first, last). */
typedef struct product_loops {
    int n_rows; /* maximum rows in a group */
    void (*copy)(const product_rows_t *rows, int64_t first, int64_t last);
    void (*blocks)(const product_rows_t *rows, int64_t first, int64_t last);
    void (*pack)(const product_pack_t *pack);
} product_loops_t;

ISA_EXTERN(const product_loops_t, product);

#endif
