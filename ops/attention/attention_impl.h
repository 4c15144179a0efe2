/* What the kernels of attention and its gradients share. */
#ifndef TESSERA_OPS_ATTENTION_ATTENTION_IMPL_H
#define TESSERA_OPS_ATTENTION_ATTENTION_IMPL_H

#include "ops/attention/attention.h"
#include "ops/gradient_impl.h"

/* Operands: query, and behind it key, value and the mask. */
#define ATTENTION_QUERY 0

/* What products of queries and keys of n elements are multiplied by. */
double attention_scale(const attention_attrs_t *attrs, int64_t n);

extern const gradient_t attention_gradient;

#endif
