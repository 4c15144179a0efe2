/* Several graphs of a method, for different sizes. A call uses the first that accepts its
 * inputs. */
#include <stdio.h>

#include "graph/ir/graph_impl.h"
#include "graph/method/programs_impl.h"
#include "tensor/context_impl.h"

static status_t refuse(context_t *ctx, const programs_t *first, int n_in,
                       const tensor_info_t *const *in)
{
    char message[CONTEXT_ERROR_MAX];
    int n = 0;
    for (const programs_t *at = first; at != NULL; at = at->next) n++;
    const status_t status = graph_check_inputs(ctx, first->graph, n_in, in);
    snprintf(message, sizeof message, "%s", context_error(ctx));
    return context_fail(ctx, status, "%s; none of its %d graphs takes these inputs", message, n);
}

status_t programs_choose(context_t *ctx, programs_t *first, int n_in,
                         const tensor_info_t *const *in, programs_t **out_programs)
{
    programs_t *at = first;
    *out_programs = first;
    if (first->next == NULL) return STATUS_OK;
    while (at != NULL && !graph_accepts(at->graph, n_in, in)) at = at->next;
    if (at == NULL) return refuse(ctx, first, n_in, in);
    atomic_store_explicit(&first->used, at, memory_order_relaxed);
    *out_programs = at;
    return STATUS_OK;
}

void programs_append(programs_t *first, programs_t *other)
{
    while (first->next != NULL) first = first->next;
    first->next = other;
}

status_t programs_clone(context_t *ctx, programs_t *first, programs_t **out_programs)
{
    programs_t *clone = NULL;
    status_t status = STATUS_OK;
    for (programs_t *at = first; at != NULL && status == STATUS_OK; at = at->next) {
        programs_t *copy = NULL;
        status = programs_create(ctx, at->graph, programs_capacity(at), &copy);
        if (status == STATUS_OK && clone == NULL)
            clone = copy;
        else if (status == STATUS_OK)
            programs_append(clone, copy);
        if (status == STATUS_OK) status = programs_leave_out(ctx, copy, at->skip);
    }
    if (status == STATUS_OK)
        *out_programs = clone;
    else
        programs_release(clone);
    return status;
}
