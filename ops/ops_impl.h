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

/* A dimension that `infer` has checked, counted from the front: ops_dim(4, -1) is 3. */
int ops_dim(int rank, int64_t dim);

#endif
