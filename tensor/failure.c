/* Records failures and composes their messages. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/scope_impl.h"
#include "tensor/text/text.h"
#include "tensor/threads/interrupt_impl.h"

void failure_clear(failure_t *failure)
{
    failure->status = STATUS_OK;
    failure->message[0] = '\0';
}

void failure_copy(failure_t *dst, const failure_t *src)
{
    dst->status = src->status;
    memcpy(dst->message, src->message, strlen(src->message) + 1);
}

void context_clear_error(context_t *ctx)
{
    if (ctx == NULL) return;
    failure_clear(context_last_failure(ctx));
    failure_clear(&scope_failures(ctx)->first);
}

/* Records the last failure: a scope keeps its first failure, code outside all scopes keeps the last
 * one. */
static void note_failure(context_t *ctx)
{
    failures_t *failures = scope_failures(ctx);
    if (failures->n_attempts > 0) return;
    if (failures == context_root_failures(ctx) || failures->first.status == STATUS_OK)
        failure_copy(&failures->first, context_last_failure(ctx));
}

/* Formats the message of a failure. Uses a second buffer, because an argument may be the previous
 * message. Escapes control characters, which names in files may contain. */
TESSERA_PRINTF(3, 0)
static void tell(context_t *ctx, status_t status, const char *format, va_list arguments)
{
    char message[CONTEXT_ERROR_MAX];
    int length = vsnprintf(message, sizeof message, format, arguments);
    if (length < 0) message[0] = '\0';
    if (status == STATUS_OUT_OF_MEMORY)
        allocator_refusal(context_allocator(ctx), message, sizeof message);
    failure_t *last = context_last_failure(ctx);
    last->status = status;
    text_escape(message, last->message, sizeof last->message);
}

status_t context_fail(context_t *ctx, status_t status, const char *format, ...)
{
    if (ctx == NULL || status == STATUS_OK || format == NULL) return status;
    va_list arguments;
    va_start(arguments, format);
    tell(ctx, status, format, arguments);
    va_end(arguments);
    note_failure(ctx);
    return status;
}

status_t context_decline(context_t *ctx, status_t status, const char *format, ...)
{
    if (ctx == NULL) return status;
    va_list arguments;
    va_start(arguments, format);
    tell(ctx, status, format, arguments);
    va_end(arguments);
    return status;
}

/* Inside an attempt (scope_attempt) no failure is recorded, so a NULL input returns the last
 * failure instead of the recorded one. */
status_t context_null(context_t *ctx, const char *op, const char *argument)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    const failure_t *first = scope_first_failure(ctx);
    bool is_attempt = scope_failures(ctx)->n_attempts > 0 &&
                      context_last_failure(ctx)->status != STATUS_OK;
    if (first->status == STATUS_OK && !is_attempt)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s: %s is NULL", op, argument);
    if (first->status != STATUS_OK) failure_copy(context_last_failure(ctx), first);
    note_failure(ctx);
    return context_last_failure(ctx)->status;
}

static void rename_failure(failure_t *failure, const char *op)
{
    char rest[CONTEXT_ERROR_MAX];
    const size_t length = strspn(failure->message, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (length == 0 || failure->message[length] != ':') return;
    memcpy(rest, failure->message + length, strlen(failure->message + length) + 1);
    snprintf(failure->message, sizeof failure->message, "%.64s%.*s", op,
             (int)sizeof failure->message - 66, rest);
}

/* Messages of CANCELLED and LIMIT are not changed, because they already name the outermost call. */
status_t context_rename(context_t *ctx, status_t status, const char *op)
{
    if (status == STATUS_OK || ctx == NULL) return status;
    const bool is_stopped = status == STATUS_CANCELLED || status == STATUS_LIMIT;
    if (is_stopped && context_interrupts(ctx)->call != NULL) return status;
    failure_t *last = context_last_failure(ctx), *first = &scope_failures(ctx)->first;
    const bool is_noted = first->status != STATUS_OK && strcmp(first->message, last->message) == 0;
    rename_failure(last, op);
    if (is_noted) failure_copy(first, last);
    return status;
}

status_t context_array(context_t *ctx, const char *op, const char *name, int64_t n,
                       const void *items)
{
    REQUIRE(ctx, n >= 0, "%s: length %lld of %s, must not be negative", op, (long long)n, name);
    return n > 0 && items == NULL ? context_null(ctx, op, name) : STATUS_OK;
}

status_t context_output(context_t *ctx, const char *op, void *out)
{
    static void *const nothing = NULL;
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (out == NULL) return context_null(ctx, op, "the output");
    memcpy(out, &nothing, sizeof nothing);
    return STATUS_OK;
}
