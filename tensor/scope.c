#define _POSIX_C_SOURCE 200809L

#include "tensor/scope.h"

#include <pthread.h>
#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* A tensor that a scope lists. The scope owns a reference, unless is_lent: then the tensor is an
 * input of a module's forward. n_retained: the user's tensor_retain calls since the tensor was
 * listed, minus tensor_release calls. */
typedef struct entry {
    tensor_t *tensor;
    int n_retained;
    bool is_lent;
} entry_t;

struct scope {
    struct scope *outer;
    struct scope *next_open;
    pthread_t thread;
    entry_t *entries;
    int n_entries;
    int capacity;
    bool is_of_call;     /* the scope of a forward, in which earlier failures do not count */
    bool has_null_input; /* an input of the forward is NULL, so earlier failures count */
    failures_t failures;
    failure_t before; /* the context's last failure when the scope began */
};

/* All open scopes of the process; those of one thread are in order, the innermost first.
 * tensor_retain and tensor_release have no context argument, so they find the scopes of a tensor
 * here. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct scope *open_scopes;

static void list_open(struct scope *scope)
{
    scope->thread = pthread_self();
    pthread_mutex_lock(&open_lock);
    scope->next_open = open_scopes;
    open_scopes = scope;
    pthread_mutex_unlock(&open_lock);
}

static void unlist_open(const struct scope *scope)
{
    pthread_mutex_lock(&open_lock);
    struct scope **at = &open_scopes;
    while (*at != scope) at = &(*at)->next_open;
    *at = scope->next_open;
    pthread_mutex_unlock(&open_lock);
}

/* ---- entries ---- */

/* Finds the latest entry of a tensor; considers lent entries only if with_lent. */
static entry_t *find_entry(const struct scope *scope, const tensor_t *tensor, bool with_lent)
{
    for (int i = scope->n_entries - 1; i >= 0; i--) {
        entry_t *entry = &scope->entries[i];
        if (entry->tensor == tensor && (with_lent || !entry->is_lent)) return entry;
    }
    return NULL;
}

static void remove_entry(struct scope *scope, entry_t *entry)
{
    int n_after = --scope->n_entries - (int)(entry - scope->entries);
    atomic_fetch_sub(&entry->tensor->n_scopes, 1);
    memmove(entry, entry + 1, (size_t)n_after * sizeof *entry);
}

static status_t add_entry(context_t *ctx, struct scope *scope, tensor_t *tensor, bool is_lent)
{
    TRY(context_grow(ctx, &scope->entries, &scope->capacity, scope->n_entries + 1,
                     sizeof *scope->entries));
    atomic_fetch_add(&tensor->n_scopes, 1);
    scope->entries[scope->n_entries++] = (entry_t){tensor, 0, is_lent};
    return STATUS_OK;
}

status_t scope_enter(context_t *ctx, tensor_t *tensor)
{
    struct scope *scope = *context_scope(ctx);
    failure_clear(&context_root_failures(ctx)->first);
    return scope != NULL ? add_entry(ctx, scope, tensor, false) : STATUS_OK;
}

void scope_keep(context_t *ctx, tensor_t *tensor)
{
    if (ctx == NULL || tensor == NULL) return;
    for (struct scope *scope = *context_scope(ctx); scope != NULL; scope = scope->outer) {
        entry_t *entry = find_entry(scope, tensor, false);
        if (entry == NULL) continue;
        remove_entry(scope, entry);
        return;
    }
}

void scope_take(context_t *ctx, tensor_t *tensor)
{
    struct scope *scope = *context_scope(ctx);
    entry_t *entry = scope != NULL ? find_entry(scope, tensor, false) : NULL;
    if (entry != NULL) remove_entry(scope, entry);
}

bool scope_give(context_t *ctx, tensor_t *tensor)
{
    struct scope *scope = *context_scope(ctx);
    entry_t *entry = scope != NULL ? find_entry(scope, tensor, true) : NULL;
    if (entry == NULL) return false;
    if (entry->n_retained > 0)
        entry->n_retained--;
    else if (entry->is_lent)
        tensor_hold(tensor);
    else
        remove_entry(scope, entry);
    return true;
}

/* Finds the last entry of a tensor in the innermost of this thread's scopes that lists the tensor.
 * WANT_REFERENCE: considers only entries that the user has retained, or whose reference the scope
 * owns. */
