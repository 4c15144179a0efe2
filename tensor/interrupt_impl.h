/* Ends calls early: cancellation, time limit, iteration limit.
 *
 * Public functions that work in many steps, or that recover from failures of their parts, run
 * between interrupt_begin and interrupt_end; INTERRUPTIBLE writes both. Long work calls
 * interrupt_check between its steps. A cancel stays pending until the outermost call ends with
 * STATUS_CANCELLED, so code that ignores the failure of a step cannot make the call miss it. */
#ifndef TESSERA_TENSOR_INTERRUPT_IMPL_H
#define TESSERA_TENSOR_INTERRUPT_IMPL_H

#include <stdatomic.h>

#include "tensor/context_impl.h"

/* State shared by a context and its workers. Only the context's thread writes it, and only while no
 * workers run, except for is_cancelled. */
typedef struct interrupts {
    atomic_int is_cancelled;  /* written by any thread or signal handler */
    const char *call;         /* the outermost call, or NULL */
    int depth;                /* nesting depth of calls */
    int n_held;               /* calls of interrupt_hold that were not released yet */
    uint64_t deadline;        /* end time of this call, as context_now; 0: none */
    int64_t iterations_left;  /* in this call */
    double limit_seconds;     /* 0: none */
    int64_t limit_iterations; /* at least 1 */
} interrupts_t;
interrupts_t *context_interrupts(context_t *ctx);

/* Start and end of a public call, which may be nested in another. `call` is a static text.
 * interrupt_end returns the call's final status. */
void interrupt_begin(context_t *ctx, const char *call);
status_t interrupt_end(context_t *ctx, status_t status);

#define INTERRUPTIBLE(ctx, call, expr)                                                             \
    do {                                                                                           \
        interrupt_begin((ctx), (call));                                                            \
        return interrupt_end((ctx), (expr));                                                       \
    } while (0)

/* Returns CANCELLED or LIMIT if the call must end; `at` names the next step. Normally costs one
 * load. Workers may call it too. */
status_t interrupt_check(context_t *ctx, const char *at);

/* interrupt_check that also reports progress. */
status_t interrupt_tell(context_t *ctx, const char *what, int64_t done, int64_t total);

/* Between these two calls, which may nest, interrupt_check returns OK. For work that must not stop
 * half-way. */
void interrupt_hold(context_t *ctx);
void interrupt_release(context_t *ctx);

/* Counts one loop iteration, or one call of a method by a graph. LIMIT if there are too many. */
status_t interrupt_count(context_t *ctx, const char *at);

/* True for failures that have nothing to do with what was requested: memory, cancel, limit. No
 * fallback is tried after them. */
static inline bool interrupt_is_final(status_t status)
{
    return status == STATUS_OUT_OF_MEMORY || status == STATUS_CANCELLED || status == STATUS_LIMIT;
}

#endif
