/* Ends calls early: cancellation, time limit, iteration limit.
 *
 * A public function that works in many steps, or that recovers from failures of some steps, calls
 * interrupt_begin first and interrupt_end last; the macro INTERRUPTIBLE adds both calls. Between
 * steps it calls interrupt_check. A cancel stays pending until the outermost call returns
 * STATUS_CANCELLED, so it is not lost if code ignores the failure of a step. */
#ifndef TESSERA_TENSOR_THREADS_INTERRUPT_IMPL_H
#define TESSERA_TENSOR_THREADS_INTERRUPT_IMPL_H

#include <stdatomic.h>

#include "tensor/context_impl.h"

/* State shared by a context and its workers. Only the context's thread writes it, and only while no
 * workers run, except for is_cancelled. */
typedef struct interrupts {
    atomic_int is_cancelled;  /* written by any thread or signal handler */
    const char *call;         /* the outermost call, or NULL */
    int depth;                /* nesting depth of calls */
    int n_held;               /* calls of interrupt_hold that interrupt_release has not ended */
    uint64_t deadline;        /* time by which this call must end, as context_now; 0: none */
    int64_t iterations_left;  /* in this call */
    double limit_seconds;     /* 0: none */
    int64_t limit_iterations; /* at least 1 */
} interrupts_t;
interrupts_t *context_interrupts(context_t *ctx);

/* Mark the beginning and end of a public call, which may be nested in another. `call` is its name,
 * a static string. interrupt_end returns the call's final status. */
void interrupt_begin(context_t *ctx, const char *call);
status_t interrupt_end(context_t *ctx, status_t status);

#define INTERRUPTIBLE(ctx, call, expr)                                                             \
    do {                                                                                           \
        interrupt_begin((ctx), (call));                                                            \
        return interrupt_end((ctx), (expr));                                                       \
    } while (0)

/* Returns CANCELLED or LIMIT if the call must end; `at` names the next step, for the message.
 * Usually costs one load instruction. Contexts of workers may call it too. */
status_t interrupt_check(context_t *ctx, const char *at);

/* Like interrupt_check, and reports progress (progress.h). */
status_t interrupt_tell(context_t *ctx, const char *what, int64_t done, int64_t total);

/* Between these two calls, which may nest, interrupt_check returns OK. Use them for work that must
 * not stop half-way. */
void interrupt_hold(context_t *ctx);
void interrupt_release(context_t *ctx);

/* Counts one iteration of a graph's loop, or one method that a graph calls. Returns LIMIT if there
 * are too many. */
status_t interrupt_count(context_t *ctx, const char *at);

/* True for failures after which a fallback would not help, because the request itself was not at
 * fault: no memory, a cancel, a limit. */
static inline bool interrupt_is_final(status_t status)
{
    return status == STATUS_OUT_OF_MEMORY || status == STATUS_CANCELLED || status == STATUS_LIMIT;
}

#endif
