/* The definitions behind ops.def. */
#ifndef TESSERA_OPS_OPS_IMPL_H
#define TESSERA_OPS_OPS_IMPL_H

#include "ops/ops.h"

#define OP(name) extern const opdef_t op_def_##name;
#include "ops/ops.def"
#undef OP

/* Releases a tensor made on the way to a result, which an open scope shall not release as well.
 * NULL is let pass. */
void ops_drop(context_t *ctx, tensor_t *tensor);

/* An operator of one tensor whose attributes are one list of integers: reshape, permute. */
status_t ops_call_ints(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                       const int64_t *values, tensor_t **out);

/* What an operator infers that gives its input's dtype and sizes. */
status_t ops_infer_like(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out);

/* Of an operator whose operand 1 is a weight: an element of the result has as many terms as the
 * weight has elements for one index of its first dimension. And of its counterpart, in which an
 * element of operand 0 goes into that many of the result. */
double ops_flops_of_weight(const op_call_t *call);
double ops_flops_of_transposed(const op_call_t *call);

/* A dimension that `infer` has checked, counted from the front: ops_dim(4, -1) is 3. */
int ops_dim(int rank, int64_t dim);

#endif
