#include "tensor/threads/interrupt_impl.h"

#include "tensor/threads/progress.h"

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler may only write lock-free atomics");

void context_cancel(context_t *ctx)
{
    if (ctx != NULL)
        atomic_store_explicit(&context_interrupts(ctx)->is_cancelled, 1, memory_order_relaxed);
}

bool context_withdraw_cancel(context_t *ctx)
{
    return ctx != NULL && atomic_exchange_explicit(&context_interrupts(ctx)->is_cancelled, 0,
                                                   memory_order_relaxed) != 0;
}

void interrupt_begin(context_t *ctx, const char *call)
{
    if (ctx == NULL) return;
    interrupts_t *interrupts = context_interrupts(ctx);
    if (interrupts->depth++ > 0) return;
    interrupts->call = call;
    interrupts->iterations_left = interrupts->limit_iterations;
    if (interrupts->limit_seconds > 0.0)
        interrupts->deadline = context_now() + (uint64_t)(interrupts->limit_seconds * 1e9);
}

status_t interrupt_end(context_t *ctx, status_t status)
{
    if (ctx == NULL) return status;
    interrupts_t *interrupts = context_interrupts(ctx);
    if (--interrupts->depth > 0) return status;
    interrupts->call = NULL;
    interrupts->deadline = 0;
    if (status == STATUS_CANCELLED) (void)context_withdraw_cancel(ctx);
    return status;
}

/* Fails with CANCELLED. Outside all calls it also removes the cancel, which otherwise the end of
 * the outermost call does. */
static status_t stop(context_t *ctx, const interrupts_t *interrupts, const char *at)
{
    if (interrupts->call != NULL)
        FAIL(ctx, STATUS_CANCELLED, "%s: cancelled before %s", interrupts->call, at);
    (void)context_withdraw_cancel(ctx);
    FAIL(ctx, STATUS_CANCELLED, "%s: cancelled", at);
}

status_t interrupt_check(context_t *ctx, const char *at)
{
    const interrupts_t *interrupts = context_interrupts(ctx);
    const bool is_cancelled = atomic_load_explicit(&interrupts->is_cancelled,
                                                   memory_order_relaxed) != 0;
    if ((!is_cancelled && interrupts->deadline == 0) || interrupts->n_held > 0) return STATUS_OK;
    if (is_cancelled) return stop(ctx, interrupts, at);
    if (context_now() < interrupts->deadline) return STATUS_OK;
    FAIL(ctx, STATUS_LIMIT, "%s: stopped before %s, the time limit of %g seconds has passed",
         interrupts->call, at, interrupts->limit_seconds);
}

status_t interrupt_tell(context_t *ctx, const char *what, int64_t done, int64_t total)
{
    progress_tell(ctx, what, done, total);
    return interrupt_check(ctx, what);
}

void interrupt_hold(context_t *ctx)
{
    context_interrupts(ctx)->n_held++;
}

void interrupt_release(context_t *ctx)
{
    context_interrupts(ctx)->n_held--;
}

status_t interrupt_count(context_t *ctx, const char *at)
{
    interrupts_t *interrupts = context_interrupts(ctx);
    TRY(interrupt_check(ctx, at));
    if (interrupts->iterations_left-- > 0 || interrupts->depth == 0) return STATUS_OK;
    FAIL(ctx, STATUS_LIMIT, "%s: loops and method calls reached the limit of %lld iterations", at,
         (long long)interrupts->limit_iterations);
}
