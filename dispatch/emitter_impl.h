/* What an emitter does with the operators of a rule. */
#ifndef TESSERA_DISPATCH_EMITTER_IMPL_H
#define TESSERA_DISPATCH_EMITTER_IMPL_H

#include "dispatch/opdef.h"

typedef struct emitter_class {
    status_t (*op)(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
                   const value_t *in, int n_out, value_t *out_values);
    /* Takes over the tensor. */
    status_t (*constant)(emitter_t *emitter, tensor_t *tensor, value_t *out_value);
    const tensor_info_t *(*info)(const emitter_t *emitter, value_t value);
} emitter_class_t;

/* The first field of whoever is one. */
struct emitter {
    const emitter_class_t *class_;
    context_t *ctx;
    status_t status; /* of the first failure, whose message is the context's */
};

/* Runs the operator's rule. UNSUPPORTED: it has none, or post-ops, which no rule knows of.
 * INVALID_ARGUMENT: the rule gives a gradient of other sizes or dtype than its input's. */
status_t gradient_pass(const gradient_call_t *call);

#endif
