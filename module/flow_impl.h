/* A flow: a sequence of calls, each on the result of the call before, in the forward of a composite
 * module.
 *
 * Each step releases its input as soon as it has computed its output, so a deep network holds only
 * the tensors that it still needs. The first failure is stored; later steps do nothing. */
#ifndef TESSERA_MODULE_FLOW_IMPL_H
#define TESSERA_MODULE_FLOW_IMPL_H

#include "module/module.h"
#include "ops/ops.h"

#define FLOW_MAX_BRANCHES 8

typedef struct flow {
    context_t *ctx;
    module_t *module; /* the module whose children are run */
    const tensor_t *x;
    tensor_t *held; /* x if a step made it; NULL if x is borrowed */
    status_t status;
} flow_t;

/* Starts a flow with the single input of a forward. Another number of inputs fails the flow. */
flow_t flow_begin(context_t *ctx, module_t *module, int n_in, const tensor_t *const *in);

/* Starts a second flow with the current tensor. It must end before the first flow takes a step. */
flow_t flow_branch(const flow_t *flow);

void flow_child(flow_t *flow, const char *name);
void flow_relu(flow_t *flow);
void flow_flatten(flow_t *flow);
/* Mean over height and width; both become 1. */
void flow_pool(flow_t *flow);
/* Adds the other flow's tensor, and ends the other flow. */
void flow_add(flow_t *flow, flow_t *other);
/* Continues with the branches' tensors, concatenated along channels; ends the branches. */
void flow_concat(flow_t *flow, int n, flow_t *branches);

/* Returns the result or the first failure. Ends the flow in both cases. */
status_t flow_end(flow_t *flow, tensor_t **out);

#endif
