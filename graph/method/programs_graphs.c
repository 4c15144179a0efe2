/* Several graphs of a method, for different sizes. A call uses the first that accepts its inputs. A
 * method that can make graphs adds one for inputs that all others refuse. */
#include <stdio.h>

#include "graph/ir/graph_impl.h"
#include "graph/method/programs_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/threads_impl.h"

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

/* True if the graph accepts the inputs. Those of a program were checked when it was compiled. The
 * caller holds the first graph's lock. */
static bool accepts(programs_t *first, programs_t *at, int n_in, const tensor_info_t *const *in)
{
    if (at != first) pthread_mutex_lock(&at->lock);
    const bool serves = programs_serve(at, n_in, in);
    if (at != first) pthread_mutex_unlock(&at->lock);
    return serves || graph_accepts(at->graph, n_in, in);
}

/* Finds a graph that accepts the inputs, and counts the use. The caller holds the first graph's
 * lock. */
static programs_t *find(programs_t *first, int n_in, const tensor_info_t *const *in)
{
    programs_t *at = first;
    while (at != NULL && !accepts(first, at, n_in, in)) at = at->next;
    if (at == NULL) return NULL;
    if (at->is_added) at->n_users++;
    at->used_at = ++first->n_uses;
    atomic_store_explicit(&first->used, at, memory_order_relaxed);
    return at;
}

/* ---- refusals ---- */

/* The caller holds the first graph's lock. */
static bool was_refused(const programs_t *first, int n_in, const tensor_info_t *const *in)
{
    for (const programs_refusal_t *at = first->refusals; at != NULL; at = at->next)
        if (programs_same_inputs(at->n_inputs, at->inputs, n_in, in)) return true;
    return false;
}

static void drop_refusals(programs_t *first, int n_kept)
{
    programs_refusal_t **at = &first->refusals;
    for (; *at != NULL && n_kept > 0; n_kept--) at = &(*at)->next;
    while (*at != NULL) {
        programs_refusal_t *next = (*at)->next;
        allocator_put(&first->allocator, *at);
        *at = next;
    }
}

/* Remembers inputs, so that another call with them does not run `extend` again. Forgets the oldest
 * beyond PLAN_MAX_REFUSED. If out of memory, remembers nothing. */
static void remember(programs_t *first, int n_in, const tensor_info_t *const *in)
{
    const size_t bytes = sizeof(programs_refusal_t) + (size_t)n_in * sizeof(tensor_info_t);
    programs_refusal_t *refusal = allocator_get(&first->allocator, bytes);
    if (refusal == NULL) return;
    refusal->n_inputs = n_in;
    for (int i = 0; i < n_in; i++)
        refusal->inputs[i] = info_dense(in[i]->dtype, in[i]->rank, in[i]->sizes);
    refusal->next = first->refusals;
    first->refusals = refusal;
    drop_refusals(first, PLAN_MAX_REFUSED);
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

/* Makes a graph that accepts the inputs. */
static status_t make(context_t *ctx, programs_t *first, module_t *self, int n_in,
                     const tensor_info_t *const *in, programs_t **out_made)
{
    graph_t *graph = NULL;
    programs_t *made = NULL;
    TRY(first->extend(ctx, self, graph_name(first->graph), n_in, in, &graph));
    status_t status = graph_accepts(graph, n_in, in) ? STATUS_OK : STATUS_INVALID_ARGUMENT;
    if (status == STATUS_OK) status = programs_create(ctx, graph, programs_capacity(first), &made);
    graph_release(graph);
    if (status == STATUS_OK) status = programs_leave_out(ctx, made, first->skip);
    GIVE(status, out_made, made, programs_release(made));
}

static bool is_refusal(status_t status)
{
    return status == STATUS_INVALID_ARGUMENT || status == STATUS_UNSUPPORTED;
}

/* Waits until no other thread extends. A forked child has no such thread. The caller holds the
 * first graph's lock. */
static void wait_for_extending(programs_t *first)
{
    while (first->is_extending && first->extending_forks == threads_forks())
        pthread_cond_wait(&first->changed, &first->lock);
}

/* Adds a graph for inputs that all others refuse, one thread at a time, so that threads with the
 * same inputs make one graph, or fail once. The caller holds the first graph's lock, which is
 * released while the graph is made. */
static status_t extend(context_t *ctx, programs_t *first, module_t *self, int n_in,
                       const tensor_info_t *const *in, programs_t **out_programs)
{
    programs_t *made = NULL;
    wait_for_extending(first);
    *out_programs = find(first, n_in, in);
    if (*out_programs != NULL) return STATUS_OK;
    if (was_refused(first, n_in, in)) return STATUS_INVALID_ARGUMENT;
    first->is_extending = true;
    first->extending_forks = threads_forks();
    pthread_mutex_unlock(&first->lock);
    const status_t status = make(ctx, first, self, n_in, in, &made);
    pthread_mutex_lock(&first->lock);
    first->is_extending = false;
    if (status == STATUS_OK) {
        made->is_added = true;
        programs_append(first, made);
        *out_programs = find(first, n_in, in);
    } else if (is_refusal(status)) {
        remember(first, n_in, in);
    }
    pthread_cond_broadcast(&first->changed);
    return status;
}

/* ---- choosing ---- */

/* True if the method may add a graph for these inputs, all of which must be tensors. */
static bool can_extend(const programs_t *first, const module_t *self, int n_in,
                       const tensor_info_t *const *in)
{
    bool can = first->extend != NULL && self != NULL &&
               n_in == graph_body(first->graph)->n_params - 1;
    for (int i = 0; i < n_in && can; i++) can = in[i] != NULL;
    return can;
}

status_t programs_choose(context_t *ctx, programs_t *first, module_t *self, int n_in,
                         const tensor_info_t *const *in, programs_t **out_programs)
{
    *out_programs = first;
    if (first->extend == NULL && !atomic_load(&first->has_others)) return STATUS_OK;
    status_t status = STATUS_OK;
    pthread_mutex_lock(&first->lock);
    *out_programs = find(first, n_in, in);
    const bool was_found = *out_programs != NULL;
    if (!was_found)
        status = can_extend(first, self, n_in, in)
                     ? extend(ctx, first, self, n_in, in, out_programs)
                     : STATUS_INVALID_ARGUMENT;
    pthread_mutex_unlock(&first->lock);
    if (!was_found) drop_surplus(first);
    return is_refusal(status) ? refuse(ctx, first, n_in, in) : status;
}

status_t programs_choose_program(context_t *ctx, programs_t *first, module_t *self, int n_in,
                                 const tensor_info_t *const *in, programs_t **out_programs,
                                 program_t **out_program)
{
    if (!atomic_load(&first->has_others)) {
        *out_programs = first;
        const status_t status = programs_get(ctx, first, self, n_in, in, out_program);
        if (status != STATUS_INVALID_ARGUMENT || first->extend == NULL ||
            graph_accepts(first->graph, n_in, in))
            return status;
    }
    TRY(programs_choose(ctx, first, self, n_in, in, out_programs));
    const status_t status = programs_get(ctx, *out_programs, self, n_in, in, out_program);
    if (status != STATUS_OK) programs_leave(first, *out_programs);
    return status;
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
    programs_t *last = first;
    while (last->next != NULL) last = last->next;
    last->next = other;
    atomic_store(&first->has_others, true);
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
