/* Declarations that floating-point and integer matrix products share. The operands are a and b. */
#ifndef TESSERA_OPS_LINEAR_MATMUL_IMPL_H
#define TESSERA_OPS_LINEAR_MATMUL_IMPL_H

#include "dispatch/prepared_impl.h"

/* The product as [batch..][m][k] times [batch..][k][n]. A vector a is one row, a vector b is one
 * column; the result has no dimension for it. */
typedef struct product {
    int n_batch, n_batch_a, n_batch_b;
    int64_t batch[TENSOR_MAX_RANK];
    int64_t m, k, k_b, n;
} product_t;

/* product_sizes finds m, k and n. product_describe also broadcasts the batch dimensions, and
 * returns false if that is impossible. */
product_t product_sizes(const tensor_info_t *a, const tensor_info_t *b);
bool product_describe(const tensor_info_t *a, const tensor_info_t *b, product_t *out);

/* Index of the operand's matrix from which matrix `matrix` of the result is computed. The operand
 * has n_own batch dimensions. */
int64_t product_matrix(const product_t *p, const tensor_info_t *info, int n_own, int64_t matrix);

/* Finds the indices in a and b of the first of the k products of a result element. The caller sets
 * at_a and at_b to zeros. */
void product_at(const product_t *p, const tensor_info_t *a, const tensor_info_t *b,
                const int64_t *index, int rank, int64_t *at_a, int64_t *at_b);

/* Returns 2 * batch * m * n * k. */
double product_flops(const op_call_t *call);

/* Checks ranks and sizes, and describes the result in the given dtype. */
status_t product_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out);

#endif
