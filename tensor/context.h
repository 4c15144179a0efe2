/* The context: allocator, threads, counters, trace, scopes and the last error of one thread.
 *
 * One context per thread; tensors, modules that nobody mutates, frozen modules without mutable
 * attributes and plans may be shared between the threads that each have a context. Objects keep
 * their allocator, so a tensor may outlive the context it was made with. */
#ifndef TESSERA_TENSOR_CONTEXT_H
#define TESSERA_TENSOR_CONTEXT_H

#include "tensor/status.h"

TESSERA_BEGIN

typedef struct context context_t;

/* Where memory comes from. get returns NULL to refuse; blocks are aligned to 64 bytes. Both are
 * called from any thread that releases or makes objects, and at once from several threads that a
 * call runs on. */
typedef struct allocator {
    void *user;
    void *(*get)(void *user, size_t bytes);
    void (*put)(void *user, void *block);
} allocator_t;

/* Receives one trace line, without newline; called in the thread of the context. */
typedef void (*trace_sink_t)(void *user, const char *line);

typedef struct context_options {
    const allocator_t *allocator; /* NULL: the C library's */
    int n_threads; /* 0: TESSERA_THREADS, else the least of the physical cores in the affinity mask
                      and the CPU quota of the control group, rounded up */
    const char *trace;       /* categories as in trace.h; NULL: TESSERA_TRACE */
    trace_sink_t trace_sink; /* NULL: stderr */
    void *trace_user;
    int64_t cache_entries; /* prepared operators kept; 0: TESSERA_CACHE, else 1024 */
    bool
        flush_denormals; /* take and make zero for denormals, on every thread of a call; x86 only */
    /* Limits of work and memory: docs/limits.md. */
    int64_t limit_bytes;      /* memory in use; 0: TESSERA_LIMIT_MEMORY, else no limit */
    double limit_seconds;     /* of each outermost call; 0: TESSERA_LIMIT_TIME, else no limit */
    int64_t limit_iterations; /* of loops in each outermost call; 0: TESSERA_LIMIT_ITERATIONS, else
                                 1048576 */
    int64_t plan_bytes;       /* of plans that a method keeps beyond those of the last two sizes; 0:
                                 TESSERA_PLANS, else 64 MB */
} context_options_t;

/* Makes a context. options may be NULL. OUT_OF_MEMORY; ONEDNN if the engine cannot be had;
 * UNSUPPORTED if the oneDNN that was loaded is not the one this library was built for. On failure
 * *out_ctx is NULL and context_error(NULL) tells why. */
status_t context_create(const context_options_t *options, context_t **out_ctx)
    TESSERA_API(context_create);

/* Ends every open scope, drops caches; NULL does nothing. */
void context_destroy(context_t *ctx) TESSERA_API(context_destroy);

/* Message of the most recent failure since the innermost scope (or the forward that runs) began:
 * operator, what was given, the rule. Never NULL; "" if nothing failed. Valid until the next
 * failing call, and until a scope begins or ends. Of NULL: why this thread's last context_create
 * failed, "" if it did not. */
const char *context_error(const context_t *ctx) TESSERA_API(context_error);

/* Status of that failure: a forward may end with `return context_status(ctx)`. */
status_t context_status(const context_t *ctx) TESSERA_API(context_status);

/* Says that what has failed was handled: the innermost scope has not failed then, and NULL passes
 * nothing on. */
void context_clear_error(context_t *ctx) TESSERA_API(context_clear_error);

/* Records a failure and gives its code back; how library code and C methods of modules report. */
status_t context_fail(context_t *ctx, status_t status, const char *format, ...)
    TESSERA_API(context_fail) TESSERA_PRINTF(3, 4);

/* Ends the call that runs in this context, from another thread or from a signal handler: it is
 * async-signal-safe. The outermost call returns CANCELLED within milliseconds, or after the kernel
 * that runs, and its outputs are as after any failure. Where nothing runs, the next call that
 * works in steps is cancelled instead. Returning CANCELLED ends the cancel: the context can be used
 * as before. A training step whose update has begun, and a file that is renamed, are finished
 * first. NULL does nothing. */
void context_cancel(context_t *ctx) TESSERA_API(context_cancel);

/* Ends a cancel that no call has noticed yet; true if there was one. So a cancel that came too late
 * does not end the next call. */
bool context_withdraw_cancel(context_t *ctx) TESSERA_API(context_withdraw_cancel);

/* Threads that operators run on. */
int context_threads(const context_t *ctx) TESSERA_API(context_threads);
/* The bounds on the default number of threads, as they are now: "4 cores, 2 in the affinity mask, a
 * quota of 3". Writes to out_text, cut to `capacity` bytes, and returns it. */
const char *context_threads_text(char *out_text, size_t capacity) TESSERA_API(context_threads_text);
status_t context_set_threads(context_t *ctx, int n_threads) TESSERA_API(context_set_threads);

/* Restarts the context's random numbers, which tensor_rand and tensor_randn draw from. */
void context_seed(context_t *ctx, uint64_t seed) TESSERA_API(context_seed);

/* Where the generator of the context is: four numbers, which a checkpoint keeps, so that what is
 * drawn after setting them is what was drawn before. All four of 0 are no state: INVALID_ARGUMENT.
 */
#define CONTEXT_GENERATOR_STATE 4
void context_generator_state(const context_t *ctx, uint64_t *out_state)
    TESSERA_API(context_generator_state);
status_t context_set_generator_state(context_t *ctx, const uint64_t *state)
    TESSERA_API(context_set_generator_state);

/* Which oneDNN runs, and for which instructions it makes code, after ONEDNN_MAX_CPU_ISA: static
 * texts such as "2.6.3" and "avx512_core_bf16". */
const char *onednn_version_text(void) TESSERA_API(onednn_version_text);
const char *onednn_isa_text(void) TESSERA_API(onednn_isa_text);

/* Every environment variable that is read, for `tessera info`. */
typedef struct environment_variable {
    const char *name;
    const char *help;
} environment_variable_t;
const environment_variable_t *context_environment(int *out_n) TESSERA_API(context_environment);

TESSERA_END

#endif
