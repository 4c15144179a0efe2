/* Products of matrices: linear layers, matmul, einsum. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_LINEAR_LINEAR_H
#define TESSERA_OPS_LINEAR_LINEAR_H

#include "dispatch/dispatch.h"

/* Layers of many rows with a constant weight can use Strassen's algorithm. It divides matrices into
 * quarters and computes 7 products of these instead of 8: up to 1.1 times faster, but with larger
 * rounding errors.
 *
 * LINEAR_DIRECT         never uses it
 * LINEAR_STRASSEN       uses it if the estimated time is lower
 * LINEAR_STRASSEN_ONLY  uses it in all calls that our own kernel supports */
typedef enum linear_algorithm {
    LINEAR_DIRECT,
    LINEAR_STRASSEN,
    LINEAR_STRASSEN_ONLY
} linear_algorithm_t;

typedef struct linear_attrs {
    bool flatten;    /* x of rank > 2 is read as [N][C H W]; set by the fusion pass */
    int algorithm;   /* linear_algorithm_t */
    post_ops_t post; /* set by the fusion pass */
} linear_attrs_t;

/* Like torch.nn.functional.linear: out[..][k] = bias[k] + sum(c) x[..][c] * weight[k][c]. x has
 * rank 1 or more. */
status_t op_linear(context_t *ctx, const tensor_t *x, const tensor_t *weight, const tensor_t *bias,
                   tensor_t **out) TESSERA_API(op_linear);

/* Like torch.matmul: operands have rank 1 or more, and batch dimensions broadcast. */
status_t op_matmul(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
    TESSERA_API(op_matmul);

/* Like torch.einsum: "bij,bjk->bik", "ii->i", "...ij->...ji"; blanks are ignored. n is 1 to 16. A
 * trace records the reshape, permute, sum, mul and matmul that it calls. */
status_t op_einsum(context_t *ctx, const char *equation, int n, const tensor_t *const *tensors,
                   tensor_t **out) TESSERA_API(op_einsum);

#endif
