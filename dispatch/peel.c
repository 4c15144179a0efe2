/* Peels post-ops: a kernel computes its operator without them, and Tessera's own loops then apply
 * them to the kernel's result. Either all post-ops are peeled, or the first one that the kernel
 * would compute wrongly and those after it. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/post_impl.h"
#include "dispatch/select_impl.h"
#include "tensor/onednn/cost.h"

bool peel_is_due(const op_call_t *call)
{
    return (call->op->traits & TRAIT_POST_OPS) != 0 &&
           attrs_post(&call->op->attrs, call->attrs)->n > 0;
}

static status_t run_then_post(context_t *ctx, const prepared_t *prepared, void *const *in,
                              void *const *out, void *scratch)
{
    TRY(prepared->kernel->run(ctx, prepared, in, out, scratch));
    post_apply(ctx, prepared, in, out[0]);
    return STATUS_OK;
}

static void clear_post(const op_call_t *call, void *out_attrs)
{
    const char *attrs = call->attrs, *post = (const void *)attrs_post(&call->op->attrs, attrs);
    memcpy(out_attrs, attrs, call->op->attrs.bytes);
    memset((char *)out_attrs + (post - attrs), 0, sizeof(post_ops_t));
}

void peel_rest(prepared_t *prepared)
{
    post_settle_operands(prepared);
    for (int i = prepared->n_in - prepared->operands_left; i < prepared->n_in; i++)
        prepared->overwrites &= ~((uint64_t)1 << i);
    prepared->cost_ns += (double)info_bytes(&prepared->out[0]) / cost_limits().cached;
    prepared->run = run_then_post;
    snprintf(prepared->peeled_name, sizeof prepared->peeled_name, "%s_then_post",
             prepared->kernel->name);
}

status_t peel_prepare(context_t *ctx, const op_call_t *call, const kernel_t *kernel,
                      prepared_t *prepared)
{
    op_call_t bare = *call;
    const int n_in = prepared->n_in;
    if ((kernel->flags & KERNEL_IS_VIEW) != 0)
        return prepared_decline(prepared, "%s: a view cannot have post-ops", kernel->name);
    clear_post(call, prepared->kernel_attrs);
    bare.attrs = prepared->kernel_attrs;
    bare.n_in = prepared->n_in = call->op->n_operands;
    status_t status = kernel->prepare(ctx, &bare, prepared);
    prepared->n_in = n_in;
    if (status != STATUS_OK) return status;
    if (prepared->is_view)
        return prepared_decline(prepared, "%s: a view cannot have post-ops", kernel->name);
    prepared->overwrites = 0;
    post_leave(prepared, 0);
    peel_rest(prepared);
    return STATUS_OK;
}
