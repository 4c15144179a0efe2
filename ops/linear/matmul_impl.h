/* Declarations that floating-point and integer matrix products share. The operands are a and b. */
#ifndef TESSERA_OPS_LINEAR_MATMUL_IMPL_H
#define TESSERA_OPS_LINEAR_MATMUL_IMPL_H

#include "dispatch/prepared_impl.h"

/* The product as [batch..][m][k] times [batch..][k][n]. An operand of rank 1 is a row or a column,
 * and the result lacks that dimension. */
typedef struct product {
    int n_batch, n_batch_a, n_batch_b;
    int64_t batch[TENSOR_MAX_RANK];
    int64_t m, k, k_b, n;
} product_t;

/* Sizes of the product. product_describe also broadcasts the batch dimensions, and returns false if
 * they do not broadcast. */
product_t product_sizes(const tensor_info_t *a, const tensor_info_t *b);
bool product_describe(const tensor_info_t *a, const tensor_info_t *b, product_t *out);

/* Index of the operand's matrix for a matrix of the result; the operand has n_own batch
 * dimensions. */
int64_t product_matrix(const product_t *p, const tensor_info_t *info, int n_own, int64_t matrix);

/* Indices in a and b of the first product of an element of the result; at_a and at_b must be
 * zeroed. */
void product_at(const product_t *p, const tensor_info_t *a, const tensor_info_t *b,
                const int64_t *index, int rank, int64_t *at_a, int64_t *at_b);

/* 2 * batch * m * n * k. */
double product_flops(const op_call_t *call);

/* Checks ranks and sizes, and describes the result, which gets this dtype. */
status_t product_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out);

#endif
