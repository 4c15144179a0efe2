/* Several graphs of a method, for different sizes. A call uses the first that accepts its inputs. A
 * method that can make graphs adds one for inputs that all others refuse. */
#include <stdio.h>

#include "graph/ir/graph_impl.h"
#include "graph/method/programs_impl.h"
#include "tensor/context_impl.h"

static status_t refuse(context_t *ctx, programs_t *first, int n_in, const tensor_info_t *const *in)
{
    char message[CONTEXT_ERROR_MAX];
    int n = 0;
    while (programs_at(first, n) != NULL) n++;
    const status_t status = graph_check_inputs(ctx, first->graph, n_in, in);
    if (n == 1) return status;
    snprintf(message, sizeof message, "%s", context_error(ctx));
    return context_fail(ctx, status, "%s; none of its %d graphs takes these inputs", message, n);
}

/* Finds a graph that accepts the inputs, and counts the use. The caller holds the first graph's
 * lock. */
static programs_t *find(programs_t *first, int n_in, const tensor_info_t *const *in)
{
    programs_t *at = first;
    while (at != NULL && !graph_accepts(at->graph, n_in, in)) at = at->next;
    if (at == NULL) return NULL;
    if (at->is_added) at->n_users++;
    at->used_at = ++first->n_uses;
    atomic_store_explicit(&first->used, at, memory_order_relaxed);
    return at;
}

/* ---- graphs that were added ---- */

/* If there are too many, takes the least recently used graph that no call uses out of the list. The
 * caller holds the first graph's lock. */
static programs_t *take_surplus(programs_t *first)
{
    programs_t **oldest = NULL;
    int n = 0;
    for (programs_t **at = &first->next; *at != NULL; at = &(*at)->next) {
        if (!(*at)->is_added) continue;
        n++;
        if ((*at)->n_users == 0 && (oldest == NULL || (*at)->used_at < (*oldest)->used_at))
            oldest = at;
    }
    if (n <= PLAN_MAX_ADDED || oldest == NULL) return NULL;
    programs_t *taken = *oldest;
    *oldest = taken->next;
    taken->next = NULL;
    if (atomic_load_explicit(&first->used, memory_order_relaxed) == taken)
        atomic_store_explicit(&first->used, NULL, memory_order_relaxed);
    return taken;
}

static void drop_surplus(programs_t *first)
{
    programs_t *taken = first;
    while (taken != NULL) {
        pthread_mutex_lock(&first->lock);
        taken = take_surplus(first);
        pthread_mutex_unlock(&first->lock);
        programs_release(taken);
    }
}

/* Adds the programs of a made graph, unless another thread has added one for these inputs. Takes
 * over the programs. */
static programs_t *add(programs_t *first, programs_t *made, int n_in,
                       const tensor_info_t *const *in)
{
    programs_t *unused = made;
    pthread_mutex_lock(&first->lock);
    programs_t *found = find(first, n_in, in);
    if (found == NULL) {
        made->is_added = true;
        programs_append(first, made);
        found = find(first, n_in, in);
        unused = NULL;
    }
    pthread_mutex_unlock(&first->lock);
    programs_release(unused);
    drop_surplus(first);
    return found;
}

static status_t extend(context_t *ctx, programs_t *first, module_t *self, int n_in,
                       const tensor_info_t *const *in, programs_t **out_programs)
{
    graph_t *graph = NULL;
    programs_t *made = NULL;
    TRY(first->extend(ctx, self, graph_name(first->graph), n_in, in, &graph));
    status_t status = programs_create(ctx, graph, programs_capacity(first), &made);
    graph_release(graph);
    TRY(status);
    status = programs_leave_out(ctx, made, first->skip);
    if (status == STATUS_OK) {
        *out_programs = add(first, made, n_in, in);
        return *out_programs != NULL ? STATUS_OK : STATUS_INVALID_ARGUMENT;
    }
    programs_release(made);
    return status;
}

/* ---- choosing ---- */

status_t programs_choose(context_t *ctx, programs_t *first, module_t *self, int n_in,
                         const tensor_info_t *const *in, programs_t **out_programs)
{
    *out_programs = first;
    if (first->extend == NULL && first->next == NULL) return STATUS_OK;
    pthread_mutex_lock(&first->lock);
    *out_programs = find(first, n_in, in);
    pthread_mutex_unlock(&first->lock);
    if (*out_programs != NULL) return STATUS_OK;
    const bool extends = first->extend != NULL && self != NULL &&
                         n_in == graph_body(first->graph)->n_params - 1;
    status_t status = extends ? extend(ctx, first, self, n_in, in, out_programs)
                              : STATUS_INVALID_ARGUMENT;
    const bool is_refused = status == STATUS_INVALID_ARGUMENT || status == STATUS_UNSUPPORTED;
    return is_refused ? refuse(ctx, first, n_in, in) : status;
}

void programs_leave(programs_t *first, programs_t *programs)
{
    if (programs == first) return;
    pthread_mutex_lock(&first->lock);
    const bool is_added = programs->is_added;
    if (is_added) programs->n_users--;
    pthread_mutex_unlock(&first->lock);
    if (is_added) drop_surplus(first);
}

programs_t *programs_at(programs_t *first, int index)
{
    if (first == NULL || index == 0) return first;
    pthread_mutex_lock(&first->lock);
    programs_t *at = first->next;
    while (at != NULL && (at->is_added || --index > 0)) at = at->next;
    pthread_mutex_unlock(&first->lock);
    return at;
}

programs_t *programs_used(programs_t *first)
{
    pthread_mutex_lock(&first->lock);
    programs_t *used = atomic_load_explicit(&first->used, memory_order_relaxed);
    if (used == NULL) used = first;
    if (used->is_added) used->n_users++;
    pthread_mutex_unlock(&first->lock);
    return used;
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
    for (int i = 0; status == STATUS_OK && programs_at(first, i) != NULL; i++) {
        programs_t *at = programs_at(first, i);
        programs_t *copy = NULL;
        status = programs_create(ctx, at->graph, programs_capacity(at), &copy);
        if (status == STATUS_OK && clone == NULL)
            clone = copy;
        else if (status == STATUS_OK)
            programs_append(clone, copy);
        if (status == STATUS_OK) status = programs_leave_out(ctx, copy, at->skip);
    }
    if (status == STATUS_OK && clone != NULL) {
        clone->extend = first->extend;
        *out_programs = clone;
    } else {
        programs_release(clone);
    }
    return status;
}
