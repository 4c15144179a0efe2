/* Products of rows of x with a weight in a grouped format (tensor/grouped_impl.h), which is read as
 * it is, whatever the number of rows:
 *
 *   out[r][o] = finish(bias[o] + sum(i) x[r][i] * weight[o][i])
 *
 * Up to GROUPED_PRODUCT_ROWS rows: the weight is read once, and its bytes limit the speed. The
 * codes of a group are multiplied with x as integers, and each sum is scaled once. A code is not
 * shifted to the lowest bits of its word: the bits around it are masked out, and x is divided by
 * the power of two by which the code is too large. Only the highest code of a word would be
 * negative as an integer. So half of the codes' range is subtracted from it, by inverting the sign
 * bit; `starts` adds that again.
 *
 * More rows: the elements of 32 outputs are widened to f32 in the cache, and multiplied by the
 * kernel of product_impl.h. */
#ifndef TESSERA_KERNELS_LINEAR_GROUPED_PRODUCT_IMPL_H
#define TESSERA_KERNELS_LINEAR_GROUPED_PRODUCT_IMPL_H

#include <stddef.h>

#include "kernels/isa_impl.h"
#include "kernels/linear/product_impl.h"
#include "tensor/grouped_impl.h"

#define GROUPED_PRODUCT_ROWS 16

typedef struct grouped_product {
    const grouped_t *grouped; /* outputs are its rows, inputs its columns */
    const char *weight;
    int64_t n_rows;
    const float *x; /* rows x_stride elements apart */
    int64_t x_stride;
    const float *bias; /* [n_outputs], or NULL */
    bool accumulates;  /* adds the product to the values in out */
    float *out;        /* rows out_stride elements apart */
    int64_t out_stride;
    product_finish_t finish; /* or NULL */
    const void *user;
} grouped_product_t;

/* Computes the product on n_threads threads. isa_has(isa) must be true. scratch has
 * grouped_product_scratch bytes. */
void grouped_product_run(const grouped_product_t *product, isa_t isa, int n_threads, void *scratch);

/* Number of bytes of scratch memory that a product of n_rows rows needs on up to n_threads threads,
 * 64-byte aligned. */
size_t grouped_product_scratch(const grouped_t *grouped, int64_t n_rows, int n_threads);

/* x of a product with few rows, rearranged in one or two parts of n_rows rows each. The last rows
 * of the last part may be missing; they are 0. */
typedef struct grouped_columns {
    const grouped_product_t *product;
    int n_parts, n_rows;
    float *columns; /* [parts][columns][n_rows], divided */
    float *sums;    /* [parts][groups][n_rows], the columns of each group added up */
    float *starts;  /* the same for the highest columns of words, times half of the codes' range */
} grouped_columns_t;

/* Loops of one instruction set. `turn` fills in columns and sums of groups [first, last); `blocks`
 * computes blocks of GROUPED_ROWS outputs [first, last). `widen` writes the elements of a block to
 * `to`, [columns][stride]; the lanes of outputs that the weight lacks are 0. `divide` sets
 * the parts of x. */
typedef struct grouped_product_loops {
    void (*divide)(int64_t n_rows, grouped_columns_t *columns);
    void (*turn)(const grouped_columns_t *columns, int64_t first, int64_t last);
    void (*blocks)(const grouped_columns_t *columns, int64_t first, int64_t last);
    void (*widen)(const grouped_t *grouped, const char *weight, int64_t block, float *to,
                  int64_t stride);
} grouped_product_loops_t;

ISA_EXTERN(const grouped_product_loops_t, grouped_product);

#endif
