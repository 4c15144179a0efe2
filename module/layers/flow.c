#include "module/layers/flow_impl.h"

#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

flow_t flow_begin(context_t *ctx, module_t *module, int n_in, const tensor_t *const *in)
{
    flow_t flow = {ctx, module, NULL, NULL, STATUS_OK};
    if (n_in != 1)
        flow.status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                                   "module: forward of %s with %d inputs, takes one",
                                   module_type(module), n_in);
    else if (in[0] == NULL)
        flow.status = context_null(ctx, module_type(module), "x");
    else
        flow.x = in[0];
    return flow;
}

flow_t flow_branch(const flow_t *flow)
{
    flow_t branch = *flow;
    branch.held = NULL;
    return branch;
}

static void drop(flow_t *flow)
{
    tensor_drop(flow->held);
    flow->held = NULL;
}

/* Makes *next, the result of a step, the current tensor, and takes it from the forward's scope.
 * `next` is a pointer because callers compute *next in the argument `status`, and C does not say
 * which argument is evaluated first. */
static void step(flow_t *flow, status_t status, tensor_t *const *next)
{
    drop(flow);
    flow->status = status;
    if (status != STATUS_OK) return;
    scope_take(flow->ctx, *next);
    flow->held = *next;
    flow->x = *next;
}

void flow_child(flow_t *flow, const char *name)
{
    tensor_t *next = NULL;
    if (flow->status != STATUS_OK) return;
    step(flow, module_run_child(flow->ctx, flow->module, name, flow->x, &next), &next);
}

void flow_relu(flow_t *flow)
{
    tensor_t *next = NULL;
    if (flow->status != STATUS_OK) return;
    step(flow, op_relu(flow->ctx, flow->x, &next), &next);
}

void flow_flatten(flow_t *flow)
{
    tensor_t *next = NULL;
    if (flow->status != STATUS_OK) return;
    step(flow, op_flatten(flow->ctx, flow->x, 1, -1, &next), &next);
}

void flow_pool(flow_t *flow)
{
    static const int64_t sizes[] = {1, 1};
    tensor_t *next = NULL;
    if (flow->status != STATUS_OK) return;
    step(flow, op_adaptive_avg_pool(flow->ctx, flow->x, 2, sizes, &next), &next);
}

void flow_add(flow_t *flow, flow_t *other)
{
    tensor_t *next = NULL;
    if (flow->status == STATUS_OK) {
        status_t status = other->status;
        if (status == STATUS_OK) status = op_add(flow->ctx, flow->x, other->x, &next);
        step(flow, status, &next);
    }
    drop(other);
}

void flow_concat(flow_t *flow, int n, flow_t *branches)
{
    const tensor_t *tensors[FLOW_MAX_BRANCHES];
    tensor_t *next = NULL;
    status_t status = flow->status;
    INVARIANT(n <= FLOW_MAX_BRANCHES);
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        status = branches[i].status;
        tensors[i] = branches[i].x;
    }
    if (status == STATUS_OK) status = op_concat(flow->ctx, n, tensors, 1, &next);
    step(flow, status, &next);
    for (int i = 0; i < n; i++) drop(&branches[i]);
}

status_t flow_end(flow_t *flow, tensor_t **out)
{
    if (flow->status != STATUS_OK) {
        drop(flow);
        return flow->status;
    }
    if (flow->held == NULL) return op_identity(flow->ctx, flow->x, out);
    *out = flow->held;
    flow->held = NULL;
    return STATUS_OK;
}
