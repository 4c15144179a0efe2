/* Declarations shared by attention and its gradient. */
#ifndef TESSERA_OPS_ATTENTION_ATTENTION_IMPL_H
#define TESSERA_OPS_ATTENTION_ATTENTION_IMPL_H

#include "ops/attention/attention.h"
#include "ops/gradient_impl.h"

/* Operand index of query; key, value and the mask follow. */
#define ATTENTION_QUERY 0

/* The attribute `scale`, or its default 1 / sqrt(n) for queries and keys of n elements. */
double attention_scale(const attention_attrs_t *attrs, int64_t n);

extern const gradient_t attention_gradient;

#endif
