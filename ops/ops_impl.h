/* Definitions of the operators in ops.def, and functions that they share. */
#ifndef TESSERA_OPS_OPS_IMPL_H
#define TESSERA_OPS_OPS_IMPL_H

#include "ops/ops.h"

#define OP(name) extern const opdef_t op_def_##name;
#include "ops/ops.def"
#undef OP

/* Releases an intermediate tensor and removes it from the open scope, which would release it again.
 * NULL is allowed. */
void ops_drop(context_t *ctx, tensor_t *tensor);

/* Calls an operator with one operand and a list of integers as attribute: reshape, permute. */
status_t ops_call_ints(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                       const int64_t *values, tensor_t **out);

/* `infer` of operators whose result has the dtype and sizes of input 0. */
status_t ops_infer_like(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

/* Count multiplications and additions of an operator whose operand 1 is a weight. Let n be the
 * number of elements that the weight has for one index of its first dimension. Each element of the
 * result is a sum of n products; in a transposed operator, each element of operand 0 has n
 * products. */
double ops_flops_of_weight(const op_call_t *call);
double ops_flops_of_transposed(const op_call_t *call);

/* Converts a dimension that `infer` has checked to its non-negative form: ops_dim(4, -1) is 3. */
int ops_dim(int rank, int64_t dim);

#endif
