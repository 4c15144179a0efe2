/* A flow is a tensor on its way through the forward of a composite module: each step replaces the
 * current tensor by the result of a child or an operator.
 *
 * Each step then releases its input, so a deep network holds only the tensors that it still needs.
 * The first failure is stored; later steps do nothing. */
#ifndef TESSERA_MODULE_LAYERS_FLOW_IMPL_H
#define TESSERA_MODULE_LAYERS_FLOW_IMPL_H

#include "module/module.h"
#include "ops/ops.h"

#define FLOW_MAX_BRANCHES 8

typedef struct flow {
    context_t *ctx;
    module_t *module; /* the module whose children are run */
    const tensor_t *x;
    tensor_t *held; /* equal to x if a step computed it; NULL if x is borrowed */
    status_t status;
} flow_t;

/* Starts a flow with the input of a forward. Stores a failure unless n_in is 1. */
flow_t flow_begin(context_t *ctx, module_t *module, int n_in, const tensor_t *const *in);

/* Starts a second flow with the current tensor. Finish the second flow before the next step of the
 * first, which would release that tensor. */
flow_t flow_branch(const flow_t *flow);

void flow_child(flow_t *flow, const char *name);
void flow_relu(flow_t *flow);
void flow_flatten(flow_t *flow);
/* Mean over height and width; both become 1. */
void flow_pool(flow_t *flow);
/* Adds the other flow's tensor to this one's, and ends the other flow. */
void flow_add(flow_t *flow, flow_t *other);
/* Replaces the current tensor by the branches' tensors, concatenated along channels; ends the
 * branches. */
void flow_concat(flow_t *flow, int n, flow_t *branches);

/* Returns the result or the first failure. Ends the flow in both cases. */
status_t flow_end(flow_t *flow, tensor_t **out);

#endif
