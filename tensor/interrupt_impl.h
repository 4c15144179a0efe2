/* Where a call may end early: it was cancelled, its time is up, or its loops ran too often.
 *
 * A public function that works in many steps, or that forgives failures of its parts, stands
 * between interrupt_begin and interrupt_end; INTERRUPTIBLE writes both. Long work asks
 * interrupt_check between its steps. A cancel stays pending until the outermost call ends with
 * STATUS_CANCELLED, so that no part of that call can overlook it. */
#ifndef TESSERA_TENSOR_INTERRUPT_IMPL_H
#define TESSERA_TENSOR_INTERRUPT_IMPL_H

#include <stdatomic.h>

#include "tensor/context_impl.h"

/* What a context and its workers share. All but the flag is written by the context's thread alone,
 * and never while workers run. */
typedef struct interrupts {
    atomic_int is_cancelled;  /* written by any thread, or by a signal handler */
    const char *call;         /* the outermost call, or NULL */
    int depth;                /* calls in each other */
    int n_held;               /* open calls of interrupt_hold */
    uint64_t deadline;        /* of this call, by context_now; 0: none */
    int64_t iterations_left;  /* of this call */
    double limit_seconds;     /* 0: none */
    int64_t limit_iterations; /* at least 1 */
} interrupts_t;
interrupts_t *context_interrupts(context_t *ctx);

/* A call of a user, which may stand in another one. `call` is a static text. Gives the status back.
 */
void interrupt_begin(context_t *ctx, const char *call);
status_t interrupt_end(context_t *ctx, status_t status);

#define INTERRUPTIBLE(ctx, call, expr)                                                             \
    do {                                                                                           \
        interrupt_begin((ctx), (call));                                                            \
        return interrupt_end((ctx), (expr));                                                       \
    } while (0)

/* CANCELLED or LIMIT where the call has to end; `at` names what would come next. Costs one load
 * where nothing happened. Workers may ask too. */
status_t interrupt_check(context_t *ctx, const char *at);

/* The same, and tells progress. */
status_t interrupt_tell(context_t *ctx, const char *what, int64_t done, int64_t total);

/* Between the two nothing is interrupted: what is half done would be lost. Calls nest. */
void interrupt_hold(context_t *ctx);
void interrupt_release(context_t *ctx);

/* Before an iteration of a loop, or a method that a graph calls: LIMIT after too many. */
status_t interrupt_count(context_t *ctx, const char *at);

/* A failure that says nothing about what was asked for: memory, cancelled, a limit. No attempt
 * forgives it. */
static inline bool interrupt_is_final(status_t status)
{
    return status == STATUS_OUT_OF_MEMORY || status == STATUS_CANCELLED || status == STATUS_LIMIT;
}

#endif
