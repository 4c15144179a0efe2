/* Softmax, along one dimension. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_REDUCE_REDUCE_H
#define TESSERA_OPS_REDUCE_REDUCE_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

status_t op_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_softmax);
status_t op_log_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_log_softmax);

TESSERA_END

#endif
