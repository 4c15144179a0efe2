/* Operators that change the layout. Graph passes insert them; imperative code can call op_to_mkldnn
 * and op_to_dense. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_TRANSITION_H
#define TESSERA_OPS_TRANSITION_H

#include "dispatch/dispatch.h"

/* Attributes of the operator `reorder`: ATTR_FORMAT. */
typedef struct reorder_attrs {
    format_t format;
} reorder_attrs_t;

status_t op_to_mkldnn(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_to_mkldnn);
status_t op_to_dense(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_to_dense);
status_t op_reorder(context_t *ctx, const tensor_t *x, const char *format, tensor_t **out)
    TESSERA_API(op_reorder);

#endif
