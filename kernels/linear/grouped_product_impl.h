/* Products of rows of x with a weight in a grouped format (tensor/grouped_impl.h), which is read as
 * it is, whatever the number of rows:
 *
 *   out[r][o] = finish(bias[o] + sum(i) x[r][i] * weight[o][i])
 *
 * Up to GROUPED_PRODUCT_ROWS rows: the weight is read once, and its bytes limit the speed. The
 * codes of a group are multiplied with x as integers, and each sum is scaled once. There are two
 * kinds of loops:
 *
 * - Integers (grouped_integers_loops.c), if the ISA multiplies bytes: the columns of a group of x
 *   become integers of 23 bits, with a power of two as their unit. The largest column has the
 *   precision of f32 in this way, and all sums of a group are exact. An integer is three signed
 *   bytes: three products of bytes instead of one of floats, but each instruction computes four
 *   columns, and reads the codes with one mask.
 * - Floats (grouped_product_loops.c): a code is not shifted to the lowest bits of its word: the
 *   bits around it are masked out, and x is divided by the power of two by which the code is too
 *   large. Only the highest code of a word would be negative as an integer. So half of the codes'
 *   range is subtracted from it, by inverting the sign bit; `starts` adds that again.
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

/* The loops of a product, for explanations: "grouped:integers_vnni", "grouped:integers_avx2",
 * "grouped:floats", or "grouped:widened" for many rows. */
const char *grouped_product_name(isa_t isa, const grouped_t *grouped, int64_t n_rows);

/* x of a product with few rows, rearranged in parts of n_rows rows each. The last rows of the last
 * part may be missing; they are 0. */
typedef struct grouped_columns {
    const grouped_product_t *product;
    int n_parts, n_rows;
    void *x;      /* floats: [parts][columns][n_rows] f32, divided;
                     integers: [parts][columns / 16][3 bytes][n_rows][16] s8, lowest bytes first */
    float *sums;  /* [parts][groups][n_rows]: the columns of each group added up */
    float *units; /* integers: [parts][groups][n_rows] */
    void *starts; /* what makes codes signed; floats: [parts][groups][n_rows] f32, the sum of the
                     highest columns of words times half of the codes' range;
                     integers: [parts][groups][3 bytes][n_rows] s32 */
} grouped_columns_t;

/* Loops of one ISA for few rows. `divide` sets the parts of x; `turn` fills in the columns of
 * groups [first, last); `blocks` computes blocks of GROUPED_ROWS outputs [first, last). */
typedef struct grouped_few_loops {
    void (*divide)(int64_t n_rows, grouped_columns_t *columns);
    void (*turn)(const grouped_columns_t *columns, int64_t first, int64_t last);
    void (*blocks)(const grouped_columns_t *columns, int64_t first, int64_t last);
} grouped_few_loops_t;

/* Loops of one ISA. `widen` writes the elements of a block to `to`, [columns][stride]; the lanes of
 * outputs that the weight lacks are 0. */
typedef struct grouped_product_loops {
    grouped_few_loops_t few;
    void (*widen)(const grouped_t *grouped, const char *weight, int64_t block, float *to,
                  int64_t stride);
} grouped_product_loops_t;

ISA_EXTERN(const grouped_product_loops_t, grouped_product);

/* The loops with integers. */
extern const grouped_few_loops_t grouped_integers_avx2, grouped_integers_avx512_vnni;

#endif