typedef enum wanted { WANT_ANY, WANT_REFERENCE } wanted_t;
static entry_t *find_here(const tensor_t *tensor, wanted_t wanted, struct scope **out_scope)
{
    entry_t *found = NULL;
    pthread_mutex_lock(&open_lock);
    for (struct scope *scope = open_scopes; scope != NULL && found == NULL;
         scope = scope->next_open) {
        if (!pthread_equal(scope->thread, pthread_self())) continue;
        found = find_entry(scope, tensor, true);
        if (found != NULL && wanted == WANT_REFERENCE && found->n_retained == 0 && found->is_lent)
            found = find_entry(scope, tensor, false);
        *out_scope = scope;
    }
    pthread_mutex_unlock(&open_lock);
    return found;
}

void scope_note_retained(const tensor_t *tensor)
{
    struct scope *scope = NULL;
    entry_t *entry = find_here(tensor, WANT_ANY, &scope);
    if (entry != NULL) entry->n_retained++;
}

void scope_note_released(const tensor_t *tensor)
{
    struct scope *scope = NULL;
    entry_t *entry = find_here(tensor, WANT_REFERENCE, &scope);
    if (entry == NULL) return;
    if (entry->n_retained > 0)
        entry->n_retained--;
    else
        remove_entry(scope, entry);
}

/* ---- failures ---- */

failures_t *scope_failures(context_t *ctx)
{
    struct scope *scope = *context_scope(ctx);
    return scope != NULL ? &scope->failures : context_root_failures(ctx);
}

const failure_t *scope_first_failure(context_t *ctx)
{
    for (struct scope *scope = *context_scope(ctx); scope != NULL; scope = scope->outer) {
        if (scope->failures.first.status != STATUS_OK) return &scope->failures.first;
        if (scope->is_of_call && !scope->has_null_input) return &scope->failures.first;
    }
    return &context_root_failures(ctx)->first;
}

void scope_attempt(context_t *ctx)
{
    scope_failures(ctx)->n_attempts++;
}

status_t scope_attempt_end(context_t *ctx, status_t status, bool is_forgiven)
{
    failures_t *failures = scope_failures(ctx);
    failures->n_attempts--;
    if (status == STATUS_OK) return status;
    if (is_forgiven)
        scope_forgive(ctx);
    else if (failures->n_attempts == 0 && failures->first.status == STATUS_OK)
        failure_copy(&failures->first, context_last_failure(ctx));
    return status;
}

void scope_forgive(context_t *ctx)
{
    failure_copy(context_last_failure(ctx), &scope_failures(ctx)->first);
}

/* ---- begin and end ---- */

status_t scope_begin(context_t *ctx)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    struct scope *scope = NULL;
    TRY(context_get(ctx, sizeof *scope, "a scope", &scope));
    struct scope **innermost = context_scope(ctx);
    failure_t *last = context_last_failure(ctx);
    scope->outer = *innermost;
    scope->entries = NULL;
    scope->n_entries = 0;
    scope->capacity = 0;
    scope->is_of_call = false;
    scope->has_null_input = false;
    scope->failures.n_attempts = 0;
    failure_clear(&scope->failures.first);
    failure_copy(&scope->before, last);
    failure_clear(last);
    *innermost = scope;
    list_open(scope);
    return STATUS_OK;
}

status_t scope_begin_call(context_t *ctx, int n_in, const tensor_t *const *in)
{
    TRY(scope_begin(ctx));
    struct scope *scope = *context_scope(ctx);
    status_t status = STATUS_OK;
    scope->is_of_call = true;
    for (int i = 0; i < n_in && status == STATUS_OK; i++) {
        if (in[i] == NULL)
            scope->has_null_input = true;
        else if (find_entry(scope, in[i], true) == NULL)
            status = add_entry(ctx, scope, (tensor_t *)(uintptr_t)in[i], true);
    }
    return status == STATUS_OK ? status : scope_end(ctx);
}

status_t scope_end(context_t *ctx)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    struct scope **innermost = context_scope(ctx);
    struct scope *scope = *innermost;
    REQUIRE(ctx, scope != NULL, "scope_end: no scope is open, scope_begin opens one");
    unlist_open(scope);
    *innermost = scope->outer;
    while (scope->n_entries > 0) {
        entry_t entry = scope->entries[--scope->n_entries];
        atomic_fetch_sub(&entry.tensor->n_scopes, 1);
        if (!entry.is_lent) tensor_drop(entry.tensor);
    }
    status_t status = scope->failures.first.status;
    failure_copy(context_last_failure(ctx), &scope->before);
    if (status != STATUS_OK) context_fail(ctx, status, "%s", scope->failures.first.message);
    CONTEXT_PUT(ctx, scope->entries, scope);
    return status;
}

void scope_end_all(context_t *ctx)
{
    while (*context_scope(ctx) != NULL) (void)scope_end(ctx);
}
