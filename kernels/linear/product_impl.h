/* Products of many rows with a constant weight, near the peak of multiplications for any number of
 * rows:
 *
 *   out[r][o] = finish(bias[o] + sum(i) x[r][i] * weight[o][i])
 *
 * The weight lies in blocks of PRODUCT_BLOCK outputs, [outputs / block][inputs][block], which
 * oneDNN calls AB16b32a. Rows of x are copied to groups of as many as the registers have room for,
 * [group][inputs][rows of it], evenly divided, so that no group is much smaller than another. Each
 * thread takes blocks of outputs: a block over some inputs stays in the second cache for all
 * groups. */
#ifndef TESSERA_KERNELS_LINEAR_PRODUCT_IMPL_H
#define TESSERA_KERNELS_LINEAR_PRODUCT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define PRODUCT_BLOCK 32

/* What is done to n finished elements of a row, from `column` on, before they are left. */
typedef void (*product_finish_t)(const void *user, int64_t row, int64_t column, int64_t n,
                                 float *values);

typedef struct product {
    int64_t n_rows, n_outputs, n_inputs;
    const float *x; /* rows x_stride elements apart */
    int64_t x_stride;
    const float *weight;  /* blocks block_stride elements apart, the last one padded */
    int64_t block_stride; /* at least n_inputs * PRODUCT_BLOCK */
    const float *bias;    /* [n_outputs], or NULL */
    bool accumulates;     /* adds to what lies in out */
    float *out;           /* rows out_stride elements apart */
    int64_t out_stride;
    product_finish_t finish; /* or NULL */
    const void *user;
} product_t;

/* On this many threads, by an instruction set that isa_has. scratch: see product_scratch. */
void product_run(const product_t *product, isa_t isa, int n_threads, void *scratch);

/* Rows of a weight, [n_outputs][n_inputs] and so many elements apart, as the blocks that a product
 * reads; the last one is padded by zeros. On one thread. */
typedef struct product_pack {
    int64_t n_outputs, n_inputs;
    const float *rows;
    int64_t row_stride;
    float *to; /* blocks block_stride elements apart */
    int64_t block_stride;
} product_pack_t;

void product_pack(const product_pack_t *pack, isa_t isa);

/* Bytes that a product needs beside, 64-byte aligned. */
size_t product_scratch(int64_t n_rows, int64_t n_inputs);

/* Rows that are copied at once: n_rows of them from `first` on, in n_groups groups; group g has
 * rows from n_rows * g / n_groups on. */
typedef struct product_rows {
    const product_t *product;
    int64_t first, n_rows, n_groups;
    float *copy;
} product_rows_t;

/* Loops of one instruction set: groups [first, last) are copied, then blocks of outputs [first,
 * last) made. */
typedef struct product_loops {
    int n_rows; /* of a group, at most */
    void (*copy)(const product_rows_t *rows, int64_t first, int64_t last);
    void (*blocks)(const product_rows_t *rows, int64_t first, int64_t last);
    void (*pack)(const product_pack_t *pack);
} product_loops_t;

ISA_EXTERN(const product_loops_t, product);

#endif
