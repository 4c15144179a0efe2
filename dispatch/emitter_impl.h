/* The interface that emitters implement. */
#ifndef TESSERA_DISPATCH_EMITTER_IMPL_H
#define TESSERA_DISPATCH_EMITTER_IMPL_H

#include "dispatch/opdef.h"

typedef struct emitter_class {
    status_t (*op)(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
                   const value_t *in, int n_out, value_t *out_values);
    /* Makes a value from a tensor, and takes ownership of the tensor. */
    status_t (*constant)(emitter_t *emitter, tensor_t *tensor, value_t *out_value);
    const tensor_info_t *(*info)(const emitter_t *emitter, value_t value);
} emitter_class_t;

/* First member of every emitter's struct. */
struct emitter {
    const emitter_class_t *class_;
    context_t *ctx;
    status_t status; /* first failure; its message is in the context */
};

/* Runs the operator's gradient rule. UNSUPPORTED if it has none, or if the call has post-ops, which
 * no rule supports. INVALID_ARGUMENT if a gradient's sizes or dtype differ from its input's. */
status_t gradient_pass(const gradient_call_t *call);

#endif
