#include "tensor/scope.h"

#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"

struct scope {
    struct scope *outer;
    tensor_t **tensors;
    int n_tensors;
    int capacity;
    int n_attempts; /* under way, in each other */
    status_t status;
    char message[CONTEXT_ERROR_MAX];
};

status_t scope_begin(context_t *ctx)
{
    struct scope *scope = NULL;
    TRY(context_get(ctx, sizeof *scope, "a scope", &scope));
    struct scope **innermost = context_scope(ctx);
    scope->outer = *innermost;
    scope->tensors = NULL;
    scope->n_tensors = 0;
    scope->capacity = 0;
    scope->n_attempts = 0;
    scope->status = STATUS_OK;
    scope->message[0] = '\0';
    *innermost = scope;
    return STATUS_OK;
}

status_t scope_enter(context_t *ctx, tensor_t *tensor)
{
    struct scope *scope = *context_scope(ctx);
    if (scope == NULL) return STATUS_OK;
    TRY(context_grow(ctx, &scope->tensors, &scope->capacity, scope->n_tensors + 1,
                     sizeof(tensor_t *)));
    scope->tensors[scope->n_tensors++] = tensor;
    return STATUS_OK;
}

/* One reference at a time: a tensor that was given out twice is entered twice. */
static bool take_from(struct scope *scope, const tensor_t *tensor)
{
    for (int i = scope->n_tensors - 1; i >= 0; i--) {
        if (scope->tensors[i] != tensor) continue;
        int n_after = --scope->n_tensors - i;
        memmove(&scope->tensors[i], &scope->tensors[i + 1], (size_t)n_after * sizeof(tensor_t *));
        return true;
    }
    return false;
}

void scope_keep(context_t *ctx, tensor_t *tensor)
{
    if (tensor == NULL) return;
    for (struct scope *scope = *context_scope(ctx); scope != NULL; scope = scope->outer)
        if (take_from(scope, tensor)) return;
}

void scope_take(context_t *ctx, tensor_t *tensor)
{
    struct scope *scope = *context_scope(ctx);
    if (scope != NULL && tensor != NULL) (void)take_from(scope, tensor);
}

void scope_note_failure(context_t *ctx, status_t status, const char *message)
{
    for (struct scope *scope = *context_scope(ctx); scope != NULL; scope = scope->outer) {
        if (scope->n_attempts > 0) return;
        if (scope->status != STATUS_OK) continue;
        scope->status = status;
        snprintf(scope->message, sizeof scope->message, "%s", message);
    }
}

void scope_attempt(context_t *ctx)
{
    if (*context_scope(ctx) != NULL) (*context_scope(ctx))->n_attempts++;
}

status_t scope_attempt_end(context_t *ctx, status_t status, bool is_forgiven)
{
    if (*context_scope(ctx) != NULL) (*context_scope(ctx))->n_attempts--;
    if (status == STATUS_OK) return status;
    if (is_forgiven)
        context_clear_error(ctx);
    else
        scope_note_failure(ctx, status, context_error(ctx));
    return status;
}

status_t scope_end(context_t *ctx)
{
    struct scope **innermost = context_scope(ctx);
    struct scope *scope = *innermost;
    REQUIRE(ctx, scope != NULL, "scope_end: no scope is open, scope_begin opens one");
    *innermost = scope->outer;
    while (scope->n_tensors > 0) tensor_release(scope->tensors[--scope->n_tensors]);
    status_t status = scope->status;
    if (status != STATUS_OK) context_fail(ctx, status, "%s", scope->message);
    context_put(ctx, scope->tensors);
    context_put(ctx, scope);
    return status;
}

void scope_end_all(context_t *ctx)
{
    while (*context_scope(ctx) != NULL) (void)scope_end(ctx);
}
