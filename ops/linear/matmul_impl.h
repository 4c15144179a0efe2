/* What products of matrices of numbers and of integers share. Operands 0 and 1 are a and b. */
#ifndef TESSERA_OPS_LINEAR_MATMUL_IMPL_H
#define TESSERA_OPS_LINEAR_MATMUL_IMPL_H

#include "dispatch/prepared_impl.h"

/* The product as [batch..][m][k] times [batch..][k][n]; an operand of rank 1 is a row or a column
 * that the result lacks. */
typedef struct product {
    int n_batch, n_batch_a, n_batch_b;
    int64_t batch[TENSOR_MAX_RANK];
    int64_t m, k, k_b, n;
} product_t;

/* False where batch dimensions do not broadcast. */
product_t product_sizes(const tensor_info_t *a, const tensor_info_t *b);
bool product_describe(const tensor_info_t *a, const tensor_info_t *b, product_t *out);

/* Which matrix of an operand, that has n_own batch dimensions, belongs to a matrix of the result.
 */
int64_t product_matrix(const product_t *p, const tensor_info_t *info, int n_own, int64_t matrix);

/* Indices in a and b, zeroed before, of the first product of an element of the result. */
void product_at(const product_t *p, const tensor_info_t *a, const tensor_info_t *b,
                const int64_t *index, int rank, int64_t *at_a, int64_t *at_b);

/* 2 * batch * m * n * k. */
double product_flops(const op_call_t *call);

/* Checks ranks and sizes, and gives the result, of a dtype. */
status_t product_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out);

#endif
