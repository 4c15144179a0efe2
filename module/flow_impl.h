/* A flow: the chain of calls that a composite forward makes on one tensor.
 *
 * Each step consumes what the one before gave, and releases it at once, so that a deep network
 * holds the tensors it still needs and no others. The first failure stays; steps after it do
 * nothing. */
#ifndef TESSERA_MODULE_FLOW_IMPL_H
#define TESSERA_MODULE_FLOW_IMPL_H

#include "module/module.h"
#include "ops/ops.h"

#define FLOW_MAX_BRANCHES 8

typedef struct flow {
    context_t *ctx;
    module_t *module; /* whose children are run */
    const tensor_t *x;
    tensor_t *held; /* x, if a step made it */
    status_t status;
} flow_t;

/* Of a forward's one input; any other number of inputs is a failure. */
flow_t flow_begin(context_t *ctx, module_t *module, int n_in, const tensor_t *const *in);

/* Another flow from where this one is. The first one must not step on before it has ended. */
flow_t flow_branch(const flow_t *flow);

void flow_child(flow_t *flow, const char *name);
void flow_relu(flow_t *flow);
void flow_flatten(flow_t *flow);
/* Mean over height and width, which become 1. */
void flow_pool(flow_t *flow);
/* Adds what the other one has come to, and ends that one. */
void flow_add(flow_t *flow, flow_t *other);
/* Goes on with what the branches have come to, joined along channels, and ends them. */
void flow_concat(flow_t *flow, int n, flow_t *branches);

/* The result; the flow is over either way. */
status_t flow_end(flow_t *flow, tensor_t **out);

#endif
